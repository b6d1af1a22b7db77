//! The rollout: which member next. Down first, for they cost nobody anything; then those that are
//! not Ready; then from the highest ordinal, within the budget.

use crate::plan::{Draft, blocker};
use crate::presence::Presence;
use ensemble_api::report::Action;
use ensemble_api::status::Method;
use ensemble_api::{Reason, StepState, names};

/// Recreates outdated members.
pub fn run(draft: &mut Draft<'_>) {
    let outdated = outdated(draft);
    if outdated.is_empty() {
        return;
    }
    let from = draft.snap.ensemble.status.current_revision.clone();
    let cause = if from.is_empty() {
        "the template changed".to_owned()
    } else {
        format!(
            "the template changed ({from} -> {})",
            draft.revisions.target
        )
    };
    if draft.snap.ensemble.spec.rollout.paused {
        let message = format!("{} members wait: the rollout is paused", outdated.len());
        let blocker = blocker(draft.snap, Reason::Paused, message);
        return draft.block(Action::Recreate, None, &cause, blocker);
    }
    if draft.usable.as_ref() != Some(&draft.revisions.target) {
        // Not tried or not pulled yet: the step that prepares speaks for it.
        for ordinal in outdated {
            let member = names::pod(draft.snap.name(), ordinal);
            draft.step(Action::Recreate, Some(member), &cause, StepState::Idle);
        }
        return;
    }
    let mut waiting = false;
    for ordinal in outdated {
        waiting = one(draft, ordinal, &cause, waiting);
    }
}

/// Members that are asked for and run something else than the target, in the order of their turn.
fn outdated(draft: &Draft<'_>) -> Vec<u32> {
    let snap = draft.snap;
    let turn = |ordinal: u32| match snap.presence(ordinal) {
        Presence::Down(_) => 0,
        Presence::Unhealthy | Presence::Starting | Presence::Unreachable => 1,
        _ => 2,
    };
    let mut ordinals: Vec<u32> = snap
        .pod_ordinals()
        .filter(|o| *o < snap.replicas())
        .filter(|o| is_outdated(draft, *o))
        .collect();
    ordinals.sort_by_key(|o| (turn(*o), std::cmp::Reverse(*o)));
    ordinals
}

fn is_outdated(draft: &Draft<'_>, ordinal: u32) -> bool {
    let life = draft.ledger.incarnation(ordinal);
    draft.snap.our_pod(ordinal).is_some_and(|pod| {
        let former = pod.meta.incarnation != Some(life);
        !pod.meta.deleting && (former || !draft.revisions.is_current(pod.revision()))
    })
}

/// Takes one member's turn; true if those after it have to wait.
fn one(draft: &mut Draft<'_>, ordinal: u32, cause: &str, waiting: bool) -> bool {
    let member = names::pod(draft.snap.name(), ordinal);
    if waiting {
        draft.step(Action::Recreate, Some(member), cause, StepState::Idle);
        return true;
    }
    !draft.disrupt(ordinal, Method::Recreate, Action::Recreate, cause)
}
