//! Scaling in: from the highest ordinal, within the budget.

use crate::plan::Draft;
use ensemble_api::StepState;
use ensemble_api::report::Action;
use ensemble_api::status::Method;

/// Removes members that are no longer asked for.
pub fn run(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    let cause = format!("replicas is {}", snap.roster().size());
    let mut waiting = false;
    for who in snap.surplus().rev() {
        let member = snap.roster().name(who);
        if snap.our_pod(who).is_some_and(|p| p.meta.deleting) {
            draft.step(Action::Remove, Some(member), &cause, StepState::Running);
            continue;
        }
        if waiting {
            draft.step(Action::Remove, Some(member), &cause, StepState::Idle);
            continue;
        }
        waiting = !draft.disrupt(who, Method::Remove, Action::Remove, &cause);
    }
}
