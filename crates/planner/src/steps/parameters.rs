//! The engine's parameters: told to the engine, and where that takes a restart, member by member in
//! the order that the change demands; whose turn it is, safety says.

use crate::parameters::{self, Values, is_wanted, pending, words};
use crate::plan::{Draft, EngineWrite, blocker};
use crate::wish::Cause;
use ensemble_api::report::Action;
use ensemble_api::status::{ParameterChange, ParameterState};
use ensemble_api::{Reason, StepState};
use std::collections::BTreeMap;

/// Brings the parameters of the spec to the engine. Whoever has to restart for them takes its turn.
pub fn run(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    let Some(wanted) = &parameters::wanted(snap) else {
        return;
    };
    impossible(draft);
    let Some(kept) = parameters::kept(snap) else {
        return;
    };
    match draft.parameters.clone() {
        Some(change) if change.state == ParameterState::Applying => {
            if is_wanted(&change.to, wanted) {
                apply(draft, change, kept);
            } else {
                begin(draft, wanted, kept);
            }
        }
        Some(change) if change.state == ParameterState::RollingBack => {
            roll_back(draft, change, kept);
        }
        Some(change)
            if change.state == ParameterState::Refused && is_wanted(&change.to, wanted) =>
        {
            refused(draft, &change);
        }
        _ => begin(draft, wanted, kept),
    }
}

/// What cannot be had is told to people and to nobody else; it holds up none of the others.
fn impossible(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    for (name, wrong) in &snap.abilities.impossible {
        let mut blocker = blocker(snap, Reason::ParameterRefused, wrong.to_string());
        blocker.observed = "no engine was told of it".into();
        let cause = format!("{name} was set");
        draft.sheet.block(Action::Configure, None, &cause, blocker);
    }
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
    let cause = words(&change);
    draft.parameters = Some(change);
    draft
        .sheet
        .step(Action::Configure, None, &cause, StepState::Next);
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
        draft.sheet.block(
            Action::Restart,
            Some(member),
            "a parameter changed",
            blocker,
        );
    }
}

fn apply(draft: &mut Draft<'_>, change: ParameterChange, kept: &Values) {
    let stored = draft.snap.ensemble.status.parameters.as_ref() == Some(&change);
    let cause = words(&change);
    if let Some(message) = parameters::failed(draft.snap) {
        draft.parameters = Some(ParameterChange {
            state: ParameterState::RollingBack,
            message,
            ..change
        });
        return draft
            .sheet
            .step(Action::Configure, None, &cause, StepState::Running);
    }
    if !is_wanted(&change.to, kept) {
        if stored {
            let to = change.to.iter().map(|(n, v)| (n.clone(), Some(v.clone())));
            tell(draft, to.collect());
        }
        return draft
            .sheet
            .step(Action::Configure, None, &cause, StepState::Running);
    }
    if nobody_waits(draft, &cause) {
        draft.parameters = Some(ParameterChange {
            state: ParameterState::Applied,
            ..change
        });
    }
}

fn roll_back(draft: &mut Draft<'_>, change: ParameterChange, kept: &Values) {
    let back = parameters::back(&change);
    refused(draft, &change);
    if !back.iter().all(|(n, v)| kept.get(n) == v.as_ref()) {
        return tell(draft, back);
    }
    if nobody_waits(draft, &Cause::PutBack.to_string()) {
        draft.parameters = Some(ParameterChange {
            state: ParameterState::Refused,
            ..change
        });
    }
}

fn refused(draft: &mut Draft<'_>, change: &ParameterChange) {
    let cause = words(change);
    let message = format!("{cause}: {}", change.message);
    let blocker = blocker(draft.snap, Reason::ParameterRefused, message);
    draft.sheet.block(Action::Configure, None, &cause, blocker);
}

fn tell(draft: &mut Draft<'_>, parameters: BTreeMap<String, Option<String>>) {
    let snap = draft.snap;
    let leader = snap.roles().leader().and_then(|m| snap.our_pod(m));
    if let Some(pod) = leader {
        draft.sheet.tell(EngineWrite::SetParameters {
            member: pod.meta.pin.name.clone(),
            uid: pod.meta.pin.uid.clone(),
            parameters,
        });
        draft.sheet.wake(snap.now.plus_ms(1_000));
    }
}

/// What waits until everybody has noticed is looked at again then.
pub fn wake_once_noticed(draft: &mut Draft<'_>) {
    let at = draft.safety.noticed_at();
    if at > draft.snap.now {
        draft.sheet.wake(at);
    }
}

/// Whether nobody waits for a restart any more, had the time to, and everybody follows.
fn nobody_waits(draft: &mut Draft<'_>, cause: &str) -> bool {
    // Whoever does takes its turn, which speaks for it.
    pending(draft.snap).is_empty() && settled(draft, cause)
}

/// Whether everybody had the time to notice, and follows.
fn settled(draft: &mut Draft<'_>, cause: &str) -> bool {
    let snap = draft.snap;
    let all = snap.roster().wanted().all(|m| snap.fit(m));
    if draft.safety.noticed_at() <= snap.now && all {
        return true;
    }
    wake_once_noticed(draft);
    draft
        .sheet
        .step(Action::Configure, None, cause, StepState::Running);
    false
}
