//! `install`: prints what the controller needs, or applies it and waits.

use super::apply::{apply, place, title};
use super::print_manifests;
use crate::args::{Global, Install};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::manifests::{self, Place};
use crate::output::{self, Format};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Installs, or shows what would be.
pub async fn run(global: &Global, args: &Install) -> Result<Exit, Failure> {
    if !args.apply {
        let place = Place::of(global.namespace.as_deref(), args.watch_namespace.as_deref());
        return print_manifests(global.output, manifests::all(&place, args));
    }
    apply_to(&Cluster::connect(global).await?.client, global, args).await
}

/// Applies the manifests to that cluster.
pub async fn apply_to(client: &Client, global: &Global, args: &Install) -> Result<Exit, Failure> {
    let place = Place::of(global.namespace.as_deref(), args.watch_namespace.as_deref());
    let objects = manifests::all(&place, args);
    tokio::select! {
        exit = bring_in(client, global, args, &place, &objects) => exit,
        _ = tokio::signal::ctrl_c() => {
            output::say("interrupted; run the same command again to finish");
            Ok(Exit::Interrupted)
        }
    }
}

async fn bring_in(
    client: &Client,
    global: &Global,
    args: &Install,
    place: &Place,
    objects: &[Value],
) -> Result<Exit, Failure> {
    let deadline = Instant::now() + args.timeout;
    let mut done = Vec::new();
    for object in objects {
        let applied = apply(client, object).await?;
        let title = title(object);
        if global.output == Format::Table {
            output::print(&format!("{title} {}\n", applied.word()))?;
        }
        done.push(json!({"object": title, "applied": applied.word()}));
        if object["kind"] == "CustomResourceDefinition" {
            // The API server serves a kind a moment after it has been told of it.
            let exit = until(client, object, deadline, established, || async {
                String::new()
            })
            .await?;
            if exit != Exit::Converged {
                return Ok(exit);
            }
        }
    }
    if let Some(watched) = &place.watched {
        output::say(format!(
            "looks after namespace '{watched}' alone; without rights to read nodes it cannot tell \
             whether one is gone, and says so (NodesUnknown)"
        ));
    }
    let mut exit = Exit::Converged;
    if args.wait
        && let Some(deployment) = objects.iter().find(|o| o["kind"] == "Deployment")
    {
        let home = place.home.clone();
        exit = until(client, deployment, deadline, available, || {
            pods(client, home.clone())
        })
        .await?;
    }
    if global.output != Format::Table {
        output::print(&output::render(
            global.output,
            &output::list(done),
            String::new,
        )?)?;
    }
    Ok(exit)
}

/// How far an object is.
enum Progress {
    Arrived,
    /// With what it waits for.
    Waits(String),
    /// With why it will not arrive.
    Failed(String),
}

/// Looks until the object has arrived, has failed, or time is up.
async fn until<F: Future<Output = String>>(
    client: &Client,
    object: &Value,
    deadline: Instant,
    judge: fn(&DynamicObject) -> Progress,
    details: impl Fn() -> F,
) -> Result<Exit, Failure> {
    let title = title(object);
    let (api, name) = place(client, object);
    let mut said = String::new();
    loop {
        let failed = |error| Failure::of_call(&format!("cannot read {title}"), error);
        let seen = api.get_opt(&name).await.map_err(failed)?;
        let progress = seen
            .as_ref()
            .map_or(Progress::Waits("not there yet".into()), judge);
        let waits = match progress {
            Progress::Arrived => return Ok(Exit::Converged),
            Progress::Failed(why) => {
                let details = details().await;
                return Err(Failure::with_exit(
                    Exit::Stalled,
                    format!("{title}: {why}{details}"),
                ));
            }
            Progress::Waits(why) => why,
        };
        if waits != said {
            output::say(format!("{title}: {waits}"));
            said.clone_from(&waits);
        }
        if Instant::now() >= deadline {
            let details = details().await;
            return Err(Failure::with_exit(
                Exit::TimedOut,
                format!("{title} has not arrived in time: {waits}{details}"),
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn condition<'o>(object: &'o DynamicObject, type_: &str) -> Option<&'o Value> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == type_)
}

fn established(crd: &DynamicObject) -> Progress {
    if let Some(refused) = condition(crd, "NamesAccepted").filter(|c| c["status"] == "False") {
        return Progress::Failed(refused["message"].as_str().unwrap_or_default().to_owned());
    }
    match condition(crd, "Established").is_some_and(|c| c["status"] == "True") {
        true => Progress::Arrived,
        false => Progress::Waits("not served yet".into()),
    }
}

fn available(deployment: &DynamicObject) -> Progress {
    let number = |path: &str| {
        deployment
            .data
            .pointer(path)
            .and_then(Value::as_i64)
            .unwrap_or(0)
    };
    let seen = number("/status/observedGeneration") >= deployment.metadata.generation.unwrap_or(0);
    if !seen {
        return Progress::Waits("not seen yet by its controller".into());
    }
    let stuck =
        condition(deployment, "Progressing").filter(|c| c["reason"] == "ProgressDeadlineExceeded");
    if let Some(stuck) = stuck {
        return Progress::Failed(stuck["message"].as_str().unwrap_or_default().to_owned());
    }
    let wanted = number("/spec/replicas");
    let (updated, ready) = (
        number("/status/updatedReplicas"),
        number("/status/availableReplicas"),
    );
    let old = number("/status/replicas") - updated;
    match updated >= wanted && ready >= wanted && old <= 0 {
        true => Progress::Arrived,
        false => Progress::Waits(format!("{} of {wanted} available", ready.min(updated))),
    }
}

/// What keeps the controller's pods from running, in the kubelet's words.
async fn pods(client: &Client, home: String) -> String {
    let api: Api<Pod> = Api::namespaced(client.clone(), &home);
    let params = ListParams::default().labels("app.kubernetes.io/name=ensemble");
    let Ok(pods) = api.list(&params).await else {
        return String::new();
    };
    let lines = pods.items.iter().filter_map(|pod| {
        let status = pod.status.as_ref()?;
        let waiting = status.container_statuses.iter().flatten().find_map(|c| {
            let waiting = c.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting.reason.clone().unwrap_or_default();
            Some(format!(
                "{reason}: {}",
                waiting.message.clone().unwrap_or_default()
            ))
        });
        let unscheduled = status
            .conditions
            .iter()
            .flatten()
            .find(|c| c.type_ == "PodScheduled" && c.status == "False");
        let why = waiting.or_else(|| unscheduled.and_then(|c| c.message.clone()))?;
        Some(format!("\n  pod {home}/{}: {why}", pod.name_any()))
    });
    lines.collect()
}
