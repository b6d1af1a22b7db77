//! The claims of a member are one unit: complete, or not to be used.

use crate::ledger::LedgerState;
use crate::snapshot::Snapshot;
use ensemble_api::{labels, names};

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
