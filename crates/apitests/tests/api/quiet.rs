//! Suspended or converged: nothing is written.

use anyhow::Result;
use ensemble_api::Reason;
use ensemble_apitests::Stage;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use std::time::Duration;

/// The highest version of anything in the namespace that we could have written.
async fn versions(stage: &Stage) -> Result<Vec<String>> {
    let mut all = Vec::new();
    all.extend(stage.get().await?.metadata.resource_version);
    all.extend(
        stage
            .members()
            .await?
            .into_iter()
            .filter_map(|p| p.metadata.resource_version),
    );
    for claim in stage
        .api::<k8s_openapi::api::core::v1::PersistentVolumeClaim>()
        .list(&Default::default())
        .await?
    {
        all.extend(claim.metadata.resource_version);
    }
    for revision in stage
        .api::<k8s_openapi::api::apps::v1::ControllerRevision>()
        .list(&Default::default())
        .await?
    {
        all.extend(revision.metadata.resource_version);
    }
    Ok(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_converged_ensemble_costs_no_write_also_after_a_restart_of_the_controller() -> Result<()>
{
    let stage = Stage::new("quiet").await?;
    let controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    // The budget's own controller and the kubelets may still have something to say.
    let settled = stage
        .eventually("all is quiet", async || {
            let before = versions(&stage).await?;
            tokio::time::sleep(Duration::from_secs(3)).await;
            let after = versions(&stage).await?;
            Ok((before == after).then_some(after))
        })
        .await?;
    controller.stop().await?;
    let controller = stage.controller("two").await?;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(versions(&stage).await?, settled);
    controller.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_ensemble_is_left_alone() -> Result<()> {
    let stage = Stage::new("suspended").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    stage.patch(json!({"spec": {"suspend": true}})).await?;
    stage.blocked(Reason::Suspended).await?;
    stage.image("fake/db:2").await?;
    stage.delete::<Pod>("orders-1").await?;
    stage
        .eventually("the pod is gone", async || {
            Ok((stage.uids().await?.len() == 2).then_some(()))
        })
        .await?;
    let revisions = stage.api::<k8s_openapi::api::apps::v1::ControllerRevision>();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(stage.uids().await?.len(), 2);
    assert_eq!(revisions.list(&Default::default()).await?.items.len(), 1);
    stage.patch(json!({"spec": {"suspend": false}})).await?;
    stage.ready().await?;
    Ok(())
}
