//! A cluster in memory that begins where a real one is.

use super::record::all_ready;
use crate::model;
use crate::world::{self, World};
use serde_json::{Value, json};
use simkube::config::{Behaviour, Config};
use simkube::{Resource, SimTime, Status};
use std::collections::{BTreeMap, BTreeSet};

/// What was read of a real cluster.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// When it was read, in milliseconds since 1970.
    pub now_ms: u64,
    /// The Ensemble's namespace.
    pub namespace: String,
    /// The Ensemble's name.
    pub name: String,
    /// The Ensemble; None if it does not exist yet.
    pub ensemble: Option<Value>,
    /// Requests addressed to it.
    pub requests: Vec<Value>,
    /// Pods of the namespace.
    pub pods: Vec<Value>,
    /// Claims of the namespace.
    pub claims: Vec<Value>,
    /// Revisions of the namespace.
    pub revisions: Vec<Value>,
    /// Services of the namespace.
    pub services: Vec<Value>,
    /// Disruption budgets of the namespace.
    pub budgets: Vec<Value>,
    /// Nodes; empty if they may not be read.
    pub nodes: Vec<Value>,
    /// Volumes; empty if they may not be read.
    pub volumes: Vec<Value>,
    /// Storage classes; empty if they may not be read.
    pub classes: Vec<Value>,
}

/// Members that run get so long to be as they were.
const SETTLE_MS: u64 = 15_000;
/// So long after its connection was lost, a node is known to be unreachable.
const UNREACHABLE_MS: u64 = 90_000;

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn list<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    object
        .pointer(path)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The cluster, settled: what runs runs, and what is broken is broken.
pub(super) fn plant(given: &Given) -> Result<World, Status> {
    let mut config = Config::default();
    for (image, behaviour) in behaviours(&given.pods) {
        config.images.set(&image, behaviour);
    }
    let mut world = world::empty(config, &given.namespace, &given.name);
    let before = given.now_ms.saturating_sub(SETTLE_MS + UNREACHABLE_MS);
    world.cluster.jump_to(SimTime(before));
    let cluster = &mut world.cluster;
    for node in &nodes(given) {
        cluster.restore(Resource::Nodes, node)?;
    }
    for class in &classes(given) {
        cluster.restore(Resource::StorageClasses, class)?;
    }
    for volume in &volumes(given) {
        cluster.restore(Resource::PersistentVolumes, volume)?;
    }
    let namespaced = [
        (Resource::PersistentVolumeClaims, &given.claims),
        (Resource::ControllerRevisions, &given.revisions),
        (Resource::Services, &given.services),
        (Resource::PodDisruptionBudgets, &given.budgets),
        (Resource::Pods, &given.pods),
    ];
    let (ensembles, requests) = (world.ensembles, world.requests);
    if let Some(ensemble) = &given.ensemble {
        let model = model::of_spec(&ensemble["spec"], &given.namespace, &given.name);
        if let Some(model) = model {
            world.cluster.attach_workload(model);
        }
        world.cluster.restore(ensembles, &bare(ensemble))?;
    }
    for request in &given.requests {
        world.cluster.restore(requests, &bare(request))?;
    }
    for (resource, objects) in namespaced {
        for object in objects {
            world.cluster.restore(resource, &bare(object))?;
        }
    }
    settle(&mut world, given);
    Ok(world)
}

/// Without the book-keeping of writers, which is not modelled.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

fn settle(world: &mut World, given: &Given) {
    world.cluster.advance_ms(1_000);
    let namespace = given.namespace.clone();
    world.cluster.advance_until(SETTLE_MS, |c| {
        all_ready(&c.objects(Resource::Pods, &namespace))
    });
    let silent: Vec<&str> = given
        .nodes
        .iter()
        .filter(|n| !is_ready(n))
        .map(|n| text(n, "/metadata/name"))
        .collect();
    for node in silent {
        world.cluster.partition_node(node);
    }
    lead_as_seen(world, given);
    world
        .cluster
        .advance_to(SimTime(given.now_ms.max(world.cluster.now().0)));
}

/// Whoever leads in reality leads here, once the model has elected somebody.
fn lead_as_seen(world: &mut World, given: &Given) {
    let seen = given.ensemble.as_ref();
    let seen = seen.and_then(|e| e.pointer("/status/lead/member")?.as_str());
    let Some(seen) = seen.filter(|_| model::of(world).is_some()) else {
        return;
    };
    for _ in 0..30 {
        if model::of(world).is_some_and(|m| m.leader() == Some(seen)) {
            return;
        }
        model::with(world, |model, now| model.give_lead(now, seen));
        world.cluster.advance_ms(3_000);
    }
}

fn is_ready(node: &Value) -> bool {
    list(node, "/status/conditions").any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Nodes that may not be read are known by the pods on them; pods need somewhere to go.
fn nodes(given: &Given) -> Vec<Value> {
    if !given.nodes.is_empty() {
        return given.nodes.clone();
    }
    let named = given.pods.iter().map(|p| text(p, "/spec/nodeName"));
    let mut names: BTreeSet<String> = named.filter(|n| !n.is_empty()).map(str::to_owned).collect();
    for number in names.len()..3 {
        names.insert(format!("unknown-{number}"));
    }
    let node = |name: String| json!({"metadata": {"name": name, "uid": format!("node-{name}")}});
    names.into_iter().map(node).collect()
}

fn classes(given: &Given) -> Vec<Value> {
    let mut classes = given.classes.clone();
    let known: BTreeSet<String> = classes
        .iter()
        .map(|c| text(c, "/metadata/name").to_owned())
        .collect();
    let mut named: BTreeSet<String> = given
        .claims
        .iter()
        .map(|c| text(c, "/spec/storageClassName").to_owned())
        .collect();
    named.retain(|n| !n.is_empty() && !known.contains(n));
    if known.is_empty() {
        named.insert("standard".into());
    }
    for (number, name) in named.into_iter().enumerate() {
        let default = known.is_empty() && number == 0;
        classes.push(json!({
            "metadata": {"name": name, "uid": format!("class-{name}"), "annotations": {
                "storageclass.kubernetes.io/is-default-class": default.to_string()}},
            "provisioner": "unknown.example",
            "volumeBindingMode": "WaitForFirstConsumer",
        }));
    }
    classes
}

/// A bound claim whose volume may not be read is given one that can go anywhere.
fn volumes(given: &Given) -> Vec<Value> {
    let mut volumes = given.volumes.clone();
    let known: BTreeSet<String> = volumes
        .iter()
        .map(|v| text(v, "/metadata/name").to_owned())
        .collect();
    for claim in given.claims.iter().filter(|_| given.volumes.is_empty()) {
        let name = text(claim, "/spec/volumeName");
        if name.is_empty() || known.contains(name) {
            continue;
        }
        volumes.push(json!({
            "metadata": {"name": name, "uid": format!("volume-{name}")},
            "spec": {
                "capacity": claim["spec"]["resources"]["requests"],
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": claim["spec"]["storageClassName"],
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": "unknown.example", "volumeHandle": name},
                "claimRef": {"kind": "PersistentVolumeClaim", "name": claim["metadata"]["name"],
                             "namespace": claim["metadata"]["namespace"], "uid": claim["metadata"]["uid"]},
            },
            "status": {"phase": "Bound"},
        }));
    }
    volumes
}

/// How images behave, by what their containers do: an image that nobody got to run, in some pod, is
/// not expected to run in the next.
fn behaviours(pods: &[Value]) -> Vec<(String, Behaviour)> {
    let mut seen: BTreeMap<String, Option<Behaviour>> = BTreeMap::new();
    for pod in pods {
        for container in list(pod, "/status/containerStatuses") {
            let image = spec_image(pod, text(container, "/name"));
            let behaviour = behaviour(container);
            let entry = seen.entry(image).or_insert(behaviour);
            if behaviour.is_none() {
                *entry = None;
            }
        }
    }
    let broken = |(image, behaviour): (String, Option<Behaviour>)| Some((image, behaviour?));
    seen.into_iter().filter_map(broken).collect()
}

fn spec_image(pod: &Value, container: &str) -> String {
    let mut all = list(pod, "/spec/containers");
    let found = all.find(|c| c["name"] == container);
    found.map(|c| text(c, "/image")).unwrap_or_default().into()
}

/// None if the container is well.
fn behaviour(container: &Value) -> Option<Behaviour> {
    match text(container, "/state/waiting/reason") {
        "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" => Some(Behaviour::missing()),
        "CrashLoopBackOff" | "RunContainerError" | "CreateContainerError" => {
            Some(Behaviour::crashing(1))
        }
        _ if container["ready"] == true => None,
        // So a kubelet shows a container that crashes again and again, nearly all the time.
        _ if container["state"]["terminated"].is_object() => {
            let again = container["restartCount"].as_i64() > Some(0);
            again.then(|| Behaviour::crashing(1))
        }
        _ if container["state"]["running"].is_object() => Some(Behaviour::never_ready()),
        _ => None,
    }
}
