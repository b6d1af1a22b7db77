//! Disruption budgets: ours lets members go within the budget; somebody else's makes ours stand down.

use anyhow::{Result, bail};
use ensemble_api::Reason;
use ensemble_apitests::Stage;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::EvictParams;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn one_member_may_be_evicted_and_a_second_may_not() -> Result<()> {
    let stage = Stage::new("budget").await?;
    let controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let budgets = stage.api::<PodDisruptionBudget>();
    stage
        .eventually("the budget allows one", async || {
            let status = budgets.get("orders-members").await?.status;
            Ok(status
                .filter(|s| s.disruptions_allowed == Some(1))
                .map(|_| ()))
        })
        .await?;
    // Nobody replaces what is evicted, so the second eviction meets one member down.
    controller.stop().await?;
    let pods = stage.api::<Pod>();
    pods.evict("orders-0", &EvictParams::default()).await?;
    match pods.evict("orders-1", &EvictParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 429 => {}
        other => bail!("the second eviction: {other:?}"),
    }
    let _controller = stage.controller("two").await?;
    stage.ready().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_budget_on_our_pods_makes_ours_stand_down_and_is_reported() -> Result<()> {
    let stage = Stage::new("foreign_budget").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let budgets = stage.api::<PodDisruptionBudget>();
    let foreign: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "theirs"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "orders"}}}}))?;
    budgets.create(&Default::default(), &foreign).await?;
    stage.blocked(Reason::ForeignBudget).await?;
    stage
        .eventually("ours is gone", async || {
            Ok(budgets
                .get_opt("orders-members")
                .await?
                .is_none()
                .then_some(()))
        })
        .await?;
    // A foreign budget is advice, not trouble.
    stage.ready().await?;
    stage.delete::<PodDisruptionBudget>("theirs").await?;
    stage
        .eventually("ours is back", async || {
            Ok(budgets.get_opt("orders-members").await?.map(|_| ()))
        })
        .await
}
