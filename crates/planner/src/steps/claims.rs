//! Claims: created for members that never were, never for members that were.

use crate::claims::{self, ClaimGroup};
use crate::memory::Kind;
use crate::plan::{Draft, blocker};
use crate::presence::Presence;
use crate::render;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::spec::Keep;
use ensemble_api::{Reason, StepState, labels, names};

/// Raises the ledger, creates what is missing, reports what may not be created, lets go what policy
/// lets go.
pub fn run(draft: &mut Draft<'_>) {
    births(draft);
    remember_claims(draft);
    draft.ledger.next = draft.ledger.next.max(draft.snap.replicas());
    if claims::data_missing(draft.snap, &draft.ledger) {
        draft.halted = true;
        let message = "members were used before, and no claim of any of them is left".to_owned();
        let blocker = blocker(draft.snap, Reason::DataMissing, message);
        draft.block(Action::Create, None, "members are missing", blocker);
        return;
    }
    for ordinal in 0..draft.snap.replicas() {
        one(draft, ordinal);
    }
    scaled_away(draft);
    let_go(draft);
}

/// Whoever is Ready was born, unless its pod is the last of a life that was given up.
fn births(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    let ready = snap
        .pod_ordinals()
        .filter(|o| snap.presence(*o) == Presence::Serving)
        .filter(|o| {
            snap.life(*o)
                .is_none_or(|l| l == draft.ledger.incarnation(*o))
        });
    let ready: Vec<u32> = ready.collect();
    draft.ledger.born.extend(ready);
}

/// Writes down which claims whoever was born was born on, so that others in their place are noticed.
fn remember_claims(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    for ordinal in 0..snap.replicas() {
        let born = draft.ledger.born.contains(&ordinal);
        if !born || snap.group(&draft.ledger, ordinal) != ClaimGroup::Complete {
            continue;
        }
        let marks = claims::marks(snap, ordinal);
        if !marks.is_empty() && draft.ledger.claims.get(&ordinal) != Some(&marks) {
            draft.ledger.claims.insert(ordinal, marks);
        }
    }
}

/// Whether the stored ledger covers an ordinal in its present life: nothing is created before.
pub fn ledger_covers(draft: &Draft<'_>, ordinal: u32) -> bool {
    crate::mutants::is_off("ledger-first")
        || ordinal < draft.stored.next
            && !draft.rebuilding.contains(&ordinal)
            && draft.stored.incarnation(ordinal) == draft.ledger.incarnation(ordinal)
}

fn one(draft: &mut Draft<'_>, ordinal: u32) {
    let snap = draft.snap;
    let group = snap.group(&draft.ledger, ordinal);
    if group == ClaimGroup::Complete {
        return;
    }
    let member = names::pod(snap.name(), ordinal);
    let (reason, message) = match group {
        ClaimGroup::Complete => return,
        ClaimGroup::Creating { missing } => return create(draft, ordinal, &missing),
        ClaimGroup::Incomplete { missing } => (
            Reason::ClaimMissing,
            format!(
                "{member} was used before and its claim {} is gone",
                missing.join(", ")
            ),
        ),
        ClaimGroup::Ending { claim } => (
            Reason::ClaimEnding,
            format!("claim {claim} of {member} is being deleted"),
        ),
        ClaimGroup::Replaced { claim, was, is } => (
            Reason::ClaimReplaced,
            format!(
                "claim {claim} is {is}, and {member} was born on {was}; if its volume holds {member}'s \
                 data: kubectl annotate pvc {claim} --namespace {} {}={is}",
                snap.ensemble.namespace,
                labels::ACCEPTED
            ),
        ),
        ClaimGroup::Lost { claim } => (
            Reason::ClaimLost,
            format!("the volume of claim {claim} of {member} is lost"),
        ),
        ClaimGroup::Taken { claim } if draft.let_go.iter().any(|l| l.claim == claim) => (
            Reason::Terminating,
            format!("claim {claim} of the former {member} is being let go"),
        ),
        ClaimGroup::Taken { claim } => (
            Reason::NameTaken,
            format!("claim {claim} exists and is not {member}'s"),
        ),
    };
    let blocker = blocker(snap, reason, message);
    draft.block(
        Action::Create,
        Some(member),
        "a member's claims are one unit",
        blocker,
    );
}

fn create(draft: &mut Draft<'_>, ordinal: u32, missing: &[String]) {
    let snap = draft.snap;
    let member = names::pod(snap.name(), ordinal);
    if !ledger_covers(draft, ordinal) || draft.usable.is_none() {
        return draft.step(Action::Create, Some(member), "asked for", StepState::Next);
    }
    let life = draft.ledger.incarnation(ordinal);
    for claim in snap
        .ensemble
        .spec
        .claims
        .iter()
        .filter(|c| missing.contains(&c.name))
    {
        let key = (Kind::Claim, names::claim(&claim.name, snap.name(), ordinal));
        if super::members::name_is_taken(draft, &key, &member) {
            return;
        }
        let body = render::claim(snap, &claim.name, &claim.spec.0, ordinal, life);
        draft.write(Write::Create {
            kind: Kind::Claim,
            body,
        });
        if super::members::report_failure(draft, &key, &member) {
            return;
        }
    }
    draft.step(
        Action::Create,
        Some(member),
        "asked for",
        StepState::Running,
    );
}

/// The claims of members that scaling in has removed, if policy says so, once nobody uses them.
fn scaled_away(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    if snap.ensemble.spec.storage.when_scaled == Keep::Retain {
        return;
    }
    let mut ordinals: Vec<u32> = snap
        .claim_ordinals()
        .filter(|o| *o >= snap.replicas())
        .collect();
    ordinals.dedup();
    for ordinal in ordinals {
        let used = snap.our_pod(ordinal).is_some();
        let known = snap.ensemble.spec.claims.iter().any(|c| {
            let name = names::claim(&c.name, snap.name(), ordinal);
            draft.let_go.iter().any(|l| l.claim == name)
        });
        if !used && !known {
            super::requests::renew(draft, ordinal, "storage.whenScaled");
        }
    }
}

/// Deletes what was written down as let go; forgets what is gone.
pub fn let_go(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    draft.let_go.retain(|entry| {
        let found = snap.claims.get(&entry.claim);
        found.is_some_and(|c| c.meta.pin.uid == entry.uid)
    });
    // Only what is stored counts as written down.
    let unwritten = crate::mutants::is_off("let-go-written-first").then(|| draft.let_go.clone());
    for entry in unwritten.as_ref().unwrap_or(&snap.ensemble.status.let_go) {
        if let Ok(letting) = draft.safety.let_go(entry) {
            draft.step(Action::LetGo, None, &entry.consent, StepState::Running);
            draft.lettings.push(letting);
        }
    }
}
