//! Parameters: kept for all by the engine, noticed by each member in its own time, and run with from
//! its next start on.

use super::{LOOP_WAIT_MS, Patroni, Run};
use std::collections::BTreeMap;

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
                None => drop(kept.remove(name)),
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
        let known = match self.now >= self.parameters.set_at + delay.min(LOOP_WAIT_MS) {
            true => &self.parameters.kept,
            false => &self.parameters.before,
        };
        with_restart(known) != with_restart(&run.applied)
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
