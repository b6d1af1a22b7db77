//! What the testbed can break, and what Kubernetes makes of it. These tests change nodes that all
//! pods share, so each is alone.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ensemble_e2e::stage::{Need, Turn, enter};
use ensemble_e2e::{claim, pod_with_volume, web_pod};
use ensemble_testbed::client::node_is_ready;
use ensemble_testbed::full::faults::{Side, Target};
use ensemble_testbed::harness::{
    Cluster, TestNamespace, container_status, drain, node_until, set_schedulable,
};
use ensemble_testbed::{Component, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);

/// Waits until nobody else needs the nodes, and all of them are well.
async fn alone() -> Result<(Turn, Cluster)> {
    let turn = enter(Need::Nodes).await;
    let cluster = Cluster::connect().await?;
    ensemble_testbed::client::nodes_ready(&cluster.client(), 3).await?;
    Ok((turn, cluster))
}

/// A set of one pod with a volume that can follow it.
fn set_of_one() -> Value {
    let mut template = pod_with_volume("unused", "data", None);
    template["metadata"] = json!({"labels": {"app": "single"}});
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "single"},
        "spec": {
            "serviceName": "single",
            "replicas": 1,
            "selector": {"matchLabels": {"app": "single"}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    })
}

fn node_of(pod: &Pod) -> String {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.node_name.clone())
        .unwrap_or_default()
}

#[tokio::test]
async fn a_drained_node_gives_its_pods_to_others() -> Result<()> {
    let (_turn, cluster) = alone().await?;
    if cluster.testbed().is_none() {
        return Ok(());
    }
    TestNamespace::run(&cluster, "drain", async |namespace| {
        namespace.apply(claim("data", "shared")).await?;
        namespace.apply(set_of_one()).await?;
        let before = namespace.ready_pod("single-0", LIMIT).await?;
        let node = node_of(&before);
        let drained = drain(&namespace.client(), &node, LIMIT).await;
        let moved = namespace
            .pod_until("single-0", "runs on another node", LIMIT, |pod| {
                node_of(pod) != node && ensemble_testbed::harness::is_ready(pod)
            })
            .await;
        set_schedulable(&namespace.client(), &node, true).await?;
        drained.and(moved.map(|_| ()))
    })
    .await
}

#[tokio::test]
async fn pods_on_a_node_cut_off_from_the_control_plane_run_on_and_come_back() -> Result<()> {
    let (_turn, cluster) = alone().await?;
    let Some(testbed) = cluster.testbed() else {
        return Ok(());
    };
    TestNamespace::run(&cluster, "partition", async |namespace| {
        let mut lonely = web_pod("lonely", Some("node2"));
        lonely["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        namespace.apply(lonely).await?;
        namespace.apply(web_pod("peer", Some("node1"))).await?;
        let before = namespace.ready_pod("lonely", LIMIT).await?;
        namespace.ready_pod("peer", LIMIT).await?;
        let address = before
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.clone());
        let address = address.context("a ready pod has an address")?;

        testbed.partition("node2", Side::ControlPlane)?;
        let lost = node_until(&namespace.client(), "node2", "is lost", LIMIT, |node| {
            !node_is_ready(node)
        })
        .await;
        let request = format!("timeout 2 wget -qO- http://{address}:8080/");
        let served = namespace.shell("peer", &request).await;
        testbed.heal("node2")?;
        lost?;
        ensure!(served?.trim() == "lonely", "the pod did not run on");

        node_until(
            &namespace.client(),
            "node2",
            "is back",
            LIMIT,
            node_is_ready,
        )
        .await?;
        let after = namespace.ready_pod("lonely", LIMIT).await?;
        let id = |pod: &Pod| container_status(pod).and_then(|one| one.container_id.clone());
        ensure!(id(&before) == id(&after), "the container was restarted");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_node_cut_off_from_its_peers_is_unreachable_for_their_pods_only() -> Result<()> {
    let (_turn, cluster) = alone().await?;
    let Some(testbed) = cluster.testbed() else {
        return Ok(());
    };
    TestNamespace::run(&cluster, "peers", async |namespace| {
        namespace.apply(web_pod("island", Some("node3"))).await?;
        namespace.apply(web_pod("peer", Some("node1"))).await?;
        let island = namespace.ready_pod("island", LIMIT).await?;
        namespace.ready_pod("peer", LIMIT).await?;
        let address = island
            .status
            .and_then(|status| status.pod_ip)
            .unwrap_or_default();
        let request = format!("timeout 2 wget -qO- http://{address}:8080/");
        ensure!(namespace.shell("peer", &request).await?.trim() == "island");
        testbed.partition("node3", Side::Peers)?;
        let cut_off = namespace.exec("peer", &["sh", "-c", &request]).await;
        let reached = namespace.shell("island", "echo reached").await;
        testbed.heal("node3")?;
        ensure!(!cut_off?.success, "the peer still reached the pod");
        ensure!(
            reached?.trim() == "reached",
            "the API server did not reach the pod"
        );
        ensure!(namespace.shell("peer", &request).await?.trim() == "island");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_pod_of_a_node_that_died_for_good_moves_with_its_data_once_that_is_declared() -> Result<()>
{
    let (_turn, cluster) = alone().await?;
    let Some(testbed) = cluster.testbed() else {
        return Ok(());
    };
    TestNamespace::run(&cluster, "dead-node", async |namespace| {
        namespace.apply(claim("data", "shared")).await?;
        namespace.apply(set_of_one()).await?;
        let before = namespace.ready_pod("single-0", LIMIT).await?;
        namespace
            .shell("single-0", "echo kept > /data/file")
            .await?;
        let node = node_of(&before);
        testbed.kill_node(&node)?;
        let outcome = async {
            let client = namespace.client();
            node_until(&client, &node, "is lost", LIMIT, |node| {
                !node_is_ready(node)
            })
            .await?;
            namespace
                .pod_until("single-0", "waits to be deleted", LIMIT, |pod| {
                    pod.metadata.deletion_timestamp.is_some()
                })
                .await?;
            testbed.set_out_of_service(&node, true).await?;
            namespace
                .pod_until("single-0", "runs elsewhere", LIMIT, |pod| {
                    pod.uid() != before.uid() && ensemble_testbed::harness::is_ready(pod)
                })
                .await?;
            let text = namespace.shell("single-0", "cat /data/file").await?;
            ensure!(text.trim() == "kept", "the data did not move");
            Ok(())
        }
        .await;
        testbed.set_out_of_service(&node, false).await?;
        testbed.start_node(&node)?;
        node_until(&namespace.client(), &node, "is back", LIMIT, node_is_ready).await?;
        outcome
    })
    .await
}

#[tokio::test]
async fn a_node_whose_object_was_deleted_registers_again_when_it_is_restarted() -> Result<()> {
    let (_turn, cluster) = alone().await?;
    let Some(testbed) = cluster.testbed() else {
        return Ok(());
    };
    let client = cluster.client();
    let nodes: Api<Node> = Api::all(client.clone());
    let before = nodes.get("node3").await?.uid();
    testbed.stop_node("node3")?;
    testbed.delete_node_object("node3").await?;
    testbed.start_node("node3")?;
    node_until(&client, "node3", "is back as a new object", LIMIT, |node| {
        node.uid() != before && node_is_ready(node)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_process_restarts_its_container_only() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    let Some(testbed) = cluster.testbed() else {
        return Ok(());
    };
    TestNamespace::run(&cluster, "kill", async |namespace| {
        namespace.apply(web_pod("victim", None)).await?;
        let before = namespace.ready_pod("victim", LIMIT).await?;
        let target = Target {
            process: Some("httpd"),
            ..Target::default()
        };
        testbed.signal_in_pod(&before, &target, rustix::process::Signal::KILL)?;
        let after = namespace
            .pod_until("victim", "was restarted", LIMIT, |pod| {
                container_status(pod).is_some_and(|one| one.restart_count == 1 && one.ready)
            })
            .await?;
        ensure!(before.uid() == after.uid());
        Ok(())
    })
    .await
}

/// Whether a request is answered soon. Without a limit of its own the client would try for
/// minutes, and a cluster that was without its store for so long takes as long to recover.
async fn serves(maps: &Api<ConfigMap>) -> bool {
    let parameters = ListParams::default();
    let answer = tokio::time::timeout(Duration::from_secs(2), maps.list(&parameters)).await;
    matches!(answer, Ok(Ok(_)))
}

#[tokio::test]
async fn objects_and_pods_outlive_a_restart_of_the_api_server_and_of_etcd() -> Result<()> {
    let (_turn, cluster) = alone().await?;
    let Some(testbed) = cluster.testbed() else {
        return Ok(());
    };
    TestNamespace::run(&cluster, "restart", async |namespace| {
        namespace.apply(web_pod("steady", None)).await?;
        let before = namespace.ready_pod("steady", LIMIT).await?;
        let maps: Api<ConfigMap> = namespace.api();
        for component in [Component::ApiServer(0), Component::Etcd] {
            testbed.stop(component)?;
            ensure!(
                !serves(&maps).await,
                "{component:?} is stopped, and yet the API serves"
            );
            testbed.start(component).await?;
        }
        eventually("the API serves again", LIMIT, async || {
            Ok(serves(&maps).await.then_some(()))
        })
        .await?;
        let after = namespace.ready_pod("steady", LIMIT).await?;
        let id = |pod: &Pod| container_status(pod).and_then(|one| one.container_id.clone());
        ensure!(id(&before) == id(&after), "the container was restarted");
        let pods: Api<Pod> = namespace.api();
        pods.delete("steady", &DeleteParams::default()).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_slow_link_makes_answers_late_until_it_is_quick_again() -> Result<()> {
    let (_turn, cluster) = alone().await?;
    let Some(testbed) = cluster.testbed() else {
        return Ok(());
    };
    TestNamespace::run(&cluster, "slow", async |namespace| {
        namespace.apply(web_pod("far", Some("node2"))).await?;
        namespace.apply(web_pod("peer", Some("node1"))).await?;
        let far = namespace.ready_pod("far", LIMIT).await?;
        namespace.ready_pod("peer", LIMIT).await?;
        let file = "head -c 200000 /dev/zero > /tmp/www/file";
        namespace.shell("far", file).await?;
        let address = far
            .status
            .and_then(|status| status.pod_ip)
            .unwrap_or_default();
        let fetch = format!("timeout 60 wget -qO /dev/null http://{address}:8080/file");
        let quick = timed_shell(namespace, &fetch).await?;
        testbed.slow_link("node2", 800)?;
        let slow = timed_shell(namespace, &fetch).await;
        testbed.quick_link("node2")?;
        let slow = slow?;
        ensure!(
            slow > quick + Duration::from_secs(1),
            "{slow:?} is hardly more than {quick:?}"
        );
        Ok(())
    })
    .await
}

async fn timed_shell(namespace: &TestNamespace, script: &str) -> Result<Duration> {
    let begin = std::time::Instant::now();
    namespace.shell("peer", script).await?;
    Ok(begin.elapsed())
}
