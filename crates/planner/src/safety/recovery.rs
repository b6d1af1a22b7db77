//! Recovery: members that do not come up for long may be recreated on their own claims, so that a
//! corrected template always gets through. One at a time, and only by way of named exceptions, which are
//! asked after the rules that they make an exception from.

use super::{RECOVER_AFTER_SECONDS, Safety};
use crate::engine::Lead;
use crate::presence::{self, Presence};
use crate::roster::MemberId;
use crate::time::Time;
use ensemble_api::Rule;

impl Safety<'_> {
    /// A member that has run without becoming Ready for long is no use to anybody; with nothing else
    /// in flight it may be replaced.
    pub(super) fn recovering(&self, who: MemberId) -> bool {
        self.may_recover(who) && self.recovery_at(who).is_some_and(|at| at <= self.snap.now)
    }

    /// When [`Safety::recovering`] will hold for a member by time alone.
    pub fn recovery_at(&self, who: MemberId) -> Option<Time> {
        let unwell = [Presence::Unhealthy, Presence::Starting];
        let pod = self
            .snap
            .our_pod(who)
            .filter(|_| unwell.contains(&self.snap.presence(who)))?;
        let since = self.snap.memory.pod(&pod.meta.pin.uid).unready_since?;
        Some(self.patience(since.max(self.up_since(who).unwrap_or(since))))
    }

    pub(super) fn patience(&self, since: Time) -> Time {
        let engine = self.snap.ensemble.spec.engine.as_ref();
        let seconds = engine.map_or(RECOVER_AFTER_SECONDS, |e| e.recover_after_seconds);
        since.plus_seconds(seconds)
    }

    /// Since when its engine is up, if it is: its pod becomes Ready a moment later, if at all.
    fn up_since(&self, who: MemberId) -> Option<Time> {
        let pod = self.snap.our_pod(who)?;
        let since = self.snap.memory.pod(&pod.meta.pin.uid).up_since;
        since.filter(|_| self.on(Rule::RecoveryLetsSettle, who))
    }

    /// Nobody has led and nobody was Ready for long.
    pub(super) fn in_recovery(&self, who: MemberId) -> bool {
        let settling = self.up_since(who).map(|since| self.patience(since));
        self.may_recover(who)
            && self.in_recovery_at().is_some_and(|at| at <= self.snap.now)
            && settling.is_none_or(|until| until <= self.snap.now)
    }

    /// When [`Safety::in_recovery`] will hold by time alone.
    pub fn in_recovery_at(&self) -> Option<Time> {
        let cast = self.snap;
        cast.ensemble.spec.engine.as_ref()?;
        let serving = cast
            .members()
            .any(|m| cast.presence(m) == Presence::Serving);
        let led = matches!(cast.lead(), Lead::One { .. } | Lead::Contested(_));
        if serving || led {
            return None;
        }
        Some(self.patience(cast.memory.leaderless_since?))
    }

    /// One at a time, and nobody of whom we could not know better.
    fn may_recover(&self, who: MemberId) -> bool {
        self.in_flight.is_empty() && self.nobody_on_its_way(who) && self.never_ready_or_seen(who)
    }

    /// Nobody else is on its way out or back: whoever was recreated gets its time before the next is.
    fn nobody_on_its_way(&self, who: MemberId) -> bool {
        let cast = self.snap;
        let on_its_way = |m: &MemberId| match cast.presence(*m) {
            Presence::Serving => false,
            Presence::Absent if !cast.memory.absent_since.contains_key(&cast.name_of(*m)) => false,
            _ => self.expected_until(*m).is_some_and(|at| at > cast.now),
        };
        let mut others = cast.wanted().chain(cast.surplus()).filter(|m| *m != who);
        !self.on(Rule::RecoveryOneAtATime, who) || !others.any(|m| on_its_way(&m))
    }

    /// Without nodes to look at, a pod that was Ready once may be cut off from us rather than unwell. What
    /// was before this process began, it cannot know.
    fn never_ready_or_seen(&self, who: MemberId) -> bool {
        let cast = self.snap;
        if cast.nodes.is_some() || !self.on(Rule::RecoverySparesOnceReady, who) {
            return true;
        }
        let known = cast.our_pod(who).map(|p| cast.memory.pod(&p.meta.pin.uid));
        let never = known.is_some_and(|k| k.from_its_start && !k.once_ready);
        never || !cast.ledger().is_born(who)
    }

    /// Until when a member is expected back; None if it is there, or not expected.
    pub(super) fn expected_until(&self, who: MemberId) -> Option<Time> {
        let cast = self.snap;
        if cast.fit(who) {
            return None;
        }
        let patience = |since: Time| since.plus_seconds(RECOVER_AFTER_SECONDS);
        let pod = cast.our_pod(who);
        let known = pod.map(|p| cast.memory.pod(&p.meta.pin.uid));
        match cast.presence(who) {
            Presence::Down(_) | Presence::Unreachable => None,
            Presence::Absent => {
                let since = cast.memory.absent_since.get(&cast.roster().name(who));
                Some(patience(since.copied().unwrap_or(cast.now)))
            }
            Presence::Leaving => {
                let node = pod.map_or("", |p| &p.node);
                let since = known.and_then(|k| k.leaving_since).unwrap_or(cast.now);
                presence::node_answers(cast, node).then(|| patience(since))
            }
            Presence::Serving => {
                let run = known.and_then(|k| k.run.as_ref());
                let since = run.map(|r| r.since).max(cast.memory.led_since);
                Some(patience(since.unwrap_or(cast.now)))
            }
            Presence::Unhealthy | Presence::Starting => {
                Some(self.recovery_at(who).unwrap_or(patience(cast.now)))
            }
        }
    }
}
