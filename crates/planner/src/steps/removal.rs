//! Members that a person has removed for good: at once, or once another has taken their place. What is asked
//! for is written down in the ledger and on the claims; how the member leaves is the same as ever.

use crate::cast::Cast;
use crate::ledger::Ledgers;
use crate::lives::Lives;
use crate::memory::Kind;
use crate::roster::{MemberId, Place};
use crate::safety::Safety;
use crate::sheet::Sheet;
use crate::steps::requests::Answer;
use crate::write::Write;
use ensemble_api::request::{Remove, Replace};
use ensemble_api::{Outcome, labels};
use serde_json::json;

/// Removes a member for good; answered once it is gone. Refused if what is left would not do.
pub fn remove(snap: &Cast<'_>, wanted: &Remove, safety: &Safety<'_>, lives: &mut Lives) -> Answer {
    let who = match whom(snap, &wanted.member) {
        Ok(who) => who,
        Err(message) => return Some((Outcome::Refused, message)),
    };
    if snap.roster().is_retired(who) {
        return gone(snap, who);
    }
    if let Some(message) = fixed(snap) {
        return Some((Outcome::Refused, message));
    }
    let leaves = |m: MemberId| m == who || lives.ledgers.is_retired(m);
    let stay: Vec<MemberId> = snap.wanted().filter(|m| !leaves(*m)).collect();
    if let Err(refusal) = safety.may_remove(who, &stay) {
        let (name, namespace) = (snap.name(), &snap.ensemble.namespace);
        let message = format!(
            "{} is false: {}; try `ensemble replace {name} {} -n {namespace}`, which brings up another \
             member first",
            refusal.promise(),
            refusal.observed,
            wanted.member
        );
        return Some((Outcome::Refused, message));
    }
    lives.ledgers.retire(who, wanted.keep_volumes);
    None
}

/// Removes a member for good once all others, its successor among them, serve and are in sync.
pub fn replace(snap: &Cast<'_>, wanted: &Replace, lives: &mut Lives) -> Answer {
    let who = match whom(snap, &wanted.member) {
        Ok(who) => who,
        Err(message) => return Some((Outcome::Refused, message)),
    };
    match snap.roster().place(who) {
        Place::Retired => return gone(snap, who),
        Place::Offline => {
            let member = &wanted.member;
            let message = format!(
                "{member} is offline and has a stand-in already; try `ensemble remove {} {member} -n {}`",
                snap.name(),
                snap.ensemble.namespace
            );
            return Some((Outcome::Refused, message));
        }
        Place::Wanted | Place::Surplus => {}
    }
    if let Some(message) = fixed(snap) {
        return Some((Outcome::Refused, message));
    }
    let mut others = snap.wanted().filter(|m| !snap.roster().is_replaced(*m));
    if others.all(|m| snap.fit(m)) {
        lives.ledgers.retire(who, false);
    }
    None
}

/// Why nobody may leave or join an engine whose list of members cannot be changed.
fn fixed(snap: &Cast<'_>) -> Option<String> {
    snap.abilities.members_fixed.then(|| {
        "Ensemble cannot add or remove members of this engine yet: the engine's own list of members would \
         still name the old member and not the new one"
            .to_owned()
    })
}

/// The member that is meant: one that is asked for, is offline or was removed before.
fn whom(snap: &Cast<'_>, name: &str) -> Result<MemberId, String> {
    let named = snap.roster().named(name);
    let aside = |m: &MemberId| matches!(snap.roster().place(*m), Place::Offline | Place::Retired);
    match named.filter(aside) {
        Some(who) => Ok(who),
        None => snap.roster().asked_for(name),
    }
}

/// It was removed once nothing of it runs, and its claims say so.
fn gone(snap: &Cast<'_>, who: MemberId) -> Answer {
    if snap.our_pod(who).is_some() || unmarked(snap).any(|(_, m)| m == who) {
        return None;
    }
    let members = snap.roster().names(snap.wanted());
    let message = format!(
        "{} was removed; the members are {members}",
        snap.name_of(who)
    );
    Some((Outcome::Done, message))
}

/// Claims of members that were removed for good and do not say so yet.
fn unmarked<'c>(
    snap: &'c Cast<'_>,
) -> impl Iterator<Item = (&'c crate::view::ClaimView, MemberId)> {
    let silent = snap
        .claims
        .values()
        .filter(|c| !c.meta.deleting && !c.meta.annotations.contains_key(labels::RETIRED));
    silent.filter_map(|claim| {
        let who = snap.roster().of_claim(claim)?;
        snap.roster().is_retired(who).then_some((claim, who))
    })
}

/// Writes on the claims of members that were removed for good that they were: a status can be lost.
pub fn mark(snap: &Cast<'_>, ledgers: &Ledgers, sheet: &mut Sheet<'_>) {
    for (claim, who) in unmarked(snap) {
        let mark = match ledgers.is_kept(who) {
            true => labels::KEPT,
            false => labels::BY_POLICY,
        };
        sheet.write(Write::Patch {
            kind: Kind::Claim,
            pin: claim.meta.pin.clone(),
            body: json!({"metadata": {"annotations": {labels::RETIRED: mark}}}),
        });
    }
}
