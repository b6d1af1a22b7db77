//! What is true of it, whatever its members say: for invariants about outcomes.

use super::{Log, Patroni, State, Trouble};

impl Patroni {
    /// How many acknowledged writes no volume of any member holds.
    pub fn gone(&self) -> u64 {
        let written = &self.writer.acknowledged;
        let held = self.members.values().map(|m| m.log.shared(written)).max();
        written.end() - held.unwrap_or(0)
    }

    /// How many acknowledged writes a member lacks.
    pub fn behind(&self, name: &str) -> u64 {
        let written = &self.writer.acknowledged;
        let has = self.members.get(name).map(|m| m.log.shared(written));
        written.end() - has.unwrap_or(0)
    }

    /// A volume of that member is gone, and all that it wrote with it.
    pub fn lose_volume(&mut self, name: &str) {
        if let Some(member) = self.members.get_mut(name) {
            member.log = Log::default();
            self.version += 1;
        }
    }

    /// Who holds the lock: it leads, or will again if it comes back in time.
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    /// Who led last, and leads still unless somebody came after it.
    pub fn last_leader(&self) -> Option<&str> {
        self.last_leader.as_ref().map(|(name, _)| name.as_str())
    }

    /// Whether nobody else runs.
    pub fn runs_alone(&self, name: &str) -> bool {
        let mut others = self.members.iter().filter(|(n, _)| *n != name);
        others.all(|(_, m)| m.run.is_none())
    }

    /// Who takes writes and whose agent has labelled its pod as it wants to.
    pub fn labelled_leader(&self) -> Option<&str> {
        let leader = self.leader()?;
        let run = self.run(leader)?;
        let takes = run.takes_from <= self.now && run.reachable;
        (takes && run.label.is_some() && run.label == run.written).then_some(leader)
    }

    /// When a write was last acknowledged.
    pub fn last_written(&self) -> u64 {
        self.now - self.writer.silent_ms(self.now)
    }

    /// Whether anything is wrong with it by somebody else's doing: its members misbehave, or cannot
    /// be reached.
    pub fn is_troubled(&self) -> bool {
        let mut runs = self.members.values().filter_map(|m| m.run.as_ref());
        !self.troubles.is_empty() || runs.any(|r| !r.reachable)
    }

    /// Since when that pod's member is at work on its data, and on what. One that will never come up
    /// is at work on nothing.
    pub fn at_work(&self, uid: &str) -> Option<(u64, &'static str)> {
        let mut runs = self.members.values().filter_map(|m| m.run.as_ref());
        let run = runs.find(|r| r.uid == uid)?;
        match run.state {
            State::Starting(u64::MAX)
            | State::Up
            | State::Stopping
            | State::Halted(_)
            | State::Failing => None,
            State::Starting(_) => Some(match run.rewinds_since {
                Some(since) => (since, "rewound"),
                None => (run.started_at, "recovered"),
            }),
        }
    }

    /// Whether high availability is paused, and was so a moment ago.
    pub fn is_paused_since(&self, before: u64) -> bool {
        self.is(Trouble::Paused) && self.paused_from <= before
    }
}
