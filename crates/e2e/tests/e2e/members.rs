//! Members that are equals, on real nodes: the rows of the behaviour table where a kubelet matters.
//! The controller runs as a pod with its own account and rights, installed by `ensemble install`.

use anyhow::{Context, Result, bail, ensure};
use ensemble_e2e::ensemble::{
    condition, ensemble, ensembles, install, ready, set_image, status_until, waits_for, web,
};
use ensemble_e2e::stage::{Need, enter};
use ensemble_e2e::{TOOLBOX, apply_yaml};
use ensemble_testbed::eventually;
use ensemble_testbed::full::faults::Target;
use ensemble_testbed::harness::{Cluster, TestNamespace, drain, set_schedulable};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(150);

/// Kubernetes itself forgets an eviction that came to nothing after twice that long.
const BEFORE_KUBERNETES_FORGETS: Duration = Duration::from_secs(60);

async fn members(namespace: &TestNamespace) -> Result<BTreeMap<String, Pod>> {
    let params = ListParams::default().labels("ensemble.dev/group=members");
    let pods = namespace.api::<Pod>().list(&params).await?;
    Ok(pods.items.into_iter().map(|p| (p.name_any(), p)).collect())
}

async fn uids(namespace: &TestNamespace) -> Result<BTreeMap<String, String>> {
    let pods = members(namespace).await?;
    Ok(pods
        .into_iter()
        .map(|(name, pod)| (name, pod.uid().unwrap_or_default()))
        .collect())
}

async fn web_is_up(namespace: &TestNamespace) -> Result<()> {
    namespace.apply(web("1")).await?;
    ready(namespace, "web", LIMIT).await?;
    Ok(())
}

#[tokio::test]
async fn the_readme_sample_gives_three_ready_members() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "sample", async |namespace| {
        let sample = include_str!("../../../../samples/orders.yaml");
        // The testbed has its own registry, and no other.
        let sample = sample.replace("image: redis:7.2", "image: registry.testbed/redis:1");
        apply_yaml(namespace, &sample).await?;
        ready(namespace, "orders", LIMIT).await?;
        let said = ensemble(&cluster, &["status", "orders", "-n", &namespace.name])?;
        ensure!(said.code == 0 && said.out.contains("orders-2"), "{said:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_member_keeps_its_data_its_name_and_its_place_in_dns() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "keeps", async |namespace| {
        web_is_up(namespace).await?;
        namespace.shell("web-1", "echo kept > /data/note").await?;
        let before = uids(namespace).await?;
        namespace
            .api::<Pod>()
            .delete("web-1", &DeleteParams::default())
            .await?;
        eventually("web-1 has a successor", LIMIT, async || {
            let after = uids(namespace).await?;
            Ok(after
                .get("web-1")
                .filter(|uid| before.get("web-1") != Some(uid))
                .map(|_| ()))
        })
        .await?;
        ready(namespace, "web", LIMIT).await?;
        let note = namespace.shell("web-1", "cat /data/note").await?;
        ensure!(note.trim() == "kept", "{note:?}");
        let there = format!(
            "wget -q -O - http://web-1.web-members.{}:8080/",
            namespace.name
        );
        let name = eventually("web-1 answers by its name", LIMIT, async || {
            Ok(namespace.shell("web-0", &there).await.ok())
        })
        .await?;
        ensure!(name.trim() == "web-1", "{name:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_new_image_reaches_everybody_one_by_one() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "roll", async |namespace| {
        web_is_up(namespace).await?;
        set_image(namespace, &format!("{TOOLBOX}:2")).await?;
        let mut fewest = 3;
        let api = ensembles(namespace.client(), &namespace.name);
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            let serving = members(namespace)
                .await?
                .values()
                .filter(|p| is_ready(p))
                .count();
            fewest = fewest.min(serving);
            let object = api.get("web").await?;
            let status = object.data.get("status").cloned().unwrap_or(Value::Null);
            let current = status["observedGeneration"].as_i64() == object.metadata.generation;
            if current && condition(&status, "Ready") == Some("True") {
                break;
            }
            ensure!(
                tokio::time::Instant::now() < deadline,
                "the roll does not end: {status}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        ensure!(fewest >= 2, "only {fewest} members served at some time");
        for pod in members(namespace).await?.values() {
            let image = pod
                .spec
                .as_ref()
                .and_then(|s| s.containers[0].image.clone());
            ensure!(
                image.as_deref() == Some(&*format!("{TOOLBOX}:2")),
                "{image:?}"
            );
        }
        Ok(())
    })
    .await
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    let ready =
        conditions.is_some_and(|c| c.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    ready && pod.metadata.deletion_timestamp.is_none()
}

#[tokio::test]
async fn a_missing_image_is_explained_while_everybody_is_still_up() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "missing", async |namespace| {
        web_is_up(namespace).await?;
        let before = uids(namespace).await?;
        set_image(namespace, &format!("{TOOLBOX}:nowhere")).await?;
        status_until(namespace, "web", "ImageMissing", LIMIT, |s| {
            waits_for(s, "ImageMissing")
        })
        .await?;
        let said = ensemble(&cluster, &["why", "web", "-n", &namespace.name])?;
        ensure!(said.code == 4, "{said:?}");
        for word in [
            &*format!("{TOOLBOX}:nowhere"),
            "ImageMissing",
            "ensemble undo web",
        ] {
            ensure!(said.out.contains(word), "{word} is not in {}", said.out);
        }
        ensure!(uids(namespace).await? == before, "somebody was touched");
        ensure!(
            members(namespace).await?.values().all(is_ready),
            "somebody is down"
        );
        let said = ensemble(&cluster, &["undo", "web", "-n", &namespace.name])?;
        ensure!(said.code == 0, "{said:?}");
        ready(namespace, "web", LIMIT).await?;
        ensure!(
            uids(namespace).await? == before,
            "going back touched somebody"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_crash_loop_stops_within_the_budget_and_undo_gets_through() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "crash", async |namespace| {
        web_is_up(namespace).await?;
        let mut broken = web("1");
        broken["spec"]["template"]["spec"]["containers"][0]["command"] =
            json!(["sh", "-c", "exit 3"]);
        namespace.apply(broken).await?;
        let crashed = |s: &Value| waits_for(s, "CrashLooping");
        let status = status_until(namespace, "web", "CrashLooping", LIMIT, crashed).await?;
        ensure!(status["updatedReplicas"] == 1, "{status}");
        let said = ensemble(&cluster, &["why", "web", "-n", &namespace.name])?;
        ensure!(
            said.out.contains("web-2") && said.out.contains("exit code 3"),
            "{said:?}"
        );
        let said = ensemble(&cluster, &["undo", "web", "-n", &namespace.name])?;
        ensure!(said.code == 0, "{said:?}");
        ready(namespace, "web", LIMIT).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_container_that_dies_is_restarted_by_its_kubelet_and_nobody_else_is_touched() -> Result<()>
{
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    let Some(testbed) = cluster.testbed() else {
        return Ok(());
    };
    install(&cluster).await?;
    TestNamespace::run(&cluster, "killed", async |namespace| {
        web_is_up(namespace).await?;
        let before = uids(namespace).await?;
        let pod = members(namespace).await?.remove("web-0").context("web-0")?;
        let target = Target {
            container: "web".into(),
            process: "httpd".into(),
        };
        testbed.signal_in_pod(&pod, &target, rustix::process::Signal::KILL)?;
        namespace
            .pod_until("web-0", "restarted", LIMIT, |pod| {
                let statuses = pod
                    .status
                    .as_ref()
                    .and_then(|s| s.container_statuses.as_ref());
                statuses.is_some_and(|s| s.iter().any(|c| c.restart_count > 0)) && is_ready(pod)
            })
            .await?;
        ready(namespace, "web", LIMIT).await?;
        ensure!(uids(namespace).await? == before, "a pod was replaced");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_drain_ends_and_its_member_comes_back_afterwards() -> Result<()> {
    let _turn = enter(Need::Nodes).await;
    let cluster = Cluster::connect().await?;
    if cluster.testbed().is_none() {
        return Ok(());
    }
    install(&cluster).await?;
    TestNamespace::run(&cluster, "drain", async |namespace| {
        web_is_up(namespace).await?;
        let pod = members(namespace).await?.remove("web-1").context("web-1")?;
        let node = pod
            .spec
            .and_then(|s| s.node_name)
            .context("web-1 is on a node")?;
        let client = namespace.client();
        let drained = async {
            set_schedulable(&client, &node, false).await?;
            drain(&client, &node, LIMIT).await?;
            // Each member has a node of its own, so this one waits for its node.
            let waits = |s: &Value| waits_for(s, "Unschedulable");
            status_until(namespace, "web", "web-1 waits", LIMIT, waits).await
        }
        .await;
        set_schedulable(&client, &node, true).await?;
        drained?;
        ready(namespace, "web", LIMIT).await?;
        Ok(())
    })
    .await
}

/// Evicts a pod as it was before somebody touched it: the API server enters it in its budget, finds
/// that it has changed, and deletes nothing.
async fn evict_in_vain(namespace: &TestNamespace, pod: &str) -> Result<()> {
    let pods = namespace.api::<Pod>();
    let read = pods.get(pod).await?;
    let touch = json!({"metadata": {"annotations": {"e2e": "was here"}}});
    pods.patch(pod, &PatchParams::default(), &Patch::Merge(touch))
        .await?;
    // By hand: kube 5 writes these options under a name that the API server does not know.
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod},
        "deleteOptions": {"preconditions": {
            "uid": read.metadata.uid, "resourceVersion": read.metadata.resource_version,
        }},
    });
    let params = PostParams::default();
    let answer = pods.create_subresource::<Value, Value>("eviction", pod, &params, &eviction);
    match answer.await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => bail!("the eviction of a pod that has changed: {other:?}"),
    }
}

#[tokio::test]
async fn an_eviction_that_came_to_nothing_is_taken_back_and_the_next_roll_goes_on() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "in-vain", async |namespace| {
        let mut members = web("1");
        members["spec"]["rollout"] = json!({"method": "Recreate"});
        namespace.apply(members).await?;
        ready(namespace, "web", LIMIT).await?;
        let budgets = namespace.api::<PodDisruptionBudget>();
        let budget = async || {
            let budget = budgets.get("web-members").await?;
            anyhow::Ok(budget.status.unwrap_or_default())
        };
        let has_room = async || {
            let status = budget().await?;
            let room = status.disruptions_allowed == Some(1);
            Ok((room && status.disrupted_pods.unwrap_or_default().is_empty()).then_some(()))
        };
        eventually("the budget has room", LIMIT, has_room).await?;
        let before = uids(namespace).await?;

        evict_in_vain(namespace, "web-1").await?;
        let entered = budget().await?.disrupted_pods.unwrap_or_default();
        ensure!(entered.contains_key("web-1"), "{entered:?}");
        let limit = BEFORE_KUBERNETES_FORGETS;
        eventually("web-1 is no longer counted as evicted", limit, has_room).await?;
        ensure!(uids(namespace).await? == before, "somebody was replaced");
        ensure!(
            members_restarts(namespace).await? == 0,
            "somebody was restarted"
        );

        // And if it happens on the way, the roll goes on by itself.
        evict_in_vain(namespace, "web-0").await?;
        set_image(namespace, &format!("{TOOLBOX}:2")).await?;
        ready(namespace, "web", LIMIT).await?;
        let after = uids(namespace).await?;
        ensure!(
            before
                .iter()
                .all(|(name, uid)| after.get(name) != Some(uid)),
            "not everybody was replaced: {after:?}"
        );
        Ok(())
    })
    .await
}

async fn members_restarts(namespace: &TestNamespace) -> Result<i32> {
    let pods = members(namespace).await?;
    let statuses = pods
        .values()
        .filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
    Ok(statuses.flatten().map(|c| c.restart_count).sum())
}
