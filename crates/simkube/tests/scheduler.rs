//! Which pod goes where.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use serde_json::{Value, json};
use simkube::{Cluster, NodeSpec, Request, Resource};

fn node_of(cluster: &mut Cluster, pod: Value) -> String {
    let pod = ready_pod(cluster, pod);
    pod["spec"]["nodeName"].as_str().unwrap().to_owned()
}

fn why_unscheduled(cluster: &mut Cluster, body: Value) -> String {
    let name = body["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.create(Resource::Pods, NS, body).unwrap();
    cluster.advance_ms(1000);
    let pod = get_pod(cluster, &name);
    let conditions = pod["status"]["conditions"].as_array().unwrap().clone();
    let scheduled = conditions
        .iter()
        .find(|c| c["type"] == "PodScheduled")
        .unwrap();
    assert_eq!(scheduled["status"], "False");
    scheduled["message"].as_str().unwrap().to_owned()
}

#[test]
fn pods_spread_over_the_least_loaded_nodes() {
    let mut cluster = cluster();
    let nodes: Vec<String> = (0..3)
        .map(|i| node_of(&mut cluster, pod(&format!("web-{i}"))))
        .collect();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
}

#[test]
fn a_node_selector_is_obeyed() {
    let mut cluster = cluster();
    let mut body = pod("web-0");
    body["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "b"});
    assert_eq!(node_of(&mut cluster, body), "n2");
    let zone =
        get_pod(&cluster, "web-0")["metadata"]["labels"]["topology.kubernetes.io/zone"].clone();
    assert_eq!(zone, "b");
}

#[test]
fn a_pod_that_asks_too_much_waits_and_is_tried_again_when_room_appears() {
    let mut cluster = cluster();
    let mut body = pod("big");
    body["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "16"}});
    let why = why_unscheduled(&mut cluster, body);
    assert_eq!(why, "0/3 nodes are available: 3 Insufficient cpu.");
    cluster
        .add_node(NodeSpec::new("n4").capacity("32", "64Gi", 10))
        .unwrap();
    assert!(cluster.advance_until(10_000, |c| is_ready(c, "big")));
    assert_eq!(get_pod(&cluster, "big")["spec"]["nodeName"], "n4");
}

#[test]
fn anti_affinity_leaves_the_fourth_pod_without_a_node() {
    let mut cluster = cluster();
    let apart = |name: &str| {
        let mut body = pod(name);
        body["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": {"matchLabels": {"app": "web"}},
                "topologyKey": "kubernetes.io/hostname",
            }],
        }});
        body
    };
    for i in 0..3 {
        node_of(&mut cluster, apart(&format!("web-{i}")));
    }
    let why = why_unscheduled(&mut cluster, apart("web-3"));
    assert!(why.contains("anti-affinity"), "{why}");
    // A pod without the rule is kept away by the rule of those already there.
    let why = why_unscheduled(&mut cluster, pod("web-4"));
    assert!(why.contains("existing pods anti-affinity"), "{why}");
}

#[test]
fn taints_and_cordons_keep_pods_away() {
    let mut cluster = cluster();
    for node in ["n1", "n2"] {
        let taint =
            json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
        cluster
            .call(&Request::patch(Resource::Nodes, "", node, taint))
            .unwrap();
    }
    let cordon = json!({"spec": {"unschedulable": true}});
    cluster
        .call(&Request::patch(Resource::Nodes, "", "n3", cordon))
        .unwrap();
    let why = why_unscheduled(&mut cluster, pod("web-0"));
    assert!(why.contains("1 node(s) were unschedulable"), "{why}");
    let mut tolerant = pod("web-1");
    tolerant["spec"]["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
    assert_eq!(node_of(&mut cluster, tolerant), "n1");
}

#[test]
fn spread_constraints_balance_zones() {
    let mut cluster = cluster();
    cluster.add_node(NodeSpec::new("n4").zone("a")).unwrap();
    let spread = |name: &str| {
        let mut body = pod(name);
        body["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]);
        body
    };
    let mut nodes: Vec<String> = (0..3)
        .map(|i| node_of(&mut cluster, spread(&format!("web-{i}"))))
        .collect();
    nodes.sort();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
}

#[test]
fn a_gated_pod_waits_until_its_gates_are_removed() {
    let mut cluster = cluster();
    let mut body = pod("web-0");
    body["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    cluster.create(Resource::Pods, NS, body).unwrap();
    cluster.advance_ms(5000);
    assert!(get_pod(&cluster, "web-0")["spec"].get("nodeName").is_none());
    patch_pod(
        &mut cluster,
        "web-0",
        json!({"spec": {"schedulingGates": null}}),
    );
    assert!(cluster.advance_until(5000, |c| is_ready(c, "web-0")));
}
