//! Whether a member is as good as its leader: Ready is not in sync. What the engine sees is judged with
//! its answers; how far behind is too far is said here, once.

use crate::cast::Cast;
use crate::engine::{Duty, Lead, Standing, Sync};
use crate::roster::MemberId;
use ensemble_api::Rule;

/// A lag rounded down to a power of two: status is written when it says something new, and a figure
/// that is new every second says nothing new.
fn roughly(lag: u64) -> u64 {
    1 << lag.max(1).ilog2()
}

/// Whether a member is as good as its leader would need it to be: the leader itself, or a follower
/// that has all but what the limit allows. Else why not.
pub(crate) fn in_sync(cast: &Cast<'_>, who: MemberId) -> Result<(), String> {
    let view = cast.engine();
    if !view.matter() || crate::mutants::is_off(Rule::ReadyIsNotInSync) {
        return Ok(());
    }
    let Some(Lead::One { who: leader, .. }) = view.cohort_of(who).map(|c| &c.lead) else {
        return Err("no leader is known".into());
    };
    if *leader == who {
        return Ok(());
    }
    let Some(own) = view.standing(who) else {
        return Err("it does not run".into());
    };
    match &own.duty {
        Duty::Follows | Duty::Learns => {}
        Duty::Leads => return Err("it claims the lead".into()),
        Duty::Unknown(why) => return Err(why.to_string()),
    }
    match &own.sync {
        Sync::In => {}
        Sync::Apart(_) if crate::mutants::is_off(Rule::ApartIsNoCopy) => {}
        Sync::Out(why) | Sync::Apart(why) => return Err(why.clone()),
    }
    let most = max_lag(cast);
    match own.behind {
        Some(behind) if behind > most => Err(format!(
            "over {} {} behind, at most {most} allowed",
            roughly(behind).max(most),
            cast.abilities.lag.unit,
        )),
        _ => Ok(()),
    }
}

fn max_lag(cast: &Cast<'_>) -> u64 {
    let engine = cast.ensemble.spec.engine.as_ref();
    let asked = engine.map_or(0, |e| e.max_lag());
    asked.min(cast.abilities.lag.most)
}

/// Whether a member follows somebody who is known to lead and its own configuration keeps it from being in
/// sync: it costs no budget for that.
pub(crate) fn is_apart(cast: &Cast<'_>, who: MemberId) -> bool {
    let led = cast.engine().leader().is_some();
    let own = cast.engine().standing(who);
    let apart = |s: &Standing| s.duty == Duty::Follows && matches!(s.sync, Sync::Apart(_));
    led && own.is_some_and(apart) && !crate::mutants::is_off(Rule::ApartCostsNoBudget)
}

/// Whether a member could take over now; else why not.
pub(super) fn may_succeed(cast: &Cast<'_>, who: MemberId) -> Result<(), String> {
    in_sync(cast, who)?;
    let own = cast.engine().standing(who).ok_or("it does not run")?;
    own.may_lead.clone()?;
    let most = max_lag(cast);
    if own.unapplied > most && !crate::mutants::is_off(Rule::SuccessorApplied) {
        let rest = roughly(own.unapplied).max(most);
        let unit = cast.abilities.lag.unit;
        return Err(format!(
            "over {rest} {unit} received and not applied yet, at most {most} allowed"
        ));
    }
    Ok(())
}
