//! How an engine misbehaves.

use super::{Patroni, State};
use crate::fault::What;

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
    /// One that led before claims the lead and its pod says so, too; the leader is not heard.
    Usurped,
    /// A second member claims the lead, and nobody else is heard.
    Alone,
    /// Whoever takes the lock says that it leads well before it is promoted.
    LatePromotion,
    /// Replicas of a new leader get the end of the old term first, and take long over it.
    OldTerm,
}

/// How long somebody keeps PostgreSQL stopped on all members.
const STOPPED_MS: u64 = 150_000;
/// How long a rewind takes that has much to read.
const SLOW_REWIND_MS: u64 = 180_000;

impl Trouble {
    /// What a fault is to it, if it lasts.
    pub(super) fn by(what: What) -> Option<Self> {
        Some(match what {
            What::RolesSilent => Trouble::Silent,
            What::RolesSlow => Trouble::Slow,
            What::RolesLie => Trouble::Lies,
            What::ReplicasLag => Trouble::Lag,
            What::SwitchRefused => Trouble::Refuses,
            What::SwitchElsewhere => Trouble::Elsewhere,
            What::SwitchUnanswered => Trouble::AnswerLost,
            What::EnginePaused | What::EngineStopped => Trouble::Paused,
            What::LeadUsurped => Trouble::Usurped,
            What::LiarAlone => Trouble::Alone,
            What::PromotedLate => Trouble::LatePromotion,
            What::OldTermFirst => Trouble::OldTerm,
            _ => return None,
        })
    }

    fn lasts_ms(self) -> u64 {
        match self {
            Trouble::Silent | Trouble::Slow | Trouble::Lies => 20_000,
            Trouble::Usurped | Trouble::Alone => 20_000,
            Trouble::Refuses | Trouble::Elsewhere | Trouble::AnswerLost => 30_000,
            Trouble::LatePromotion => 30_000,
            Trouble::Lag | Trouble::Paused | Trouble::OldTerm => 60_000,
        }
    }
}

impl Patroni {
    /// A member is cut off from its peers, and from nobody else; or nobody is any more.
    pub fn cut_off(&mut self, now: u64, member: Option<&str>) {
        self.advance(now);
        self.apart = member.map(str::to_owned);
        self.part();
        self.next_look = self.now;
    }

    /// Whoever is cut off streams no more; from a leader that is, nobody does.
    pub(super) fn part(&mut self) {
        let Some(apart) = self.apart.clone() else {
            return;
        };
        if self.leader() == Some(&apart) {
            return self.no_streams();
        }
        if let Some(run) = self.run_mut(&apart) {
            run.streams_since = None;
            run.attach_at = None;
        }
    }

    /// From now on there is a write as often as that.
    pub fn write_every(&mut self, now: u64, ms: u64) {
        self.advance(now);
        self.writer.every_ms = ms;
    }

    /// Begins to misbehave.
    pub fn trouble(&mut self, now: u64, trouble: Trouble) {
        self.advance(now);
        self.trouble_for(trouble, trouble.lasts_ms());
    }

    fn trouble_for(&mut self, trouble: Trouble, ms: u64) {
        let until = self.now + ms;
        if trouble == Trouble::Paused {
            self.paused_from = self.now;
            self.paused_until = until;
        }
        self.troubles.insert(trouble, until);
        if trouble == Trouble::Usurped {
            self.label_liar("primary");
        }
        self.next_look = self.now;
    }

    /// Somebody pauses high availability and stops PostgreSQL on all members, as one does before a restore.
    /// A leader that is stopped so gives the lock back. Everything is started again before it goes on.
    pub fn stop_all(&mut self, now: u64) {
        self.advance(now);
        if let Some(leader) = self.leader().map(str::to_owned) {
            self.flush(&leader);
        }
        self.trouble_for(Trouble::Paused, STOPPED_MS);
        self.no_streams();
        self.handing = None;
        self.holder = None;
        self.vacant_from = self.paused_until;
        let until = self.paused_until;
        for run in self.members.values_mut().filter_map(|m| m.run.as_mut()) {
            if run.state != State::Stopping {
                run.halt(until);
            }
        }
        self.version += 1;
    }

    /// A replica finds that its log has parted from the leader's: it is rewound, and has much to read.
    pub fn rewind_one(&mut self, now: u64) {
        self.advance(now);
        let leader = self.leader().map(str::to_owned);
        let streams = |n: &&String| Some(*n) != leader.as_ref() && self.in_sync(n);
        let Some(name) = self.members.keys().rfind(streams).cloned() else {
            return;
        };
        let until = self.now + SLOW_REWIND_MS;
        if self.sync.1.as_ref() == Some(&name) {
            self.sync.1 = None;
        }
        let now = self.now;
        if let Some(run) = self.run_mut(&name) {
            run.halt(u64::MAX);
            run.state = State::Starting(until);
            run.rewinds_since = Some(now);
        }
        self.version += 1;
        self.next_look = self.now;
    }

    fn label_liar(&mut self, label: &'static str) {
        let liar = self.liar().map(str::to_owned);
        if let Some(run) = liar.and_then(|name| self.run_mut(&name)) {
            run.label = Some(label);
        }
    }

    /// It has heard that another leads.
    pub(super) fn usurper_gives_up(&mut self) {
        let leader = self.leader().map(str::to_owned);
        for (name, member) in &mut self.members {
            if let Some(run) = member.run.as_mut()
                && leader.as_ref() != Some(name)
                && run.label == Some("primary")
            {
                run.label = Some("replica");
            }
        }
    }

    /// Whether that member claims the lead wrongly.
    pub(super) fn claims_wrongly(&self, name: &str) -> bool {
        self.lies() && self.liar() == Some(name)
    }

    /// Whether that member's answers do not arrive.
    pub(super) fn is_unheard(&self, name: &str) -> bool {
        self.is(Trouble::Silent)
            || self.is(Trouble::Usurped) && self.leader() == Some(name)
            || self.is(Trouble::Alone) && self.liar() != Some(name)
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

    /// Who would lie: the replica that led last, or else the last of them.
    pub(super) fn liar(&self) -> Option<&str> {
        let leader = self.leader();
        let runs = |n: &&String| self.run(n).is_some_and(|r| r.state == State::Up);
        let replicas = self.members.keys().filter(|n| Some(n.as_str()) != leader);
        let led = |n: &&String| self.led_at(n);
        replicas.filter(runs).max_by_key(led).map(String::as_str)
    }
}
