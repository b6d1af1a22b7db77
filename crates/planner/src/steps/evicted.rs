//! Members that live although a budget counts them as evicted.
//!
//! The API server enters a pod in its budget first and deletes it then. If the pod changed in between,
//! the delete fails, the pod lives on, and the entry stays. Entries are by name, too: a successor that
//! comes before its predecessor was seen to go inherits the entry. Kubernetes forgets it after two
//! minutes, in which nobody else may be evicted. In budgets of ours we take it back.

use crate::cast::Cast;
use crate::miscount::alive;
use crate::safety::Safety;
use crate::sheet::Sheet;
use crate::snapshot::Snapshot;
use crate::view::BudgetView;
use crate::write::Write;

/// Takes back what is wrong in our own budgets.
pub fn run(snap: &Cast<'_>, safety: &Safety<'_>, sheet: &mut Sheet<'_>) {
    for budget in snap.budgets.values().filter(|b| is_ours(snap, b)) {
        let mut pods = Vec::new();
        for (name, entry, pod) in alive(snap, budget).filter(|m| is_member(snap, m.0)) {
            let due = safety.lives_on_from(&budget.meta.pin.name, entry, pod);
            if due <= snap.now {
                pods.push(name.to_owned());
            } else {
                sheet.wake(due);
            }
        }
        if !pods.is_empty() {
            let budget = budget.meta.pin.clone();
            sheet.write(Write::Uncount { budget, pods });
        }
    }
}

/// Says of a refused eviction who lives although a budget counts it as evicted.
pub fn explain(snap: &Cast<'_>) -> String {
    let mut text = String::new();
    for budget in snap.budgets.values() {
        for (name, since, _) in alive(snap, budget) {
            let end = if is_ours(snap, budget) && is_member(snap, name) {
                "is taken back in a few seconds"
            } else {
                "Kubernetes forgets after two minutes"
            };
            let budget = &budget.meta.pin.name;
            text += &format!(
                "; budget {budget} counts {name} as evicted since {since} although it runs, which {end}"
            );
        }
    }
    text
}

/// By its owner alone: whoever keeps another budget may mean what it says.
fn is_ours(snap: &Snapshot, budget: &BudgetView) -> bool {
    budget.meta.controller.as_deref() == Some(snap.ensemble.uid()) && !budget.meta.deleting
}

fn is_member(snap: &Cast<'_>, pod: &str) -> bool {
    let who = snap.roster().named(pod);
    who.is_some_and(|m| snap.our_pod(m).is_some())
}
