//! Intents that were stored: which are over, and which are somebody else's.

use crate::memory::Kind;
use crate::plan::{Draft, blocker};
use crate::safety;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::{Reason, labels};
use serde_json::json;

/// How long another controller's intent is given to end by itself.
const FOREIGN_PATIENCE_SECONDS: u32 = 4;

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
        // It may be under way: an eviction that is cut off in the middle uses up the budget until
        // that is taken back, so it is given a while to end.
        let since = snap.memory.pod(&intent.uid).foreign_since;
        let since = since.unwrap_or(snap.now);
        let patience = since.plus_seconds(FOREIGN_PATIENCE_SECONDS);
        if patience <= snap.now {
            let body = json!({"metadata": {"annotations": {labels::TOUCHED: epoch}}});
            draft.sheet.write(Write::Patch {
                kind: Kind::Pod,
                pin: pod.meta.pin.clone(),
                body,
            });
        } else {
            draft.sheet.wake(patience);
        }
        let message = format!(
            "{} was to be disrupted by epoch {}",
            intent.member, intent.epoch
        );
        let blocker = blocker(snap, Reason::ForeignIntent, message);
        draft.sheet.block(
            Action::Maintain,
            Some(intent.member.clone()),
            "a controller before us",
            blocker,
        );
    }
}
