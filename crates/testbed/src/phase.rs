//! Progress: what is being done, and how long each phase took.

use std::future::Future;
use std::time::Instant;

use anyhow::{Context, Result};

/// Says one line to the person who waits.
pub fn say(line: &str) {
    eprintln!("testbed: {line}");
}

/// Runs a phase, names it in any error, and says how long it took.
pub fn timed<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    let outcome = work().with_context(|| format!("failed to {what}"));
    report(what, begin, outcome.is_ok());
    outcome
}

/// As [`timed`], for a phase that waits on the network.
pub async fn timed_async<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let begin = Instant::now();
    let outcome = work.await.with_context(|| format!("failed to {what}"));
    report(what, begin, outcome.is_ok());
    outcome
}

fn report(what: &str, begin: Instant, ok: bool) {
    let outcome = if ok { "done" } else { "FAILED" };
    say(&format!(
        "{:7.1} s  {outcome}: {what}",
        begin.elapsed().as_secs_f64()
    ));
}
