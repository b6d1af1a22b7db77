//! What several tests need.
#![allow(dead_code, clippy::unwrap_used)]

use serde_json::{Value, json};
use simkube::config::{Config, VolumeDriver};
use simkube::{Cluster, NodeSpec, Object, Request, Resource};

pub const NS: &str = "default";

/// Three nodes in three zones, a movable and a node-bound storage class.
pub fn cluster() -> Cluster {
    let mut config = Config::default();
    config
        .drivers
        .insert("local.example".into(), VolumeDriver::local());
    let mut cluster = Cluster::with_config(1, config);
    for (node, zone) in [("n1", "a"), ("n2", "b"), ("n3", "c")] {
        cluster.add_node(NodeSpec::new(node).zone(zone)).unwrap();
    }
    for (name, provisioner) in [("movable", "disk.example"), ("local", "local.example")] {
        let class = json!({
            "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
        });
        cluster.create(Resource::StorageClasses, "", class).unwrap();
    }
    cluster.advance_ms(100);
    cluster
}

pub fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    })
}

pub fn pod_with_claim(name: &str, claim: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    pod
}

pub fn claim(name: &str, class: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

pub fn get_pod(cluster: &Cluster, name: &str) -> Object {
    cluster
        .get(Resource::Pods, NS, name)
        .unwrap_or_else(|| panic!("no pod {name}"))
}

pub fn condition(object: &Value, kind: &str) -> Option<String> {
    let list = object["status"]["conditions"].as_array()?;
    let found = list.iter().find(|c| c["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

pub fn is_ready(cluster: &Cluster, name: &str) -> bool {
    cluster
        .get(Resource::Pods, NS, name)
        .is_some_and(|p| condition(&p, "Ready").as_deref() == Some("True"))
}

/// Creates a pod and waits until it is Ready.
pub fn ready_pod(cluster: &mut Cluster, body: Value) -> Object {
    let name = body["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.create(Resource::Pods, NS, body).unwrap();
    assert!(
        cluster.advance_until(60_000, |c| is_ready(c, &name)),
        "{name} is not Ready"
    );
    get_pod(cluster, &name)
}

pub fn patch_pod(cluster: &mut Cluster, name: &str, patch: Value) -> Object {
    let answer = cluster
        .call(&Request::patch(Resource::Pods, NS, name, patch))
        .unwrap();
    answer.into_object().unwrap()
}
