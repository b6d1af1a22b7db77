//! Somebody else's object has our name.

use anyhow::Result;
use ensemble_api::Reason;
use ensemble_apitests::Stage;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_pod_is_never_touched_and_work_goes_on_once_it_is_gone() -> Result<()> {
    let stage = Stage::new("foreign_pod").await?;
    let foreign: Pod = serde_json::from_value(json!({
        "metadata": {"name": "orders-1", "labels": {"whose": "mine"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "fake/other:1"}]}}))?;
    let created = stage
        .api::<Pod>()
        .create(&Default::default(), &foreign)
        .await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    let step = stage.blocked(Reason::NameTaken).await?;
    assert_eq!(step.member.as_deref(), Some("orders-1"));
    let now = stage.api::<Pod>().get("orders-1").await?;
    assert_eq!(now.metadata.uid, created.metadata.uid);
    assert!(now.metadata.owner_references.is_none() && now.metadata.deletion_timestamp.is_none());
    stage.delete::<Pod>("orders-1").await?;
    assert_eq!(stage.ready().await?.summary.ready, "3/3");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_claim_is_never_used() -> Result<()> {
    let stage = Stage::new("foreign_claim").await?;
    let foreign: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {"name": "data-orders-0"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))?;
    stage
        .api::<PersistentVolumeClaim>()
        .create(&Default::default(), &foreign)
        .await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    let step = stage.blocked(Reason::NameTaken).await?;
    assert_eq!(step.member.as_deref(), Some("orders-0"));
    stage
        .eventually("the others run", async || {
            let names: Vec<String> = stage.uids().await?.into_iter().map(|(n, _)| n).collect();
            Ok((names == ["orders-1", "orders-2"]).then_some(()))
        })
        .await?;
    stage
        .delete::<PersistentVolumeClaim>("data-orders-0")
        .await?;
    stage.ready().await?;
    Ok(())
}
