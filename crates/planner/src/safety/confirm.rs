//! Looking again: what was planned is judged on a view that was read after it was written down.

use super::{ErrandWarrant, HandOver, Refusal, Safety, Warrant, refuse};
use crate::cast::Cast;
use crate::engine::EngineAct;
use crate::errand::Errand;
use crate::revision::Revisions;
use crate::roster::MemberId;
use crate::snapshot::Snapshot;
use crate::time::Time;
use crate::wish::{self, Act};
use ensemble_api::status::{Intent, Method, SwitchPhase};
use ensemble_api::{Reason, Rule};

/// Whether an intent may still hurt somebody: the pod it means exists, was not told to end, and has
/// not had done to it what is meant.
pub fn intent_is_live(snap: &Snapshot, intent: &Intent) -> bool {
    is_live(snap, intent, Time(i64::MIN))
}

/// The same, by what was said since a time.
pub(super) fn is_live(snap: &Snapshot, intent: &Intent, since: Time) -> bool {
    let pod = snap.pods.get(&intent.member);
    let Some(pod) = pod.filter(|p| p.meta.pin.uid == intent.uid && !p.meta.deleting) else {
        return false;
    };
    match intent.method {
        Method::InPlace => {
            let unsent = pod.resize.as_ref().is_some_and(|r| !r.sent);
            pod.revision() != intent.target || unsent
        }
        Method::Restart => {
            let said = snap.memory.pod(&intent.uid).said.as_ref();
            let said = said.filter(|s| s.asked >= since);
            said.is_none_or(|s| s.run.is_empty() || s.run == intent.target)
        }
        Method::Recreate | Method::Clear | Method::Remove => true,
    }
}

/// Looks again, on a view that was read after the intent was stored. What members said before
/// `since` does not count.
pub fn confirm(fresh: &Snapshot, intent: &Intent, since: Time) -> Result<Warrant, Refusal> {
    let since = counts_from(since);
    let stored = fresh.ensemble.status.in_flight.contains(intent);
    if !stored || intent.epoch != fresh.epoch {
        return refuse(
            Rule::OneChangeAtATime,
            Reason::Conflict,
            "the intent is not ours or gone",
            "",
        );
    }
    if !is_live(fresh, intent, since) {
        return refuse(
            Rule::IdentityKnown,
            Reason::Conflict,
            "the pod is gone or ending",
            &*intent.uid,
        );
    }
    let cast = Cast::said_since(fresh, since);
    let Some(who) = cast.roster().named(&intent.member) else {
        return refuse(
            Rule::IdentityKnown,
            Reason::Conflict,
            "no member of ours",
            &*intent.member,
        );
    };
    let safety = Safety::assess_without(&cast, Some(intent));
    let (pod, how) = safety.judge(who, &Act::of(intent))?;
    still_wanted(&cast, intent, who)?;
    Ok(Warrant {
        pod,
        how,
        target: intent.target.clone(),
    })
}

/// From when on what members say counts.
fn counts_from(since: Time) -> Time {
    if crate::mutants::is_off(Rule::EngineAskedAgain) {
        return Time(i64::MIN);
    }
    since
}

/// The world may have changed its mind since, by a corrected template or a scale out: what was granted
/// must be wished for still.
fn still_wanted(fresh: &Cast<'_>, intent: &Intent, who: MemberId) -> Result<(), Refusal> {
    let wishes = wish::wishes(fresh, fresh.ledger(), &Revisions::of(fresh));
    let mut same = wishes
        .iter()
        .filter(|w| w.who == who && w.act.is_of(intent));
    if same.next().is_some() || crate::mutants::is_off(Rule::StillWanted) {
        return Ok(());
    }
    refuse(
        Rule::StillWanted,
        Reason::Conflict,
        "the spec no longer asks for it",
        "",
    )
}

/// Looks again before an engine is asked for an errand: it is the one that is stored, ours, and not
/// asked for yet; and what it was written down for still holds by what was said since.
pub fn confirm_errand(
    fresh: &Snapshot,
    errand: &Errand,
    since: Time,
) -> Result<ErrandWarrant, Refusal> {
    let stored = Errand::stored(&fresh.ensemble.status).any(|e| e == *errand);
    let ours = errand.is_by(fresh.epoch) && errand.phase == SwitchPhase::Proposed;
    if !stored || !ours || fresh.ensemble.spec.suspend {
        return refuse(
            Rule::OneChangeAtATime,
            Reason::Conflict,
            "the switchover is not ours or gone",
            "",
        );
    }
    let EngineAct::SwitchOver { leader, candidate } = &errand.act else {
        return refuse(
            Rule::StillWanted,
            Reason::Conflict,
            format!("{:?} takes no time", errand.act),
            "",
        );
    };
    let cast = Cast::said_since(fresh, counts_from(since));
    let mut safety = Safety::assess(&cast);
    // It is this one that is open.
    safety.switching = false;
    let Some(to) = cast.roster().named(candidate) else {
        return refuse(
            Rule::IdentityKnown,
            Reason::Conflict,
            "no member of ours",
            &**candidate,
        );
    };
    let planned: HandOver = safety.hand_over(to)?;
    still_approved(&cast, &safety)?;
    let same = planned.is(&errand.guard);
    if !same && !crate::mutants::is_off(Rule::SwitchAtTheSameTerm) {
        return refuse(
            Rule::RoleKnown,
            Reason::Conflict,
            format!("{} leads at term {}", planned.from(), planned.term()),
            format!("{leader} at term {}", errand.guard.term),
        );
    }
    Ok(planned.warrant(errand))
}

/// A switchover for the sake of a rollout is approved as the rollout is: the approval may be taken back.
fn still_approved(cast: &Cast<'_>, safety: &Safety<'_>) -> Result<(), Refusal> {
    let switch = cast.ensemble.status.switchover.as_ref();
    let of_rollout = switch.is_some_and(|s| !s.revision.is_empty());
    match cast.engine().leader().filter(|_| of_rollout) {
        Some(leader) => safety.approved(leader),
        None => Ok(()),
    }
}
