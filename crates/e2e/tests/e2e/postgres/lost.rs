//! Members and nodes that are lost: the last replica in sync stays, and the lead still moves.

use super::{alone, nobody_touches, replicas, until_as_many, until_settled, why};
use anyhow::{Context, Result, ensure};
use ensemble_e2e::postgres::{LIMIT, Postgres, Shape};
use ensemble_e2e::stage::Need;
use ensemble_testbed::client::node_is_ready;
use ensemble_testbed::eventually;
use ensemble_testbed::full::faults::Side;
use ensemble_testbed::harness::{node_until, set_schedulable};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::time::Duration;

const HOME: &str = "ensemble-system";

/// Long before the grace period of a pod is over.
const SOON: Duration = Duration::from_secs(20);

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

async fn controllers(client: &Client) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), HOME);
    Ok(pods.list(&ListParams::default()).await?.items)
}

/// Moves the controller off a node that it is to look at from outside.
async fn look_from_elsewhere(client: &Client, node: &str) -> Result<()> {
    let is_here = |pod: &Pod| node_of(pod).as_deref() == Some(node);
    if !controllers(client).await?.iter().any(is_here) {
        return Ok(());
    }
    set_schedulable(client, node, false).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), HOME);
    for pod in controllers(client).await?.iter().filter(|p| is_here(p)) {
        pods.delete(&pod.name_any(), &DeleteParams::default())
            .await?;
    }
    let moved = eventually("the controller is elsewhere", LIMIT, async || {
        let pods = controllers(client).await?;
        let ready = pods.iter().all(ensemble_testbed::harness::is_ready);
        Ok((!pods.is_empty() && ready && !pods.iter().any(is_here)).then_some(()))
    })
    .await;
    set_schedulable(client, node, true).await?;
    moved
}

#[tokio::test]
async fn scaling_in_keeps_the_only_replica_in_sync_while_the_other_is_cut_off() -> Result<()> {
    let shape = Shape::ensemble(0);
    alone("cut-off", shape, Need::Nodes, async |cluster, postgres| {
        let Some(testbed) = cluster.testbed() else {
            return Ok(());
        };
        let node = node_of(&postgres.pod("orders-1").await?).context("on no node")?;
        look_from_elsewhere(&postgres.namespace.client(), &node).await?;
        testbed.partition(&node, Side::Peers)?;
        let kept = async {
            eventually("orders-1 streams no more", LIMIT, async || {
                let streaming = postgres.streaming().await?;
                Ok((streaming == ["orders-2"]).then_some(()))
            })
            .await?;
            postgres.change_spec(json!({"replicas": 2})).await?;
            let members = ["orders-0", "orders-2"];
            nobody_touches(postgres, &members, Duration::from_secs(25)).await?;
            let said = why(cluster, postgres)?;
            ensure!(said.out.contains("orders-2"), "{said:?}");
            println!("{}", said.out);
            Ok(())
        }
        .await;
        testbed.heal(&node)?;
        kept?;
        until_as_many(postgres, 2).await?;
        Ok(())
    })
    .await
}

/// The replicas, first one that does not share its node with the writer.
async fn away_from_writer(postgres: &Postgres<'_>) -> Result<[String; 2]> {
    let writer = postgres.namespace.api::<Pod>().get("writer").await?;
    let [one, two] = replicas(postgres).await?;
    let beside = node_of(&postgres.pod(&one).await?) == node_of(&writer);
    Ok(if beside { [two, one] } else { [one, two] })
}

/// Whether the pod of a member was told to go.
async fn is_leaving(postgres: &Postgres<'_>, member: &str) -> Result<bool> {
    let pod = postgres.pod(member).await?;
    Ok(pod.metadata.deletion_timestamp.is_some())
}

/// How often a member's Patroni looks around within that time, by its log. By itself it does so every
/// ten seconds, and whenever somebody writes its configuration.
async fn looks_within(postgres: &Postgres<'_>, member: &str, time: Duration) -> Result<usize> {
    let looks = async || {
        let log = postgres.namespace.logs(member).await?;
        let looks = log.lines().filter(|line| line.contains("INFO: no action"));
        anyhow::Ok(looks.count())
    };
    let before = looks().await?;
    tokio::time::sleep(time).await;
    Ok(looks().await? - before)
}

/// Its node is named as not answering, with what can be done; and the other replica is enough to hand
/// the lead to.
#[tokio::test]
async fn the_lead_leaves_a_cordoned_node_while_a_replicas_node_is_dead_and_named() -> Result<()> {
    let shape = Shape::ensemble(0);
    alone("dead", shape, Need::Nodes, async |cluster, postgres| {
        let Some(testbed) = cluster.testbed() else {
            return Ok(());
        };
        // Not before: those who had the nodes until now may have moved the lead, and only to the
        // replica that commits wait for could it be brought back.
        postgres.set_synchronous().await?;
        postgres.start_writing().await?;
        let client = postgres.namespace.client();
        let leader = postgres.leader().await?;
        let [lost, other] = away_from_writer(postgres).await?;
        let dead = node_of(&postgres.pod(&lost).await?).context("on no node")?;
        let left = node_of(&postgres.pod(&leader).await?).context("on no node")?;
        look_from_elsewhere(&client, &dead).await?;
        testbed.kill_node(&dead)?;
        let moved = async {
            eventually("the dead node's pod is told to go", LIMIT, async || {
                Ok(is_leaving(postgres, &lost).await?.then_some(()))
            })
            .await?;
            let what = "why names the node that does not answer";
            let said = eventually(what, SOON, async || {
                let said = why(cluster, postgres)?.out;
                Ok((said.contains(&dead) && said.contains("out-of-service")).then_some(said))
            });
            println!("{}", said.await?);

            let looks = looks_within(postgres, &leader, Duration::from_secs(30)).await?;
            ensure!(looks <= 20, "Patroni was made to look {looks} times");
            set_schedulable(&client, &left, false).await?;
            eventually("the lead has moved", LIMIT, async || {
                let holder = postgres.lock().await?.holder;
                Ok((holder.as_ref() == Some(&other)).then_some(()))
            })
            .await?;
            postgres.still_writes().await
        }
        .await;
        set_schedulable(&client, &left, true).await?;
        testbed.start_node(&dead)?;
        node_until(&client, &dead, "is back", LIMIT, node_is_ready).await?;
        moved?;
        until_settled(postgres).await?;
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}
