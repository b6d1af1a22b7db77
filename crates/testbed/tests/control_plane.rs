//! The control-plane profile with simulated nodes, as the API tests of the controller use it.

use std::time::Duration;

use anyhow::Result;
use ensemble_testbed::{Component, ControlPlane, Options, Version, eventually};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);

fn with_nodes(count: usize) -> Options {
    Options {
        fake_nodes: count,
        ..Options::default()
    }
}

async fn create_pod(client: &Client, name: &str, image: &str) -> Result<Api<Pod>> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    Ok(pods)
}

fn ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|one| one.type_ == "Ready" && one.status == "True")
}

fn waiting_reason(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    status.state.as_ref()?.waiting.as_ref()?.reason.clone()
}

async fn until(pods: &Api<Pod>, name: &str, what: &str, holds: fn(&Pod) -> bool) -> Result<Pod> {
    eventually(&format!("pod {name} {what}"), LIMIT, async || {
        Ok(pods.get_opt(name).await?.filter(holds))
    })
    .await
}

#[tokio::test]
async fn a_set_with_volumes_becomes_ready_and_its_claims_bind_and_grow() -> Result<()> {
    let cluster = ControlPlane::start(with_nodes(3)).await?;
    let client = cluster.client().await?;
    let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
    let set = serde_json::from_value(json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 3, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": "fake/db:1"}]},
            },
            "volumeClaimTemplates": [
                {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}},
                {"metadata": {"name": "wal"}, "spec": {"accessModes": ["ReadWriteOnce"],
                    "storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}},
            ],
        },
    }))?;
    sets.create(&PostParams::default(), &set).await?;
    eventually("three replicas are ready", LIMIT, async || {
        let status = sets.get("db").await?.status;
        Ok(status.filter(|status| status.ready_replicas == Some(3)))
    })
    .await?;

    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client);
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    claims
        .patch("data-db-0", &PatchParams::default(), &Patch::Merge(larger))
        .await?;
    eventually("the claim has grown", LIMIT, async || {
        let status = claims.get("data-db-0").await?.status;
        let capacity = status
            .and_then(|status| status.capacity)
            .unwrap_or_default();
        Ok(capacity
            .get("storage")
            .filter(|storage| storage.0 == "2Gi")
            .cloned())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn pods_follow_their_images_and_are_deleted_gracefully() -> Result<()> {
    let cluster = ControlPlane::start(with_nodes(1)).await?;
    let client = cluster.client().await?;
    let pods = create_pod(&client, "changing", "fake/app:1").await?;
    create_pod(&client, "missing", "fake/missing").await?;
    create_pod(&client, "crashing", "fake/app:crash").await?;
    create_pod(&client, "stuck", "fake/stuck").await?;

    let before = until(&pods, "changing", "is ready", ready).await?;
    let change = json!({"spec": {"containers": [{"name": "main", "image": "fake/app:2"}]}});
    pods.patch(
        "changing",
        &PatchParams::default(),
        &Patch::Strategic(change),
    )
    .await?;
    let after = until(&pods, "changing", "runs the new image", |pod| {
        let statuses = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter());
        let mut statuses = statuses.flatten();
        statuses.any(|status| status.image == "fake/app:2" && status.restart_count == 1)
    })
    .await?;
    assert_eq!(before.uid(), after.uid());
    let observed = after
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    assert_eq!(observed, after.metadata.generation);

    until(&pods, "missing", "cannot be pulled", |pod| {
        waiting_reason(pod).as_deref() == Some("ImagePullBackOff")
    })
    .await?;
    until(&pods, "crashing", "crashes again and again", |pod| {
        waiting_reason(pod).as_deref() == Some("CrashLoopBackOff")
    })
    .await?;

    until(&pods, "stuck", "is ready", ready).await?;
    pods.delete("stuck", &DeleteParams::default().grace_period(3))
        .await?;
    pods.delete("changing", &DeleteParams::default()).await?;
    eventually("the pod is gone", LIMIT, async || {
        Ok(pods.get_opt("changing").await?.is_none().then_some(()))
    })
    .await?;
    assert!(
        pods.get_opt("stuck").await?.is_some(),
        "a stuck pod uses its whole grace period"
    );
    eventually("the stuck pod is gone", LIMIT, async || {
        Ok(pods.get_opt("stuck").await?.is_none().then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_silent_node_counts_as_lost_until_it_is_heard_again() -> Result<()> {
    let cluster = ControlPlane::start(with_nodes(2)).await?;
    let client = cluster.client().await?;
    let nodes: Api<Node> = Api::all(client);
    let is_ready = |node: Node| ensemble_testbed::client::node_is_ready(&node);
    let fake = cluster.fake_nodes().expect("two simulated nodes");
    fake.silence("fake-0");
    eventually("the silent node is not ready", LIMIT, async || {
        Ok((!is_ready(nodes.get("fake-0").await?)).then_some(()))
    })
    .await?;
    assert!(is_ready(nodes.get("fake-1").await?));
    fake.revive("fake-0");
    eventually("the node is ready again", LIMIT, async || {
        Ok(is_ready(nodes.get("fake-0").await?).then_some(()))
    })
    .await
}

#[tokio::test]
async fn data_outlives_restarts_and_a_second_api_server_serves_when_the_first_is_gone() -> Result<()>
{
    let options = Options {
        api_servers: 2,
        ..Options::default()
    };
    let cluster = ControlPlane::start(options).await?;
    let first: Api<ConfigMap> = Api::default_namespaced(cluster.client_of(0).await?);
    let second: Api<ConfigMap> = Api::default_namespaced(cluster.client_of(1).await?);
    let map = serde_json::from_value(json!({"metadata": {"name": "kept"}}))?;
    first.create(&PostParams::default(), &map).await?;
    cluster.kill(Component::ApiServer(0))?;
    second.get("kept").await?;
    cluster.start_again(Component::ApiServer(0)).await?;
    cluster.restart(Component::Etcd).await?;
    eventually("the object is served again", LIMIT, async || {
        Ok(first.get_opt("kept").await?)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn the_oldest_supported_kubernetes_starts_and_says_its_version() -> Result<()> {
    let options = Options {
        version: Version::Oldest,
        fake_nodes: 1,
        ..Options::default()
    };
    let cluster = ControlPlane::start(options).await?;
    let client = cluster.client().await?;
    let version = client.apiserver_version().await?;
    assert_eq!(
        version.git_version,
        format!("v{}", Version::Oldest.number())
    );
    let pods = create_pod(&client, "one", "fake/app:1").await?;
    until(&pods, "one", "is ready", ready).await?;
    Ok(())
}
