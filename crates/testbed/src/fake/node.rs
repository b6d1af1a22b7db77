//! One simulated node: its Node object and its signs of life.

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::container::seconds;

const ZONES: [&str; 3] = ["a", "b", "c"];
const LEASE_NAMESPACE: &str = "kube-node-lease";
const MANAGER: &str = "testbed-fake-kubelet";

/// The name of a simulated node.
pub fn name(index: usize) -> String {
    format!("fake-{index}")
}

/// Registers a node, in one of three zones, large enough for thousands of pods.
pub async fn register(client: &Client, index: usize) -> Result<()> {
    let name = name(index);
    let capacity = json!({"cpu": "64", "memory": "512Gi", "pods": "5000",
        "ephemeral-storage": "1Ti"});
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": ZONES[index % ZONES.len()],
            "testbed.ensemble.dev/fake": "true",
        }},
        "status": {"capacity": capacity, "allocatable": capacity,
            "addresses": [{"type": "Hostname", "address": name}]},
    }))?;
    let nodes: Api<Node> = Api::all(client.clone());
    match nodes.create(&PostParams::default(), &node).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error).with_context(|| format!("failed to register node {name}")),
    }
}

/// Renews the node's lease, which is what the control plane watches.
pub async fn renew_lease(client: &Client, node: &str, beat_seconds: u32) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASE_NAMESPACE);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": beat_seconds * 4,
            "renewTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()},
    });
    let parameters = PatchParams::apply(MANAGER).force();
    leases
        .patch(node, &parameters, &Patch::Apply(&lease))
        .await
        .with_context(|| format!("failed to renew the lease of node {node}"))?;
    Ok(())
}

/// Says that the node is well. Needed at the start and after others have called it lost.
pub async fn report_ready(client: &Client, node: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let known = nodes
        .get(node)
        .await
        .with_context(|| format!("failed to read node {node}"))?;
    if crate::client::node_is_ready(&known) {
        return Ok(());
    }
    let now = seconds(Timestamp::now());
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "Simulated",
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let status = json!({"status": {"conditions": [
        condition("Ready", "True"),
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
    ]}});
    nodes
        .patch_status(node, &PatchParams::default(), &Patch::Strategic(&status))
        .await
        .with_context(|| format!("failed to report node {node} ready"))?;
    Ok(())
}
