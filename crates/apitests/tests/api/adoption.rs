//! Deleted, orphaned, created again.

use anyhow::Result;
use ensemble_api::Ensemble;
use ensemble_apitests::Stage;
use kube::api::DeleteParams;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_ensemble_keeps_its_claims_and_a_new_one_takes_them_up() -> Result<()> {
    let stage = Stage::new("deleted").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    stage.delete::<Ensemble>("orders").await?;
    stage
        .eventually("its pods are gone", async || {
            Ok(stage.uids().await?.is_empty().then_some(()))
        })
        .await?;
    assert_eq!(stage.claims().await?.len(), 6);
    stage.create(&stage.orders()).await?;
    let status = stage.ready().await?;
    assert_eq!(status.ledger["members"].born, "0-2");
    assert_eq!(stage.claims().await?.len(), 6);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_go_with_the_ensemble_if_the_policy_says_so() -> Result<()> {
    let stage = Stage::new("deleted_all").await?;
    let _controller = stage.controller("one").await?;
    let mut orders = stage.orders();
    orders["spec"]["storage"] = json!({"whenDeleted": "Delete"});
    stage.create(&orders).await?;
    stage.ready().await?;
    stage.delete::<Ensemble>("orders").await?;
    stage
        .eventually("everything is gone", async || {
            let gone = stage.claims().await?.is_empty() && stage.uids().await?.is_empty();
            let ensemble = stage.api::<Ensemble>().get_opt("orders").await?;
            Ok((gone && ensemble.is_none()).then_some(()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphaned_ensemble_is_taken_back_without_a_restart_whatever_the_policy() -> Result<()> {
    let stage = Stage::new("orphaned").await?;
    let _controller = stage.controller("one").await?;
    let mut orders = stage.orders();
    orders["spec"]["storage"] = json!({"whenDeleted": "Delete"});
    stage.create(&orders).await?;
    stage.ready().await?;
    let before = stage.uids().await?;
    let orphan = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    stage.api::<Ensemble>().delete("orders", &orphan).await?;
    stage
        .eventually("the Ensemble is gone", async || {
            Ok(stage
                .api::<Ensemble>()
                .get_opt("orders")
                .await?
                .is_none()
                .then_some(()))
        })
        .await?;
    assert_eq!(stage.uids().await?, before);
    assert_eq!(stage.claims().await?.len(), 6);
    stage.create(&orders).await?;
    stage.ready().await?;
    assert_eq!(stage.uids().await?, before);
    Ok(())
}
