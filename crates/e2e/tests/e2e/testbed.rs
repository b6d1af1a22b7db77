//! What a cluster must be able to do before the controller is tested on it. No test here breaks
//! anything, so they run beside others, on the testbed or on any cluster that has its images.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ensemble_e2e::stage::{Need, enter};
use ensemble_e2e::{TOOLBOX, apply_yaml, claim, pod_with_volume, web_pod};
use ensemble_testbed::eventually;
use ensemble_testbed::harness::{Cluster, TestNamespace, container_status};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(90);

#[tokio::test]
async fn pods_on_all_nodes_find_and_reach_each_other_by_name_and_service() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    TestNamespace::run(&cluster, "network", async |namespace| {
        let nodes: Api<Node> = Api::all(namespace.client());
        let nodes: Vec<String> = nodes
            .list(&ListParams::default())
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        for node in &nodes {
            namespace
                .apply(web_pod(&format!("web-{node}"), Some(node)))
                .await?;
        }
        for (name, address) in [("web", None), ("web-headless", Some("None"))] {
            let spec = json!({"clusterIP": address, "selector": {"app": "web"},
                "ports": [{"port": 80, "targetPort": 8080}]});
            let service = json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": name}, "spec": spec});
            namespace.apply(service).await?;
        }
        let mut addresses = Vec::new();
        for node in &nodes {
            let pod = namespace.ready_pod(&format!("web-{node}"), LIMIT).await?;
            ensure!(pod.spec.and_then(|spec| spec.node_name).as_ref() == Some(node));
            let status = pod.status.context("a ready pod has a status")?;
            addresses.push(status.pod_ip.context("a ready pod has an address")?);
        }
        let first = format!("web-{}", nodes.first().context("a cluster has nodes")?);

        let domain = format!("{}.svc.cluster.local", namespace.name);
        eventually(
            "the headless name has every pod's address",
            LIMIT,
            async || {
                let found = namespace
                    .shell(&first, &format!("nslookup web-headless.{domain}"))
                    .await?;
                Ok(addresses
                    .iter()
                    .all(|address| found.contains(address))
                    .then_some(()))
            },
        )
        .await?;
        let wanted: Vec<String> = nodes.iter().map(|node| format!("web-{node}")).collect();
        let request = format!("timeout 2 wget -qO- http://web.{domain}/");
        eventually("the Service answers", LIMIT, async || {
            Ok(Some(namespace.shell(&first, &request).await?))
        })
        .await?;
        let mut answered: Vec<String> = Vec::new();
        // The Service picks a pod at random: by a hundred requests every pod has had its turn.
        for _ in 0..100 {
            answered.push(namespace.shell(&first, &request).await?.trim().to_owned());
            if wanted.iter().all(|name| answered.contains(name)) {
                break;
            }
        }
        ensure!(
            wanted.iter().all(|name| answered.contains(name)),
            "only {answered:?} answered"
        );
        ensure!(namespace.logs(&first).await?.contains("serving"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_shared_volume_grows_and_follows_its_pod_to_another_node() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    if cluster.testbed().is_none() {
        return Ok(());
    }
    TestNamespace::run(&cluster, "volume", async |namespace| {
        namespace.apply(claim("data", "shared")).await?;
        namespace
            .apply(pod_with_volume("first", "data", Some("node1")))
            .await?;
        namespace.ready_pod("first", LIMIT).await?;
        namespace.shell("first", "echo kept > /data/file").await?;

        let claims: Api<PersistentVolumeClaim> = namespace.api();
        let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        claims
            .patch("data", &PatchParams::default(), &Patch::Merge(larger))
            .await?;
        eventually("the claim has grown", LIMIT, async || {
            let status = claims.get("data").await?.status;
            let capacity = status
                .and_then(|status| status.capacity)
                .unwrap_or_default();
            Ok(capacity
                .get("storage")
                .filter(|storage| storage.0 == "2Gi")
                .cloned())
        })
        .await?;

        let pods: Api<Pod> = namespace.api();
        pods.delete("first", &DeleteParams::default()).await?;
        namespace
            .apply(pod_with_volume("second", "data", Some("node2")))
            .await?;
        namespace.ready_pod("second", LIMIT).await?;
        ensure!(namespace.shell("second", "cat /data/file").await?.trim() == "kept");

        let volume = claims
            .get("data")
            .await?
            .spec
            .and_then(|spec| spec.volume_name);
        let volume = volume.context("a bound claim has a volume")?;
        pods.delete("second", &DeleteParams::default()).await?;
        claims.delete("data", &DeleteParams::default()).await?;
        let volumes: Api<PersistentVolume> = Api::all(namespace.client());
        eventually("the volume is gone with its claim", LIMIT, async || {
            Ok(volumes.get_opt(&volume).await?.is_none().then_some(()))
        })
        .await
    })
    .await
}

#[tokio::test]
async fn a_local_volume_binds_its_pod_to_a_node_and_a_fixed_one_cannot_grow() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    if cluster.testbed().is_none() {
        return Ok(());
    }
    TestNamespace::run(&cluster, "local-volume", async |namespace| {
        namespace.apply(claim("local", "local")).await?;
        namespace.apply(claim("fixed", "fixed")).await?;
        namespace
            .apply(pod_with_volume("first", "local", Some("node3")))
            .await?;
        namespace.ready_pod("first", LIMIT).await?;
        let pods: Api<Pod> = namespace.api();
        pods.delete("first", &DeleteParams::default()).await?;
        // Nothing but its volume says where the second pod must run.
        namespace
            .apply(pod_with_volume("second", "local", None))
            .await?;
        let second = namespace.ready_pod("second", LIMIT).await?;
        ensure!(second.spec.and_then(|spec| spec.node_name).as_deref() == Some("node3"));

        let claims: Api<PersistentVolumeClaim> = namespace.api();
        eventually("the fixed claim is bound", LIMIT, async || {
            let status = claims.get("fixed").await?.status;
            Ok(status.filter(|status| status.phase.as_deref() == Some("Bound")))
        })
        .await?;
        let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        let answer = claims
            .patch("fixed", &PatchParams::default(), &Patch::Merge(larger))
            .await;
        ensure!(matches!(answer, Err(kube::Error::Api(status)) if status.code == 403));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_image_changes_in_place_and_a_missing_tag_is_not_pulled() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    TestNamespace::run(&cluster, "image", async |namespace| {
        namespace.apply(web_pod("changing", None)).await?;
        let before = namespace.ready_pod("changing", LIMIT).await?;
        ensure!(
            namespace
                .shell("changing", "cat /etc/image-version")
                .await?
                .trim()
                == "1"
        );
        set_image(namespace, "changing", &format!("{TOOLBOX}:2")).await?;
        let after = namespace
            .pod_until("changing", "runs the second image", LIMIT, |pod| {
                let (old, new) = (container_status(&before), container_status(pod));
                old.zip(new).is_some_and(|(old, new)| {
                    new.restart_count == 1 && new.image_id != old.image_id && new.ready
                })
            })
            .await?;
        ensure!(before.uid() == after.uid(), "the pod was replaced");
        ensure!(
            namespace
                .shell("changing", "cat /etc/image-version")
                .await?
                .trim()
                == "2"
        );

        set_image(namespace, "changing", &format!("{TOOLBOX}:no-such-tag")).await?;
        namespace
            .pod_until("changing", "cannot be pulled", LIMIT, |pod| {
                let state = container_status(pod).and_then(|status| status.state.clone());
                let waiting = state
                    .and_then(|state| state.waiting)
                    .and_then(|one| one.reason);
                waiting
                    .is_some_and(|reason| reason == "ErrImagePull" || reason == "ImagePullBackOff")
            })
            .await?;
        Ok(())
    })
    .await
}

async fn set_image(namespace: &TestNamespace, pod: &str, image: &str) -> Result<()> {
    let pods: Api<Pod> = namespace.api();
    let patch = json!({"spec": {"containers": [{"name": "web", "image": image}]}});
    pods.patch(pod, &PatchParams::default(), &Patch::Strategic(patch))
        .await?;
    Ok(())
}

#[tokio::test]
async fn cpu_and_memory_of_a_running_pod_are_resized_without_a_restart() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    TestNamespace::run(&cluster, "resize", async |namespace| {
        namespace.apply(web_pod("resized", None)).await?;
        namespace.ready_pod("resized", LIMIT).await?;
        let pods: Api<Pod> = namespace.api();
        let larger = json!({"spec": {"containers": [{"name": "web", "resources": {
            "requests": {"cpu": "20m", "memory": "32Mi"},
            "limits": {"cpu": "300m", "memory": "96Mi"},
        }}]}});
        let parameters = PatchParams::default();
        pods.patch_subresource("resize", "resized", &parameters, &Patch::Strategic(larger))
            .await?;
        let resized = namespace
            .pod_until("resized", "has its new resources", LIMIT, |pod| {
                let resources = container_status(pod).and_then(|status| status.resources.clone());
                let limits = resources
                    .and_then(|resources| resources.limits)
                    .unwrap_or_default();
                limits
                    .get("memory")
                    .is_some_and(|memory| memory.0 == "96Mi")
                    && limits.get("cpu").is_some_and(|cpu| cpu.0 == "300m")
            })
            .await?;
        ensure!(container_status(&resized).is_some_and(|status| status.restart_count == 0));
        // The kernel's own word, in either version of cgroups.
        let read = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes \
            2>/dev/null || true";
        let limit = namespace.shell("resized", read).await?;
        ensure!(
            limit.trim() == (96 * 1024 * 1024).to_string(),
            "the kernel's limit is {limit}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_controllers_image_runs_without_root_on_a_read_only_file_system() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    TestNamespace::run(&cluster, "restricted", async |namespace| {
        namespace
            .apply(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
                    "name": namespace.name,
                    "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
                }}),
            )
            .await?;
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "help"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "ensemble",
                    "image": "registry.testbed/ensemble:latest",
                    "args": ["--help"],
                    "securityContext": {
                        "runAsNonRoot": true,
                        "readOnlyRootFilesystem": true,
                        "allowPrivilegeEscalation": false,
                        "capabilities": {"drop": ["ALL"]},
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                }],
            },
        });
        namespace.apply(pod).await?;
        namespace
            .pod_until("help", "has ended well", LIMIT, |pod| {
                let phase = pod
                    .status
                    .as_ref()
                    .and_then(|status| status.phase.as_deref());
                phase == Some("Succeeded")
            })
            .await?;
        ensure!(!namespace.logs("help").await?.is_empty());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn patroni_forms_a_cluster_of_three_with_one_leader_from_a_plain_set() -> Result<()> {
    let _turn = enter(Need::Database).await;
    let cluster = Cluster::connect().await?;
    TestNamespace::run(&cluster, "patroni", async |namespace| {
        apply_yaml(namespace, include_str!("../../manifests/patroni.yaml")).await?;
        for number in 0..3 {
            namespace
                .ready_pod(&format!("postgres-{number}"), Duration::from_secs(180))
                .await?;
        }
        eventually("one leader and two replicas run", LIMIT, async || {
            let text = namespace
                .shell("postgres-0", "curl -s localhost:8008/cluster")
                .await?;
            let state: serde_json::Value = serde_json::from_str(&text)?;
            let members = state["members"].as_array().cloned().unwrap_or_default();
            let count = |role: &str| {
                let running = |member: &&serde_json::Value| {
                    member["role"] == role
                        && (member["state"] == "running" || member["state"] == "streaming")
                };
                members.iter().filter(running).count()
            };
            Ok((count("leader") == 1 && count("replica") == 2).then_some(()))
        })
        .await
    })
    .await
}
