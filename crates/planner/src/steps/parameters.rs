//! The engine's parameters: told to the engine, and where that takes a restart, member by member in
//! the order that the change demands; whose turn it is, safety says.

use crate::cast::Cast;
use crate::engine::Tell;
use crate::parameters::{self, Values, is_contradicted, is_wanted, pending};
use crate::plan::blocker;
use crate::safety::Safety;
use crate::sheet::Sheet;
use crate::wish::Cause;
use ensemble_api::report::Action;
use ensemble_api::status::{ParameterChange, ParameterState};
use ensemble_api::{Reason, StepState};
use std::collections::BTreeMap;

/// Where the change of parameters stands.
#[must_use]
pub struct Configured {
    /// The newest, as it is to be stored.
    pub newest: Option<ParameterChange>,
}

/// Brings the parameters of the spec to the engine. Whoever has to restart for them takes its turn.
pub fn run(snap: &Cast<'_>, safety: &Safety<'_>, sheet: &mut Sheet<'_>) -> Configured {
    let stored = snap.ensemble.status.parameters.as_ref();
    let next = next(snap, stored, safety, sheet);
    Configured {
        newest: next.or_else(|| stored.cloned()),
    }
}

/// The change as it is from now on, if that is not as it is stored.
fn next(
    snap: &Cast<'_>,
    stored: Option<&ParameterChange>,
    safety: &Safety<'_>,
    sheet: &mut Sheet<'_>,
) -> Option<ParameterChange> {
    let wanted = &parameters::wanted(snap)?;
    impossible(snap, sheet);
    let kept = parameters::kept(snap)?;
    match stored {
        Some(change) if change.state == ParameterState::Applying => {
            if is_contradicted(&change.to, wanted) {
                supersede(snap, change, (wanted, kept), safety, sheet)
            } else {
                apply(snap, change, kept, safety, sheet)
            }
        }
        Some(change) if change.state == ParameterState::RollingBack => {
            roll_back(snap, change, kept, safety, sheet)
        }
        Some(change)
            if change.state == ParameterState::Refused && is_wanted(&change.to, wanted) =>
        {
            refused(snap, change, sheet);
            None
        }
        _ => begin(snap, (wanted, kept), kept, &Values::new(), sheet),
    }
}

/// Another value is wanted while one is being applied. In which order members restart for it depends on
/// what the leader runs with by now; what of the old change is still wanted goes along.
fn supersede(
    snap: &Cast<'_>,
    change: &ParameterChange,
    (wanted, kept): (&Values, &Values),
    safety: &Safety<'_>,
    sheet: &mut Sheet<'_>,
) -> Option<ParameterChange> {
    let noticed = safety.noticed_at() <= snap.now;
    let Some(running) = parameters::running(snap, change, kept, noticed) else {
        wake_once_noticed(snap, safety, sheet);
        sheet.step(Action::Configure, None, &change.words(), StepState::Running);
        return None;
    };
    let told = |(name, value): &(&String, &String)| {
        kept.get(*name) == Some(*value) && wanted.get(*name).is_none_or(|w| w == *value)
    };
    let along = change.to.iter().filter(told);
    let along: Values = along.map(|(n, v)| (n.clone(), v.clone())).collect();
    begin(snap, (wanted, kept), &running, &along, sheet)
}

/// What cannot be had is told to people and to nobody else; it holds up none of the others.
fn impossible(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    for (name, wrong) in &snap.abilities.impossible {
        let mut blocker = blocker(snap, Reason::ParameterRefused, wrong.to_string());
        blocker.observed = "no engine was told of it".into();
        let cause = format!("{name} was set");
        sheet.block(Action::Configure, None, &cause, blocker);
    }
}

/// Writes down what is to change, before anybody is told. What is lowered waits until what is raised
/// has arrived: the two want opposite orders. The leader runs with `running`; what the engine was told
/// before and not everybody runs with yet goes `along`.
fn begin(
    snap: &Cast<'_>,
    (wanted, kept): (&Values, &Values),
    running: &Values,
    along: &Values,
    sheet: &mut Sheet<'_>,
) -> Option<ParameterChange> {
    let differs = |(name, value): &(&String, &String)| kept.get(*name) != Some(*value);
    let changed: Vec<(&String, &String)> = wanted.iter().filter(differs).collect();
    if changed.is_empty() {
        unexplained(snap, wanted, sheet);
        return None;
    }
    let before = |name: &str| running.get(name).map(String::as_str);
    let abilities = &snap.abilities;
    let lowered = |(n, v): &(&String, &String)| abilities.is_lowered(n, before(n), v);
    let raised = |(n, v): &(&String, &String)| abilities.is_raised(n, before(n), v);
    let lowers = match along.is_empty() {
        true => changed.iter().all(lowered),
        // Its order is decided already.
        false => along.iter().any(|c| lowered(&c)),
    };
    let fits = |c: &(&String, &String)| match lowers {
        true => !raised(c),
        false => !lowered(c),
    };
    let now = along.iter().chain(changed.into_iter().filter(fits));
    let to: Values = now.map(|(n, v)| (n.clone(), v.clone())).collect();
    let from = running.iter().filter(|(n, _)| to.contains_key(*n));
    let change = ParameterChange {
        from: from.map(|(n, v)| (n.clone(), v.clone())).collect(),
        to,
        state: ParameterState::Applying,
        message: String::new(),
    };
    sheet.step(Action::Configure, None, &change.words(), StepState::Next);
    Some(change)
}

/// Members that wait for a restart of which nothing is written down: in which order is not known.
fn unexplained(snap: &Cast<'_>, wanted: &Values, sheet: &mut Sheet<'_>) {
    if snap.ensemble.status.parameters.is_some() || wanted.is_empty() {
        return;
    }
    for who in pending(snap) {
        let member = snap.roster().name(who);
        let message = format!("{member} waits for a restart, and nothing says which value changed");
        let blocker = blocker(snap, Reason::RestartPending, message);
        sheet.block(
            Action::Restart,
            Some(member),
            "a parameter changed",
            blocker,
        );
    }
}

fn apply(
    snap: &Cast<'_>,
    change: &ParameterChange,
    kept: &Values,
    safety: &Safety<'_>,
    sheet: &mut Sheet<'_>,
) -> Option<ParameterChange> {
    let cause = change.words();
    if let Some(message) = parameters::failed(snap, change) {
        sheet.step(Action::Configure, None, &cause, StepState::Running);
        return Some(ParameterChange {
            state: ParameterState::RollingBack,
            message,
            ..change.clone()
        });
    }
    if !is_wanted(&change.to, kept) {
        let to = change.to.iter().map(|(n, v)| (n.clone(), Some(v.clone())));
        tell(snap, to.collect(), sheet);
        sheet.step(Action::Configure, None, &cause, StepState::Running);
        return None;
    }
    nobody_waits(snap, &cause, safety, sheet).then(|| ParameterChange {
        state: ParameterState::Applied,
        ..change.clone()
    })
}

fn roll_back(
    snap: &Cast<'_>,
    change: &ParameterChange,
    kept: &Values,
    safety: &Safety<'_>,
    sheet: &mut Sheet<'_>,
) -> Option<ParameterChange> {
    let back = parameters::back(change);
    refused(snap, change, sheet);
    if !back.iter().all(|(n, v)| kept.get(n) == v.as_ref()) {
        tell(snap, back, sheet);
        return None;
    }
    let cause = Cause::PutBack.to_string();
    nobody_waits(snap, &cause, safety, sheet).then(|| ParameterChange {
        state: ParameterState::Refused,
        ..change.clone()
    })
}

fn refused(snap: &Cast<'_>, change: &ParameterChange, sheet: &mut Sheet<'_>) {
    let cause = change.words();
    let message = format!("{cause}: {}", change.message);
    let blocker = blocker(snap, Reason::ParameterRefused, message);
    sheet.block(Action::Configure, None, &cause, blocker);
}

fn tell(snap: &Cast<'_>, parameters: BTreeMap<String, Option<String>>, sheet: &mut Sheet<'_>) {
    let leader = snap.engine().leader().and_then(|m| snap.our_pod(m));
    if let Some(pod) = leader {
        sheet.tell(Tell::configure(&pod.meta.pin, parameters));
        sheet.wake(snap.now.plus_ms(1_000));
    }
}

/// What waits until everybody has noticed is looked at again then.
pub fn wake_once_noticed(snap: &Cast<'_>, safety: &Safety<'_>, sheet: &mut Sheet<'_>) {
    let at = safety.noticed_at();
    if at > snap.now {
        sheet.wake(at);
    }
}

/// Whether nobody waits for a restart any more, had the time to, and everybody follows.
fn nobody_waits(snap: &Cast<'_>, cause: &str, safety: &Safety<'_>, sheet: &mut Sheet<'_>) -> bool {
    // Whoever does takes its turn, which speaks for it.
    pending(snap).is_empty() && settled(snap, cause, safety, sheet)
}

/// Whether everybody had the time to notice, and follows.
fn settled(snap: &Cast<'_>, cause: &str, safety: &Safety<'_>, sheet: &mut Sheet<'_>) -> bool {
    let all = snap.roster().wanted().all(|m| snap.fit(m));
    if safety.noticed_at() <= snap.now && all {
        return true;
    }
    wake_once_noticed(snap, safety, sheet);
    sheet.step(Action::Configure, None, cause, StepState::Running);
    false
}
