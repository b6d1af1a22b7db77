//! Names that something else has, or something of ours that our watch does not show yet.

use crate::Time;
use crate::conductor::Conductor;
use ensemble_api::{Reason, labels};
use ensemble_planner::memory::{Key, Taken};
use ensemble_planner::view::Meta;
use serde_json::Value;

impl Conductor {
    /// Something of that name exists that our watch does not show: it is looked at.
    pub(crate) fn name_taken(&mut self, now: Time, key: Key) {
        let taken = Taken {
            pin: Default::default(),
            ours_by_owner: false,
            since: now,
            retry_at: now,
        };
        self.memory().taken.entry(key).or_insert(taken);
    }

    /// Whose it is, by what was found under that name.
    pub(crate) fn looked(&mut self, now: Time, key: Key, object: &Value) {
        let meta = Meta::read(object);
        let snap = &self.world.snap;
        let owned = meta.controller.as_deref() == Some(snap.ensemble.uid());
        let labelled = meta.label(labels::ENSEMBLE) == snap.name();
        if labelled && (owned || meta.controller.is_none()) {
            // Ours: the watch is about to show it.
            self.memory().taken.remove(&key);
            return self.fail(
                now,
                key,
                Reason::Conflict,
                "exists already and is ours".into(),
            );
        }
        let before = snap.memory.taken.get(&key).map(|t| t.since).unwrap_or(now);
        let waited = (now.0 - before.0).clamp(1_000, 30_000);
        let taken = Taken {
            pin: meta.pin,
            ours_by_owner: owned,
            since: before,
            retry_at: now.plus_ms(waited),
        };
        let memory = self.memory();
        memory.failures.remove(&key);
        memory.taken.insert(key, taken);
    }
}
