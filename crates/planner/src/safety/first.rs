//! Who starts first where nobody runs. An engine whose members take the lead alone may let one take it
//! that left before the last writes were made: the one that led last starts first, and all others wait
//! until somebody leads.

use super::{RECOVER_AFTER_SECONDS, Refusal, refuse};
use crate::cast::Cast;
use crate::claims::ClaimGroup;
use crate::roster::{MemberId, Place};
use crate::time::Time;
use ensemble_api::{Reason, Rule};

/// That a member does not start yet.
pub(crate) struct Starts {
    /// Why.
    pub refusal: Refusal,
    /// When it does, by time alone.
    pub at: Option<Time>,
    /// What to type, if only a person can help.
    pub next: String,
}

/// Whether a member may start, by the one that has to start before it.
pub(crate) fn may_start(cast: &Cast<'_>, who: MemberId) -> Result<(), Starts> {
    let alone = cast.engine().matter() && cast.abilities.leads_alone;
    let rule = Rule::LastPrimaryFirst;
    let off = crate::mutants::is_off(Rule::LastPrimaryFirst) || cast.waivers().suspend(rule, who);
    let Some(first) = last_primary(cast).filter(|_| alone && !off) else {
        return Ok(());
    };
    let others_run = cast.members().any(|m| m != first);
    if who == first || others_run || cast.engine().leader().is_some() {
        return Ok(());
    }
    if !cast.roster().wants(first) {
        return left_out(cast, first);
    }
    let at = gives_up_at(cast, first);
    if !can_come(cast, first) || at.is_some_and(|at| at <= cast.now) {
        return Ok(());
    }
    let name = cast.roster().name(first);
    let refused = refuse(
        Rule::LastPrimaryFirst,
        Reason::PrimaryFirst,
        format!("{name} led last and does not lead yet"),
        format!("{name} leads"),
    );
    refused.map_err(|refusal| Starts {
        refusal,
        at,
        next: String::new(),
    })
}

/// Who led last, as stored. If that is lost: the lowest ordinal, to which the lead goes before all leave.
fn last_primary(cast: &Cast<'_>) -> Option<MemberId> {
    let stored = cast.ensemble.status.lead.as_ref();
    let named = stored.and_then(|l| cast.roster().named(&l.member));
    let born = |m: &MemberId| cast.ledger().is_born(*m);
    named.filter(born).or_else(|| cast.wanted().find(born))
}

/// The one that led last is not asked for, and its data is still there.
fn left_out(cast: &Cast<'_>, first: MemberId) -> Result<(), Starts> {
    if !cast.claimants().any(|m| m == first) {
        return Ok(());
    }
    let name = cast.roster().name(first);
    let (why, limit, next) = way_back(cast, first);
    let refused = refuse(
        Rule::LastPrimaryFirst,
        Reason::PrimaryLeftOut,
        format!("{name} led last, and {why}"),
        limit,
    );
    refused.map_err(|refusal| Starts {
        refusal,
        at: None,
        next,
    })
}

/// Why one that led last is not asked for, what would bring it back, and what to type.
fn way_back(cast: &Cast<'_>, first: MemberId) -> (String, String, String) {
    let (ensemble, namespace) = (cast.name(), &cast.ensemble.namespace);
    let name = cast.roster().name(first);
    match cast.roster().place(first) {
        Place::Offline => (
            "spec.offline lists it".to_owned(),
            format!("{name} is not offline"),
            format!("kubectl edit ensemble {ensemble} -n {namespace}"),
        ),
        // It does not come back: only a person can say that its data is not needed.
        Place::Retired => (
            "was removed".to_owned(),
            "another member that leads".to_owned(),
            format!(
                "ensemble waive {ensemble} {} --member MEMBER --reason TEXT --for 10m -n {namespace}",
                Rule::LastPrimaryFirst
            ),
        ),
        Place::Surplus | Place::Wanted => {
            let needed = first.ordinal.saturating_add(1);
            (
                format!("replicas is {}", cast.roster().size()),
                format!("replicas {needed} or more"),
                format!("kubectl scale ensemble {ensemble} --replicas={needed} -n {namespace}"),
            )
        }
    }
}

/// Whether the first one is there, or can be created.
fn can_come(cast: &Cast<'_>, first: MemberId) -> bool {
    cast.our_pod(first).is_some() || cast.group(cast.ledger(), first) == ClaimGroup::Complete
}

/// When the others no longer wait for it: it has not come up for long. Then the engine decides.
fn gives_up_at(cast: &Cast<'_>, first: MemberId) -> Option<Time> {
    let pod = cast.our_pod(first)?;
    let known = cast.memory.pod(&pod.meta.pin.uid);
    let engine = cast.ensemble.spec.engine.as_ref();
    let seconds = engine.map_or(RECOVER_AFTER_SECONDS, |e| e.recover_after_seconds);
    let since = known.unready_since.or(known.ready_since);
    Some(since.unwrap_or(cast.now).plus_seconds(seconds))
}
