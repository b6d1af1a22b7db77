//! Claims: a born member never gets an empty volume.

use anyhow::Result;
use ensemble_api::{Ensemble, EnsembleRequest, Reason};
use ensemble_apitests::Stage;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

async fn lose(stage: &Stage, claims: &[&str], pods: &[&str]) -> Result<()> {
    for claim in claims {
        stage.delete::<PersistentVolumeClaim>(claim).await?;
    }
    for pod in pods {
        stage.delete::<Pod>(pod).await?;
    }
    stage
        .eventually("the claims are gone", async || {
            let left = stage.claims().await?;
            Ok((!left.iter().any(|c| claims.contains(&c.as_str()))).then_some(()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_claim_of_a_used_member_is_reported_and_never_made_anew() -> Result<()> {
    let stage = Stage::new("claim_lost").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    lose(&stage, &["wal-orders-1"], &["orders-1"]).await?;
    let step = stage.blocked(Reason::ClaimMissing).await?;
    assert_eq!(step.member.as_deref(), Some("orders-1"));
    assert!(!stage.claims().await?.contains(&"wal-orders-1".to_owned()));
    assert_eq!(stage.uids().await?.len(), 2);

    // Only an explicit request gives the member a new life, on empty claims.
    let request = |name: &str, accept: bool| -> Result<EnsembleRequest> {
        Ok(serde_json::from_value(json!({
            "apiVersion": "ensemble.dev/v1alpha1", "kind": "EnsembleRequest", "metadata": {"name": name},
            "spec": {"ensemble": "orders", "rebuild": {"members": ["orders-1"], "acceptDataLoss": accept}},
        }))?)
    };
    let requests: Api<EnsembleRequest> = stage.api();
    requests
        .create(&PostParams::default(), &request("careless", false)?)
        .await?;
    stage
        .eventually("the careless one is refused", async || {
            let status = requests.get("careless").await?.status.unwrap_or_default();
            Ok((status.outcome == Some(ensemble_api::Outcome::Refused)).then_some(()))
        })
        .await?;
    requests
        .create(&PostParams::default(), &request("meant", true)?)
        .await?;
    let status = stage.ready().await?;
    assert_eq!(status.ledger["members"].incarnations["1"], 1);
    assert_eq!(stage.claims().await?.len(), 6);
    let outcome = requests
        .get("meant")
        .await?
        .status
        .unwrap_or_default()
        .outcome;
    assert_eq!(outcome, Some(ensemble_api::Outcome::Done));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn if_no_claim_of_any_member_is_left_nothing_is_created() -> Result<()> {
    let stage = Stage::new("data_missing").await?;
    let controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    controller.stop().await?;
    let claims = stage.claims().await?;
    let claims: Vec<&str> = claims.iter().map(String::as_str).collect();
    lose(&stage, &claims, &["orders-0", "orders-1", "orders-2"]).await?;
    // Even with its status lost, the Ensemble remembers that it was used.
    let api: Api<Ensemble> = stage.api();
    api.patch_status(
        "orders",
        &PatchParams::default(),
        &Patch::Merge(json!({"status": null})),
    )
    .await?;
    let _controller = stage.controller("two").await?;
    stage.blocked(Reason::DataMissing).await?;
    assert!(stage.claims().await?.is_empty());
    assert!(stage.uids().await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_two_claims_of_a_new_member_is_finished_as_if_nothing_had_happened()
-> Result<()> {
    let stage = Stage::new("half_created").await?;
    stage.create(&stage.orders()).await?;
    let api: Api<Ensemble> = stage.api();
    let ledger = json!({"status": {"observedGeneration": 1, "ledger": {"members": {"next": 3}}}});
    api.patch_status("orders", &PatchParams::default(), &Patch::Merge(ledger))
        .await?;
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {"name": "data-orders-0", "labels": {
            "ensemble.dev/ensemble": "orders", "ensemble.dev/group": "members", "ensemble.dev/ordinal": "0",
            "ensemble.dev/claim": "data", "ensemble.dev/incarnation": "0"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))?;
    stage
        .api::<PersistentVolumeClaim>()
        .create(&PostParams::default(), &claim)
        .await?;
    let _controller = stage.controller("one").await?;
    assert_eq!(stage.ready().await?.summary.ready, "3/3");
    assert_eq!(stage.claims().await?.len(), 6);
    Ok(())
}
