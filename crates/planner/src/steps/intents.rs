//! Intents that were stored: which are over, and which are somebody else's.

use crate::cast::Cast;
use crate::memory::Kind;
use crate::plan::blocker;
use crate::safety;
use crate::sheet::Sheet;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::status::Intent;
use ensemble_api::{Reason, labels};
use serde_json::json;
use std::collections::BTreeSet;

/// How long another controller's intent is given to end by itself.
const FOREIGN_PATIENCE_SECONDS: u32 = 4;

/// What became of the intents that were stored.
#[must_use]
pub struct Settled {
    /// The pods of those that are over, ours and others', by uid.
    over: BTreeSet<String>,
}

impl Settled {
    /// Whether an intent is still to be carried out, or on its way.
    pub fn is_open(&self, intent: &Intent) -> bool {
        !self.over.contains(&intent.uid)
    }
}

/// Drops what is over. A foreign intent is made impossible first: the target is touched, so that a
/// late write of the other controller fails its precondition; then the intent is cleared.
pub fn settle(snap: &Cast<'_>, sheet: &mut Sheet<'_>) -> Settled {
    let mut over = BTreeSet::new();
    for intent in &snap.ensemble.status.in_flight {
        let refused = snap.memory.cancelled.contains(&intent.uid) && intent.epoch == snap.epoch;
        if refused || !safety::intent_is_live(snap, intent) {
            over.insert(intent.uid.clone());
            continue;
        }
        if intent.epoch == snap.epoch {
            continue;
        }
        let pod = &snap.pods[&intent.member];
        let epoch = snap.epoch.to_string();
        if pod.meta.annotations.get(labels::TOUCHED) == Some(&epoch) {
            over.insert(intent.uid.clone());
            continue;
        }
        // It may be under way: an eviction that is cut off in the middle uses up the budget until
        // that is taken back, so it is given a while to end.
        let since = snap.memory.pod(&intent.uid).foreign_since;
        let since = since.unwrap_or(snap.now);
        let patience = since.plus_seconds(FOREIGN_PATIENCE_SECONDS);
        if patience <= snap.now {
            let body = json!({"metadata": {"annotations": {labels::TOUCHED: epoch}}});
            sheet.write(Write::Patch {
                kind: Kind::Pod,
                pin: pod.meta.pin.clone(),
                body,
            });
        } else {
            sheet.wake(patience);
        }
        let message = format!(
            "{} was to be disrupted by epoch {}",
            intent.member, intent.epoch
        );
        let blocker = blocker(snap, Reason::ForeignIntent, message);
        sheet.block(
            Action::Maintain,
            Some(intent.member.clone()),
            "a controller before us",
            blocker,
        );
    }
    Settled { over }
}
