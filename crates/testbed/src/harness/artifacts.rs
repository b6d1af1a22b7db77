//! Evidence of a failed test: the error, events, objects and logs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DynamicObject, ListParams, LogParams};
use kube::core::ApiResource;
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt};

/// Where the controller runs in end-to-end tests; its log belongs to every failure.
const CONTROLLER_NAMESPACE: &str = "ensemble-system";

/// How many of the last events are printed, too.
const SAID: usize = 30;

/// Saves what there is to know about a namespace. What cannot be read is left out, with a note:
/// the test's own error must not be hidden by one of these.
pub async fn save(client: &Client, namespace: &str, error: &str) {
    let dir = directory().join(namespace);
    if let Err(failure) = save_all(client, namespace, error, &dir).await {
        eprintln!("failed to save all evidence: {failure:#}");
    }
    eprintln!("evidence is in {}", dir.display());
}

fn directory() -> PathBuf {
    match std::env::var_os("ENSEMBLE_E2E_ARTIFACTS") {
        Some(dir) => PathBuf::from(dir),
        // Cargo runs a test in the directory of its crate, two below the checkout.
        None => PathBuf::from("../../e2e-artifacts"),
    }
}

async fn save_all(client: &Client, namespace: &str, error: &str, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("failed to create {}", dir.display()))?;
    fs::write(dir.join("error.txt"), error)?;
    save_events(client, namespace, dir).await?;
    save_logs(client, namespace, &dir.join("logs")).await?;
    save_logs(client, CONTROLLER_NAMESPACE, &dir.join("controller")).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    write_json(
        &dir.join("nodes.json"),
        &nodes.list(&ListParams::default()).await?.items,
    )?;
    save_objects(client, namespace, &dir.join("objects")).await
}

async fn save_events(client: &Client, namespace: &str, dir: &Path) -> Result<()> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut events = events.list(&ListParams::default()).await?.items;
    events.sort_by_key(|event| {
        event
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0)
    });
    let lines: Vec<String> = events.iter().map(line_of).collect();
    // Who sees only the output of a test sees at least how it ended.
    for line in &lines[lines.len().saturating_sub(SAID)..] {
        eprint!("{line}");
    }
    Ok(fs::write(dir.join("events.txt"), lines.concat())?)
}

fn line_of(event: &Event) -> String {
    let time = event
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0.to_string());
    format!(
        "{} {}/{} {}: {}\n",
        time.unwrap_or_default(),
        event.involved_object.kind.as_deref().unwrap_or("?"),
        event.involved_object.name.as_deref().unwrap_or("?"),
        event.reason.as_deref().unwrap_or("?"),
        event.message.as_deref().unwrap_or(""),
    )
}

/// The logs of all containers, also of their runs before the last restart.
async fn save_logs(client: &Client, namespace: &str, dir: &Path) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    for pod in pods.list(&ListParams::default()).await?.items {
        fs::create_dir_all(dir)?;
        let spec = pod.spec.clone().unwrap_or_default();
        let init = spec.init_containers.unwrap_or_default();
        for container in spec.containers.iter().chain(&init) {
            for previous in [false, true] {
                let parameters = LogParams {
                    container: Some(container.name.clone()),
                    previous,
                    timestamps: true,
                    ..LogParams::default()
                };
                if let Ok(text) = pods.logs(&pod.name_any(), &parameters).await {
                    let run = if previous { "-previous" } else { "" };
                    let file = format!("{}-{}{run}.log", pod.name_any(), container.name);
                    fs::write(dir.join(file), text)?;
                }
            }
        }
    }
    Ok(())
}

/// Every object of the namespace, one file for each kind.
async fn save_objects(client: &Client, namespace: &str, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    let discovery = Discovery::new(client.clone()).run().await?;
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if capabilities.scope == Scope::Namespaced
                && capabilities.supports_operation(verbs::LIST)
            {
                save_kind(client, namespace, &resource, dir).await?;
            }
        }
    }
    Ok(())
}

async fn save_kind(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
    dir: &Path,
) -> Result<()> {
    // Secrets stay out of files that may be shown to others; events have a file of their own.
    if ["Secret", "Event"].contains(&resource.kind.as_str()) {
        return Ok(());
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    match api.list(&ListParams::default()).await {
        Ok(list) if list.items.is_empty() => Ok(()),
        Ok(list) => write_json(&dir.join(format!("{}.json", resource.plural)), &list.items),
        Err(error) => {
            eprintln!("no {} in the evidence: {error}", resource.plural);
            Ok(())
        }
    }
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    fs::write(path, serde_json::to_vec_pretty(value)?)
        .with_context(|| format!("failed to write {}", path.display()))
}
