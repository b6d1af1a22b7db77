//! The claims of a member are one unit: complete, or not to be used.

use crate::cast::Cast;
use crate::ledger::Ledgers;
use crate::roster::MemberId;
use crate::view::ClaimView;
use ensemble_api::Rule;
use ensemble_api::labels;
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
pub fn group(snap: &Cast<'_>, ledger: &Ledgers, who: MemberId) -> ClaimGroup {
    let life = ledger.incarnation(who);
    let mut missing = Vec::new();
    for claim in &snap.ensemble.spec.claims {
        let name = snap.roster().claim(&claim.name, who);
        let Some(found) = snap.claims.get(&name) else {
            missing.push(claim.name.clone());
            continue;
        };
        let same_life = found.meta.incarnation == Some(life);
        if !snap.roster().owns_claim(found, who, &claim.name) || !same_life {
            return ClaimGroup::Taken { claim: name };
        }
        if found.meta.deleting {
            return ClaimGroup::Ending { claim: name };
        }
        if let Some(was) = replaced(ledger, who, &claim.name, found) {
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
    let born = ledger.is_born(who) && !crate::mutants::is_off(Rule::BornKeepsItsClaims);
    match (missing.is_empty(), born) {
        (true, _) => ClaimGroup::Complete,
        (false, false) => ClaimGroup::Creating { missing },
        (false, true) => ClaimGroup::Incomplete {
            missing: missing
                .iter()
                .map(|m| snap.roster().claim(m, who))
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
fn replaced(ledger: &Ledgers, who: MemberId, name: &str, found: &ClaimView) -> Option<String> {
    if !ledger.is_born(who) || crate::mutants::is_off(Rule::BornKnowsItsClaims) {
        return None;
    }
    let was = ledger.marks(who)?.get(name)?;
    let is = mark(found);
    let accepted = found.meta.annotations.get(labels::ACCEPTED);
    (was != is && accepted.is_none_or(|a| a != is)).then(|| was.clone())
}

/// The marks of all claims of a member.
pub fn marks(snap: &Cast<'_>, who: MemberId) -> BTreeMap<String, String> {
    let claims = snap.ensemble.spec.claims.iter();
    claims
        .filter_map(|claim| {
            let found = snap.claims.get(&snap.roster().claim(&claim.name, who))?;
            Some((claim.name.clone(), mark(found).to_owned()))
        })
        .collect()
}

/// Whether members were used before and none of their claims is left. Then nothing is created at
/// all: empty volumes would hide a loss of everything.
pub fn data_missing(snap: &Cast<'_>, ledger: &Ledgers) -> bool {
    if snap.ensemble.spec.claims.is_empty() || crate::mutants::is_off(Rule::DataPresent) {
        return false;
    }
    let remembered = snap.ensemble.meta.annotations.contains_key(labels::BORN);
    let renewed = ledger.anyone_renewed();
    let anyone_born = ledger.anyone_born() || remembered && !renewed;
    anyone_born && snap.claimants().next().is_none()
}
