//! Turns: who is disrupted next, of all that is wished for. Safety says whether it may be; here it is
//! said who waits for whom, and that the primary hands its lead over first.

use crate::memory::{Failure, Kind};
use crate::method;
use crate::plan::{Draft, blocker};
use crate::resize;
use crate::roster::MemberId;
use crate::safety::Sake;
use crate::wish::{self, Act, Round, Wish};
use ensemble_api::report::Action;
use ensemble_api::spec::PrimaryTurn;
use ensemble_api::{Reason, StepState};

/// Takes them, round by round.
pub fn run(draft: &mut Draft<'_>) {
    let wishes = wish::wishes(draft.snap, &draft.ledger, &draft.revisions);
    let of = |round: Round| -> Vec<&Wish> { wishes.iter().filter(|w| w.round == round).collect() };
    for wish in of(Round::Clear) {
        grant(draft, wish, &wish.cause.to_string());
    }
    leave(draft, &of(Round::Leave));
    if !paused(draft, &of(Round::Roll)) {
        roll(draft, &of(Round::Roll));
    }
    if !paused(draft, &of(Round::Restart)) {
        restart(draft, &of(Round::Restart));
    }
}

fn idle(draft: &mut Draft<'_>, wish: &Wish) {
    let member = draft.snap.name_of(wish.who);
    let cause = wish.cause.to_string();
    draft
        .sheet
        .step(wish.act.action(), Some(member), &cause, StepState::Idle);
}

/// Those that are no longer asked for: who is on its way does not hold up the next, who may not go does.
fn leave(draft: &mut Draft<'_>, wishes: &[&Wish]) {
    let mut waiting = false;
    for wish in wishes {
        let cause = wish.cause.to_string();
        let leaving = draft
            .snap
            .our_pod(wish.who)
            .is_some_and(|p| p.meta.deleting);
        if leaving {
            let member = Some(draft.snap.name_of(wish.who));
            draft
                .sheet
                .step(wish.act.action(), member, &cause, StepState::Running);
        } else if waiting {
            idle(draft, wish);
        } else {
            waiting = !grant(draft, wish, &cause);
        }
    }
}

/// Says once for all that the rollout is paused, if it is.
fn paused(draft: &mut Draft<'_>, wishes: &[&Wish]) -> bool {
    let Some(first) = wishes.first() else {
        return true;
    };
    if !draft.snap.ensemble.spec.rollout.paused {
        return false;
    }
    let message = format!("{} members wait: the rollout is paused", wishes.len());
    let blocker = blocker(draft.snap, Reason::Paused, message);
    let action = match first.round {
        Round::Restart => first.act.action(),
        _ => Act::Recreate.action(),
    };
    let cause = first.cause.plain();
    draft.sheet.block(action, None, &cause, blocker);
    true
}

fn roll(draft: &mut Draft<'_>, wishes: &[&Wish]) {
    if draft.usable.as_ref() != Some(&draft.revisions.target) {
        // Not tried or not pulled yet: the step that prepares speaks for it.
        for wish in wishes {
            let member = draft.snap.name_of(wish.who);
            let cause = wish.cause.plain();
            let action = Act::Recreate.action();
            draft
                .sheet
                .step(action, Some(member), &cause, StepState::Idle);
        }
        return;
    }
    let mut waiting = false;
    let mut replicas = 0;
    // What restarts nothing costs no budget, and still goes member by member.
    let most = draft.snap.ensemble.spec.rollout.max_unavailable as usize;
    let resizing = resize::under_way(draft.snap, &draft.revisions) >= most;
    for wish in wishes {
        let leads = draft.snap.roles().leader() == Some(wish.who);
        waiting |= resizing && !draft.snap.presence(wish.who).is_down();
        waiting = if waiting {
            idle(draft, wish);
            true
        } else if leads && disturbs_the_lead(draft, wish) {
            !primary(draft, wish, replicas)
        } else {
            !grant(draft, wish, &wish.cause.to_string())
        };
        replicas += usize::from(!leads);
    }
}

fn disturbs_the_lead(draft: &Draft<'_>, wish: &Wish) -> bool {
    match &wish.act {
        Act::Relabel { to } | Act::Resize { to } | Act::InPlace { to } => {
            method::touches_engine(draft.snap, wish.who, to)
        }
        _ => true,
    }
}

/// The primary's turn, after so many replicas that are still outdated: it hands the lead over first, if
/// it may and can. True if those after it need not wait.
fn primary(draft: &mut Draft<'_>, wish: &Wish, replicas: usize) -> bool {
    let snap = draft.snap;
    let cause = wish.cause.to_string();
    if snap.roster().size() == 1 {
        let cause = format!("{cause}; a single member: downtime is unavoidable");
        return grant(draft, wish, &cause);
    }
    let asked = snap.ensemble.spec.rollout.primary;
    if asked == PrimaryTurn::Restart || !draft.can_switch() {
        return grant(draft, wish, &cause);
    }
    let before = wish::replicas_before(snap, &draft.revisions, replicas, wish.who);
    if before.is_some_and(|n| n > 0) {
        // Replicas on their way count until they are back.
        idle(draft, wish);
        return false;
    }
    if asked == PrimaryTurn::Supervised && !is_approved(draft) {
        let member = snap.name_of(wish.who);
        let message = format!("all replicas are updated; {member} leads and waits for approval");
        let mut blocker = blocker(snap, Reason::AwaitingApproval, message);
        blocker.next_command = format!("ensemble approve {}", snap.name());
        draft
            .sheet
            .block(Action::Switch, Some(member), &cause, blocker);
        return false;
    }
    let first = before.is_none();
    let will_do = |m: &MemberId| {
        let pod = snap.our_pod(*m);
        first || pod.is_some_and(|p| draft.revisions.is_current(p.revision()))
    };
    let current: Vec<MemberId> = snap.wanted().filter(will_do).collect();
    let revision = draft.revisions.target.clone();
    let sake = Sake {
        revision: &revision,
        ..Sake::of(&cause)
    };
    draft.hand_over_to_best(sake, |m| current.contains(&m));
    idle(draft, wish);
    false
}

/// Whether somebody approved of this revision.
fn is_approved(draft: &Draft<'_>) -> bool {
    let mut requests = draft.snap.requests.values().filter(|r| !r.finished);
    requests.any(|r| {
        let approve = r.spec.approve.as_ref();
        approve.is_some_and(|a| a.revision == draft.revisions.target)
    })
}

/// Engines that wait for a restart, in the order that the change demands.
fn restart(draft: &mut Draft<'_>, wishes: &[&Wish]) {
    let mut one_waits = false;
    for wish in wishes {
        one_waits = one_waits || !draft.safety.turn_has_come(wish);
        if one_waits {
            idle(draft, wish);
        } else {
            one_waits = !grant(draft, wish, &wish.cause.to_string());
        }
    }
    if one_waits {
        super::parameters::wake_once_noticed(draft);
    }
}

/// Wants a member disrupted, for a cause as it is to be told; true if it is, or is about to be.
fn grant(draft: &mut Draft<'_>, wish: &Wish, cause: &str) -> bool {
    let snap = draft.snap;
    let (action, member) = (wish.act.action(), snap.name_of(wish.who));
    let failure = snap.memory.failures.get(&(Kind::Pod, member.clone()));
    if let Some(failure) = failure.filter(|f| f.retry_at > snap.now) {
        draft.sheet.wake(failure.retry_at);
        draft.sheet.failed(action, member, cause, failure);
        return false;
    }
    if is_under_way(draft, &member) {
        // Our own intent, being confirmed and sent. What a budget refused is not under way because it
        // is asked for once more.
        let refused = |f: &&Failure| f.reason == Reason::EvictionRefused;
        match failure.filter(refused) {
            Some(refused) => draft.sheet.failed(action, member, cause, refused),
            None => draft
                .sheet
                .step(action, Some(member), cause, StepState::Running),
        }
        return true;
    }
    match draft.safety.grant(wish) {
        Ok(permit) => {
            draft.permits.push(permit);
            draft
                .sheet
                .step(action, Some(member), cause, StepState::Running);
            true
        }
        Err(refusal) => {
            let at = draft.safety.recovery_at(wish.who);
            if let Some(at) = at.filter(|at| *at > snap.now) {
                draft.sheet.wake(at);
            }
            draft.sheet.refused(action, member, cause, &refusal);
            false
        }
    }
}

fn is_under_way(draft: &Draft<'_>, member: &str) -> bool {
    let mut stored = draft.snap.ensemble.status.in_flight.iter();
    stored.any(|i| i.member == member && !draft.over.contains(&i.uid))
}
