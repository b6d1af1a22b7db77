//! Somebody else's object has our name.

use anyhow::Result;
use ensemble_api::{Ensemble, EnsembleStatus, Reason};
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

/// Pods of two ensembles never share a name, but claims may: `data` of `a-b` and `data-a` of `b`.
#[tokio::test(flavor = "multi_thread")]
async fn two_ensembles_whose_claims_have_one_name_leave_each_other_alone() -> Result<()> {
    let stage = Stage::new("collide").await?;
    let _controller = stage.controller("one").await?;
    let ensemble = |name: &str, claim: &str, replicas: u32| {
        let mut ensemble = stage.orders();
        ensemble["metadata"]["name"] = name.into();
        ensemble["spec"]["replicas"] = replicas.into();
        ensemble["spec"]["storage"] = json!({"whenDeleted": "Delete"});
        let mounts = json!([{"name": claim, "mountPath": "/data"}]);
        ensemble["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts;
        ensemble["spec"]["claims"] =
            json!([{"name": claim, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]);
        ensemble
    };
    let is_ready = |s: &EnsembleStatus| s.condition("Ready").is_some_and(|c| c.status == "True");
    stage.create(&ensemble("a-b", "data", 1)).await?;
    stage.until("a-b", "Ready", is_ready).await?;
    let claims = stage.api::<PersistentVolumeClaim>();
    let before = claims.get("data-a-b-0").await?.metadata;
    stage.create(&ensemble("b", "data-a", 2)).await?;
    let waits = |s: &EnsembleStatus| {
        let taken = s.plan.first_blocked();
        s.ready_replicas == 1 && taken.is_some_and(|(_, b)| b.reason == Reason::NameTaken)
    };
    stage.until("b", "b-1 serves, b-0 waits", waits).await?;
    let after = claims.get("data-a-b-0").await?.metadata;
    assert_eq!((before.uid, before.labels), (after.uid, after.labels));
    stage.until("a-b", "still Ready", is_ready).await?;
    // Once the other one has gone with its claim, this one goes on by itself.
    stage.delete::<Ensemble>("a-b").await?;
    stage.until("b", "Ready", is_ready).await?;
    let pods: Vec<String> = stage.uids().await?.into_iter().map(|(n, _)| n).collect();
    assert_eq!(pods, ["b-0", "b-1"]);
    Ok(())
}
