//! What an upgrade costs, by each way of doing it: the runs, and the table of them.

use super::{Postgres, Shape, member};
use crate::ensemble::install;
use anyhow::{Context, Result};
use ensemble_testbed::harness::{Cluster, TestNamespace};
use ensemble_writer::tally::{Tally, median};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A way to change a cluster.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A new image under a StatefulSet with RollingUpdate.
    StatefulSet,
    /// A new image under Ensemble, which recreates every pod.
    Recreate,
    /// A new image under Ensemble, in the same pods.
    InPlace,
    /// A switchover by Patroni's own hand, and no pod touched: nothing that moves the lead is less.
    Switchover,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// How.
    pub mode: Mode,
    /// Whether commits waited for a replica.
    pub synchronous: bool,
    /// The ordinal that led before.
    pub leader: u32,
    /// Until all were ready and both replicas streamed.
    pub seconds: f64,
    /// How often the lead changed.
    pub leader_changes: u64,
    /// By each way to the database.
    pub tallies: Vec<Tally>,
    /// The machine's load over the last minute, when the run ended.
    pub load: f64,
}

/// Makes one run, on a cluster of its own: a container that was restarted before is not the same.
pub async fn run(cluster: &Cluster, mode: Mode, synchronous: bool, leader: u32) -> Result<Run> {
    let shape = match mode {
        Mode::StatefulSet | Mode::Switchover => Shape::stateful_set(leader),
        Mode::Recreate => Shape {
            recreate: true,
            ..Shape::ensemble(leader)
        },
        Mode::InPlace => Shape::ensemble(leader),
    };
    let shape = shape.synchronous(synchronous);
    if matches!(mode, Mode::Recreate | Mode::InPlace) {
        install(cluster).await?;
    }
    let mut made = None;
    TestNamespace::run(cluster, "bench", async |namespace| {
        let postgres = Postgres::up(namespace, shape).await?;
        let outcome = match mode {
            Mode::Switchover => {
                let to = postgres.successor().await?;
                let from = member(leader);
                let switch = async || postgres.switch(&from, &to).await;
                postgres.measured(switch, async || Ok(())).await?
            }
            _ => postgres.upgraded("2").await?,
        };
        made = Some(Run {
            mode,
            synchronous,
            leader,
            seconds: outcome.seconds,
            leader_changes: outcome.timelines,
            tallies: outcome.tallies,
            load: load(),
        });
        Ok(())
    })
    .await?;
    made.context("the run made nothing")
}

impl Postgres<'_> {
    /// Somebody who may take over: the synchronous replica where there is one.
    async fn successor(&self) -> Result<String> {
        let candidates = match self.shape.synchronous {
            true => self.sync_standbys().await?,
            false => self.streaming().await?,
        };
        candidates.into_iter().min().context("nobody may take over")
    }
}

fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// The table of all runs: medians, and maxima in brackets.
pub fn table(runs: &[Run]) -> String {
    let mut kinds: Vec<(bool, Mode)> = runs.iter().map(|r| (r.synchronous, r.mode)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut out = String::from(
        "| commits | change | client | runs | longest pause s | unavailable s | failed writes | \
         leader changes | total s | lost / acknowledged | load |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (synchronous, mode) in kinds {
        let same = |r: &&Run| r.synchronous == synchronous && r.mode == mode;
        let same: Vec<&Run> = runs.iter().filter(same).collect();
        for via in ["service", "hosts"] {
            let line = line(synchronous, mode, via, &same);
            // A String takes whatever is written to it.
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

fn line(synchronous: bool, mode: Mode, via: &str, runs: &[&Run]) -> String {
    let own: Vec<&Tally> = runs
        .iter()
        .flat_map(|run| run.tallies.iter().filter(|t| t.via == via))
        .collect();
    let seconds = |pick: fn(&Tally) -> f64| {
        let values: Vec<f64> = own.iter().map(|t| pick(t) / 1000.0).collect();
        middle_and_most(&values, 2)
    };
    let failed: Vec<f64> = own.iter().map(|t| t.failed_writes as f64).collect();
    let changes: Vec<f64> = runs.iter().map(|r| r.leader_changes as f64).collect();
    let totals: Vec<f64> = runs.iter().map(|r| r.seconds).collect();
    let loads: Vec<f64> = runs.iter().map(|r| r.load).collect();
    let lost: usize = own.iter().map(|t| t.lost.len()).sum();
    let acked: u64 = own.iter().map(|t| t.acked).sum();
    [
        if synchronous {
            "synchronous"
        } else {
            "asynchronous"
        }
        .to_owned(),
        mode.title().to_owned(),
        if via == "service" {
            "Service"
        } else {
            "all hosts"
        }
        .to_owned(),
        runs.len().to_string(),
        seconds(|t| t.longest_gap_millis),
        seconds(|t| t.unavailable_millis),
        middle_and_most(&failed, 0),
        middle_and_most(&changes, 0),
        middle_and_most(&totals, 1),
        format!("{lost} / {acked}"),
        middle_and_most(&loads, 1),
    ]
    .iter()
    .fold(String::from("|"), |line, cell| format!("{line} {cell} |"))
}

/// `1.41 (1.43)`: the median, and the largest in brackets.
fn middle_and_most(values: &[f64], digits: usize) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{:.digits$} ({most:.digits$})", median(values))
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [
        Mode::StatefulSet,
        Mode::Recreate,
        Mode::InPlace,
        Mode::Switchover,
    ];

    fn title(self) -> &'static str {
        match self {
            Mode::StatefulSet => "StatefulSet, RollingUpdate",
            Mode::Recreate => "Ensemble, recreating",
            Mode::InPlace => "Ensemble, in place",
            Mode::Switchover => "bare switchover",
        }
    }
}

/// Whether the aims are met, one line each; those without runs to compare are left out.
pub fn verdicts(runs: &[Run]) -> Vec<String> {
    let of = |mode: Mode, synchronous: bool| -> Vec<&Run> {
        let same = runs.iter().filter(|r| r.mode == mode);
        same.filter(|r| r.synchronous == synchronous).collect()
    };
    let total = |runs: &[&Run]| median(&runs.iter().map(|r| r.seconds).collect::<Vec<_>>());
    let pause = |runs: &[&Run], via: &str| {
        let own = runs
            .iter()
            .flat_map(|r| &r.tallies)
            .filter(|t| t.via == via);
        median(
            &own.map(|t| t.longest_gap_millis / 1000.0)
                .collect::<Vec<_>>(),
        )
    };
    let mut said = Vec::new();
    let mut say = |what: String, value: f64, limit: f64| {
        let met = if value <= limit { "met" } else { "MISSED" };
        said.push(format!("{met}: {what}: {value:.2}, aim at most {limit}"));
    };
    for synchronous in [false, true] {
        let commits = if synchronous {
            "synchronous"
        } else {
            "asynchronous"
        };
        let floor = of(Mode::Switchover, synchronous);
        for mode in [Mode::Recreate, Mode::InPlace] {
            let own = of(mode, synchronous);
            if own.is_empty() {
                continue;
            }
            let title = mode.title();
            let changes = own.iter().map(|r| r.leader_changes as f64);
            say(
                format!("{title}, {commits}, leader changes"),
                changes.fold(0.0, f64::max),
                1.0,
            );
            for via in ["service", "hosts"]
                .into_iter()
                .filter(|_| !floor.is_empty())
            {
                let ratio = pause(&own, via) / pause(&floor, via);
                say(
                    format!("{title}, {commits}, {via}, pause by the floor's"),
                    ratio,
                    1.1,
                );
            }
        }
    }
    let (native, in_place) = (of(Mode::StatefulSet, false), of(Mode::InPlace, false));
    if !native.is_empty() && !in_place.is_empty() {
        let ratio = total(&in_place) / total(&native);
        say(
            "in place, asynchronous, total by the StatefulSet's".into(),
            ratio,
            0.75,
        );
    }
    let in_place = of(Mode::InPlace, true);
    if !in_place.is_empty() {
        say(
            "in place, synchronous, total seconds".into(),
            total(&in_place),
            20.0,
        );
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(mode: Mode, gap: f64, seconds: f64, changes: u64) -> Run {
        let tally = |via: &str| Tally {
            via: via.to_owned(),
            acked: 100,
            longest_gap_millis: gap,
            unavailable_millis: gap - 20.0,
            failed_writes: 1,
            ..Tally::default()
        };
        Run {
            mode,
            synchronous: false,
            leader: 0,
            seconds,
            leader_changes: changes,
            tallies: vec![tally("service"), tally("hosts")],
            load: 1.0,
        }
    }

    #[test]
    fn a_line_has_medians_and_maxima() {
        let runs: Vec<Run> = [1400.0, 1300.0, 1900.0]
            .map(|gap| made(Mode::InPlace, gap, gap / 100.0, 1))
            .to_vec();
        let table = table(&runs);
        let wanted = "| asynchronous | Ensemble, in place | all hosts | 3 | 1.40 (1.90) | \
                      1.38 (1.88) | 1 (1) | 1 (1) | 14.0 (19.0) | 0 / 300 | 1.0 (1.0) |";
        assert!(table.contains(wanted), "{table}");
    }

    #[test]
    fn an_aim_that_is_missed_is_told() {
        let runs = [
            made(Mode::Switchover, 1000.0, 4.0, 1),
            made(Mode::StatefulSet, 3000.0, 20.0, 2),
            made(Mode::InPlace, 1200.0, 10.0, 1),
        ];
        let said = verdicts(&runs).join("\n");
        assert!(
            said.contains("MISSED: Ensemble, in place, asynchronous, hosts"),
            "{said}"
        );
        assert!(
            said.contains("met: in place, asynchronous, total"),
            "{said}"
        );
        assert!(
            said.contains("met: Ensemble, in place, asynchronous, leader changes"),
            "{said}"
        );
    }
}
