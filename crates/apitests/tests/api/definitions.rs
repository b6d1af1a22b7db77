//! The definitions change, go and come back: what other versions wrote, and what nobody can read.

use anyhow::{Context, Result, ensure};
use ensemble_api::{Ensemble, EnsembleStatus};
use ensemble_apitests::{Stage, install_crds};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::json;
use std::time::Duration;

const ENSEMBLES: &str = "ensembles.ensemble.dev";
/// A watch of a kind that did not exist is tried again with growing pauses.
const WATCHED_AGAIN: Duration = Duration::from_secs(240);

/// The definition of another version, which lets pass what ours does not.
async fn anything_goes(stage: &Stage) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let mut crd = serde_json::to_value(api.get(ENSEMBLES).await?)?;
    crd["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema":
        {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    api.replace(
        ENSEMBLES,
        &PostParams::default(),
        &serde_json::from_value(crd)?,
    )
    .await?;
    // It takes effect in a while: a probe tells when.
    let probe = json!({"apiVersion": "ensemble.dev/v1alpha1", "kind": "Ensemble",
                       "metadata": {"name": "probe"}, "spec": {"minReadySeconds": "three"}});
    let probe: DynamicObject = serde_json::from_value(probe)?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    stage
        .eventually("the other definition is in use", async || {
            Ok(anything(stage).create(&dry, &probe).await.ok())
        })
        .await?;
    Ok(())
}

fn anything(stage: &Stage) -> Api<DynamicObject> {
    let kind = ApiResource::erase::<Ensemble>(&());
    Api::namespaced_with(stage.client.clone(), &stage.namespace, &kind)
}

fn is_ready(status: &EnsembleStatus) -> bool {
    status
        .condition("Ready")
        .is_some_and(|c| c.status == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_malformed_object_does_not_stop_the_others_and_works_once_it_is_corrected() -> Result<()>
{
    let stage = Stage::own_cluster("malformed").await?;
    anything_goes(&stage).await?;
    let mut broken = stage.orders();
    broken["metadata"]["name"] = "broken".into();
    broken["spec"]["minReadySeconds"] = "three".into();
    let broken: DynamicObject = serde_json::from_value(broken)?;
    anything(&stage)
        .create(&PostParams::default(), &broken)
        .await?;
    // Labels that make no sense, on a pod that claims to be one of ours.
    let odd: Pod = serde_json::from_value(json!({
        "metadata": {"name": "orders-x", "labels": {
            "ensemble.dev/ensemble": "orders", "ensemble.dev/group": "members",
            "ensemble.dev/ordinal": "minus-one", "ensemble.dev/incarnation": "x"}},
        "spec": {"containers": [{"name": "c", "image": "fake/other:1"}]}}))?;
    let odd = stage
        .api::<Pod>()
        .create(&PostParams::default(), &odd)
        .await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    let orders = stage.ready().await?;
    ensure!(orders.ready_replicas == 3, "{orders:?}");
    let kept = stage.api::<Pod>().get("orders-x").await?;
    ensure!(kept.metadata.uid == odd.metadata.uid && kept.metadata.deletion_timestamp.is_none());
    let seen = anything(&stage).get("broken").await?;
    ensure!(seen.data.get("status").is_none(), "{:?}", seen.data);
    let events: Api<k8s_openapi::api::events::v1::Event> = stage.api();
    stage
        .eventually("an event says what cannot be read", async || {
            let events = events.list(&Default::default()).await?;
            let about = |e: &k8s_openapi::api::events::v1::Event| {
                let name = e.regarding.as_ref().and_then(|r| r.name.as_deref());
                name == Some("broken") && e.reason.as_deref() == Some("Invalid")
            };
            Ok(events.items.into_iter().find(about))
        })
        .await?;
    let corrected = Patch::Merge(json!({"spec": {"minReadySeconds": 1}}));
    anything(&stage)
        .patch("broken", &PatchParams::default(), &corrected)
        .await?;
    stage.until("broken", "Ready", is_ready).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_controller_beside_a_newer_one_restarts_nobody_and_forgets_nothing() -> Result<()>
{
    let stage = Stage::own_cluster("versions").await?;
    anything_goes(&stage).await?;
    let newer = stage
        .controller_leading("lease-newer", 2_000_000_010)
        .await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let before = stage.uids().await?;
    // A newer one has words that an older one does not know, and knows of nine ordinals.
    let words = json!({"status": {
        "ledger": {"members": {"next": 9, "lineage": "new"}},
        "novelty": {"of": "tomorrow"},
        "plan": {"state": "Dancing", "steps": [{"action": "Dance", "cause": "music", "state": "Blocked",
            "blocker": {"reason": "NotInventedYet", "message": "", "observed": "", "limit": "",
                        "clearsWhen": "", "nextCommand": ""}}]},
    }});
    newer.kill();
    anything(&stage)
        .patch_status("orders", &PatchParams::default(), &Patch::Merge(words))
        .await?;
    // One that was there before stands down; one that comes later takes over.
    let _former = stage
        .controller_leading("lease-former", 2_000_000_000)
        .await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let status = anything(&stage).get("orders").await?.data["status"].clone();
    ensure!(status["plan"]["state"] == "Dancing", "{status}");
    let _older = stage
        .controller_leading("lease-older", 2_000_000_020)
        .await?;
    let status = stage
        .until("orders", "Ready again", |s| {
            is_ready(s) && s.epoch > 2_000_000_020
        })
        .await?;
    ensure!(status.ledger["members"].next == 9, "{:?}", status.ledger);
    ensure!(
        status.ledger["members"].born == "0-2",
        "{:?}",
        status.ledger
    );
    // Both of them run: nobody writes against the other.
    let version = stage.get().await?.metadata.resource_version;
    tokio::time::sleep(Duration::from_secs(5)).await;
    ensure!(
        stage.get().await?.metadata.resource_version == version,
        "a fight"
    );
    ensure!(stage.uids().await? == before, "a pod was restarted");
    Ok(())
}

/// How many objects of a kind there are.
async fn count<K>(stage: &Stage) -> Result<usize>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    Ok(stage
        .api::<K>()
        .list(&Default::default())
        .await?
        .items
        .len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_definition_takes_the_pods_and_by_policy_the_claims_and_the_rest_is_taken_back()
-> Result<()> {
    let stage = Stage::own_cluster("crd_gone").await?;
    let _controller = stage.controller("one").await?;
    let mut cache = stage.orders();
    cache["metadata"]["name"] = "cache".into();
    cache["spec"]["storage"] = json!({"whenDeleted": "Delete"});
    stage.create(&cache).await?;
    stage.create(&stage.orders()).await?;
    stage.until("cache", "Ready", is_ready).await?;
    stage.ready().await?;
    garbage_is_collected(&stage).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let before = kept(&stage).await?;
    crds.delete(ENSEMBLES, &Default::default()).await?;
    stage
        .eventually_within(
            WATCHED_AGAIN,
            "nothing is left but kept claims",
            async || {
                let gone = crds.get_opt(ENSEMBLES).await?.is_none();
                let pods = count::<Pod>(&stage).await?;
                let around = count::<ControllerRevision>(&stage).await?
                    + count::<Service>(&stage).await?
                    + count::<PodDisruptionBudget>(&stage).await?;
                let claims = stage.claims().await?.len();
                Ok((gone && pods == 0 && around == 0 && claims == 6).then_some(()))
            },
        )
        .await?;
    crds.delete("ensemblerequests.ensemble.dev", &Default::default())
        .await?;
    stage
        .eventually("the other definition is gone", async || {
            let left = crds.get_opt("ensemblerequests.ensemble.dev").await?;
            Ok(left.is_none().then_some(()))
        })
        .await?;
    install_crds(&stage.client).await.context("install again")?;
    stage.create(&stage.orders()).await?;
    let status = stage.ready_within(WATCHED_AGAIN).await?;
    ensure!(
        status.ledger["members"].born == "0-2",
        "{:?}",
        status.ledger
    );
    ensure!(before == kept(&stage).await?, "they are other claims");
    Ok(())
}

/// Kubernetes' garbage collector takes up to half a minute to notice a new kind. If that kind goes
/// before, what belonged to its objects stays.
async fn garbage_is_collected(stage: &Stage) -> Result<()> {
    let mut probe = stage.orders();
    probe["metadata"]["name"] = "probe".into();
    probe["spec"]["replicas"] = 0.into();
    stage.create(&probe).await?;
    stage.until("probe", "Ready", is_ready).await?;
    stage.delete::<Ensemble>("probe").await?;
    stage
        .eventually("its Service is collected", async || {
            let left = stage.api::<Service>().get_opt("probe-members").await?;
            Ok(left.is_none().then_some(()))
        })
        .await
}

/// Name and uid of the claims of `orders`.
async fn kept(stage: &Stage) -> Result<Vec<(String, String)>> {
    let params = kube::api::ListParams::default().labels("ensemble.dev/ensemble=orders");
    let claims = stage
        .api::<k8s_openapi::api::core::v1::PersistentVolumeClaim>()
        .list(&params)
        .await?;
    let pair = |c: k8s_openapi::api::core::v1::PersistentVolumeClaim| {
        (
            c.metadata.name.unwrap_or_default(),
            c.metadata.uid.unwrap_or_default(),
        )
    };
    Ok(claims.items.into_iter().map(pair).collect())
}
