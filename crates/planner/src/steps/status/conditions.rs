//! Conditions, as tools that know nothing of us read them: renderings of the report.

use crate::cast::Cast;
use crate::presence::Presence;
use ensemble_api::report::State;
use ensemble_api::status::EnsembleStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Sets each as the report has it.
pub fn set(snap: &Cast<'_>, status: &mut EnsembleStatus, state: State) {
    let blocked = status
        .plan
        .first_blocked()
        .map(|(_, b)| (b.reason.to_string(), b.message.clone()));
    let (reason, message) = match (&blocked, state) {
        (_, State::Ready) => (
            "AllServing".to_owned(),
            format!("{} members serve", status.summary.ready),
        ),
        (Some(blocked), _) => blocked.clone(),
        (None, _) => (
            "Progressing".to_owned(),
            format!("{} members serve", status.summary.ready),
        ),
    };
    let replicas = snap.roster().size();
    let enough = replicas.saturating_sub(snap.ensemble.spec.rollout.max_unavailable);
    let serving = snap
        .wanted()
        .filter(|m| snap.presence(*m) == Presence::Serving)
        .count();
    let available = serving >= enough as usize && (serving > 0 || replicas == 0);
    let busy = matches!(
        state,
        State::Working | State::Waiting | State::Stalled | State::Deleting
    );
    put(
        snap,
        status,
        "Ready",
        Some(state == State::Ready),
        &reason,
        &message,
    );
    put(
        snap,
        status,
        "Reconciling",
        busy.then_some(true),
        &reason,
        &message,
    );
    put(
        snap,
        status,
        "Stalled",
        (state == State::Stalled).then_some(true),
        &reason,
        &message,
    );
    let serve = format!("{serving} of {replicas} members serve, {enough} are needed");
    put(
        snap,
        status,
        "Available",
        Some(available),
        if available {
            "EnoughServe"
        } else {
            "TooFewServe"
        },
        &serve,
    );
    let held = matches!(state, State::Paused | State::Suspended);
    put(
        snap,
        status,
        "Paused",
        held.then_some(true),
        &reason,
        &message,
    );
}

/// Sets a condition, keeps its time while its status stays, or takes it away.
fn put(
    snap: &Cast<'_>,
    status: &mut EnsembleStatus,
    type_: &str,
    value: Option<bool>,
    reason: &str,
    message: &str,
) {
    let old = status.conditions.iter().position(|c| c.type_ == type_);
    let old = old.map(|at| status.conditions.remove(at));
    let Some(value) = value else { return };
    let value = if value { "True" } else { "False" };
    let since = old
        .filter(|c| c.status == value)
        .map(|c| c.last_transition_time);
    status.conditions.push(Condition {
        type_: type_.into(),
        status: value.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: Some(snap.ensemble.meta.generation),
        last_transition_time: since.unwrap_or_else(|| snap.now.stamp()),
    });
    status.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}
