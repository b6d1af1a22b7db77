//! Silent nodes, dead nodes, missing nodes.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use serde_json::json;
use simkube::{Cluster, Request, Resource};

fn node(cluster: &Cluster, name: &str) -> simkube::Object {
    cluster.get(Resource::Nodes, "", name).expect("a node")
}

fn taints(cluster: &Cluster, name: &str) -> Vec<String> {
    let node = node(cluster, name);
    let list = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    list.iter()
        .map(|t| format!("{}:{}", t["key"], t["effect"]).replace('"', ""))
        .collect()
}

#[test]
fn a_silent_node_becomes_unknown_its_pods_unready_and_after_five_minutes_they_are_deleted() {
    let mut cluster = cluster();
    ready_pod(&mut cluster, pod("web-0"));
    let start = cluster.now();
    cluster.partition_node("n1");
    cluster.advance_ms(39_000);
    assert_eq!(
        condition(&node(&cluster, "n1"), "Ready").as_deref(),
        Some("True")
    );
    cluster.advance_to(start.plus_s(56));
    assert_eq!(
        condition(&node(&cluster, "n1"), "Ready").as_deref(),
        Some("Unknown")
    );
    assert_eq!(
        taints(&cluster, "n1"),
        [
            "node.kubernetes.io/unreachable:NoSchedule",
            "node.kubernetes.io/unreachable:NoExecute"
        ]
    );
    let pod = get_pod(&cluster, "web-0");
    assert_eq!(condition(&pod, "Ready").as_deref(), Some("False"));
    assert_eq!(pod["status"]["phase"], "Running");
    cluster.advance_to(start.plus_s(330));
    assert!(
        get_pod(&cluster, "web-0")["metadata"]
            .get("deletionTimestamp")
            .is_none()
    );
    cluster.advance_to(start.plus_s(360));
    let pod = get_pod(&cluster, "web-0");
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(condition(&pod, "DisruptionTarget").as_deref(), Some("True"));
    // It hangs there: nobody can say that it has stopped, and it has not.
    cluster.advance_ms(600_000);
    assert_eq!(cluster.running_processes().len(), 1);
    get_pod(&cluster, "web-0");
    cluster.heal_node("n1");
    cluster.advance_ms(5000);
    assert!(cluster.get(Resource::Pods, NS, "web-0").is_none());
    assert!(taints(&cluster, "n1").is_empty());
    assert_eq!(
        condition(&node(&cluster, "n1"), "Ready").as_deref(),
        Some("True")
    );
}

#[test]
fn a_node_that_returns_in_time_keeps_its_pods() {
    let mut cluster = cluster();
    let before = ready_pod(&mut cluster, pod("web-0"));
    cluster.partition_node("n1");
    cluster.advance_ms(120_000);
    assert!(!is_ready(&cluster, "web-0"));
    cluster.heal_node("n1");
    cluster.advance_ms(600_000);
    let after = get_pod(&cluster, "web-0");
    assert!(is_ready(&cluster, "web-0"));
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 0);
}

#[test]
fn nobody_is_driven_away_when_the_whole_cluster_is_silent() {
    let mut cluster = cluster();
    ready_pod(&mut cluster, pod("web-0"));
    for node in ["n1", "n2", "n3"] {
        cluster.partition_node(node);
    }
    cluster.advance_ms(900_000);
    assert!(
        get_pod(&cluster, "web-0")["metadata"]
            .get("deletionTimestamp")
            .is_none()
    );
    assert_eq!(
        taints(&cluster, "n1"),
        ["node.kubernetes.io/unreachable:NoSchedule"]
    );
}

#[test]
fn pods_of_a_deleted_node_are_cleared_up_after_a_quarantine() {
    let mut cluster = cluster();
    ready_pod(&mut cluster, pod("web-0"));
    cluster.kill_node("n1");
    cluster
        .call(&Request::delete(Resource::Nodes, "", "n1"))
        .unwrap();
    cluster.advance_ms(39_000);
    get_pod(&cluster, "web-0");
    cluster.advance_ms(45_000);
    assert!(cluster.get(Resource::Pods, NS, "web-0").is_none());
    cluster.heal_node("n1");
    assert_eq!(
        condition(&node(&cluster, "n1"), "Ready").as_deref(),
        Some("True")
    );
    cluster.advance_ms(5000);
    assert!(cluster.running_processes().is_empty());
}

#[test]
fn an_out_of_service_taint_frees_terminating_pods_and_their_volumes() {
    let mut cluster = cluster();
    cluster
        .create(
            Resource::PersistentVolumeClaims,
            NS,
            claim("data-0", "movable"),
        )
        .unwrap();
    let before = ready_pod(&mut cluster, pod_with_claim("web-0", "data-0"));
    let name = before["spec"]["nodeName"].as_str().unwrap().to_owned();
    cluster.kill_node(&name);
    cluster.advance_ms(60_000);
    let taint = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"},
    ]}});
    cluster
        .call(&Request::patch(Resource::Nodes, "", &name, taint))
        .unwrap();
    cluster.advance_ms(25_000);
    assert!(cluster.get(Resource::Pods, NS, "web-0").is_none());
    ready_pod(&mut cluster, pod_with_claim("web-0", "data-0"));
    assert_ne!(
        get_pod(&cluster, "web-0")["spec"]["nodeName"].as_str(),
        Some(name.as_str())
    );
}

#[test]
fn a_node_that_returns_after_a_force_delete_runs_a_second_process_for_a_while() {
    let mut cluster = cluster();
    ready_pod(&mut cluster, pod("web-0"));
    cluster.partition_node("n1");
    cluster.advance_ms(60_000);
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0").grace(0))
        .unwrap();
    ready_pod(&mut cluster, pod("web-0"));
    let both = cluster.running_processes();
    assert_eq!(both.len(), 2);
    assert_eq!(both[0].pod, both[1].pod);
    assert_ne!(both[0].pod_uid, both[1].pod_uid);
    cluster.heal_node("n1");
    cluster.advance_ms(10_000);
    assert_eq!(cluster.running_processes().len(), 1);
}
