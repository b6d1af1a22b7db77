//! `switch` and `approve`: things asked of an ensemble once, as an EnsembleRequest of the user's.

use crate::args::{Approve, Global, Switch};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use ensemble_api::request::{self, EnsembleRequest, EnsembleRequestSpec};
use ensemble_api::{EnsembleRequestStatus, EnsembleStatus, Outcome};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};
use std::time::Duration;

/// Asks for a switchover, and waits for what comes of it.
pub async fn switch(cluster: &Cluster, global: &Global, args: &Switch) -> Result<Exit, Failure> {
    let name = &args.name;
    cluster.ensemble(name).await?;
    let spec = EnsembleRequestSpec {
        switch: Some(request::Switch {
            to: args.to.clone(),
        }),
        ..blank(name, args.reason.clone())
    };
    let made = create(cluster, "switch", spec).await?;
    let wait = (!args.no_wait).then_some(args.timeout);
    outcome(cluster, global, &made, wait).await
}

/// Waits for what comes of a request, for so long at most; if at all.
pub(super) async fn outcome(
    cluster: &Cluster,
    global: &Global,
    made: &EnsembleRequest,
    wait: Option<Duration>,
) -> Result<Exit, Failure> {
    let Some(timeout) = wait else {
        return shown(global, made, "asked");
    };
    output::say(format!("asked as {}; waiting for its outcome", named(made)));
    let waited = tokio::select! {
        answered = until(cluster, made, |s| s.outcome.is_some()) => Some(answered?),
        () = tokio::time::sleep(timeout) => None,
        _ = tokio::signal::ctrl_c() => {
            output::say(format!("interrupted; {} stands", named(made)));
            return Ok(Exit::Interrupted);
        }
    };
    let Some(answered) = waited else {
        output::say(format!(
            "no outcome yet; {} stands: {}",
            named(made),
            cluster.pasted(&format!("ensemble why {}", made.spec.ensemble))
        ));
        return Ok(Exit::TimedOut);
    };
    let outcome = answered.status.as_ref().and_then(|s| s.outcome);
    let message = answered.status.as_ref().map(|s| s.message.clone());
    shown(global, &answered, &message.unwrap_or_default())?;
    Ok(match outcome {
        Some(Outcome::Done) => Exit::Converged,
        Some(Outcome::Failed) => Exit::Blocked,
        Some(Outcome::Refused) | None => Exit::Refused,
    })
}

/// Lets a supervised rollout hand the lead over.
pub async fn approve(cluster: &Cluster, global: &Global, args: &Approve) -> Result<Exit, Failure> {
    let name = &args.name;
    let object = cluster.ensemble(name).await?;
    let status = object.data.get("status").cloned().unwrap_or(Value::Null);
    let status: EnsembleStatus = serde_json::from_value(status).unwrap_or_default();
    let supervised = object
        .data
        .pointer("/spec/rollout/primary")
        .and_then(Value::as_str)
        == Some("Supervised");
    if !supervised {
        let text = "spec.rollout.primary is not Supervised: nothing waits for approval";
        return Err(Failure::error(format!("{name}: {text}")));
    }
    let revision = args.revision.clone();
    let revision = revision.unwrap_or_else(|| status.revision().to_owned());
    if revision.is_empty() {
        return Err(Failure::error(format!(
            "{name} has no revision yet; there is nothing to approve"
        )));
    }
    let spec = EnsembleRequestSpec {
        approve: Some(request::Approve {
            revision: revision.clone(),
        }),
        ..blank(name, args.reason.clone())
    };
    let made = create(cluster, "approve", spec).await?;
    shown(global, &made, &format!("approved {revision}"))
}

/// A request that asks for nothing yet.
pub(super) fn blank(name: &str, reason: Option<String>) -> EnsembleRequestSpec {
    EnsembleRequestSpec {
        ensemble: name.to_owned(),
        rebuild: None,
        switch: None,
        approve: None,
        waive: None,
        remove: None,
        replace: None,
        reason,
        ttl_seconds_after_finished: 86_400,
    }
}

/// As it is called in messages.
pub(super) fn named(request: &EnsembleRequest) -> String {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    format!("EnsembleRequest {name}")
}

/// Creates it as the user.
pub(super) async fn create(
    cluster: &Cluster,
    what: &str,
    spec: EnsembleRequestSpec,
) -> Result<EnsembleRequest, Failure> {
    let name = spec.ensemble.clone();
    let api: Api<EnsembleRequest> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let request = EnsembleRequest {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-{what}-")),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    };
    let made = api.create(&PostParams::default(), &request).await;
    let doing = format!("cannot create an EnsembleRequest for '{name}'");
    made.map_err(|error| Failure::of_call(&doing, error))
}

/// The request, once its status is as it is waited for.
pub(super) async fn until(
    cluster: &Cluster,
    made: &EnsembleRequest,
    arrived: fn(&EnsembleRequestStatus) -> bool,
) -> Result<EnsembleRequest, Failure> {
    let api: Api<EnsembleRequest> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let name = made.metadata.name.clone().unwrap_or_default();
    loop {
        let found = api.get(&name).await;
        let found = found
            .map_err(|error| Failure::of_call(&format!("cannot read {}", named(made)), error))?;
        if found.status.as_ref().is_some_and(arrived) {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

fn shown(global: &Global, request: &EnsembleRequest, words: &str) -> Result<Exit, Failure> {
    let value = json!({
        "request": request.metadata.name,
        "ensemble": request.spec.ensemble,
        "outcome": request.status.as_ref().and_then(|s| s.outcome),
        "message": words,
    });
    let text = || format!("{words}\n");
    output::print(&output::render(global.output, &value, text)?)?;
    Ok(Exit::Converged)
}
