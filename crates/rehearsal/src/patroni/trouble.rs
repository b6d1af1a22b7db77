//! How an engine misbehaves.

use super::{Patroni, State};

/// A kind of misbehaviour, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// No role API answers.
    Silent,
    /// Every answer takes long.
    Slow,
    /// Switchovers are refused.
    Refuses,
    /// A second member claims the lead.
    Lies,
    /// Replicas get no more of the log.
    Lag,
    /// A switchover goes to another than was asked for.
    Elsewhere,
    /// A switchover is done and its answer lost.
    AnswerLost,
    /// High availability is paused.
    Paused,
}

impl Trouble {
    fn lasts_ms(self) -> u64 {
        match self {
            Trouble::Silent | Trouble::Slow | Trouble::Lies => 20_000,
            Trouble::Refuses | Trouble::Elsewhere | Trouble::AnswerLost => 30_000,
            Trouble::Lag | Trouble::Paused => 60_000,
        }
    }
}

impl Patroni {
    /// Begins to misbehave.
    pub fn trouble(&mut self, now: u64, trouble: Trouble) {
        self.advance(now);
        let until = self.now + trouble.lasts_ms();
        if trouble == Trouble::Paused {
            self.paused_from = self.now;
            self.paused_until = until;
        }
        self.troubles.insert(trouble, until);
        self.next_look = self.now;
    }

    /// Until when something is wrong with it.
    pub fn troubled_until(&self) -> Option<u64> {
        self.troubles.values().max().copied()
    }

    pub(super) fn is(&self, trouble: Trouble) -> bool {
        self.troubles
            .get(&trouble)
            .is_some_and(|until| *until > self.now)
    }

    /// Somebody else than we hands the lead over, to that member or to the first that may take it.
    /// Whether it began.
    pub fn fail_over(&mut self, now: u64, to: Option<&str>) -> bool {
        self.advance(now);
        let Some(from) = self.leader().map(str::to_owned) else {
            return false;
        };
        let others: Vec<String> = self
            .members
            .keys()
            .filter(|n| **n != from)
            .cloned()
            .collect();
        let wanted = |n: &&String| to.is_none_or(|to| to == n.as_str());
        let streams = |n: &&String| self.in_sync(n);
        let chosen = others.iter().filter(wanted).find(streams).cloned();
        if self.synchronous && to.is_some() && chosen.is_some() {
            // Whoever asks for that one has had it named first.
            self.sync.1.clone_from(&chosen);
            self.flush(&from);
        }
        let began = chosen.is_some_and(|to| self.hand_over(&from, &to, false).is_ok());
        self.next_look = self.now;
        began
    }

    /// Where the leader runs.
    pub fn leader_node(&self) -> Option<String> {
        let leader = self.leader()?;
        self.run(leader).map(|r| r.node.clone())
    }

    /// Who would lie: the last replica that runs.
    pub(super) fn liar(&self) -> Option<&str> {
        let leader = self.leader();
        let runs = |n: &&String| self.run(n).is_some_and(|r| r.state == State::Up);
        let mut replicas = self.members.keys().filter(|n| Some(n.as_str()) != leader);
        replicas.rfind(runs).map(String::as_str)
    }
}
