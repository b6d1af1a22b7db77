//! The Ensemble is being deleted. Its pods go with it, by their owner; its claims stay unless policy
//! says otherwise, and then they are written down, deleted one by one, and the finalizer is taken
//! away.

use crate::memory::Kind;
use crate::plan::{Draft, Plan, blocker};
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::spec::Keep;
use ensemble_api::status::LetGo;
use ensemble_api::{Reason, labels};
use serde_json::json;

/// Lets go what is to go.
pub fn run(mut draft: Draft<'_>) -> Plan {
    let snap = draft.snap;
    let meta = &snap.ensemble.meta;
    let message = "the Ensemble is being deleted".to_owned();
    let blocker = blocker(snap, Reason::Deleting, message);
    draft.block(Action::Remove, None, "deleted by the user", blocker);
    if !meta.finalizers.iter().any(|f| f == labels::FINALIZER) {
        return super::status::deleting(draft, false);
    }
    let claims_go = snap.ensemble.spec.storage.when_deleted == Keep::Delete && !orphaned(&draft);
    if claims_go {
        write_down(&mut draft);
        super::claims::let_go(&mut draft);
    }
    if claims_go && draft.let_go.iter().any(|entry| !told_to_go(&draft, entry)) {
        return super::status::deleting(draft, true);
    }
    let finalizers: Vec<&String> = meta
        .finalizers
        .iter()
        .filter(|f| *f != labels::FINALIZER)
        .collect();
    let body = json!({"metadata": {"finalizers": finalizers}});
    draft.write(Write::Patch {
        kind: Kind::Ensemble,
        pin: meta.pin.clone(),
        body,
    });
    super::status::deleting(draft, false)
}

/// Whoever orphans the pods means to keep the data: the finalizer `orphan` says so while it is
/// there, and pods of ours without an owner say so afterwards.
fn orphaned(draft: &Draft<'_>) -> bool {
    let snap = draft.snap;
    snap.ensemble.meta.finalizers.iter().any(|f| f == "orphan") || snap.any_orphan()
}

fn write_down(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    for claim in snap.claims.values() {
        let ours = snap.roster().of_claim(claim).is_some();
        let known = draft.let_go.iter().any(|l| l.uid == claim.meta.pin.uid);
        if ours && !known {
            draft.let_go.push(LetGo {
                claim: claim.meta.pin.name.clone(),
                uid: claim.meta.pin.uid.clone(),
                consent: "storage.whenDeleted".into(),
            });
        }
    }
}

fn told_to_go(draft: &Draft<'_>, entry: &LetGo) -> bool {
    let claim = draft.snap.claims.get(&entry.claim);
    claim.is_none_or(|c| c.meta.pin.uid != entry.uid || c.meta.deleting)
}
