//! Creation, and what it looks like.

use anyhow::{Context, Result};
use ensemble_apitests::Stage;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn three_members_come_up_on_their_own_claims() -> Result<()> {
    let stage = Stage::new("create").await?;
    let controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    let status = stage.ready().await?;
    assert_eq!(status.summary.ready, "3/3");
    assert_eq!(status.summary.waiting, "-");
    assert_eq!(status.ledger["members"].next, 3);
    assert_eq!(status.ledger["members"].born, "0-2");
    let mut claims = stage.claims().await?;
    claims.sort();
    let expected = [
        "data-orders-0",
        "data-orders-1",
        "data-orders-2",
        "wal-orders-0",
        "wal-orders-1",
        "wal-orders-2",
    ];
    assert_eq!(claims, expected);
    controller.stop().await
}

/// A pod as far as a StatefulSet decides it: without what differs by its nature.
fn shape(pod: &Pod) -> Result<Value> {
    let pod = serde_json::to_value(pod)?;
    let spec = &pod["spec"];
    let mut volumes: Vec<&Value> = spec["volumes"]
        .as_array()
        .context("volumes")?
        .iter()
        .filter(|v| v["persistentVolumeClaim"].is_object())
        .collect();
    // A StatefulSet puts its claims in no particular order.
    volumes.sort_by_key(|v| v["name"].to_string());
    let labels = &pod["metadata"]["labels"];
    Ok(json!({
        "name": pod["metadata"]["name"],
        "hostname": spec["hostname"],
        "subdomain": spec["subdomain"],
        "volumes": volumes,
        "mounts": spec["containers"][0]["volumeMounts"][0],
        "podName": labels["statefulset.kubernetes.io/pod-name"],
        "podIndex": labels["apps.kubernetes.io/pod-index"],
        "hasRevision": labels["controller-revision-hash"].is_string(),
        "app": labels["app"],
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_looks_as_a_statefulset_of_that_name_would_make_it() -> Result<()> {
    let stage = Stage::new("as_a_statefulset").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let ours = stage.api::<Pod>().get("orders-1").await?;

    let other = Stage::new("a_statefulset").await?;
    let mut template = stage.orders()["spec"]["template"].clone();
    template["metadata"]["labels"] = json!({"app": "orders"});
    let claim = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let set: StatefulSet = serde_json::from_value(json!({
        "metadata": {"name": "orders"},
        "spec": {"replicas": 3, "serviceName": "orders-members", "podManagementPolicy": "Parallel",
                 "selector": {"matchLabels": {"app": "orders"}}, "template": template,
                 "volumeClaimTemplates": [claim("data"), claim("wal")]},
    }))?;
    other
        .api::<StatefulSet>()
        .create(&Default::default(), &set)
        .await?;
    let pods = other.api::<Pod>();
    let theirs = other
        .eventually("the StatefulSet's pod", async || {
            Ok(pods.get_opt("orders-1").await?)
        })
        .await?;
    assert_eq!(shape(&ours)?, shape(&theirs)?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn members_know_their_name_and_are_found_by_a_headless_service() -> Result<()> {
    let stage = Stage::new("environment").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let pod = serde_json::to_value(stage.api::<Pod>().get("orders-2").await?)?;
    let env = pod["spec"]["containers"][0]["env"].clone();
    assert_eq!(
        env,
        json!([
            {"name": "ENSEMBLE_NAME", "value": "orders"},
            {"name": "ENSEMBLE_MEMBER", "value": "orders-2"},
            {"name": "ENSEMBLE_ORDINAL", "value": "2"},
        ])
    );
    let service = stage
        .api::<Service>()
        .get("orders-members")
        .await?
        .spec
        .context("spec")?;
    assert_eq!(service.cluster_ip.as_deref(), Some("None"));
    assert_eq!(service.publish_not_ready_addresses, Some(true));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_claims_needs_none() -> Result<()> {
    let stage = Stage::new("no_claims").await?;
    let _controller = stage.controller("one").await?;
    let mut orders = stage.orders();
    orders["spec"]["claims"] = json!([]);
    orders["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = json!([]);
    stage.create(&orders).await?;
    assert_eq!(stage.ready().await?.summary.ready, "3/3");
    assert!(stage.claims().await?.is_empty());
    Ok(())
}
