//! How long nobody takes writes because of what we did.

use super::broken;
use crate::invariants::Broken;
use crate::patroni::{LOOP_WAIT_MS, Patroni, TTL_MS};
use std::collections::BTreeMap;

/// What the engine itself takes to replace a leader that is gone without a word: its lock runs out, and
/// the others look at it within one turn of their loop. Nothing that we do takes longer.
const FAILOVER_MS: u64 = TTL_MS + LOOP_WAIT_MS;
/// After that long, silence is not by our act.
const BLAME_MS: u64 = 2 * FAILOVER_MS;
/// A bare switchover, and a restart under the lock: 1.4 s were measured, and a start is a second or two.
const SWITCHOVER_MS: u64 = 5_000;

/// An act of ours on whoever leads, and what comes of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Silence {
    since: Option<(String, u64)>,
    /// When we last did something to a member, whether it led or not.
    acts: BTreeMap<String, u64>,
}

impl Silence {
    /// We do something to a member.
    pub fn begins(&mut self, model: &Patroni, name: &str, at: u64) {
        self.acts.insert(name.to_owned(), at);
        if model.holder() == Some(name) && !model.is_troubled() {
            self.since = Some((name.to_owned(), at));
        }
    }

    /// Time has passed. What goes wrong meanwhile is not by us: then nobody is blamed.
    pub fn passes(&mut self, model: &Patroni, calm: bool) -> Result<(), Broken> {
        let Some((name, at)) = &self.since else {
            return Ok(());
        };
        if self.is_gone_otherwise(model, name) {
            self.since = None;
            return Ok(());
        }
        let written = model.last_written();
        let silent = model.now().saturating_sub(written);
        let bound = if calm { SWITCHOVER_MS } else { FAILOVER_MS };
        if silent > bound && written + bound > *at && !model.is_troubled() {
            let seen = format!(
                "{name} was touched and nobody has taken writes for {silent} ms; {}",
                model.describe()
            );
            return broken("seconds-without-a-primary", seen);
        }
        let over = model.now() > at + BLAME_MS;
        if over || model.is_troubled() {
            self.since = None;
        }
        Ok(())
    }

    /// Whether somebody else than that member came to lead after our act, and is gone without an act of ours.
    fn is_gone_otherwise(&self, model: &Patroni, name: &str) -> bool {
        let last = model.last_leader().filter(|last| *last != name);
        let by_us = |last: &str| {
            let at = self.acts.get(last);
            at.is_some_and(|at| model.now() <= at + BLAME_MS)
        };
        last.is_some_and(|last| model.run_of(last).is_none() && !by_us(last))
    }
}
