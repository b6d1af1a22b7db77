//! Members that are being resized: what their kubelets say, and the end of it. What is yet to be
//! asked for, and those that get a new pod instead, are the rollout's.

use crate::cast::Cast;
use crate::memory::Kind;
use crate::plan::blocker;
use crate::resize::{self, Standing};
use crate::revision::Revisions;
use crate::sheet::Sheet;
use crate::view::PodView;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::{Reason, StepState, labels};
use serde_json::{Value, json};

/// Says how far they are, and takes the note off those that are done.
pub fn run(snap: &Cast<'_>, revisions: &Revisions, sheet: &mut Sheet<'_>) {
    for who in snap.members() {
        let Some(pod) = snap.our_pod(who).filter(|p| !p.meta.deleting) else {
            continue;
        };
        let Some(resize) = &pod.resize else { continue };
        if resize.done {
            forget(pod, sheet);
        } else if revisions.is_current(pod.revision()) {
            let member = snap.roster().name(who);
            say(snap, pod, member, &resize.wanted, sheet);
        }
    }
}

fn forget(pod: &PodView, sheet: &mut Sheet<'_>) {
    sheet.write(Write::Patch {
        kind: Kind::Pod,
        pin: pod.meta.pin.clone(),
        body: json!({"metadata": {"annotations": {labels::RESIZES: Value::Null}}}),
    });
}

fn say(snap: &Cast<'_>, pod: &PodView, member: String, wanted: &str, sheet: &mut Sheet<'_>) {
    let (reason, why) = match resize::standing(snap, pod) {
        Standing::Settled | Standing::Unsent => return,
        Standing::Working => {
            let restarting = pod.resize.as_ref().is_some_and(|r| r.restarting);
            let action = if restarting {
                Action::InPlace
            } else {
                Action::Resize
            };
            return sheet.step(action, Some(member), wanted, StepState::Running);
        }
        _ if resize::gets_a_new_pod(snap, pod) => return,
        Standing::Deferred(why) => (Reason::ResizeDeferred, why),
        Standing::Failing(why) => (Reason::ResizeFailing, why),
        Standing::Impossible { why, .. } => (Reason::ResizeInfeasible, why),
    };
    let message = format!("{member} on {} is to have {wanted}: {why}", pod.node);
    let mut blocker = blocker(snap, reason, message);
    blocker.observed = "it serves with what it has".into();
    sheet.block(
        Action::Resize,
        Some(member),
        "the template changed",
        blocker,
    );
}
