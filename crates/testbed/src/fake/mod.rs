//! Simulated nodes: pods become ready without containers, so that thousands fit on one machine
//! and no root is needed.
//!
//! Unlike kwok it deletes a pod only with that pod's uid, so a successor of the same name is
//! never hurt, and it follows changes of images and resources in place.

mod behaviour;
mod container;
mod node;
mod pod;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;

use crate::background::Background;
use crate::client;
use crate::phase::say;
use pod::{Life, Step};

pub use behaviour::Behaviour;

/// A set of simulated nodes; dropping it makes all of them fall silent.
pub struct FakeNodes {
    shared: Arc<Shared>,
    _work: Background,
}

struct Shared {
    count: usize,
    beat_seconds: u32,
    silent: Mutex<BTreeSet<String>>,
    next_address: AtomicU32,
}

impl FakeNodes {
    /// Registers `count` nodes named `fake-0`, `fake-1`, ... and starts to simulate them.
    pub fn start(kubeconfig: &Path, count: usize, beat_seconds: u32) -> Result<FakeNodes> {
        let shared = Arc::new(Shared::new(count, beat_seconds));
        let (kubeconfig, simulated) = (kubeconfig.to_owned(), Arc::clone(&shared));
        let work = Background::start("fake nodes", async move || {
            simulate(kubeconfig, simulated).await
        })?;
        Ok(FakeNodes {
            shared,
            _work: work,
        })
    }

    /// The names of the nodes.
    pub fn names(&self) -> Vec<String> {
        (0..self.shared.count).map(node::name).collect()
    }

    /// Makes a node fall silent, as one that lost power or its network does.
    pub fn silence(&self, node: &str) {
        self.shared.silent().insert(node.to_owned());
    }

    /// Brings a silent node back.
    pub fn revive(&self, node: &str) {
        self.shared.silent().remove(node);
    }
}

impl Shared {
    fn new(count: usize, beat_seconds: u32) -> Shared {
        let next_address = AtomicU32::new(1);
        Shared {
            count,
            beat_seconds,
            silent: Mutex::default(),
            next_address,
        }
    }

    fn silent(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_silent(&self, node: &str) -> bool {
        self.silent().contains(node)
    }

    /// An address that no real host has to have: nothing is ever sent to it.
    fn address(&self) -> String {
        let number = self.next_address.fetch_add(1, Ordering::Relaxed);
        let [_, high, middle, low] = number.to_be_bytes();
        format!("10.{}.{middle}.{low}", 64 + high)
    }
}

/// Simulates nodes for ever.
pub async fn serve(kubeconfig: &Path, count: usize, beat_seconds: u32) -> Result<()> {
    simulate(
        kubeconfig.to_owned(),
        Arc::new(Shared::new(count, beat_seconds)),
    )
    .await
}

async fn simulate(kubeconfig: PathBuf, shared: Arc<Shared>) -> Result<()> {
    let client = client::from_kubeconfig(&kubeconfig).await?;
    for index in 0..shared.count {
        node::register(&client, index).await?;
        tokio::spawn(keep_alive(
            client.clone(),
            Arc::clone(&shared),
            node::name(index),
        ));
    }
    follow_pods(client, shared).await
}

async fn keep_alive(client: Client, shared: Arc<Shared>, name: String) {
    loop {
        if !shared.is_silent(&name) {
            let beat = node::renew_lease(&client, &name, shared.beat_seconds).await;
            let report = node::report_ready(&client, &name).await;
            if let Err(error) = beat.and(report) {
                say(&format!("{error:#}"));
            }
        }
        tokio::time::sleep(Duration::from_secs(shared.beat_seconds.into())).await;
    }
}

/// Gives every pod on a simulated node a task of its own.
async fn follow_pods(client: Client, shared: Arc<Shared>) -> Result<()> {
    let pods: Api<Pod> = Api::all(client.clone());
    let mut lives: HashMap<String, watch::Sender<Pod>> = HashMap::new();
    let mut listed: BTreeSet<String> = BTreeSet::new();
    let mut events = watcher::watcher(pods, watcher::Config::default())
        .map_err(anyhow::Error::from)
        .boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.insert(pod.uid().unwrap_or_default());
                tend(&client, &shared, &mut lives, pod);
            }
            Ok(Event::InitDone) => lives.retain(|uid, _| listed.contains(uid)),
            Ok(Event::Apply(pod)) => tend(&client, &shared, &mut lives, pod),
            Ok(Event::Delete(pod)) => {
                lives.remove(&pod.uid().unwrap_or_default());
            }
            // The watcher starts over by itself; while the API server is away there is no hurry.
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
    Ok(())
}

fn tend(
    client: &Client,
    shared: &Arc<Shared>,
    lives: &mut HashMap<String, watch::Sender<Pod>>,
    pod: Pod,
) {
    let node = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.node_name.clone())
        .unwrap_or_default();
    let Some(uid) = pod.uid() else { return };
    if !node.starts_with("fake-") {
        return;
    }
    if let Some(life) = lives.get(&uid) {
        life.send_replace(pod);
        return;
    }
    let (sender, latest) = watch::channel(pod);
    lives.insert(uid, sender);
    tokio::spawn(live(client.clone(), Arc::clone(shared), node, latest));
}

/// The life of one pod, until its object is gone.
async fn live(client: Client, shared: Arc<Shared>, node: String, mut latest: watch::Receiver<Pod>) {
    // A pod that ran before these nodes were simulated keeps its address.
    let known = latest
        .borrow()
        .status
        .as_ref()
        .and_then(|s| s.pod_ip.clone());
    let mut life = Life::new(known.unwrap_or_else(|| shared.address()));
    loop {
        let pod = latest.borrow_and_update().clone();
        let pause = if shared.is_silent(&node) {
            life.forget_report();
            Some(Duration::from_millis(200))
        } else {
            match act(&client, &pod, &mut life).await {
                Ok(pause) => pause,
                Err(error) => {
                    say(&format!(
                        "fake node {node}, pod {}: {error:#}",
                        pod.name_any()
                    ));
                    Some(Duration::from_millis(500))
                }
            }
        };
        let changed = match pause {
            Some(pause) => tokio::time::timeout(pause, latest.changed())
                .await
                .unwrap_or(Ok(())),
            None => latest.changed().await,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Takes steps until there is nothing to do but to wait.
async fn act(client: &Client, pod: &Pod, life: &mut Life) -> Result<Option<Duration>> {
    let pods: Api<Pod> = Api::namespaced(
        client.clone(),
        pod.metadata.namespace.as_deref().unwrap_or("default"),
    );
    loop {
        match life.next(pod, Timestamp::now()) {
            Step::Wait(pause) => return Ok(pause),
            Step::Report(status) => {
                let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
                let parameters = PatchParams::default();
                let answer = pods
                    .patch_status(&pod.name_any(), &parameters, &Patch::Strategic(patch))
                    .await;
                if let Err(error) = unless_gone(answer) {
                    life.forget_report();
                    return Err(error);
                }
            }
            Step::Remove => {
                let precondition = Preconditions {
                    uid: pod.uid(),
                    resource_version: None,
                };
                let parameters = DeleteParams::default()
                    .grace_period(0)
                    .preconditions(precondition);
                let answer = pods.delete(&pod.name_any(), &parameters).await;
                if let Err(error) = unless_gone(answer) {
                    life.not_removed();
                    return Err(error);
                }
            }
        }
    }
}

/// A pod that is gone, or replaced by a namesake, needs nothing more from us.
fn unless_gone<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
