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
            What::EnginePaused => Trouble::Paused,
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
    /// Begins to misbehave.
    pub fn trouble(&mut self, now: u64, trouble: Trouble) {
        self.advance(now);
        let until = self.now + trouble.lasts_ms();
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
