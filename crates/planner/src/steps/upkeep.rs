//! What stands around the members: Services, the disruption budget, old revisions, and
//! the marks that outlive a lost status.

use crate::cast::Cast;
use crate::ledger::Ledgers;
use crate::memory::Kind;
use crate::plan::blocker;
use crate::render::Wanted;
use crate::revision::Revisions;
use crate::sheet::Sheet;
use crate::steps::claims::Claimed;
use crate::steps::services;
use crate::view::{BudgetView, Meta};
use crate::write::Write;
use crate::zones;
use ensemble_api::report::Action;
use ensemble_api::spec::{Disruption, Keep};
use ensemble_api::{Reason, labels, names};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Whether the marks in the Ensemble's metadata are as they are to be.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Marked {
    /// They are, or it is refused for good.
    Settled,
    /// They are being written. They are to outlive the status, which waits for them.
    Pending,
}

/// Keeps it all in order.
pub fn run(
    snap: &Cast<'_>,
    revisions: &Revisions,
    claimed: &Claimed,
    sheet: &mut Sheet<'_>,
) -> Marked {
    services::run(snap, sheet);
    budgets(snap, sheet);
    old_revisions(snap, revisions, sheet);
    zones(snap, sheet);
    marks(snap, &claimed.lives.ledgers, sheet)
}

/// Whether an object of ours was made of something else than what is wanted, or lost its owner.
fn is_out_of_date(found: &Meta, wanted: &Wanted) -> bool {
    found.controller.is_none() || found.annotations.get(labels::MADE_OF) != wanted.stamp.as_ref()
}

/// Budgets as they are to be; ours stand down where somebody else's selects the members.
fn budgets(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    let all = [
        names::budget(snap.name()),
        names::primary(snap.name()),
        names::replicas(snap.name()),
    ];
    let is_ours = |b: &BudgetView| {
        let owner = b.meta.controller.as_deref();
        // Without an owner: left by a former Ensemble of this name.
        let left = owner.is_none() && b.meta.label(labels::ENSEMBLE) == snap.name();
        all.contains(&b.meta.pin.name) && (left || owner == Some(snap.ensemble.uid()))
    };
    let from_spec = snap.from_spec();
    let member = &from_spec.member_labels;
    let foreign = snap
        .budgets
        .values()
        .find(|b| !is_ours(b) && b.selector.as_ref().is_some_and(|s| s.selects(member)));
    if let Some(foreign) = foreign {
        let message = format!(
            "budget {} selects the members, ours stands down",
            foreign.meta.pin.name
        );
        let blocker = blocker(snap, Reason::ForeignBudget, message);
        if snap.ensemble.spec.disruption == Disruption::Managed {
            sheet.block(Action::Maintain, None, "disruption: Managed", blocker);
        }
    }
    let managed = snap.ensemble.spec.disruption == Disruption::Managed && foreign.is_none();
    let wanted: &[Wanted] = if managed { &from_spec.budgets } else { &[] };
    for name in &all {
        let wanted = wanted.iter().find(|b| b.name == *name);
        let ours = snap.budgets.get(name).filter(|b| is_ours(b));
        budget(snap, name, wanted, ours, sheet);
    }
}

fn budget(
    snap: &Cast<'_>,
    name: &str,
    wanted: Option<&Wanted>,
    ours: Option<&BudgetView>,
    sheet: &mut Sheet<'_>,
) {
    let kind = Kind::Budget;
    match (wanted, ours) {
        // A foreign budget of our name that does not select us is nobody's business.
        (Some(wanted), None) if !snap.budgets.contains_key(name) => {
            let body = wanted.body(snap);
            sheet.write(Write::Create { kind, body });
        }
        (Some(wanted), Some(found)) => {
            let minimum = &wanted.spec["minAvailable"];
            let same = found.min_available == minimum.as_i64();
            let stamped = wanted.stamp.is_some();
            let stale =
                found.meta.controller.is_none() || stamped && is_out_of_date(&found.meta, wanted);
            if same && !stale {
                return;
            }
            let mut patch = wanted.refresh(snap);
            // One excludes the other.
            patch["spec"]["maxUnavailable"] = Value::Null;
            let pin = found.meta.pin.clone();
            sheet.write(Write::Patch {
                kind,
                pin,
                body: patch,
            });
        }
        (None, Some(found)) if !found.meta.deleting => {
            sheet.write(Write::Discard {
                kind,
                pin: found.meta.pin.clone(),
            });
        }
        _ => {}
    }
}

/// Revisions beyond the limit that nobody uses, the oldest first.
fn old_revisions(snap: &Cast<'_>, revisions: &Revisions, sheet: &mut Sheet<'_>) {
    let mut used: BTreeSet<&str> = snap.pods.values().map(|p| p.revision()).collect();
    used.insert(&revisions.target);
    used.insert(snap.ensemble.status.current_revision());
    used.extend(revisions.same.iter().map(String::as_str));
    let mut idle: Vec<_> = snap
        .revisions
        .values()
        .filter(|r| !used.contains(r.meta.pin.name.as_str()) && !r.meta.deleting)
        .filter(|r| r.meta.controller.as_deref() == Some(snap.ensemble.uid()))
        .collect();
    idle.sort_by_key(|r| r.number);
    let excess = idle
        .len()
        .saturating_sub(snap.ensemble.spec.revision_history_limit as usize);
    let pins: Vec<_> = idle
        .into_iter()
        .take(excess)
        .map(|r| r.meta.pin.clone())
        .collect();
    for pin in pins {
        sheet.write(Write::Discard {
            kind: Kind::Revision,
            pin,
        });
    }
}

/// Claims remember in which zone their member is; and it is said if one zone holds too many voters.
fn zones(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    for (claim, zone) in zones::unmarked(snap) {
        sheet.write(Write::Patch {
            kind: Kind::Claim,
            pin: claim.meta.pin.clone(),
            body: json!({"metadata": {"labels": {labels::ZONE: zone}}}),
        });
    }
    if let Some(message) = zones::decisive(snap) {
        let blocker = blocker(snap, Reason::ZoneHoldsQuorum, message);
        sheet.block(Action::Maintain, None, "spec.zones", blocker);
    }
}

/// What must outlive a lost status, and the finalizer of claims that go with the Ensemble.
fn marks(snap: &Cast<'_>, ledgers: &Ledgers, sheet: &mut Sheet<'_>) -> Marked {
    let meta = &snap.ensemble.meta;
    let has_claims = !snap.ensemble.spec.claims.is_empty();
    let mut body = json!({"metadata": {}});
    let born = ledgers.anyone_born() && has_claims;
    if born && !meta.annotations.contains_key(labels::BORN) {
        body["metadata"]["annotations"] = json!({labels::BORN: "true"});
    }
    let wanted = has_claims && snap.ensemble.spec.storage.when_deleted == Keep::Delete;
    let present = meta.finalizers.iter().any(|f| f == labels::FINALIZER);
    if wanted != present {
        let mut finalizers = meta.finalizers.clone();
        finalizers.retain(|f| f != labels::FINALIZER);
        if wanted {
            finalizers.push(labels::FINALIZER.into());
        }
        body["metadata"]["finalizers"] = json!(finalizers);
    }
    if body["metadata"].as_object().is_none_or(|m| m.is_empty()) {
        return Marked::Settled;
    }
    let key = (Kind::Ensemble, meta.pin.name.clone());
    sheet.write(Write::Patch {
        kind: Kind::Ensemble,
        pin: meta.pin.clone(),
        body,
    });
    // If it is refused for good, the status must not wait for it for ever; that another write
    // was faster is over in a moment.
    match snap.memory.failures.get(&key) {
        Some(failure) if failure.reason != Reason::Conflict => Marked::Settled,
        _ => Marked::Pending,
    }
}
