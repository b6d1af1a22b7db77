//! What the API server's evictions can be relied on for: when a pod that a budget counts as evicted is
//! known to live on, and which version of a pod an eviction is about.

use super::Safety;
use crate::presence::Presence;
use crate::roster::MemberId;
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

    /// Whether an API server may evict a member whatever version the eviction names. It puts the
    /// version that it reads in the place of ours if the pod is not Ready and its budget spares such
    /// pods, so a late eviction of a controller that was overtaken would get through. A plain delete
    /// holds it to the version, and no budget counts a pod that is not Ready. Somebody else's budget is
    /// asked all the same: it may be there to keep everybody's hands off.
    pub(super) fn evictable_at_any_version(&self, who: MemberId) -> bool {
        let snap = self.snap;
        let ready = snap.presence(who) == Presence::Serving;
        if ready || crate::mutants::is_off(Rule::UnreadyByVersion) {
            return false;
        }
        !self.is_in_anothers_budget(who)
    }

    /// Whether a budget that is not ours selects a member.
    pub(super) fn is_in_anothers_budget(&self, who: MemberId) -> bool {
        let snap = self.snap;
        let uid = snap.ensemble.uid();
        let others = snap
            .budgets
            .values()
            .filter(|b| b.meta.controller.as_deref() != Some(uid));
        let mut selectors = others.filter_map(|b| b.selector.as_ref());
        let pod = snap.our_pod(who);
        selectors.any(|s| pod.is_some_and(|p| s.selects(&p.meta.labels)))
    }
}
