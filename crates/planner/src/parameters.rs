//! Where a change of the engine's parameters stands: what is wanted, what the engine keeps, and who
//! waits for a restart.

use crate::cast::Cast;
use crate::engine::{Duty, WhyUnknown};
use crate::roster::MemberId;
use crate::wish::Cause;
use ensemble_api::Rule;
use ensemble_api::status::{ParameterChange, ParameterState};
use std::collections::BTreeMap;

/// Parameters by name.
pub(crate) type Values = BTreeMap<String, String>;

/// What is wanted and can be had; None if nothing is said of parameters.
pub(crate) fn wanted(cast: &Cast<'_>) -> Option<Values> {
    let engine = cast.ensemble.spec.engine.as_ref();
    let all = engine.and_then(|e| e.parameters())?;
    let impossible = &cast.abilities.impossible;
    let had = all
        .iter()
        .filter(|(name, _)| !impossible.contains_key(*name));
    Some(had.map(|(n, v)| (n.clone(), v.clone())).collect())
}

/// What the engine keeps, by its leader's word.
pub(crate) fn kept<'c>(cast: &'c Cast<'_>) -> Option<&'c Values> {
    cast.engine().cohort()?.parameters.as_ref()
}

/// Whether all of a change is still wanted.
pub(crate) fn is_wanted(to: &Values, wanted: &Values) -> bool {
    to.iter()
        .all(|(name, value)| wanted.get(name) == Some(value))
}

/// Whether something else than a change brings is wanted. A parameter that is no longer named is left as
/// it is: what has begun is finished.
pub(crate) fn is_contradicted(to: &Values, wanted: &Values) -> bool {
    let other = |(name, value): (&String, &String)| wanted.get(name).is_some_and(|w| w != value);
    to.iter().any(other)
}

/// What the leader runs with while a change is under way: it keeps the new values, and has the old ones
/// as long as it waits for its restart. None while it may not have noticed yet.
pub(crate) fn running(
    cast: &Cast<'_>,
    change: &ParameterChange,
    kept: &Values,
    noticed: bool,
) -> Option<Values> {
    let leader = cast.engine().leader()?;
    let waits = cast.engine().standing(leader)?.pending_restart;
    let mut running = kept.clone();
    if !is_wanted(&change.to, kept) || !waits && noticed {
        return Some(running);
    }
    if !waits {
        return None;
    }
    for name in change.to.keys() {
        match change.from.get(name) {
            Some(old) => drop(running.insert(name.clone(), old.clone())),
            None => drop(running.remove(name)),
        }
    }
    Some(running)
}

/// What puts a change back; None takes a parameter away.
pub(crate) fn back(change: &ParameterChange) -> BTreeMap<String, Option<String>> {
    let names = change.to.keys();
    names
        .map(|n| (n.clone(), change.from.get(n).cloned()))
        .collect()
}

/// A member whose engine did not come up with a change, in the engine's own words. That nobody answered
/// says nothing about the value; the member's agent says so itself if its engine does not come up. What
/// came of an earlier change says nothing about this one.
pub(crate) fn failed(cast: &Cast<'_>, change: &ParameterChange) -> Option<String> {
    let of = change.words();
    cast.members().find_map(|m| {
        let name = cast.name_of(m);
        let news = cast.memory.restarts.get(&name);
        let news = news.filter(|n| n.of == of || crate::mutants::is_off(Rule::FailureOfThisChange));
        let words = match news {
            Some(news) => news.failed.as_ref().or_else(|| failing(cast, m))?,
            None => failing(cast, m).filter(|_| began_with_it(cast, m))?,
        };
        Some(format!("{name} did not come up with it: {words}"))
    })
}

/// What a member's agent says of an engine that does not come up.
fn failing<'c>(cast: &'c Cast<'_>, who: MemberId) -> Option<&'c String> {
    match cast.engine().standing(who).map(|s| &s.duty) {
        Some(Duty::Unknown(WhyUnknown::Unreadable(state))) => Some(state),
        _ => None,
    }
}

/// Whether a member's container began, by itself, after the engine was told of the change: it started with
/// it, though nobody asked for a restart.
fn began_with_it(cast: &Cast<'_>, who: MemberId) -> bool {
    let run = cast.our_pod(who).map(|p| cast.memory.pod(&p.meta.pin.uid));
    let began = run.and_then(|k| k.run.as_ref()).map(|r| r.since);
    cast.memory
        .told_since
        .zip(began)
        .is_some_and(|(told, began)| began > told)
}

/// Members that say that they wait for a restart.
pub(crate) fn pending(cast: &Cast<'_>) -> Vec<MemberId> {
    let said = |m: &MemberId| cast.engine().standing(*m);
    let pending = |m: &MemberId| said(m).is_some_and(|s| s.pending_restart);
    cast.members().filter(pending).collect()
}

/// Why those that wait for a restart are to restart, if the change that is under way has come so far:
/// the engine keeps all of it, and nobody failed to come up with it.
pub(crate) fn restarting(cast: &Cast<'_>) -> Option<Cause> {
    let change = cast.ensemble.status.parameters.as_ref()?;
    let (wanted, kept) = (wanted(cast)?, kept(cast)?);
    match change.state {
        ParameterState::Applying => {
            let told = is_wanted(&change.to, kept) && !is_contradicted(&change.to, &wanted);
            (told && failed(cast, change).is_none()).then(|| Cause::Parameters(change.words()))
        }
        ParameterState::RollingBack => {
            let mut back = back(change).into_iter();
            let told = back.all(|(name, value)| kept.get(&name) == value.as_ref());
            told.then_some(Cause::PutBack)
        }
        ParameterState::Applied | ParameterState::Refused => None,
    }
}
