//! A client that writes keys all the time, as a pod: each key is new, and what was acknowledged is in its log.

use super::{Etcd, LIMIT, NEW, endpoints, image, member};
use anyhow::{Result, ensure};
use ensemble_testbed::eventually;
use serde_json::json;
use std::collections::BTreeSet;

const POD: &str = "writer";

/// What became of the writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Writes that were acknowledged.
    pub acked: BTreeSet<u64>,
    /// Writes that failed: they may be there all the same.
    pub failed: BTreeSet<u64>,
    /// The longest time between two acknowledged writes.
    pub longest_gap_seconds: f64,
}

/// Reads the log: `acked NUMBER SECONDS`, `failed NUMBER SECONDS`.
pub fn tally(log: &str) -> Tally {
    let mut tally = Tally::default();
    let mut last: Option<f64> = None;
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, number, at] = words.as_slice() else {
            continue;
        };
        let (Ok(number), Ok(at)) = (number.parse(), at.parse::<f64>()) else {
            continue;
        };
        if *what != "acked" {
            tally.failed.insert(number);
            continue;
        }
        tally.acked.insert(number);
        let gap = last.map_or(0.0, |last| at - last);
        tally.longest_gap_seconds = tally.longest_gap_seconds.max(gap);
        last = Some(at);
    }
    tally
}

/// One key after the other, as fast as it goes. Times are the machine's uptime, which is never set.
fn script() -> String {
    format!(
        "n=0; while true; do n=$((n+1)); \
         if etcdctl --endpoints={} --dial-timeout=1s --command-timeout=2s put writer/$n $n >/dev/null 2>&1; \
         then what=acked; else what=failed; fi; \
         read up rest < /proc/uptime; echo $what $n $up; done",
        endpoints()
    )
}

impl Etcd<'_> {
    /// Starts the writer, and waits until it writes.
    pub async fn start_writing(&self) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": POD},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{
                    "name": "writer",
                    "image": image(NEW),
                    "command": ["sh", "-c", script()],
                    "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
                }],
            },
        });
        self.namespace.apply(pod).await?;
        self.namespace.ready_pod(POD, LIMIT).await?;
        eventually("the writer writes", LIMIT, async || {
            let told = tally(&self.namespace.logs(POD).await?);
            Ok((told.acked.len() > 20).then_some(()))
        })
        .await
    }

    /// What became of the writes; fails if an acknowledged one is not there, or if nothing was written.
    pub async fn nothing_lost(&self) -> Result<Tally> {
        let told = tally(&self.namespace.logs(POD).await?);
        let keys = "etcdctl get writer/ --prefix --keys-only";
        let stored = self.namespace.shell(&member(0), keys).await?;
        let number = |line: &str| line.strip_prefix("writer/")?.trim().parse::<u64>().ok();
        let stored: BTreeSet<u64> = stored.lines().filter_map(number).collect();
        let lost: Vec<&u64> = told.acked.difference(&stored).collect();
        ensure!(!told.acked.is_empty(), "nothing was written");
        ensure!(lost.is_empty(), "acknowledged writes were lost: {lost:?}");
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_and_the_longest_gap_are_read_from_the_log() {
        let log = "acked 1 10.00\nacked 2 10.05\nfailed 3 12.05\nacked 4 12.25\nhalf";
        let told = tally(log);
        assert_eq!(told.acked, [1, 2, 4].into());
        assert_eq!(told.failed, [3].into());
        assert!((told.longest_gap_seconds - 2.2).abs() < 1e-6, "{told:?}");
    }
}
