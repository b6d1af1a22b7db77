//! Pods that live although a budget counts them as evicted.

use crate::memory::Miscount;
use crate::snapshot::Snapshot;
use crate::view::{BudgetView, PodView};

/// Pods that are there, are not told to end, and count as evicted, as memory keeps them: by budget and
/// pod.
pub fn miscounted(snap: &Snapshot) -> impl Iterator<Item = ((String, String), Miscount)> {
    snap.budgets.values().flat_map(move |budget| {
        alive(snap, budget).map(move |(name, entry, pod)| {
            let key = (budget.meta.pin.name.clone(), name.to_owned());
            let miscount = Miscount {
                uid: pod.meta.pin.uid.clone(),
                entry: entry.to_owned(),
                since: snap.now,
            };
            (key, miscount)
        })
    })
}

/// By name, entry and pod: who is there and not told to end among those that a budget counts as
/// evicted.
pub fn alive<'s>(
    snap: &'s Snapshot,
    budget: &'s BudgetView,
) -> impl Iterator<Item = (&'s str, &'s str, &'s PodView)> {
    budget.evicted.iter().filter_map(|(name, entry)| {
        let pod = snap.pods.get(name).filter(|p| !p.meta.deleting)?;
        Some((name.as_str(), entry.as_str(), pod))
    })
}
