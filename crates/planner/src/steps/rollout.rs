//! The rollout: which member next, and how. Down first, for they cost nobody anything; then those
//! that are not Ready; then replicas, the most lagging first; the primary last, once its lead was
//! handed over. Equals go from the highest ordinal. All within the budget.

use super::resize;
use crate::method;
use crate::plan::{Draft, blocker};
use crate::presence::Presence;
use crate::resize::{Standing, standing};
use crate::roster::MemberId;
use crate::safety::Sake;
use ensemble_api::report::Action;
use ensemble_api::spec::{Order, PrimaryTurn};
use ensemble_api::status::{Method, SwitchPhase};
use ensemble_api::{Reason, StepState};

/// Recreates outdated members.
pub fn run(draft: &mut Draft<'_>) {
    let cause = cause(draft);
    let first = goes_first(draft);
    let outdated = outdated(draft, first);
    if outdated.is_empty() {
        return;
    }
    if draft.snap.ensemble.spec.rollout.paused {
        let message = format!("{} members wait: the rollout is paused", outdated.len());
        let blocker = blocker(draft.snap, Reason::Paused, message);
        return draft.block(Action::Recreate, None, &cause, blocker);
    }
    if draft.usable.as_ref() != Some(&draft.revisions.target) {
        // Not tried or not pulled yet: the step that prepares speaks for it.
        for who in outdated {
            let member = draft.snap.roster().name(who);
            draft.step(Action::Recreate, Some(member), &cause, StepState::Idle);
        }
        return;
    }
    let mut waiting = false;
    let mut replicas_left = 0;
    // What restarts nothing costs no budget, and still goes member by member.
    let most = draft.snap.ensemble.spec.rollout.max_unavailable as usize;
    let resizing = resize::under_way(draft) >= most;
    for who in outdated {
        let leads = draft.snap.roles().leader() == Some(who);
        let choice = method::choose(draft.snap, who, &draft.revisions.target);
        let turn = Turn {
            who,
            cause: why(&cause, &choice),
            method: choice.method,
            action: choice.action,
            replicas_left,
            first: first == Some(who),
        };
        replicas_left += usize::from(!leads);
        waiting |= resizing && !draft.snap.presence(who).is_down();
        waiting = if leads && !waiting && disturbs_the_lead(draft, &turn) {
            !primary(draft, &turn)
        } else {
            one(draft, &turn, waiting)
        };
    }
}

/// One member's turn.
struct Turn {
    who: MemberId,
    cause: String,
    method: Method,
    action: Action,
    /// How many replicas before it are still outdated.
    replicas_left: usize,
    /// It goes before all others, by the user's wish.
    first: bool,
}

fn cause(draft: &Draft<'_>) -> String {
    let from = draft.snap.ensemble.status.current_revision();
    if from.is_empty() {
        return "the template changed".to_owned();
    }
    let to = &draft.revisions.target;
    format!("the template changed ({from} -> {to})")
}

/// Who goes before all others where the primary is to go first: the one that led when it began. Once it
/// has handed the lead over for that, or has its turn behind it, whoever leads then goes last: else the
/// lead would go round for ever.
fn goes_first(draft: &Draft<'_>) -> Option<MemberId> {
    let snap = draft.snap;
    if snap.ensemble.spec.rollout.order != Order::PrimaryFirst {
        return None;
    }
    let mut pods = snap.members().filter_map(|m| snap.our_pod(m));
    if pods.any(|p| draft.revisions.is_current(p.revision())) {
        return None;
    }
    let over = draft.switchover.as_ref().filter(|s| {
        let left = matches!(s.phase, SwitchPhase::Arrived | SwitchPhase::Superseded);
        left && s.revision == draft.revisions.target
    });
    let led = over.and_then(|s| {
        let is_it = |m: &MemberId| {
            let pod = snap.our_pod(*m);
            pod.is_some_and(|p| p.meta.pin.uid == s.from_uid)
        };
        snap.members().find(is_it)
    });
    led.or(snap.roles().leader())
}

fn why(cause: &str, choice: &method::Choice) -> String {
    match (&choice.surprise, choice.action) {
        (Some(surprise), _) => format!("{cause}; recreated: {surprise}"),
        (None, Action::Resize | Action::Relabel) => format!("{cause}; nothing restarts"),
        (None, _) => cause.to_owned(),
    }
}

fn disturbs_the_lead(draft: &Draft<'_>, turn: &Turn) -> bool {
    turn.method != Method::InPlace
        || method::touches_engine(draft.snap, turn.who, &draft.revisions.target)
}

/// The primary's turn: it hands the lead over first, if it may and can. True if those after it need
/// not wait.
fn primary(draft: &mut Draft<'_>, turn: &Turn) -> bool {
    let snap = draft.snap;
    let member = snap.name_of(turn.who);
    if snap.roster().size() == 1 {
        let cause = format!("{}; a single member: downtime is unavoidable", turn.cause);
        return draft.change(
            turn.who,
            turn.method,
            turn.action,
            &cause,
            &draft.revisions.target.clone(),
        );
    }
    let asked = snap.ensemble.spec.rollout.primary;
    if asked == PrimaryTurn::Restart || !draft.can_switch() {
        return !one(draft, turn, false);
    }
    if turn.replicas_left > 0 && !turn.first {
        // Replicas on their way count until they are back.
        draft.step(turn.action, Some(member), &turn.cause, StepState::Idle);
        return false;
    }
    if asked == PrimaryTurn::Supervised && !is_approved(draft) {
        let message = format!("all replicas are updated; {member} leads and waits for approval");
        let mut blocker = blocker(snap, Reason::AwaitingApproval, message);
        blocker.next_command = format!("ensemble approve {}", snap.name());
        draft.block(Action::Switch, Some(member), &turn.cause, blocker);
        return false;
    }
    let current: Vec<MemberId> = snap
        .roster()
        .wanted()
        .filter(|m| {
            let pod = snap.our_pod(*m);
            turn.first || pod.is_some_and(|p| draft.revisions.is_current(p.revision()))
        })
        .collect();
    let revision = draft.revisions.target.clone();
    let sake = Sake {
        revision: &revision,
        ..Sake::of(&turn.cause)
    };
    draft.hand_over_to_best(sake, |m| current.contains(&m));
    draft.step(turn.action, Some(member), &turn.cause, StepState::Idle);
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

/// Members that are asked for and run something else than the target, in the order of their turn.
fn outdated(draft: &Draft<'_>, first: Option<MemberId>) -> Vec<MemberId> {
    let snap = draft.snap;
    let roles = snap.roles();
    let turn = |who: MemberId| match snap.presence(who) {
        Presence::Down(_) => 0,
        _ if first == Some(who) => 1,
        _ if roles.leader() == Some(who) => 4,
        Presence::Unhealthy | Presence::Starting | Presence::Unreachable => 2,
        _ if snap.in_sync(who).is_err() => 2,
        _ => 3,
    };
    let lag = |who: MemberId| roles.sighting(who).and_then(|s| s.lag).unwrap_or(0);
    let mut members: Vec<MemberId> = snap
        .members()
        .filter(|m| snap.roster().wants(*m))
        .filter(|m| is_outdated(draft, *m))
        .collect();
    members.sort_by_key(|m| {
        use std::cmp::Reverse;
        (turn(*m), Reverse(lag(*m)), Reverse(*m))
    });
    members
}

fn is_outdated(draft: &Draft<'_>, who: MemberId) -> bool {
    let life = draft.ledger.incarnation(who);
    draft.snap.our_pod(who).is_some_and(|pod| {
        let former = pod.meta.incarnation != Some(life);
        let unfit =
            standing(draft.snap, pod) == Standing::Unsent || resize::gets_a_new_pod(draft, pod);
        !pod.meta.deleting && (former || unfit || !draft.revisions.is_current(pod.revision()))
    })
}

/// Takes one member's turn; true if those after it have to wait.
fn one(draft: &mut Draft<'_>, turn: &Turn, waiting: bool) -> bool {
    let member = draft.snap.name_of(turn.who);
    let action = turn.action;
    if waiting {
        draft.step(action, Some(member), &turn.cause, StepState::Idle);
        return true;
    }
    let target = match turn.method {
        Method::InPlace => draft.revisions.target.clone(),
        _ => String::new(),
    };
    !draft.change(turn.who, turn.method, action, &turn.cause, &target)
}
