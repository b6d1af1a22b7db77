//! Claims, volumes and where they hang.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use serde_json::json;
use simkube::{Cluster, Request, Resource};

fn claim_of(cluster: &Cluster, name: &str) -> simkube::Object {
    cluster
        .get(Resource::PersistentVolumeClaims, NS, name)
        .expect("a claim")
}

fn member(cluster: &mut Cluster, class: &str) -> simkube::Object {
    cluster
        .create(Resource::PersistentVolumeClaims, NS, claim("data-0", class))
        .unwrap();
    ready_pod(cluster, pod_with_claim("web-0", "data-0"))
}

fn recreate(cluster: &mut Cluster) -> simkube::Object {
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0"))
        .unwrap();
    assert!(cluster.advance_until(60_000, |c| c.get(Resource::Pods, NS, "web-0").is_none()));
    ready_pod(cluster, pod_with_claim("web-0", "data-0"))
}

#[test]
fn a_claim_waits_for_its_first_consumer() {
    let mut cluster = cluster();
    cluster
        .create(
            Resource::PersistentVolumeClaims,
            NS,
            claim("data-0", "local"),
        )
        .unwrap();
    cluster.advance_ms(60_000);
    assert_eq!(claim_of(&cluster, "data-0")["status"]["phase"], "Pending");
}

#[test]
fn a_node_bound_volume_keeps_its_pod_on_its_node() {
    let mut cluster = cluster();
    let first = member(&mut cluster, "local");
    // A busier node would be chosen last, were it not for the volume.
    let mut filler = pod("filler");
    filler["spec"]["nodeName"] = first["spec"]["nodeName"].clone();
    ready_pod(&mut cluster, filler);
    let second = recreate(&mut cluster);
    assert_eq!(first["spec"]["nodeName"], second["spec"]["nodeName"]);
}

#[test]
fn a_movable_volume_follows_its_pod_to_another_node() {
    let mut cluster = cluster();
    let first = member(&mut cluster, "movable");
    let node = first["spec"]["nodeName"].as_str().unwrap().to_owned();
    let cordon = json!({"spec": {"unschedulable": true}});
    cluster
        .call(&Request::patch(Resource::Nodes, "", &node, cordon))
        .unwrap();
    let second = recreate(&mut cluster);
    assert_ne!(first["spec"]["nodeName"], second["spec"]["nodeName"]);
    let [(_, holder)] = &cluster.attachments()[..] else {
        panic!("one attachment")
    };
    assert_eq!(&**holder, second["spec"]["nodeName"].as_str().unwrap());
}

#[test]
fn a_slow_detach_keeps_the_next_pod_waiting() {
    let mut cluster = cluster();
    let first = member(&mut cluster, "movable");
    let volume = claim_of(&cluster, "data-0")["spec"]["volumeName"]
        .as_str()
        .unwrap()
        .to_owned();
    cluster.slow_detach(&volume, 30_000);
    let node = first["spec"]["nodeName"].as_str().unwrap().to_owned();
    let cordon = json!({"spec": {"unschedulable": true}});
    cluster
        .call(&Request::patch(Resource::Nodes, "", &node, cordon))
        .unwrap();
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0"))
        .unwrap();
    assert!(cluster.advance_until(60_000, |c| c.get(Resource::Pods, NS, "web-0").is_none()));
    cluster
        .create(Resource::Pods, NS, pod_with_claim("web-0", "data-0"))
        .unwrap();
    cluster.advance_ms(20_000);
    let waiting = get_pod(&cluster, "web-0");
    assert_eq!(
        waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    assert!(cluster.advance_until(20_000, |c| is_ready(c, "web-0")));
}

#[test]
fn a_claim_in_use_is_protected_and_goes_after_its_pod() {
    let mut cluster = cluster();
    member(&mut cluster, "movable");
    cluster
        .call(&Request::delete(
            Resource::PersistentVolumeClaims,
            NS,
            "data-0",
        ))
        .unwrap();
    cluster.advance_ms(10_000);
    assert!(claim_of(&cluster, "data-0")["metadata"]["deletionTimestamp"].is_string());
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0"))
        .unwrap();
    cluster.advance_ms(10_000);
    assert!(
        cluster
            .get(Resource::PersistentVolumeClaims, NS, "data-0")
            .is_none()
    );
    // The class says Delete, so the volume goes too.
    assert!(cluster.objects(Resource::PersistentVolumes, "").is_empty());
}

#[test]
fn a_recreated_claim_does_not_get_the_retained_volume_of_its_namesake() {
    let mut cluster = cluster();
    let class = json!({
        "metadata": {"name": "kept"}, "provisioner": "disk.example", "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    cluster.create(Resource::StorageClasses, "", class).unwrap();
    member(&mut cluster, "kept");
    let first = claim_of(&cluster, "data-0")["spec"]["volumeName"].clone();
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0"))
        .unwrap();
    cluster
        .call(&Request::delete(
            Resource::PersistentVolumeClaims,
            NS,
            "data-0",
        ))
        .unwrap();
    cluster.advance_ms(10_000);
    let old = cluster
        .get(Resource::PersistentVolumes, "", first.as_str().unwrap())
        .unwrap();
    assert_eq!(old["status"]["phase"], "Released");
    member(&mut cluster, "kept");
    assert_ne!(claim_of(&cluster, "data-0")["spec"]["volumeName"], first);
}

#[test]
fn a_bound_claim_grows_while_its_pod_runs() {
    let mut cluster = cluster();
    member(&mut cluster, "movable");
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    cluster
        .call(&Request::patch(
            Resource::PersistentVolumeClaims,
            NS,
            "data-0",
            grow,
        ))
        .unwrap();
    cluster.advance_ms(10_000);
    let claim = claim_of(&cluster, "data-0");
    assert_eq!(claim["status"]["capacity"]["storage"], "2Gi");
    assert_eq!(
        claim["status"]
            .get("conditions")
            .map(|c| c.as_array().unwrap().len()),
        Some(0)
    );
}

#[test]
fn a_file_system_that_cannot_grow_online_waits_for_a_restart_of_the_pod() {
    let mut cluster = cluster();
    cluster.config_mut().drivers.insert(
        "disk.example".into(),
        simkube::config::VolumeDriver {
            online_expansion: false,
            ..Default::default()
        },
    );
    member(&mut cluster, "movable");
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    cluster
        .call(&Request::patch(
            Resource::PersistentVolumeClaims,
            NS,
            "data-0",
            grow,
        ))
        .unwrap();
    cluster.advance_ms(10_000);
    let claim = claim_of(&cluster, "data-0");
    assert_eq!(claim["status"]["capacity"]["storage"], "1Gi");
    assert_eq!(
        condition(&claim, "FileSystemResizePending").as_deref(),
        Some("True")
    );
    recreate(&mut cluster);
    assert_eq!(
        claim_of(&cluster, "data-0")["status"]["capacity"]["storage"],
        "2Gi"
    );
}

#[test]
fn a_failed_provisioning_gives_the_choice_of_the_node_back() {
    let mut cluster = cluster();
    let failing = simkube::config::VolumeDriver {
        provision_fails: true,
        ..Default::default()
    };
    cluster
        .config_mut()
        .drivers
        .insert("disk.example".into(), failing);
    cluster
        .create(
            Resource::PersistentVolumeClaims,
            NS,
            claim("data-0", "movable"),
        )
        .unwrap();
    cluster
        .create(Resource::Pods, NS, pod_with_claim("web-0", "data-0"))
        .unwrap();
    cluster.advance_ms(5000);
    assert!(!is_ready(&cluster, "web-0"));
    cluster.config_mut().drivers.clear();
    assert!(cluster.advance_until(60_000, |c| is_ready(c, "web-0")));
}

#[test]
fn a_volume_on_a_dead_node_is_taken_by_force_after_six_minutes() {
    let mut cluster = cluster();
    let first = member(&mut cluster, "movable");
    let node = first["spec"]["nodeName"].as_str().unwrap().to_owned();
    cluster.kill_node(&node);
    cluster.advance_ms(70_000);
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0").grace(0))
        .unwrap();
    cluster
        .create(Resource::Pods, NS, pod_with_claim("web-0", "data-0"))
        .unwrap();
    cluster.advance_ms(300_000);
    assert!(!is_ready(&cluster, "web-0"));
    assert!(cluster.advance_until(120_000, |c| is_ready(c, "web-0")));
    assert_ne!(
        get_pod(&cluster, "web-0")["spec"]["nodeName"].as_str(),
        Some(node.as_str())
    );
}
