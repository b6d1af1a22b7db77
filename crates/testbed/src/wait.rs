//! Waiting for a condition with a deadline, instead of sleeping and hoping.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a condition is looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// Calls `look` until it returns a value, or fails naming `what` after `limit`.
///
/// An error of `look` counts as "not yet": while a cluster is being broken on purpose, requests
/// fail. The last error is part of the failure.
pub async fn eventually<T, Looking>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Looking,
) -> Result<T>
where
    Looking: Future<Output = Result<Option<T>>>,
{
    let begin = Instant::now();
    let mut last_error = None;
    while begin.elapsed() < limit {
        let left = limit.saturating_sub(begin.elapsed());
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => last_error = None,
            Ok(Err(error)) => last_error = Some(error),
            Err(_) => break,
        }
        tokio::time::sleep(PAUSE).await;
    }
    match last_error {
        Some(error) => Err(error.context(format!("waited {limit:?} in vain: {what}"))),
        None => bail!("waited {limit:?} in vain: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_that_ends_in_vain_names_what_it_waited_for_and_the_last_error() {
        let limit = Duration::from_millis(10);
        let failure = eventually::<(), _>("the cow flies", limit, async || bail!("no wings")).await;
        let text = format!("{:#}", failure.unwrap_err());
        assert!(
            text.contains("the cow flies") && text.contains("no wings"),
            "{text}"
        );
    }
}
