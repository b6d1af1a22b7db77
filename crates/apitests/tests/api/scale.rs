//! Scaling: up at once, down from the highest ordinal; claims follow the policy.

use anyhow::Result;
use ensemble_api::Ensemble;
use ensemble_apitests::Stage;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn scaling_goes_by_the_scale_subresource_and_keeps_claims() -> Result<()> {
    let stage = Stage::new("scale").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let api: Api<Ensemble> = stage.api();
    let to = |replicas: u32| Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch_scale("orders", &PatchParams::default(), &to(5))
        .await?;
    assert_eq!(stage.ready().await?.summary.ready, "5/5");
    api.patch_scale("orders", &PatchParams::default(), &to(2))
        .await?;
    stage.ready().await?;
    let names: Vec<String> = stage
        .uids()
        .await?
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["orders-0", "orders-1"]);
    assert_eq!(stage.claims().await?.len(), 10);
    // Growing again takes the kept claims up.
    api.patch_scale("orders", &PatchParams::default(), &to(3))
        .await?;
    stage.ready().await?;
    assert_eq!(stage.claims().await?.len(), 10);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_go_when_the_policy_says_so_and_a_later_member_starts_afresh() -> Result<()> {
    let stage = Stage::new("scale_delete").await?;
    let _controller = stage.controller("one").await?;
    let mut orders = stage.orders();
    orders["spec"]["storage"] = json!({"whenScaled": "Delete"});
    stage.create(&orders).await?;
    stage.ready().await?;
    stage.patch(json!({"spec": {"replicas": 1}})).await?;
    stage
        .eventually("the claims of the others are gone", async || {
            Ok((stage.claims().await?.len() == 2).then_some(()))
        })
        .await?;
    stage.patch(json!({"spec": {"replicas": 2}})).await?;
    let status = stage.ready().await?;
    assert_eq!(status.ledger["members"].incarnations["1"], 1);
    assert_eq!(stage.claims().await?.len(), 4);
    Ok(())
}
