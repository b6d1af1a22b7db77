//! The Ensemble is being deleted. Its pods go with it, by their owner; its claims stay unless policy
//! says otherwise, and then they are written down, deleted one by one, and the finalizer is taken
//! away.

use crate::cast::Cast;
use crate::memory::Kind;
use crate::plan::{Plan, blocker};
use crate::revision::Revisions;
use crate::safety::Safety;
use crate::sheet::Sheet;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::spec::Keep;
use ensemble_api::status::{LET_GO_MAX, LetGo};
use ensemble_api::{Reason, labels};
use serde_json::json;
use std::collections::BTreeSet;

/// Lets go what is to go.
pub fn run(
    snap: &Cast<'_>,
    revisions: &Revisions,
    safety: &Safety<'_>,
    mut sheet: Sheet<'_>,
) -> Plan {
    let meta = &snap.ensemble.meta;
    let message = "the Ensemble is being deleted".to_owned();
    let blocker = blocker(snap, Reason::Deleting, message);
    sheet.block(Action::Remove, None, "deleted by the user", blocker);
    if !meta.finalizers.iter().any(|f| f == labels::FINALIZER) {
        return super::status::deleting(snap, revisions, safety, sheet, None);
    }
    if snap.ensemble.spec.storage.when_deleted == Keep::Delete && !orphaned(snap) {
        let let_go = super::claims::let_go(snap, written_down(snap), safety, &mut sheet);
        if let_go.iter().any(|entry| !told_to_go(snap, entry)) {
            return super::status::deleting(snap, revisions, safety, sheet, Some(let_go));
        }
    }
    let finalizers: Vec<&String> = meta
        .finalizers
        .iter()
        .filter(|f| *f != labels::FINALIZER)
        .collect();
    let body = json!({"metadata": {"finalizers": finalizers}});
    sheet.write(Write::Patch {
        kind: Kind::Ensemble,
        pin: meta.pin.clone(),
        body,
    });
    super::status::deleting(snap, revisions, safety, sheet, None)
}

/// Whoever orphans the pods means to keep the data: the finalizer `orphan` says so while it is
/// there, and pods of ours without an owner say so afterwards.
fn orphaned(snap: &Cast<'_>) -> bool {
    snap.ensemble.meta.finalizers.iter().any(|f| f == "orphan") || snap.any_orphan()
}

/// Every claim of ours, added to what was let go before; as many as a status holds at a time. Those that
/// were told to go make room for the rest.
fn written_down(snap: &Cast<'_>) -> Vec<LetGo> {
    let mut let_go = snap.ensemble.status.let_go.clone();
    let known: BTreeSet<&str> = let_go.iter().map(|l| l.uid.as_str()).collect();
    let ours = snap.claims.values().filter(|claim| {
        let named = known.contains(claim.meta.pin.uid.as_str());
        !named && !claim.meta.deleting && snap.roster().of_claim(claim).is_some()
    });
    let more: Vec<LetGo> = ours
        .map(|claim| LetGo {
            claim: claim.meta.pin.name.clone(),
            uid: claim.meta.pin.uid.clone(),
            consent: "storage.whenDeleted".into(),
        })
        .collect();
    if let_go.len() + more.len() > LET_GO_MAX {
        let_go.retain(|entry| !told_to_go(snap, entry));
    }
    let room = LET_GO_MAX.saturating_sub(let_go.len());
    let_go.extend(more.into_iter().take(room));
    let_go
}

fn told_to_go(snap: &Cast<'_>, entry: &LetGo) -> bool {
    let claim = snap.claims.get(&entry.claim);
    claim.is_none_or(|c| c.meta.pin.uid != entry.uid || c.meta.deleting)
}
