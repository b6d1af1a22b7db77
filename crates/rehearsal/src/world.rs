//! The cluster that every rehearsal starts from: three nodes in three zones.

use ensemble_api::spec::Zones;
use serde_json::{Value, json};
use simkube::config::{Behaviour, Config};
use simkube::{Cluster, NodeSpec, Resource};
use std::sync::Arc;

/// Where scenarios happen.
pub const NAMESPACE: &str = "shop";

/// A cluster with our definitions in it, and where they are.
#[derive(Clone)]
pub struct World {
    /// The cluster.
    pub cluster: Cluster,
    /// The kind Ensemble.
    pub ensembles: Resource,
    /// The kind EnsembleRequest.
    pub requests: Resource,
    /// The namespace that it is all about.
    pub namespace: Arc<str>,
    /// The Ensemble that it is all about.
    pub name: Arc<str>,
}

/// A fresh one. Made once, then copied, which is cheap.
pub fn fresh() -> World {
    thread_local! {
        static TEMPLATE: World = build();
    }
    TEMPLATE.with(World::clone)
}

/// An empty cluster with our definitions and one class of volumes, for an Ensemble of that name.
pub fn empty(config: Config, namespace: &str, name: &str) -> World {
    let mut cluster = Cluster::with_config(1, config);
    cluster.add_namespace(namespace);
    let crds = ensemble_api::crd::all_json();
    let mut register = |crd: &Value| {
        cluster
            .register_crd(crd)
            .expect("our definitions are valid")
    };
    let (ensembles, requests) = (register(&crds[0]), register(&crds[1]));
    World {
        cluster,
        ensembles,
        requests,
        namespace: namespace.into(),
        name: name.into(),
    }
}

/// The definition of Ensemble becomes one that knows less of status than we write: what it does not know
/// is not kept.
pub fn age_definition(world: &mut World) {
    let mut definition = ensemble_api::crd::all_json()[0].clone();
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let status = &mut schema["properties"]["status"]["properties"];
    for unknown in ["summary", "members"] {
        if let Some(known) = status.as_object_mut() {
            known.remove(unknown);
        }
    }
    let replaced = world.cluster.register_crd(&definition);
    debug_assert!(replaced.is_ok(), "{replaced:?}");
}

/// Nodes in zones a, b and c, in turn: node-a, node-b and so on.
pub fn add_nodes(world: &mut World, count: u8) {
    for number in 0..count.min(26) {
        let name = format!("node-{}", char::from(b'a' + number));
        let zone = char::from(b'a' + number % 3).to_string();
        world
            .cluster
            .add_node(NodeSpec::new(&name).zone(&zone))
            .expect("a fresh cluster takes nodes");
    }
}

/// The same in zones of the user's own, at least one node in each.
pub fn add_nodes_in(world: &mut World, count: u8, zones: &Zones) {
    let count = usize::from(count).max(zones.names.len());
    for (letter, zone) in ('a'..='z').zip(zones.names.iter().cycle()).take(count) {
        let node = NodeSpec::new(&format!("node-{letter}")).label(&zones.topology_key, zone);
        let added = world.cluster.add_node(node);
        added.expect("a fresh cluster takes nodes");
    }
}

/// A class of volumes that are made where the first pod needs them.
pub fn add_class(world: &mut World, name: &str, default: bool) {
    let class = json!({
        "metadata": {"name": name, "annotations": {
            "storageclass.kubernetes.io/is-default-class": default.to_string()}},
        "provisioner": "disk.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    world
        .cluster
        .create(Resource::StorageClasses, "", class)
        .expect("a fresh cluster takes a class");
}

fn build() -> World {
    let mut config = Config::default();
    config.images.set("db:missing", Behaviour::missing());
    config.images.set("db:crash", Behaviour::crashing(1));
    config.images.set("db:deaf", Behaviour::never_ready());
    let mut world = empty(config, NAMESPACE, "orders");
    add_nodes(&mut world, 3);
    add_class(&mut world, "disk", true);
    world.cluster.advance_ms(5_000);
    world
}

/// The Ensemble `orders`: three members with two claims, image tag 1.
pub fn orders() -> Value {
    let claim = |name: &str| {
        json!({"name": name, "spec": {"storageClassName": "disk", "accessModes": ["ReadWriteOnce"],
               "resources": {"requests": {"storage": "1Gi"}}}})
    };
    json!({
        "apiVersion": "ensemble.dev/v1alpha1",
        "kind": "Ensemble",
        "metadata": {"name": "orders", "namespace": NAMESPACE},
        "spec": {
            "replicas": 3,
            "template": {
                "metadata": {"labels": {"app": "orders"}},
                "spec": {
                    "terminationGracePeriodSeconds": 10,
                    "containers": [container("1")],
                },
            },
            "claims": [claim("data"), claim("wal")],
            "rollout": {"method": "Recreate"},
        },
    })
}

/// The container with that image tag.
pub fn container(tag: &str) -> Value {
    json!({
        "name": "db",
        "image": format!("db:{tag}"),
        "readinessProbe": {"tcpSocket": {"port": 5432}, "periodSeconds": 2},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "wal", "mountPath": "/wal"}],
    })
}
