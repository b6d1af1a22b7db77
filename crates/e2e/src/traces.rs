//! Playing simkube's situations on real nodes.

use crate::TOOLBOX;
use anyhow::{Context, Result, bail};
use ensemble_testbed::client::nodes_ready;
use ensemble_testbed::eventually;
use ensemble_testbed::full::Testbed;
use ensemble_testbed::full::faults::Side;
use ensemble_testbed::harness::{Cluster, TestNamespace};
use futures::{StreamExt, future};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchParams};
use kube::core::WatchEvent;
use serde_json::{Value, json};
use simkube::SimTime;
use simkube::trace::{Conduct, Image, Situation, Step, Trace};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(150);
/// Longer than a situation takes; a watch may not be longer.
const WATCHED_SECONDS: u32 = 290;
/// Where pods are whose nodes nobody cuts off.
const CALM_NODE: &str = "node1";

/// Plays situations: at once, but those that need a node of their own one after the other on it.
pub async fn record<'a>(
    cluster: &Cluster,
    all: &'a [Situation],
) -> Result<Vec<(&'a Situation, Result<Trace>)>> {
    let testbed = cluster.testbed().context("nodes have to be cut off")?;
    let mut nodes = ["node2", "node3"].into_iter().cycle();
    let mut recordings = Vec::new();
    for situation in all {
        let node = match situation.needs_a_node_of_its_own() {
            true => nodes.next().unwrap_or(CALM_NODE),
            false => CALM_NODE,
        };
        recordings.push(async move {
            let trace = record_one(cluster, testbed, situation, node).await;
            (situation, trace)
        });
    }
    let recorded = future::join_all(recordings).await;
    nodes_ready(&cluster.client(), 3).await?;
    Ok(recorded)
}

async fn record_one(
    cluster: &Cluster,
    testbed: &Testbed,
    situation: &Situation,
    node: &str,
) -> Result<Trace> {
    let trace = Arc::new(Mutex::new(Trace::default()));
    let kept = trace.clone();
    TestNamespace::run(cluster, situation.name, async |namespace| {
        let api: Api<Pod> = namespace.api();
        let from = api.list(&Default::default()).await?.metadata;
        let from = from.resource_version.unwrap_or_default();
        let watch = watch(api.clone(), from, kept);
        api.create(
            &PostParams::default(),
            &serde_json::from_value(pod(situation, node))?,
        )
        .await?;
        let mut played = Ok(());
        for step in situation.steps {
            played = take(&api, testbed, situation, node, step).await;
            if played.is_err() {
                break;
            }
        }
        // Whatever came of it, the next one needs the node.
        if situation.needs_a_node_of_its_own() {
            testbed.heal(node)?;
        }
        // What was seen by asking may not have been told yet.
        tokio::time::sleep(Duration::from_secs(3)).await;
        watch.abort();
        played
    })
    .await?;
    let trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(trace.clone())
}

fn pod(situation: &Situation, node: &str) -> Value {
    let script = match situation.conduct {
        Conduct::Serves => "trap 'exit 0' TERM; touch /tmp/ready; while :; do sleep 0.2; done",
        Conduct::Deaf => "trap '' TERM; touch /tmp/ready; while :; do sleep 0.2; done",
        Conduct::Crashes => "sleep 1; exit 3",
    };
    let mut pod = situation.pod();
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = image(Image::One).into();
    container["command"] = json!(["sh", "-c", script]);
    pod
}

fn image(image: Image) -> String {
    format!("{TOOLBOX}:{}", image.tag())
}

fn now() -> SimTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    SimTime(since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(0)))
}

fn watch(api: Api<Pod>, from: String, trace: Arc<Mutex<Trace>>) -> JoinHandle<Result<()>> {
    tokio::spawn(async move {
        let params = WatchParams::default().timeout(WATCHED_SECONDS);
        let mut events = api.watch(&params, &from).await?.boxed();
        while let Some(event) = events.next().await {
            let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
            match event? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    trace.see(now(), &serde_json::to_value(pod)?);
                }
                WatchEvent::Deleted(_) => trace.gone(now()),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(error) => bail!("the watch ended: {error}"),
            }
        }
        Ok(())
    })
}

async fn take(
    api: &Api<Pod>,
    testbed: &Testbed,
    situation: &Situation,
    node: &str,
    step: &Step,
) -> Result<()> {
    let name = situation.name;
    match step {
        Step::Set(wanted) => {
            let container = json!({"name": "main", "image": image(*wanted)});
            let patch = json!({"spec": {"containers": [container]}});
            api.patch(name, &PatchParams::default(), &Patch::Strategic(patch))
                .await?;
        }
        Step::Delete => {
            api.delete(name, &DeleteParams::default()).await?;
        }
        Step::Free => {
            let patch = json!({"metadata": {"finalizers": null}});
            api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await?;
        }
        Step::CutOff => testbed.partition(node, Side::ControlPlane)?,
        Step::Connect => testbed.heal(node)?,
        Step::Until(what, holds) => {
            eventually(&format!("{name}: {what}"), LIMIT, async || {
                let pod = api.get(name).await?;
                Ok(holds(&serde_json::to_value(pod)?).then_some(()))
            })
            .await?;
        }
        Step::UntilGone => {
            eventually(&format!("{name} is gone"), LIMIT, async || {
                Ok(api.get_opt(name).await?.is_none().then_some(()))
            })
            .await?;
        }
    }
    Ok(())
}
