//! What is broken is repaired; what is not ours to repair is reported.

use anyhow::Result;
use ensemble_api::{Ensemble, Reason};
use ensemble_apitests::Stage;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

async fn running(test: &str) -> Result<(Stage, ensemble_apitests::Controller)> {
    let stage = Stage::new(test).await?;
    let controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    Ok((stage, controller))
}

fn changed(before: &[(String, String)], after: &[(String, String)]) -> Vec<String> {
    after
        .iter()
        .filter(|pair| !before.contains(pair))
        .map(|(name, _)| name.clone())
        .collect()
}

async fn replaced(stage: &Stage, before: &[(String, String)], member: &str) -> Result<()> {
    stage
        .eventually(&format!("{member} has a successor"), async || {
            let after = stage.uids().await?;
            Ok((after.len() == 3 && changed(before, &after) == [member]).then_some(()))
        })
        .await?;
    stage.ready().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_comes_back_on_its_own_claims() -> Result<()> {
    let (stage, _controller) = running("pod_deleted").await?;
    let before = stage.uids().await?;
    stage.delete::<Pod>("orders-1").await?;
    replaced(&stage, &before, "orders-1").await?;
    assert_eq!(stage.claims().await?.len(), 6);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_pod_makes_way_for_its_successor() -> Result<()> {
    let (stage, _controller) = running("pod_failed").await?;
    let before = stage.uids().await?;
    let pods: Api<Pod> = stage.api();
    let failed = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    pods.patch_status("orders-2", &PatchParams::default(), &Patch::Merge(failed))
        .await?;
    replaced(&stage, &before, "orders-2").await
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_owners_that_somebody_changed_are_put_right_without_a_restart() -> Result<()> {
    let (stage, _controller) = running("labels_edited").await?;
    let before = stage.uids().await?;
    let pods: Api<Pod> = stage.api();
    let params = PatchParams::default();
    let stripped = json!({"metadata": {"labels": {"ensemble.dev/ensemble": null}}});
    pods.patch("orders-0", &params, &Patch::Merge(stripped))
        .await?;
    let wrong = json!({"metadata": {"labels": {"ensemble.dev/ordinal": "7"}}});
    pods.patch("orders-1", &params, &Patch::Merge(wrong))
        .await?;
    let disowned = json!({"metadata": {"ownerReferences": null}});
    pods.patch("orders-2", &params, &Patch::Merge(disowned))
        .await?;
    stage
        .eventually("all is as it was", async || {
            let pods = stage.members().await?;
            let right = pods.iter().all(|pod| {
                let labels = pod.metadata.labels.clone().unwrap_or_default();
                let name = pod.metadata.name.clone().unwrap_or_default();
                let ordinal = labels
                    .get("ensemble.dev/ordinal")
                    .cloned()
                    .unwrap_or_default();
                labels
                    .get("ensemble.dev/ensemble")
                    .is_some_and(|e| e == "orders")
                    && name == format!("orders-{ordinal}")
                    && pod
                        .metadata
                        .owner_references
                        .as_ref()
                        .is_some_and(|o| o.len() == 1)
            });
            Ok((pods.len() == 3 && right).then_some(()))
        })
        .await?;
    assert_eq!(stage.uids().await?, before);
    stage.ready().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_status_is_rebuilt_and_nobody_is_touched() -> Result<()> {
    let (stage, _controller) = running("status_wiped").await?;
    let before = stage.uids().await?;
    let api: Api<Ensemble> = stage.api();
    let wiped = json!({"status": null});
    api.patch_status("orders", &PatchParams::default(), &Patch::Merge(wiped))
        .await?;
    let status = stage.ready().await?;
    assert_eq!(status.ledger["members"].born, "0-2");
    assert_eq!(status.ledger["members"].next, 3);
    assert_eq!(stage.uids().await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_end_is_reported_with_its_node_and_never_forced() -> Result<()> {
    let stage = Stage::new("stuck").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let pods: Api<Pod> = stage.api();
    // A finalizer keeps the pod as a kubelet that does not answer would.
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    pods.patch("orders-1", &PatchParams::default(), &Patch::Merge(held))
        .await?;
    stage.delete::<Pod>("orders-1").await?;
    let step = stage.blocked(Reason::StuckTerminating).await?;
    let message = step.blocker.map(|b| b.message).unwrap_or_default();
    assert!(
        message.contains("orders-1") && message.contains("fake-"),
        "{message}"
    );
    assert!(
        pods.get("orders-1")
            .await?
            .metadata
            .deletion_timestamp
            .is_some()
    );
    let freed = json!({"metadata": {"finalizers": null}});
    pods.patch("orders-1", &PatchParams::default(), &Patch::Merge(freed))
        .await?;
    stage.ready().await?;
    Ok(())
}
