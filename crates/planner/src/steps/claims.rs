//! Claims: created for members that never were, never for members that were.

use crate::cast::Cast;
use crate::claims::{self, ClaimGroup};
use crate::ledger::Ledgers;
use crate::lives::Lives;
use crate::memory::Kind;
use crate::plan::blocker;
use crate::presence::Presence;
use crate::render;
use crate::roster::{MemberId, Place};
use crate::safety::Safety;
use crate::sheet::Sheet;
use crate::steps::prepare::Prepared;
use crate::steps::requests::Answered;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::spec::Keep;
use ensemble_api::status::LetGo;
use ensemble_api::{Reason, Rule, StepState, labels};

/// Where the claims stand, and the ledgers with them.
#[must_use]
pub struct Claimed {
    /// As they are to be stored.
    pub lives: Lives,
    /// All data is missing: nothing at all may be created.
    pub halted: bool,
}

/// Raises the ledger, creates what is missing, reports what may not be created, lets go what policy
/// lets go.
pub fn run(
    snap: &Cast<'_>,
    answered: Answered,
    prepared: &Prepared,
    safety: &Safety<'_>,
    sheet: &mut Sheet<'_>,
) -> Claimed {
    let Answered { mut lives } = answered;
    births(snap, &mut lives.ledgers);
    remember_claims(snap, &mut lives.ledgers);
    lives.ledgers.cover(snap.wanted());
    if claims::data_missing(snap, &lives.ledgers) {
        let message = "members were used before, and no claim of any of them is left".to_owned();
        let blocker = blocker(snap, Reason::DataMissing, message);
        sheet.block(Action::Create, None, "members are missing", blocker);
        return Claimed {
            lives,
            halted: true,
        };
    }
    for who in snap.wanted() {
        one(snap, &lives, prepared, who, sheet);
    }
    super::removal::mark(snap, &lives.ledgers, sheet);
    scaled_away(snap, &mut lives);
    lives.let_go = let_go(snap, lives.let_go, safety, sheet);
    Claimed {
        lives,
        halted: false,
    }
}

/// Whoever is Ready was born, unless its pod is the last of a life that was given up.
fn births(snap: &Cast<'_>, ledgers: &mut Ledgers) {
    let ready = snap
        .members()
        .filter(|m| snap.presence(*m) == Presence::Serving)
        .filter(|m| snap.life(*m).is_none_or(|l| l == ledgers.incarnation(*m)));
    let ready: Vec<MemberId> = ready.collect();
    for member in ready {
        ledgers.bear(member);
    }
}

/// Writes down which claims whoever was born was born on, so that others in their place are noticed.
fn remember_claims(snap: &Cast<'_>, ledgers: &mut Ledgers) {
    for who in snap.wanted() {
        let born = ledgers.is_born(who);
        if !born || snap.group(ledgers, who) != ClaimGroup::Complete {
            continue;
        }
        let marks = claims::marks(snap, who);
        if !marks.is_empty() && ledgers.marks(who) != Some(&marks) {
            ledgers.set_marks(who, marks);
        }
    }
}

fn one(snap: &Cast<'_>, lives: &Lives, prepared: &Prepared, who: MemberId, sheet: &mut Sheet<'_>) {
    let group = snap.group(&lives.ledgers, who);
    if group == ClaimGroup::Complete {
        return;
    }
    let member = snap.roster().name(who);
    let (reason, message) = match group {
        ClaimGroup::Complete => return,
        ClaimGroup::Creating { missing } => {
            return create(snap, lives, prepared, who, &missing, sheet);
        }
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
        ClaimGroup::Taken { claim } if lives.lets_go(&claim) => (
            Reason::Terminating,
            format!("claim {claim} of the former {member} is being let go"),
        ),
        ClaimGroup::Taken { claim } => (
            Reason::NameTaken,
            format!("claim {claim} exists and is not {member}'s"),
        ),
    };
    let blocker = blocker(snap, reason, message);
    sheet.block(
        Action::Create,
        Some(member),
        "a member's claims are one unit",
        blocker,
    );
}

fn create(
    snap: &Cast<'_>,
    lives: &Lives,
    prepared: &Prepared,
    who: MemberId,
    missing: &[String],
    sheet: &mut Sheet<'_>,
) {
    let member = snap.roster().name(who);
    if !lives.covers(who) || prepared.usable.is_none() {
        return sheet.step(Action::Create, Some(member), "asked for", StepState::Next);
    }
    let life = lives.ledgers.incarnation(who);
    for claim in snap
        .ensemble
        .spec
        .claims
        .iter()
        .filter(|c| missing.contains(&c.name))
    {
        let key = (Kind::Claim, snap.roster().claim(&claim.name, who));
        if super::members::name_is_taken(snap, lives, &key, &member, sheet) {
            return;
        }
        let body = render::claim(snap, &claim.name, &claim.spec.0, who, life);
        sheet.write(Write::Create {
            kind: Kind::Claim,
            body,
        });
        if super::members::report_failure(snap, &key, &member, sheet) {
            return;
        }
    }
    sheet.step(
        Action::Create,
        Some(member),
        "asked for",
        StepState::Running,
    );
}

/// The claims of members that scaling in or a request has removed, if policy says so, once nobody uses
/// them. Those of an offline member stay: it comes back on them.
fn scaled_away(snap: &Cast<'_>, lives: &mut Lives) {
    if snap.ensemble.spec.storage.when_scaled == Keep::Retain {
        return;
    }
    let mut members: Vec<MemberId> = snap
        .claimants()
        .filter(|m| match snap.roster().place(*m) {
            Place::Wanted => false,
            Place::Offline => crate::mutants::is_off(Rule::OfflineKeepsItsClaims),
            Place::Retired => !lives.ledgers.is_kept(*m),
            Place::Surplus => true,
        })
        .collect();
    members.dedup();
    for who in members {
        let used = snap.our_pod(who).is_some();
        let known = snap.ensemble.spec.claims.iter().any(|c| {
            let name = snap.roster().claim(&c.name, who);
            lives.lets_go(&name)
        });
        if !used && !known {
            lives.renew(snap, who, "storage.whenScaled");
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
    let unwritten = crate::mutants::is_off(Rule::LetGoWrittenFirst).then_some(&entries);
    for entry in unwritten.unwrap_or(&snap.ensemble.status.let_go) {
        if let Ok(letting) = safety.let_go(entry) {
            sheet.step(Action::LetGo, None, &entry.consent, StepState::Running);
            sheet.let_go(letting);
        }
    }
    entries
}
