//! Claims: created for members that never were, never for members that were.

use crate::cast::Cast;
use crate::claims::{self, ClaimGroup};
use crate::memory::Kind;
use crate::plan::{Draft, blocker};
use crate::presence::Presence;
use crate::render;
use crate::roster::MemberId;
use crate::safety::Safety;
use crate::sheet::Sheet;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::spec::Keep;
use ensemble_api::status::LetGo;
use ensemble_api::{Reason, StepState, labels};

/// Raises the ledger, creates what is missing, reports what may not be created, lets go what policy
/// lets go.
pub fn run(draft: &mut Draft<'_>) {
    births(draft);
    remember_claims(draft);
    draft.ledger.cover(draft.snap.wanted());
    if claims::data_missing(draft.snap, &draft.ledger) {
        draft.halted = true;
        let message = "members were used before, and no claim of any of them is left".to_owned();
        let blocker = blocker(draft.snap, Reason::DataMissing, message);
        draft
            .sheet
            .block(Action::Create, None, "members are missing", blocker);
        return;
    }
    let snap = draft.snap;
    for who in snap.wanted() {
        one(draft, who);
    }
    scaled_away(draft);
    let entries = std::mem::take(&mut draft.let_go);
    draft.let_go = let_go(snap, entries, &draft.safety, &mut draft.sheet);
}

/// Whoever is Ready was born, unless its pod is the last of a life that was given up.
fn births(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    let ready = snap
        .members()
        .filter(|m| snap.presence(*m) == Presence::Serving)
        .filter(|m| {
            snap.life(*m)
                .is_none_or(|l| l == draft.ledger.incarnation(*m))
        });
    let ready: Vec<MemberId> = ready.collect();
    for member in ready {
        draft.ledger.bear(member);
    }
}

/// Writes down which claims whoever was born was born on, so that others in their place are noticed.
fn remember_claims(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    for who in snap.wanted() {
        let born = draft.ledger.is_born(who);
        if !born || snap.group(&draft.ledger, who) != ClaimGroup::Complete {
            continue;
        }
        let marks = claims::marks(snap, who);
        if !marks.is_empty() && draft.ledger.marks(who) != Some(&marks) {
            draft.ledger.set_marks(who, marks);
        }
    }
}

/// Whether the stored ledger covers a member in its present life: nothing is created before.
pub fn ledger_covers(draft: &Draft<'_>, who: MemberId) -> bool {
    crate::mutants::is_off("ledger-first")
        || draft.stored.covers(who)
            && !draft.rebuilding.contains(&who)
            && draft.stored.incarnation(who) == draft.ledger.incarnation(who)
}

fn one(draft: &mut Draft<'_>, who: MemberId) {
    let snap = draft.snap;
    let group = snap.group(&draft.ledger, who);
    if group == ClaimGroup::Complete {
        return;
    }
    let member = snap.roster().name(who);
    let (reason, message) = match group {
        ClaimGroup::Complete => return,
        ClaimGroup::Creating { missing } => return create(draft, who, &missing),
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
    draft.sheet.block(
        Action::Create,
        Some(member),
        "a member's claims are one unit",
        blocker,
    );
}

fn create(draft: &mut Draft<'_>, who: MemberId, missing: &[String]) {
    let snap = draft.snap;
    let member = snap.roster().name(who);
    if !ledger_covers(draft, who) || draft.usable.is_none() {
        return draft
            .sheet
            .step(Action::Create, Some(member), "asked for", StepState::Next);
    }
    let life = draft.ledger.incarnation(who);
    for claim in snap
        .ensemble
        .spec
        .claims
        .iter()
        .filter(|c| missing.contains(&c.name))
    {
        let key = (Kind::Claim, snap.roster().claim(&claim.name, who));
        if super::members::name_is_taken(draft, &key, &member) {
            return;
        }
        let body = render::claim(snap, &claim.name, &claim.spec.0, who, life);
        draft.sheet.write(Write::Create {
            kind: Kind::Claim,
            body,
        });
        if super::members::report_failure(draft, &key, &member) {
            return;
        }
    }
    draft.sheet.step(
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
    let mut members: Vec<MemberId> = snap
        .claimants()
        .filter(|m| !snap.roster().wants(*m))
        .collect();
    members.dedup();
    for who in members {
        let used = snap.our_pod(who).is_some();
        let known = snap.ensemble.spec.claims.iter().any(|c| {
            let name = snap.roster().claim(&c.name, who);
            draft.let_go.iter().any(|l| l.claim == name)
        });
        if !used && !known {
            super::requests::renew(draft, who, "storage.whenScaled");
        }
    }
}

/// Deletes what was written down as let go; forgets what is gone.
pub fn let_go(
    snap: &Cast<'_>,
    mut entries: Vec<LetGo>,
    safety: &Safety<'_>,
    sheet: &mut Sheet<'_>,
) -> Vec<LetGo> {
    entries.retain(|entry| {
        let found = snap.claims.get(&entry.claim);
        found.is_some_and(|c| c.meta.pin.uid == entry.uid)
    });
    // Only what is stored counts as written down.
    let unwritten = crate::mutants::is_off("let-go-written-first").then_some(&entries);
    for entry in unwritten.unwrap_or(&snap.ensemble.status.let_go) {
        if let Ok(letting) = safety.let_go(entry) {
            sheet.step(Action::LetGo, None, &entry.consent, StepState::Running);
            sheet.let_go(letting);
        }
    }
    entries
}
