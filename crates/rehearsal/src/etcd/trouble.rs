//! How it misbehaves.

use super::Etcd;
use crate::fault::What;

/// A kind of misbehaviour, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// Nobody answers.
    Silent,
    /// Every answer takes long.
    Slow,
    /// A follower claims the lead, at a term of its own.
    Lies,
    /// Followers fall behind.
    Lag,
    /// Handing over is refused.
    Refuses,
    /// The lead goes to another than was asked for.
    Elsewhere,
    /// It is handed over, and the answer is lost.
    AnswerLost,
}

const LASTS_MS: u64 = 20_000;

impl Etcd {
    /// A fault of the engine. Those that it cannot have do nothing.
    pub(super) fn suffer(&mut self, now: u64, what: What) {
        self.advance(now);
        let trouble = match what {
            What::RolesSilent => Trouble::Silent,
            What::RolesSlow => Trouble::Slow,
            What::RolesLie => Trouble::Lies,
            What::ReplicasLag => Trouble::Lag,
            What::SwitchRefused => Trouble::Refuses,
            What::SwitchElsewhere => Trouble::Elsewhere,
            What::SwitchUnanswered => Trouble::AnswerLost,
            What::FailsOver => return self.fails_over(),
            _ => return,
        };
        self.troubles.insert(trouble, self.now + LASTS_MS);
        self.next_look = self.now;
    }

    fn fails_over(&mut self) {
        let leader = self.leader.clone();
        let mut others = self.names().filter(|n| Some(n) != leader.as_ref());
        if let Some(to) = others
            .find(|n| self.in_sync(n))
            .filter(|_| leader.is_some())
        {
            self.elect(&to, false);
        }
    }

    pub(super) fn is(&self, trouble: Trouble) -> bool {
        let until = self.troubles.get(&trouble);
        until.is_some_and(|until| *until > self.now)
    }

    /// Until when something is wrong with it.
    pub(super) fn troubled_until(&self) -> Option<u64> {
        self.troubles.values().max().copied()
    }

    /// Who would lie: the last that follows.
    pub(super) fn liar(&self) -> Option<String> {
        let up = |n: &String| self.is_up(n) && self.leader() != Some(n);
        self.names().filter(up).last()
    }
}
