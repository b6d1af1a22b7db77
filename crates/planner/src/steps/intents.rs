//! Intents that were stored: which are over, and which are somebody else's.

use crate::memory::Kind;
use crate::plan::{Draft, blocker};
use crate::safety;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::{Reason, labels};
use serde_json::json;

/// Drops what is over. A foreign intent is made impossible first: the target is touched, so that a
/// late write of the other controller fails its precondition; then the intent is cleared.
pub fn run(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    for intent in &snap.ensemble.status.in_flight {
        let refused = snap.memory.cancelled.contains(&intent.uid) && intent.epoch == snap.epoch;
        if refused || !safety::intent_is_live(snap, intent) {
            draft.over.insert(intent.uid.clone());
            continue;
        }
        if intent.epoch == snap.epoch {
            continue;
        }
        let pod = &snap.pods[&intent.member];
        let epoch = snap.epoch.to_string();
        if pod.meta.annotations.get(labels::TOUCHED) == Some(&epoch) {
            draft.over.insert(intent.uid.clone());
            continue;
        }
        let body = json!({"metadata": {"annotations": {labels::TOUCHED: epoch}}});
        draft.write(Write::Patch { kind: Kind::Pod, pin: pod.meta.pin.clone(), body });
        let message = format!("{} was to be disrupted by epoch {}", intent.member, intent.epoch);
        let blocker = blocker(snap, Reason::ForeignIntent, message);
        draft.block(Action::Maintain, Some(intent.member.clone()), "a controller before us", blocker);
    }
}
