//! The cluster that every rehearsal starts from: three nodes in three zones.

use serde_json::{Value, json};
use simkube::config::{Behaviour, Config};
use simkube::{Cluster, NodeSpec, Resource};

/// Where everything happens.
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
}

/// A fresh one. Made once, then copied, which is cheap.
pub fn fresh() -> World {
    thread_local! {
        static TEMPLATE: World = build();
    }
    TEMPLATE.with(World::clone)
}

fn build() -> World {
    let mut config = Config::default();
    config.images.set("db:missing", Behaviour::missing());
    config.images.set("db:crash", Behaviour::crashing(1));
    config.images.set("db:deaf", Behaviour::never_ready());
    let mut cluster = Cluster::with_config(1, config);
    cluster.add_namespace(NAMESPACE);
    for (name, zone) in [("node-a", "a"), ("node-b", "b"), ("node-c", "c")] {
        cluster
            .add_node(NodeSpec::new(name).zone(zone))
            .expect("a fresh cluster takes nodes");
    }
    let class = json!({
        "metadata": {"name": "disk", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "disk.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    cluster
        .create(Resource::StorageClasses, "", class)
        .expect("a fresh cluster takes a class");
    let crds = ensemble_api::crd::all_json();
    let mut register = |crd: &Value| {
        cluster
            .register_crd(crd)
            .expect("our definitions are valid")
    };
    let (ensembles, requests) = (register(&crds[0]), register(&crds[1]));
    cluster.advance_ms(5_000);
    World {
        cluster,
        ensembles,
        requests,
    }
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
