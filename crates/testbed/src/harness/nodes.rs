//! Nodes as an administrator handles them.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{EvictParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::wait::eventually;

/// Allows or forbids new pods on a node.
pub async fn set_schedulable(client: &Client, node: &str, schedulable: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"spec": {"unschedulable": !schedulable}});
    nodes
        .patch(node, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .with_context(|| format!("failed to cordon or uncordon node {node}"))?;
    Ok(())
}

/// Forbids new pods on a node and evicts those it has, as `kubectl drain` does: an eviction that a
/// disruption budget refuses is tried again until `limit`.
pub async fn drain(client: &Client, node: &str, limit: Duration) -> Result<()> {
    set_schedulable(client, node, false).await?;
    let all: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    eventually(&format!("node {node} is drained"), limit, async || {
        let pods = all.list(&here).await?.items;
        for pod in &pods {
            let namespace = pod.namespace().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            match api.evict(&pod.name_any(), &EvictParams::default()).await {
                Ok(_) => {}
                // Refused for now by a budget, or gone meanwhile.
                Err(kube::Error::Api(status)) if [429, 404].contains(&status.code) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pods.is_empty().then_some(()))
    })
    .await
}

/// Waits until a node is as wanted, and returns it.
pub async fn node_until(
    client: &Client,
    node: &str,
    what: &str,
    limit: Duration,
    wanted: impl Fn(&Node) -> bool,
) -> Result<Node> {
    let nodes: Api<Node> = Api::all(client.clone());
    eventually(&format!("node {node} {what}"), limit, || async {
        Ok(nodes.get_opt(node).await?.filter(|node| wanted(node)))
    })
    .await
}
