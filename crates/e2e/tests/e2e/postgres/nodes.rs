//! Nodes that go: the lead leaves first.

use super::{alone, until_settled};
use anyhow::{Context, Result, ensure};
use ensemble_e2e::postgres::{LIMIT, Shape};
use ensemble_e2e::stage::Need;
use ensemble_testbed::eventually;
use ensemble_testbed::harness::set_schedulable;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, ListParams};
use kube::{Api, Client, ResourceExt};

#[tokio::test]
async fn a_drain_of_the_primarys_node_moves_the_lead_first_and_ends() -> Result<()> {
    alone(
        "drain",
        Shape::ensemble(1),
        Need::DrainedNode,
        async |cluster, postgres| {
            if cluster.testbed().is_none() {
                return Ok(());
            }
            postgres.start_writing().await?;
            let leader = postgres.leader().await?;
            let lock = postgres.lock().await?;
            let pod = postgres.pod(&leader).await?;
            let node = pod.spec.and_then(|s| s.node_name).context("on no node")?;
            let client = postgres.namespace.client();
            let drained = drain(&client, &node, &leader).await;
            set_schedulable(&client, &node, true).await?;
            drained?;
            until_settled(postgres).await?;
            let after = postgres.lock().await?;
            ensure!(
                after.holder.as_ref() != Some(&leader),
                "{leader} still leads"
            );
            let changes = after.transitions - lock.transitions;
            ensure!(changes == 1, "the lead changed {changes} times");
            let told = postgres.nothing_lost().await?;
            eprintln!("drain: {told:?}");
            Ok(())
        },
    )
    .await
}

/// As `kubectl drain` does, but for the writer, which is the measure. It checks that the member did
/// not lead any more when it was told to go.
async fn drain(client: &Client, node: &str, member: &str) -> Result<()> {
    set_schedulable(client, node, false).await?;
    let all: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    eventually(&format!("{node} is drained"), LIMIT, async || {
        let pods = all.list(&here).await?.items;
        let leaving = pods.iter().filter(|p| p.name_any() != "writer");
        let mut left = 0;
        for pod in leaving {
            left += 1;
            let name = pod.name_any();
            let role = pod.labels().get("role").map(String::as_str);
            let going = pod.metadata.deletion_timestamp.is_some();
            ensure!(
                !(going && name == member && role == Some("master")),
                "{member} was told to go while it led"
            );
            let namespace = pod.namespace().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            match api.evict(&name, &EvictParams::default()).await {
                Ok(_) => {}
                // Refused for now by a budget, or gone meanwhile.
                Err(kube::Error::Api(status)) if [429, 404].contains(&status.code) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok((left == 0).then_some(()))
    })
    .await
}
