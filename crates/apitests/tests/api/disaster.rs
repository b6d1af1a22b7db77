//! A leader that slept, a watch that expired, an etcd that was restored.

use crate::chaos::{EVICTION_FORGOTTEN, Watcher};
use anyhow::{Context, Result, ensure};
use ensemble_apitests::{ControllerProcess, Stage, serve};
use ensemble_testbed::Component;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, WatchEvent, WatchParams};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Not a test: what the controller process of the next one runs.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by a_leader_that_was_paused_and_wakes_up_hurts_nobody"]
async fn a_controller_process() -> Result<()> {
    serve().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_paused_and_wakes_up_hurts_nobody() -> Result<()> {
    let stage = Arc::new(Stage::new("paused_leader").await?);
    let old = ControllerProcess::start(&stage, "disaster::a_controller_process", "old")?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let watcher = Watcher::start(&stage);
    for round in 0..2_u64 {
        stage.image(&format!("fake/db:{round}-a")).await?;
        // Somewhere in the middle of its work.
        tokio::time::sleep(Duration::from_millis(700 + 600 * round)).await;
        old.freeze()?;
        let new = stage.controller(&format!("new-{round}")).await?;
        stage.ready_within(EVICTION_FORGOTTEN).await?;
        // It wakes up in the middle of the other one's work, and believes to lead.
        stage.image(&format!("fake/db:{round}-b")).await?;
        tokio::time::sleep(Duration::from_millis(400)).await;
        old.thaw()?;
        stage.ready_within(EVICTION_FORGOTTEN).await?;
        new.stop().await?;
    }
    stage.image("fake/db:last").await?;
    stage.ready_within(EVICTION_FORGOTTEN).await?;
    let fewest = watcher.fewest().await?;
    ensure!(fewest >= 2, "only {fewest} members were Ready at some time");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_while_the_watches_had_expired_is_not_missed() -> Result<()> {
    let stage = Stage::own_cluster_of("expired", 2).await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let before = stage.uids().await?;
    let pods = stage.api::<Pod>().list(&Default::default()).await?;
    let version = pods.metadata.resource_version.context("a version")?;
    let plane = stage.plane().context("a cluster of its own")?;
    plane.stop(Component::ApiServer(0))?;
    // Through the other API server, while our watches are cut off.
    let other: Api<Pod> = Api::namespaced(plane.client_of(1).await?, &stage.namespace);
    let at_once = DeleteParams::default().grace_period(0);
    other.delete("orders-1", &at_once).await?;
    plane.start_again(Component::ApiServer(0)).await?;
    plane.restart(Component::ControllerManager).await?;
    plane.restart(Component::Scheduler).await?;
    let expired = watch_from(&stage, &version).await?;
    ensure!(
        expired == Some(410),
        "the version is still served: {expired:?}"
    );
    stage
        .eventually("orders-1 has a successor", async || {
            let after = stage.uids().await?;
            let new = after.iter().filter(|pair| !before.contains(pair)).count();
            Ok((after.len() == 3 && new == 1).then_some(()))
        })
        .await?;
    stage.ready_within(EVICTION_FORGOTTEN).await?;
    Ok(())
}

/// The code with which a watch from that version is refused.
async fn watch_from(stage: &Stage, version: &str) -> Result<Option<u16>> {
    let params = WatchParams::default().timeout(5);
    let events = stage.api::<Pod>().watch(&params, version).await;
    let mut events = match events {
        Err(kube::Error::Api(status)) => return Ok(Some(status.code)),
        other => other?.boxed(),
    };
    match events.next().await {
        Some(Ok(WatchEvent::Error(status))) => Ok(Some(status.code)),
        Some(Err(kube::Error::Api(status))) => Ok(Some(status.code)),
        _ => Ok(None),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_restored_to_an_older_state_is_noticed_and_nobody_is_deleted_twice() -> Result<()> {
    let mut stage = Stage::own_cluster("restored").await?;
    let controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let (before, claims) = (stage.uids().await?, stage.claims().await?);
    let plane = stage.plane_mut().context("a cluster of its own")?;
    let copy = plane.dir().join("copy");
    plane.back_up(&copy).await?;
    // A day's work, which is lost.
    stage.image("fake/db:2").await?;
    stage.ready_within(EVICTION_FORGOTTEN).await?;
    stage.patch(json!({"spec": {"replicas": 4}})).await?;
    stage.ready().await?;
    ensure!(stage.uids().await? != before);
    let plane = stage.plane_mut().context("a cluster of its own")?;
    plane.restore(&copy).await?;
    let ended = tokio::time::timeout(Duration::from_secs(60), controller.ended())
        .await
        .context("the controller goes on as if nothing had happened")?;
    let why = ended.err().map(|e| format!("{e:#}")).unwrap_or_default();
    ensure!(why.contains("went back in time"), "{why}");
    // As its Deployment would start it again.
    let _controller = stage.controller("two").await?;
    let status = stage
        .until("orders", "Ready at the state of then", |s| {
            s.condition("Ready").is_some_and(|c| c.status == "True") && s.replicas == 3
        })
        .await?;
    ensure!(status.updated_replicas == 3, "{status:?}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    ensure!(stage.uids().await? == before, "a pod was replaced");
    ensure!(stage.claims().await? == claims, "claims differ");
    // And it works as ever.
    stage.image("fake/db:3").await?;
    stage.ready_within(EVICTION_FORGOTTEN).await?;
    Ok(())
}
