//! The engine's parameters: told to the engine, and where that takes a restart, member by member in
//! the order that the change demands; whose turn it is, safety says.

use crate::cast::Cast;
use crate::engine::{Role, WhyUnknown};
use crate::memory::Kind;
use crate::plan::{Draft, EngineWrite, blocker};
use crate::roster::MemberId;
use ensemble_api::report::Action;
use ensemble_api::status::{Method, ParameterChange, ParameterState};
use ensemble_api::{Reason, StepState};
use std::collections::BTreeMap;

type Values = BTreeMap<String, String>;

/// Brings the parameters of the spec to the engine.
pub fn run(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    let engine = snap.ensemble.spec.engine.as_ref();
    let Some(wanted) = engine.and_then(|e| e.parameters()) else {
        return;
    };
    let wanted = &possible(draft, wanted);
    let Some(leader) = snap.roles().leader_says() else {
        return;
    };
    let Some(kept) = leader.parameters.clone() else {
        return;
    };
    match draft.parameters.clone() {
        Some(change) if change.state == ParameterState::Applying => {
            if is_wanted(&change.to, wanted) {
                apply(draft, change, &kept);
            } else {
                begin(draft, wanted, &kept);
            }
        }
        Some(change) if change.state == ParameterState::RollingBack => {
            roll_back(draft, change, &kept);
        }
        Some(change)
            if change.state == ParameterState::Refused && is_wanted(&change.to, wanted) =>
        {
            refused(draft, &change);
        }
        _ => begin(draft, wanted, &kept),
    }
}

/// What is wanted and can be had. What cannot is told to people and to nobody else; it holds up none
/// of the others.
fn possible(draft: &mut Draft<'_>, wanted: &Values) -> Values {
    let snap = draft.snap;
    let impossible = &snap.abilities.impossible;
    for (name, wrong) in impossible {
        let mut blocker = blocker(snap, Reason::ParameterRefused, wrong.to_string());
        blocker.observed = "no engine was told of it".into();
        let cause = format!("{name} was set");
        draft.block(Action::Configure, None, &cause, blocker);
    }
    let had = |(name, _): &(&String, &String)| !impossible.contains_key(*name);
    let wanted = wanted.iter().filter(had);
    wanted.map(|(n, v)| (n.clone(), v.clone())).collect()
}

fn is_wanted(to: &Values, wanted: &Values) -> bool {
    to.iter()
        .all(|(name, value)| wanted.get(name) == Some(value))
}

/// Writes down what is to change, before anybody is told. What is lowered waits until what is raised
/// has arrived: the two want opposite orders.
fn begin(draft: &mut Draft<'_>, wanted: &Values, kept: &Values) {
    let differs = |(name, value): &(&String, &String)| kept.get(*name) != Some(*value);
    let changed: Vec<(&String, &String)> = wanted.iter().filter(differs).collect();
    if changed.is_empty() {
        return unexplained(draft, wanted);
    }
    let lowered = |(name, value): &(&String, &String)| {
        let before = kept.get(*name).map(String::as_str);
        draft.snap.abilities.is_lowered(name, before, value)
    };
    let all_lowered = changed.iter().all(lowered);
    let now = changed.into_iter().filter(|c| all_lowered || !lowered(c));
    let to: Values = now.map(|(n, v)| (n.clone(), v.clone())).collect();
    let from = kept.iter().filter(|(n, _)| to.contains_key(*n));
    let change = ParameterChange {
        from: from.map(|(n, v)| (n.clone(), v.clone())).collect(),
        to,
        state: ParameterState::Applying,
        message: String::new(),
    };
    let cause = cause(&change);
    draft.parameters = Some(change);
    draft.step(Action::Configure, None, &cause, StepState::Next);
}

/// Members that say that they wait for a restart.
fn pending(snap: &Cast<'_>) -> Vec<MemberId> {
    let said = |m: &MemberId| snap.roles().sighting(*m);
    let pending = |m: &MemberId| said(m).is_some_and(|s| s.pending_restart);
    snap.members().filter(pending).collect()
}

/// Members that wait for a restart of which nothing is written down: in which order is not known.
fn unexplained(draft: &mut Draft<'_>, wanted: &Values) {
    if draft.parameters.is_some() || wanted.is_empty() {
        return;
    }
    let snap = draft.snap;
    for who in pending(snap) {
        let member = snap.roster().name(who);
        let message = format!("{member} waits for a restart, and nothing says which value changed");
        let blocker = blocker(snap, Reason::RestartPending, message);
        draft.block(
            Action::Restart,
            Some(member),
            "a parameter changed",
            blocker,
        );
    }
}

fn cause(change: &ParameterChange) -> String {
    let one = |(name, value): (&String, &String)| match change.from.get(name) {
        Some(old) => format!("{name} {old} -> {value}"),
        None => format!("{name} -> {value}"),
    };
    let all: Vec<String> = change.to.iter().map(one).collect();
    all.join(", ")
}

fn apply(draft: &mut Draft<'_>, change: ParameterChange, kept: &Values) {
    let stored = draft.snap.ensemble.status.parameters.as_ref() == Some(&change);
    let cause = cause(&change);
    if let Some(message) = failed(draft) {
        draft.parameters = Some(ParameterChange {
            state: ParameterState::RollingBack,
            message,
            ..change
        });
        return draft.step(Action::Configure, None, &cause, StepState::Running);
    }
    if !change.to.iter().all(|(n, v)| kept.get(n) == Some(v)) {
        if stored {
            let to = change.to.iter().map(|(n, v)| (n.clone(), Some(v.clone())));
            tell(draft, to.collect());
        }
        return draft.step(Action::Configure, None, &cause, StepState::Running);
    }
    if restart_pending(draft, &cause) {
        draft.parameters = Some(ParameterChange {
            state: ParameterState::Applied,
            ..change
        });
    }
}

fn roll_back(draft: &mut Draft<'_>, change: ParameterChange, kept: &Values) {
    let back: BTreeMap<String, Option<String>> = change
        .to
        .keys()
        .map(|n| (n.clone(), change.from.get(n).cloned()))
        .collect();
    refused(draft, &change);
    if !back.iter().all(|(n, v)| kept.get(n) == v.as_ref()) {
        return tell(draft, back);
    }
    if restart_pending(draft, "the old parameters are put back") {
        draft.parameters = Some(ParameterChange {
            state: ParameterState::Refused,
            ..change
        });
    }
}

fn refused(draft: &mut Draft<'_>, change: &ParameterChange) {
    let cause = cause(change);
    let message = format!("{cause}: {}", change.message);
    let blocker = blocker(draft.snap, Reason::ParameterRefused, message);
    draft.block(Action::Configure, None, &cause, blocker);
}

fn tell(draft: &mut Draft<'_>, parameters: BTreeMap<String, Option<String>>) {
    let snap = draft.snap;
    let leader = snap.roles().leader().and_then(|m| snap.our_pod(m));
    if let Some(pod) = leader {
        draft.engine.push(EngineWrite::SetParameters {
            member: pod.meta.pin.name.clone(),
            uid: pod.meta.pin.uid.clone(),
            parameters,
        });
        draft.wake.at(snap.now.plus_ms(1_000));
    }
}

/// A member whose engine would not restart, in the engine's own words. That nobody answered says
/// nothing about the value; the member's agent says so itself if its engine does not come up.
fn failed(draft: &Draft<'_>) -> Option<String> {
    let snap = draft.snap;
    snap.members().find_map(|m| {
        let name = snap.roster().name(m);
        let failure = snap.memory.failures.get(&(Kind::Pod, name.clone()))?;
        let words = match failure.reason {
            Reason::EngineFailing => &failure.message,
            Reason::EngineUnreachable => match snap.roles().sighting(m).map(|s| &s.role) {
                Some(Role::Unknown(WhyUnknown::Unreadable(state))) => state,
                _ => return None,
            },
            _ => return None,
        };
        Some(format!("{name} did not come up with it: {words}"))
    })
}

/// Restarts the engines that wait for it, in order; true once nobody waits any more.
fn restart_pending(draft: &mut Draft<'_>, cause: &str) -> bool {
    let snap = draft.snap;
    let roles = snap.roles();
    let mut pending = pending(snap);
    if pending.is_empty() {
        return settled(draft, cause);
    }
    pending.sort_by_key(|m| (draft.safety.in_second_turn(*m), std::cmp::Reverse(*m)));
    let mut one_waits = false;
    for who in pending {
        one_waits = one_waits || !draft.safety.turn_has_come(who);
        if one_waits {
            let member = snap.roster().name(who);
            draft.step(Action::Restart, Some(member), cause, StepState::Idle);
            continue;
        }
        let started = roles.sighting(who).map(|s| s.started.clone());
        let target = started.unwrap_or_default();
        one_waits = !draft.change(who, Method::Restart, Action::Restart, cause, &target);
    }
    if one_waits {
        wake_once_noticed(draft);
    }
    false
}

/// What waits until everybody has noticed is looked at again then.
fn wake_once_noticed(draft: &mut Draft<'_>) {
    let at = draft.safety.noticed_at();
    if at > draft.snap.now {
        draft.wake.at(at);
    }
}

/// Whether everybody had the time to notice, and follows.
fn settled(draft: &mut Draft<'_>, cause: &str) -> bool {
    let snap = draft.snap;
    let all = snap.roster().wanted().all(|m| snap.fit(m));
    if draft.safety.noticed_at() <= snap.now && all {
        return true;
    }
    wake_once_noticed(draft);
    draft.step(Action::Configure, None, cause, StepState::Running);
    false
}
