//! When a pod that a budget counts as evicted is known to live on.

use super::Safety;
use crate::time::Time;
use crate::view::PodView;
use ensemble_api::Rule;

/// For how long a pod has lived beside the same entry before the entry is taken for a mistake. In an
/// eviction under way, anybody's, the delete follows the entry within milliseconds; to take that entry
/// back would let the budget spare another pod. The entry's own time is not looked at: it is by another
/// clock.
const MISCOUNTED_MS: i64 = 3_000;

impl Safety<'_> {
    /// From when on that pod's entry in that budget may be taken back.
    pub fn lives_on_from(&self, budget: &str, entry: &str, pod: &PodView) -> Time {
        let snap = self.snap;
        if crate::mutants::is_off(Rule::EvictionLetFinish) {
            return snap.now;
        }
        let pin = &pod.meta.pin;
        let known = snap
            .memory
            .miscounted
            .get(&(budget.into(), pin.name.clone()));
        let same = known.filter(|m| m.is_of(&pin.uid, entry));
        same.map_or(snap.now, |m| m.since).plus_ms(MISCOUNTED_MS)
    }
}
