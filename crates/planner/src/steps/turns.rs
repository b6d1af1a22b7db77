//! Turns: who is disrupted next, of all that is wished for. Safety says whether it may be; here it is
//! said who waits for whom, and that the primary hands its lead over first.

use crate::cast::Cast;
use crate::evidence;
use crate::memory::{Failure, Kind};
use crate::method;
use crate::plan::blocker;
use crate::resize;
use crate::revision::Revisions;
use crate::roster::MemberId;
use crate::safety::{Permit, Refusal, Safety, Sake};
use crate::sheet::Sheet;
use crate::steps::intents::Settled;
use crate::steps::members::in_trouble;
use crate::steps::prepare::Prepared;
use crate::succession::Succession;
use crate::wish::{self, Act, Round, Wish};
use ensemble_api::report::Action;
use ensemble_api::spec::PrimaryTurn;
use ensemble_api::{Reason, Rule, StepState};

/// What turns are taken by, and who is told.
pub struct Turns<'t, 's> {
    snap: &'t Cast<'s>,
    revisions: &'t Revisions,
    settled: &'t Settled,
    prepared: &'t Prepared,
    safety: &'t mut Safety<'s>,
    succession: &'t mut Succession<'s>,
    sheet: &'t mut Sheet<'s>,
    /// Consents, as far as turns were taken.
    permits: Vec<Permit>,
}

impl<'t, 's> Turns<'t, 's> {
    /// Nobody's has been taken yet.
    pub fn new(
        snap: &'t Cast<'s>,
        revisions: &'t Revisions,
        settled: &'t Settled,
        prepared: &'t Prepared,
        safety: &'t mut Safety<'s>,
        succession: &'t mut Succession<'s>,
        sheet: &'t mut Sheet<'s>,
    ) -> Self {
        Self {
            snap,
            revisions,
            settled,
            prepared,
            safety,
            succession,
            sheet,
            permits: Vec::new(),
        }
    }

    /// Takes them, round by round. Returns the consents that were given.
    pub fn take(mut self, wishes: &[Wish]) -> Vec<Permit> {
        rounds(&mut self, wishes);
        self.permits
    }
}

fn rounds(turns: &mut Turns<'_, '_>, wishes: &[Wish]) {
    let of = |round: Round| -> Vec<&Wish> { wishes.iter().filter(|w| w.round == round).collect() };
    for wish in of(Round::Clear) {
        grant(turns, wish, &wish.cause.to_string());
    }
    leave(turns, &of(Round::Leave));
    if !paused(turns, &of(Round::Roll)) {
        roll(turns, &of(Round::Roll));
    }
    if !paused(turns, &of(Round::Restart)) {
        restart(turns, &of(Round::Restart));
    }
}

fn idle(turns: &mut Turns<'_, '_>, wish: &Wish) {
    let member = turns.snap.name_of(wish.who);
    let cause = wish.cause.to_string();
    turns
        .sheet
        .step(wish.act.action(), Some(member), &cause, StepState::Idle);
}

/// Those that are no longer asked for: who is on its way does not hold up the next, who may not go does.
fn leave(turns: &mut Turns<'_, '_>, wishes: &[&Wish]) {
    let mut waiting = false;
    for wish in wishes {
        let cause = wish.cause.to_string();
        let leaving = turns
            .snap
            .our_pod(wish.who)
            .is_some_and(|p| p.meta.deleting);
        if leaving {
            on_its_way_out(turns, wish, &cause);
        } else if waiting {
            idle(turns, wish);
        } else {
            waiting = !grant(turns, wish, &cause);
        }
    }
}

/// It was told to end. If its node does not answer, that does not pass by itself.
fn on_its_way_out(turns: &mut Turns<'_, '_>, wish: &Wish, cause: &str) {
    let (snap, action) = (turns.snap, wish.act.action());
    let member = Some(snap.name_of(wish.who));
    let trouble = evidence::of(snap, wish.who);
    match trouble.filter(|t| t.silent_node.is_some()) {
        Some(trouble) => {
            let blocker = in_trouble(snap, trouble);
            turns.sheet.block(action, member, cause, blocker);
        }
        None => turns.sheet.step(action, member, cause, StepState::Running),
    }
}

/// Says once for all that the rollout is paused, if it is.
fn paused(turns: &mut Turns<'_, '_>, wishes: &[&Wish]) -> bool {
    let Some(first) = wishes.first() else {
        return true;
    };
    if !turns.snap.ensemble.spec.rollout.paused {
        return false;
    }
    let message = format!("{} members wait: the rollout is paused", wishes.len());
    let blocker = blocker(turns.snap, Reason::Paused, message);
    let action = match first.round {
        Round::Restart => first.act.action(),
        _ => Act::Recreate.action(),
    };
    let cause = first.cause.plain();
    turns.sheet.block(action, None, &cause, blocker);
    true
}

fn roll(turns: &mut Turns<'_, '_>, wishes: &[&Wish]) {
    if !turns.prepared.may_roll(&turns.revisions.target) {
        // Not tried or not pulled yet: the step that prepares speaks for it.
        for wish in wishes {
            let member = turns.snap.name_of(wish.who);
            let cause = wish.cause.plain();
            let action = Act::Recreate.action();
            turns
                .sheet
                .step(action, Some(member), &cause, StepState::Idle);
        }
        return;
    }
    let mut waiting = false;
    let mut replicas = 0;
    // What restarts nothing costs no budget, and still goes member by member.
    let most = turns.snap.ensemble.spec.rollout.max_unavailable as usize;
    let resizing = resize::under_way(turns.snap, turns.revisions) >= most;
    for wish in wishes {
        let leads = turns.snap.engine().leads(wish.who);
        waiting |= resizing && !turns.snap.presence(wish.who).is_down();
        waiting = if waiting {
            idle(turns, wish);
            true
        } else if leads && disturbs_the_lead(turns, wish) {
            !primary(turns, wish, replicas)
        } else {
            !grant(turns, wish, &wish.cause.to_string())
        };
        replicas += usize::from(!leads);
    }
}

fn disturbs_the_lead(turns: &Turns<'_, '_>, wish: &Wish) -> bool {
    match &wish.act {
        Act::Relabel { to } | Act::Resize { to } | Act::InPlace { to } => {
            method::touches_engine(turns.snap, wish.who, to)
        }
        _ => true,
    }
}

/// The primary's turn, after so many replicas that are still outdated: it hands the lead over first, if
/// it may and can. True if those after it need not wait.
fn primary(turns: &mut Turns<'_, '_>, wish: &Wish, replicas: usize) -> bool {
    let snap = turns.snap;
    let cause = wish.cause.to_string();
    if snap.roster().is_only(wish.who) {
        let cause = format!("{cause}; a single member: downtime is unavoidable");
        return grant(turns, wish, &cause);
    }
    let asked = snap.ensemble.spec.rollout.primary;
    let waived = turns.safety.is_waived(Rule::PrimaryHandedOver, wish.who);
    if asked == PrimaryTurn::Restart || !snap.abilities.can_switch || waived {
        return grant(turns, wish, &cause);
    }
    let before = wish::replicas_before(snap, turns.revisions, replicas, wish.who);
    if before.is_some_and(|n| n > 0) {
        // Replicas on their way count until they are back.
        idle(turns, wish);
        return false;
    }
    if let Err(refusal) = turns.safety.approved(wish.who) {
        let member = snap.name_of(wish.who);
        awaits_approval(turns, Action::Switch, member, &cause, &refusal);
        return false;
    }
    let first = before.is_none();
    let will_do = |m: &MemberId| {
        let pod = snap.our_pod(*m);
        first || pod.is_some_and(|p| turns.revisions.is_current(p.revision()))
    };
    let current: Vec<MemberId> = snap.wanted().filter(will_do).collect();
    let revision = turns.revisions.target.clone();
    let sake = Sake {
        revision: &revision,
        ..Sake::of(&cause)
    };
    let will_do = |m| current.contains(&m);
    turns
        .succession
        .propose_best(sake, will_do, turns.safety, turns.sheet);
    idle(turns, wish);
    false
}

/// Says in plain words that a person is waited for.
fn awaits_approval(
    turns: &mut Turns<'_, '_>,
    action: Action,
    member: String,
    cause: &str,
    refusal: &Refusal,
) {
    let blocker = blocker(turns.snap, refusal.reason, refusal.observed.clone());
    turns.sheet.block(action, Some(member), cause, blocker);
}

/// Engines that wait for a restart, in the order that the change demands.
fn restart(turns: &mut Turns<'_, '_>, wishes: &[&Wish]) {
    let mut one_waits = false;
    for wish in wishes {
        one_waits = one_waits || !turns.safety.turn_has_come(wish);
        if one_waits {
            idle(turns, wish);
        } else {
            one_waits = !grant(turns, wish, &wish.cause.to_string());
        }
    }
    if one_waits {
        super::parameters::wake_once_noticed(turns.snap, turns.safety, turns.sheet);
    }
}

/// Wants a member disrupted, for a cause as it is to be told; true if it is, or is about to be.
fn grant(turns: &mut Turns<'_, '_>, wish: &Wish, cause: &str) -> bool {
    let snap = turns.snap;
    let (action, member) = (wish.act.action(), snap.name_of(wish.who));
    let failure = snap.memory.failures.get(&(Kind::Pod, member.clone()));
    if let Some(failure) = failure.filter(|f| f.retry_at > snap.now) {
        turns.sheet.wake(failure.retry_at);
        turns.sheet.failed(action, member, cause, failure);
        return false;
    }
    if is_under_way(turns, &member) {
        // Our own intent, being confirmed and sent. What a budget refused is not under way because it
        // is asked for once more.
        let refused = |f: &&Failure| f.reason == Reason::EvictionRefused;
        match failure.filter(refused) {
            Some(refused) => turns.sheet.failed(action, member, cause, refused),
            None => turns
                .sheet
                .step(action, Some(member), cause, StepState::Running),
        }
        return true;
    }
    match turns.safety.grant(wish) {
        Ok(permit) => {
            turns.permits.push(permit);
            turns
                .sheet
                .step(action, Some(member), cause, StepState::Running);
            true
        }
        Err(refusal) => {
            let at = turns.safety.recovery_at(wish.who);
            if let Some(at) = at.filter(|at| *at > snap.now) {
                turns.sheet.wake(at);
            }
            if refusal.predicate == Rule::Approved {
                awaits_approval(turns, action, member, cause, &refusal);
            } else {
                turns.sheet.refused(action, member, cause, &refusal);
            }
            false
        }
    }
}

fn is_under_way(turns: &Turns<'_, '_>, member: &str) -> bool {
    let mut stored = turns.snap.ensemble.status.in_flight.iter();
    stored.any(|i| i.member == member && turns.settled.is_open(i))
}
