//! Scaling in: from the highest ordinal, within the budget.

use crate::plan::Draft;
use ensemble_api::StepState;
use ensemble_api::names;
use ensemble_api::report::Action;
use ensemble_api::status::Method;

/// Removes members that are no longer asked for.
pub fn run(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    let mut extras: Vec<u32> = snap
        .pod_ordinals()
        .filter(|o| *o >= snap.replicas())
        .collect();
    extras.sort_unstable_by(|a, b| b.cmp(a));
    let cause = format!("replicas is {}", snap.replicas());
    let mut waiting = false;
    for ordinal in extras {
        let member = names::pod(snap.name(), ordinal);
        if snap.our_pod(ordinal).is_some_and(|p| p.meta.deleting) {
            draft.step(Action::Remove, Some(member), &cause, StepState::Running);
            continue;
        }
        if waiting {
            draft.step(Action::Remove, Some(member), &cause, StepState::Idle);
            continue;
        }
        waiting = !draft.disrupt(ordinal, Method::Remove, Action::Remove, &cause);
    }
}
