//! Parameters: kept for all by the engine, noticed by each member in its own time, and run with from
//! its next start on.

use super::{LOOP_WAIT_MS, Patroni, Run, START_MS, State};
use ensemble_planner::engine::Reply;
use std::collections::BTreeMap;

/// So long a replica of PostgreSQL takes to start with [`SLOW`]: longer than anybody listens for an answer.
const SLOW_START_MS: u64 = 150_000;
/// An amount of memory that takes long to get.
pub const SLOW: &str = "1GB";
/// An amount of memory that no node has.
pub const TOO_MUCH: &str = "7000GB";
/// So long an answer to a restart is waited for.
const LISTENS_MS: u64 = 60_000;

/// Parameters of which a replica may not have less than its primary, and what they are by default.
const ORDERED: [(&str, i64); 5] = [
    ("max_connections", 100),
    ("max_worker_processes", 8),
    ("max_wal_senders", 10),
    ("max_prepared_transactions", 0),
    ("max_locks_per_transaction", 64),
];

/// By name.
type Values = BTreeMap<String, String>;

/// What is kept for all members.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    kept: Values,
    before: Values,
    set_at: u64,
    /// One was removed: whoever has not started since is asked to restart, whether anything differs or
    /// not.
    removed_at_start: u64,
}

/// The values that take a restart, in a fixed order.
fn with_restart(values: &Values) -> Vec<Option<&String>> {
    let ordered = ORDERED.iter().map(|(name, _)| *name);
    let all = ordered.chain(["shared_buffers"]);
    all.map(|name| values.get(name)).collect()
}

fn number(values: &Values, name: &str, default: i64) -> i64 {
    let value = values.get(name).and_then(|v| v.parse().ok());
    value.unwrap_or(default)
}

/// The first of which one has less than the other.
fn less(one: &Values, other: &Values) -> Option<String> {
    let pairs = ORDERED.iter().map(|(name, default)| {
        let of = |values| number(values, name, *default);
        (name, of(one), of(other))
    });
    let mut smaller = pairs.filter(|(_, one, other)| one < other);
    smaller
        .next()
        .map(|(name, one, other)| format!("{name} {one} where the primary has {other}"))
}

impl Patroni {
    /// Keeps what it was told. Whoever was told knows at once.
    pub(super) fn set_parameters(&mut self, wanted: &BTreeMap<String, Option<String>>) {
        let mut kept = self.parameters.kept.clone();
        for (name, value) in wanted {
            match value {
                Some(value) => drop(kept.insert(name.clone(), value.clone())),
                None if kept.remove(name).is_some() => {
                    self.parameters.removed_at_start = self.starts;
                }
                None => {}
            }
        }
        if kept != self.parameters.kept {
            self.parameters.before = std::mem::replace(&mut self.parameters.kept, kept);
            self.parameters.set_at = self.now;
        }
    }

    /// What is kept for all.
    pub(super) fn kept(&self) -> &Values {
        &self.parameters.kept
    }

    /// Whether a member knows that it has to restart. The leader is told; the others look in their
    /// own rounds, which are spread over the time between two of them.
    pub(super) fn pending(&self, name: &str, run: &Run) -> bool {
        let ordinal = name.rsplit_once('-').and_then(|(_, n)| n.parse().ok());
        let delay = match self.leader() == Some(name) {
            true => 0,
            false => (ordinal.unwrap_or(0_u64) + 1) * LOOP_WAIT_MS / 4,
        };
        let noticed = self.now >= self.parameters.set_at + delay.min(LOOP_WAIT_MS);
        let known = match noticed {
            true => &self.parameters.kept,
            false => &self.parameters.before,
        };
        let asked = noticed && run.start <= self.parameters.removed_at_start;
        asked || with_restart(known) != with_restart(&run.applied)
    }

    /// How long PostgreSQL of a member takes to start with what is kept; None if it does not come up.
    pub(super) fn starts_in(&self, name: &str) -> Option<u64> {
        let memory = self.parameters.kept.get("shared_buffers");
        match memory.map(String::as_str) {
            Some(TOO_MUCH) => None,
            Some(SLOW) if self.holder.as_deref() != Some(name) => Some(SLOW_START_MS),
            _ => Some(START_MS),
        }
    }

    /// A member is asked to restart its PostgreSQL if that is pending: after how long it answers what.
    pub(super) fn asked_to_restart(&mut self, name: &str) -> (u64, Reply) {
        let Some(run) = self.run(name) else {
            return (0, Reply::Unknown("connection refused".into()));
        };
        if run.state != State::Up {
            return (0, Reply::Unknown("restart already in progress".into()));
        }
        if !self.pending(name, run) {
            let words = "restart conditions are not satisfied";
            return (0, Reply::Unknown(words.into()));
        }
        self.restart(name);
        match self.starts_in(name) {
            None => (0, Reply::Refused("restart failed".into())),
            Some(takes) if takes > LISTENS_MS => {
                (LISTENS_MS, Reply::Unknown("no answer within 60 s".into()))
            }
            Some(_) => (0, Reply::Taken("restarted successfully".into())),
        }
    }

    /// Agents try again to start what did not come up.
    pub(super) fn start_again(&mut self) {
        let failed = self
            .members
            .iter()
            .filter(|(_, m)| m.run.as_ref().is_some_and(|r| r.failed));
        let failed: Vec<String> = failed.map(|(name, _)| name.clone()).collect();
        for name in failed {
            if self.starts_in(&name).is_some() {
                self.restart(&name);
            }
        }
    }

    /// Whether some run with what is kept, and others do not.
    pub fn parameters_half_way(&self) -> bool {
        let kept = with_restart(&self.parameters.kept);
        let runs = self.members.values().filter_map(|m| m.run.as_ref());
        let up = runs.filter(|r| r.state == State::Up);
        let (with, without): (Vec<&Run>, Vec<&Run>) =
            up.partition(|r| with_restart(&r.applied) == kept);
        !with.is_empty() && !without.is_empty()
    }

    /// Whether everybody runs with what is kept.
    pub fn parameters_applied(&self) -> bool {
        let runs = self.members.values().filter_map(|m| m.run.as_ref());
        let mut applied = runs.map(|r| with_restart(&r.applied));
        applied.all(|a| a == with_restart(&self.parameters.kept))
    }

    /// What would be wrong if that member restarted now: a replica with less than its primary.
    pub fn wrong_after_restart(&self, member: &str) -> Option<String> {
        let leader = self.leader()?;
        let values = |name: &str| match name == member {
            true => Some(&self.parameters.kept),
            false => self.run(name).map(|r| &r.applied),
        };
        let primary = values(leader)?;
        let replicas = self.members.keys().filter(|n| *n != leader);
        let mut concerned = replicas.filter(|n| leader == member || *n == member);
        concerned.find_map(|name| {
            let wrong = less(values(name)?, primary)?;
            Some(format!("{name} would have {wrong}"))
        })
    }
}
