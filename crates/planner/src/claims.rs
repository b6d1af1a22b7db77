//! The claims of a member are one unit: complete, or not to be used.

use crate::ledger::LedgerState;
use crate::snapshot::Snapshot;
use crate::view::ClaimView;
use ensemble_api::{labels, names};
use std::collections::BTreeMap;

/// How the claims of one member stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimGroup {
    /// All are there.
    Complete,
    /// The member was never Ready: what is missing may be created.
    Creating {
        /// Names of claims (as in the spec) that are missing.
        missing: Vec<String>,
    },
    /// The member was Ready once and some claim is gone: nothing may be created.
    Incomplete {
        /// Names of claim objects that are missing.
        missing: Vec<String>,
    },
    /// A claim is being deleted.
    Ending {
        /// Its name.
        claim: String,
    },
    /// The volume behind a claim is gone.
    Lost {
        /// Its name.
        claim: String,
    },
    /// A claim is not the one that the member was born on, and nobody said that it holds its data.
    Replaced {
        /// Its name.
        claim: String,
        /// The mark of the claim that was.
        was: String,
        /// The mark of the claim that is.
        is: String,
    },
    /// A claim of a former life, or of somebody else, has the name.
    Taken {
        /// Its name.
        claim: String,
    },
}

/// How the claims of that member stand.
pub fn group(snap: &Snapshot, ledger: &LedgerState, ordinal: u32) -> ClaimGroup {
    let life = ledger.incarnation(ordinal);
    let mut missing = Vec::new();
    for claim in &snap.ensemble.spec.claims {
        let name = names::claim(&claim.name, snap.name(), ordinal);
        let Some(found) = snap.claims.get(&name) else {
            missing.push(claim.name.clone());
            continue;
        };
        let same_life = found.meta.incarnation == Some(life);
        if !snap.owns_claim(found, ordinal, &claim.name) || !same_life {
            return ClaimGroup::Taken { claim: name };
        }
        if found.meta.deleting {
            return ClaimGroup::Ending { claim: name };
        }
        if let Some(was) = replaced(ledger, ordinal, &claim.name, found) {
            let is = mark(found).to_owned();
            return ClaimGroup::Replaced {
                claim: name,
                was,
                is,
            };
        }
        if found.phase == "Lost" {
            return ClaimGroup::Lost { claim: name };
        }
    }
    let born = ledger.born.contains(&ordinal) && !crate::mutants::is_off("born-keeps-its-claims");
    match (missing.is_empty(), born) {
        (true, _) => ClaimGroup::Complete,
        (false, false) => ClaimGroup::Creating { missing },
        (false, true) => ClaimGroup::Incomplete {
            missing: missing
                .iter()
                .map(|m| names::claim(m, snap.name(), ordinal))
                .collect(),
        },
    }
}

/// Enough of a claim's uid to tell it from another of the same name: its last group.
pub fn mark(claim: &ClaimView) -> &str {
    let uid = claim.meta.pin.uid.as_str();
    uid.rsplit('-').next().unwrap_or(uid)
}

/// The mark of the claim that a born member had in this one's place, unless somebody accepted this
/// one. It would most likely be empty: only a restore fills a volume before a member starts on it.
fn replaced(ledger: &LedgerState, ordinal: u32, name: &str, found: &ClaimView) -> Option<String> {
    if !ledger.born.contains(&ordinal) || crate::mutants::is_off("born-knows-its-claims") {
        return None;
    }
    let was = ledger.claims.get(&ordinal)?.get(name)?;
    let is = mark(found);
    let accepted = found.meta.annotations.get(labels::ACCEPTED);
    (was != is && accepted.is_none_or(|a| a != is)).then(|| was.clone())
}

/// The marks of all claims of a member.
pub fn marks(snap: &Snapshot, ordinal: u32) -> BTreeMap<String, String> {
    let claims = snap.ensemble.spec.claims.iter();
    claims
        .filter_map(|claim| {
            let found = snap
                .claims
                .get(&names::claim(&claim.name, snap.name(), ordinal))?;
            Some((claim.name.clone(), mark(found).to_owned()))
        })
        .collect()
}

/// Whether members were used before and none of their claims is left. Then nothing is created at
/// all: empty volumes would hide a loss of everything.
pub fn data_missing(snap: &Snapshot, ledger: &LedgerState) -> bool {
    if snap.ensemble.spec.claims.is_empty() || crate::mutants::is_off("data-missing-halts") {
        return false;
    }
    let remembered = snap.ensemble.meta.annotations.contains_key(labels::BORN);
    let renewed = ledger.incarnations.values().any(|life| *life > 0);
    let anyone_born = !ledger.born.is_empty() || remembered && !renewed;
    anyone_born && snap.claim_ordinals().next().is_none()
}
