//! How the lead is passed on: the newest switchover, and the only way to propose another.

use crate::cast::Cast;
use crate::plan::{blocker, waive_command};
use crate::revision::Revisions;
use crate::roster::MemberId;
use crate::safety::{Refusal, Safety, Sake};
use crate::sheet::Sheet;
use crate::time::Time;
use ensemble_api::report::Action;
use ensemble_api::status::{SwitchPhase, Switchover};
use ensemble_api::{Reason, Rule, StepState};

/// The newest switchover as it is to be stored. Lent to whoever may want another; while one is
/// under way, nobody gets it.
#[must_use]
pub(crate) struct Succession<'s> {
    snap: &'s Cast<'s>,
    revisions: &'s Revisions,
    newest: Option<Switchover>,
}

/// What became of the wish to hand the lead over. The report has been told.
pub(crate) enum Proposal {
    /// It is to be written down.
    Made,
    /// Another one is under way, or the last one failed a moment ago.
    Waits,
    /// A rule forbids it.
    Refused(Refusal),
    /// Nobody can take over, in words.
    Nobody(String),
}

impl<'s> Succession<'s> {
    /// With the newest one as it was seen to stand.
    pub fn new(snap: &'s Cast<'s>, revisions: &'s Revisions, newest: Option<Switchover>) -> Self {
        Self {
            snap,
            revisions,
            newest,
        }
    }

    /// The newest switchover, as it is to be stored.
    pub fn newest(&self) -> Option<&Switchover> {
        self.newest.as_ref()
    }

    /// Whether a switchover is under way; its own step speaks for it.
    pub fn is_open(&self) -> bool {
        self.newest.as_ref().is_some_and(|s| s.phase.is_open())
    }

    /// Wants the lead handed to whoever is best among those that will do.
    pub fn propose_best(
        &mut self,
        sake: Sake<'_>,
        will_do: impl Fn(MemberId) -> bool,
        safety: &mut Safety<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Proposal {
        let snap = self.snap;
        let leader = snap.engine().leader();
        let others = snap.heirs();
        let mut heirs: Vec<MemberId> = others
            .iter()
            .copied()
            .filter(|m| will_do(*m) && safety.may_succeed(*m).is_ok())
            .collect();
        let outdated = |m: MemberId| {
            let pod = snap.our_pod(m);
            !pod.is_some_and(|p| self.revisions.is_current(p.revision()))
        };
        heirs.sort_by_key(|m| {
            (
                outdated(*m),
                is_cordoned(snap, *m),
                snap.engine().behind(*m),
                *m,
            )
        });
        if let Some(heir) = heirs.first().copied() {
            return self.propose(heir, sake, safety, sheet);
        }
        if self.is_open() {
            return Proposal::Waits;
        }
        let why: Vec<String> = others
            .iter()
            .map(|m| {
                let name = snap.roster().name(*m);
                match safety.may_succeed(*m) {
                    Err(why) => format!("{name}: {why}"),
                    Ok(()) => format!("{name}: it is not updated yet, or has to move itself"),
                }
            })
            .collect();
        let message = format!("nobody can take over; {}", why.join("; "));
        let mut blocker = blocker(snap, Reason::NoSuccessor, message.clone());
        let leader = leader.map(|m| snap.roster().name(m));
        if let Some(leader) = leader.as_ref().filter(|l| sheet.lasts(Action::Switch, l)) {
            blocker.next_command = waive_command(snap, Rule::PrimaryHandedOver, leader);
        }
        sheet.block(Action::Switch, leader, sake.cause, blocker);
        Proposal::Nobody(message)
    }

    /// Wants the lead handed to a member. What a rule refuses is returned, and reported.
    pub fn propose(
        &mut self,
        to: MemberId,
        sake: Sake<'_>,
        safety: &mut Safety<'_>,
        sheet: &mut Sheet<'_>,
    ) -> Proposal {
        let snap = self.snap;
        if self.is_open() {
            return Proposal::Waits;
        }
        let member = snap.roster().name(to);
        let last = self.newest.as_ref();
        let failed = last.filter(|s| s.phase != SwitchPhase::Arrived && s.request.is_empty());
        let tries = failed.map_or(0, |s| s.tries);
        if let Some(failed) = failed.filter(|_| sake.request.is_empty()) {
            let pause = 2_i64 << tries.min(5);
            let since = Time::past(&failed.since, snap.now);
            let again = since.map_or(snap.now, |since| since.plus_ms(pause * 1000));
            if again > snap.now {
                sheet.wake(again);
                let message = format!(
                    "{} -> {} ended {:?}: {}",
                    failed.from, failed.to, failed.phase, failed.message
                );
                let mut blocker = blocker(snap, Reason::SwitchoverFailed, message);
                blocker.observed = format!("tried {tries} times");
                sheet.block(Action::Switch, Some(member), sake.cause, blocker);
                return Proposal::Waits;
            }
        }
        match safety.hand_over(to) {
            Ok(planned) => {
                self.newest = Some(planned.propose(snap, sake, tries + 1));
                sheet.step(Action::Switch, Some(member), sake.cause, StepState::Running);
                Proposal::Made
            }
            Err(refusal) => {
                if let Some(at) = safety.switch_waits_until(to) {
                    sheet.wake(at);
                }
                sheet.refused(Action::Switch, member, sake.cause, &refusal);
                Proposal::Refused(refusal)
            }
        }
    }
}

/// Whether a member is on a node that takes no new pods.
pub(crate) fn is_cordoned(snap: &Cast<'_>, who: MemberId) -> bool {
    let nodes = snap.nodes.as_ref();
    let pod = snap.our_pod(who);
    let node = nodes.zip(pod).and_then(|(n, p)| n.get(&p.node));
    node.is_some_and(|n| n.cordoned)
}
