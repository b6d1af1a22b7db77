//! Where a change of the engine's parameters stands: what is wanted, what the engine keeps, and who
//! waits for a restart.

use crate::cast::Cast;
use crate::engine::{Duty, WhyUnknown};
use crate::memory::Kind;
use crate::roster::MemberId;
use crate::wish::Cause;
use ensemble_api::Reason;
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

/// What puts a change back; None takes a parameter away.
pub(crate) fn back(change: &ParameterChange) -> BTreeMap<String, Option<String>> {
    let names = change.to.keys();
    names
        .map(|n| (n.clone(), change.from.get(n).cloned()))
        .collect()
}

/// A change in words.
pub(crate) fn words(change: &ParameterChange) -> String {
    let one = |(name, value): (&String, &String)| match change.from.get(name) {
        Some(old) => format!("{name} {old} -> {value}"),
        None => format!("{name} -> {value}"),
    };
    let all: Vec<String> = change.to.iter().map(one).collect();
    all.join(", ")
}

/// A member whose engine would not restart, in the engine's own words. That nobody answered says
/// nothing about the value; the member's agent says so itself if its engine does not come up.
pub(crate) fn failed(cast: &Cast<'_>) -> Option<String> {
    cast.members().find_map(|m| {
        let name = cast.name_of(m);
        let failure = cast.memory.failures.get(&(Kind::Pod, name.clone()))?;
        let words = match failure.reason {
            Reason::EngineFailing => &failure.message,
            Reason::EngineUnreachable => match cast.engine().standing(m).map(|s| &s.duty) {
                Some(Duty::Unknown(WhyUnknown::Unreadable(state))) => state,
                _ => return None,
            },
            _ => return None,
        };
        Some(format!("{name} did not come up with it: {words}"))
    })
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
            let told = is_wanted(&change.to, kept) && is_wanted(&change.to, &wanted);
            (told && failed(cast).is_none()).then(|| Cause::Parameters(words(change)))
        }
        ParameterState::RollingBack => {
            let mut back = back(change).into_iter();
            let told = back.all(|(name, value)| kept.get(&name) == value.as_ref());
            told.then_some(Cause::PutBack)
        }
        ParameterState::Applied | ParameterState::Refused => None,
    }
}
