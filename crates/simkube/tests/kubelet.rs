//! Pods on nodes, from creation to the end.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use serde_json::json;
use simkube::config::{Behaviour, Pull};
use simkube::{Request, Resource};

#[test]
fn a_pod_with_a_claim_gets_a_node_a_volume_and_becomes_ready() {
    let mut cluster = cluster();
    cluster
        .create(
            Resource::PersistentVolumeClaims,
            NS,
            claim("data-0", "movable"),
        )
        .unwrap();
    let pod = ready_pod(&mut cluster, pod_with_claim("web-0", "data-0"));

    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["status"]["observedGeneration"], 1);
    assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    let claim = cluster
        .get(Resource::PersistentVolumeClaims, NS, "data-0")
        .unwrap();
    assert_eq!(claim["status"]["phase"], "Bound");
    let volume = claim["spec"]["volumeName"].as_str().unwrap();
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    assert_eq!(cluster.attachments(), [(volume.into(), node.into())]);
    let processes = cluster.running_processes();
    assert_eq!(processes.len(), 1);
    assert_eq!(&*processes[0].node, node);
}

#[test]
fn the_writes_of_a_normal_start_come_in_the_order_of_a_real_kubelet() {
    let mut cluster = cluster();
    let from = cluster.log().len();
    ready_pod(&mut cluster, pod("web-0"));
    let writes: Vec<(String, String)> = cluster.log()[from..]
        .iter()
        .filter(|e| e.resource == Resource::Pods)
        .map(|e| {
            let phase = e.object["status"]["phase"].as_str().unwrap().to_owned();
            (e.origin.client.to_string(), phase)
        })
        .collect();
    let of = |who: &str, phase: &str| (who.to_owned(), phase.to_owned());
    assert_eq!(writes[0], of("client", "Pending"));
    assert_eq!(writes[1], of("scheduler", "Pending"));
    assert!(
        writes[2..writes.len() - 1]
            .iter()
            .all(|w| *w == of("kubelet", "Pending"))
    );
    assert_eq!(*writes.last().unwrap(), of("kubelet", "Running"));
}

#[test]
fn a_deleted_pod_stops_gracefully_and_is_then_removed_by_its_kubelet() {
    let mut cluster = cluster();
    ready_pod(&mut cluster, pod("web-0"));
    let answer = cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0"))
        .unwrap();
    let marked = answer.into_object().unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(cluster.running_processes().len(), 1);
    let gone = |c: &simkube::Cluster| c.get(Resource::Pods, NS, "web-0").is_none();
    assert!(cluster.advance_until(5000, gone));
    assert!(cluster.running_processes().is_empty());
}

#[test]
fn a_changed_image_restarts_the_container_in_the_same_pod() {
    let mut cluster = cluster();
    let before = ready_pod(&mut cluster, pod("web-0"));
    let image = json!({"spec": {"containers": [{"name": "main", "image": "web:2"}]}});
    // A merge patch replaces the list, so the whole container is sent.
    let mut container = before["spec"]["containers"][0].clone();
    container["image"] = json!("web:2");
    let _ = image;
    let written = patch_pod(
        &mut cluster,
        "web-0",
        json!({"spec": {"containers": [container]}}),
    );
    assert_eq!(written["metadata"]["generation"], 2);
    let updated = |c: &simkube::Cluster| {
        let p = get_pod(c, "web-0");
        p["status"]["observedGeneration"] == 2
            && p["status"]["containerStatuses"][0]["image"] == "web:2"
            && condition(&p, "Ready").as_deref() == Some("True")
    };
    assert!(cluster.advance_until(10_000, updated));
    let after = get_pod(&cluster, "web-0");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["podIP"], before["status"]["podIP"]);
    assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_ne!(
        after["status"]["containerStatuses"][0]["containerID"],
        before["status"]["containerStatuses"][0]["containerID"]
    );
}

#[test]
fn a_missing_image_is_noticed_only_after_the_old_container_has_stopped() {
    let mut cluster = cluster();
    cluster
        .config_mut()
        .images
        .set("web:bad", Behaviour::missing());
    let before = ready_pod(&mut cluster, pod("web-0"));
    let mut container = before["spec"]["containers"][0].clone();
    container["image"] = json!("web:bad");
    patch_pod(
        &mut cluster,
        "web-0",
        json!({"spec": {"containers": [container.clone()]}}),
    );
    let waits = |reason: &'static str| {
        move |c: &simkube::Cluster| {
            get_pod(c, "web-0")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
                == reason
        }
    };
    assert!(cluster.advance_until(10_000, waits("ErrImagePull")));
    assert!(cluster.running_processes().is_empty());
    assert!(cluster.advance_until(10_000, waits("ImagePullBackOff")));
    container["image"] = json!("web:2");
    patch_pod(
        &mut cluster,
        "web-0",
        json!({"spec": {"containers": [container]}}),
    );
    assert!(cluster.advance_until(5000, |c| is_ready(c, "web-0")));
}

#[test]
fn a_crashing_container_waits_longer_after_every_crash() {
    let mut cluster = cluster();
    cluster
        .config_mut()
        .images
        .set("web:1", Behaviour::crashing(1));
    cluster.create(Resource::Pods, NS, pod("web-0")).unwrap();
    let mut starts = Vec::new();
    let mut seen = String::new();
    let end = cluster.now().plus_s(100);
    while cluster.step_until(end) {
        for process in cluster.running_processes() {
            if process.id != seen {
                seen = process.id;
                starts.push(cluster.now());
            }
        }
    }
    let gaps: Vec<u64> = starts.windows(2).map(|w| w[1].since_ms(w[0])).collect();
    // Half a second of run, and a moment until the kubelet looks and starts it.
    assert_eq!(gaps, [1500, 10_600, 20_600, 40_600]);
    let pod = get_pod(&cluster, "web-0");
    assert_eq!(pod["status"]["phase"], "Running");
    let status = &pod["status"]["containerStatuses"][0];
    // That it waits is said for a moment at the end, and its end until then.
    assert_eq!(status["state"]["terminated"]["exitCode"], 1);
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    let waits = |c: &simkube::Cluster| {
        let pod = get_pod(c, "web-0");
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    assert!(cluster.advance_until(100_000, waits));
}

#[test]
fn a_container_whose_new_image_takes_long_is_said_to_run_until_its_probe_has_failed() {
    let mut cluster = cluster();
    let slow = Behaviour {
        pull: Pull::Ok { after_ms: 60_000 },
        ..Behaviour::default()
    };
    cluster.config_mut().images.set("web:2", slow);
    let mut probed = pod("web-0");
    probed["spec"]["containers"][0]["readinessProbe"] =
        json!({"tcpSocket": {"port": 80}, "periodSeconds": 2, "failureThreshold": 3});
    let before = ready_pod(&mut cluster, probed);
    let mut container = before["spec"]["containers"][0].clone();
    container["image"] = json!("web:2");
    let change = json!({"spec": {"containers": [container]}});
    patch_pod(&mut cluster, "web-0", change);
    cluster.advance_ms(4000);
    assert!(cluster.running_processes().is_empty());
    assert!(is_ready(&cluster, "web-0"));
    cluster.advance_ms(4000);
    assert!(!is_ready(&cluster, "web-0"));
    let pod = get_pod(&cluster, "web-0");
    let status = &pod["status"]["containerStatuses"][0];
    assert!(status["state"]["running"].is_object());
    assert_eq!(status["image"], "web:1");
    assert!(cluster.advance_until(60_000, |c| is_ready(c, "web-0")));
}

#[test]
fn a_force_deleted_pod_may_still_run() {
    let mut cluster = cluster();
    cluster.config_mut().images.set(
        "web:1",
        Behaviour {
            stop_after_ms: Some(8000),
            ..Behaviour::default()
        },
    );
    ready_pod(&mut cluster, pod("web-0"));
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0").grace(0))
        .unwrap();
    assert!(cluster.get(Resource::Pods, NS, "web-0").is_none());
    cluster.advance_ms(5000);
    assert_eq!(cluster.running_processes().len(), 1);
    cluster.advance_ms(5000);
    assert!(cluster.running_processes().is_empty());
}

#[test]
fn a_partitioned_node_goes_on_running_its_pods_and_hears_nothing() {
    let mut cluster = cluster();
    let pod = ready_pod(&mut cluster, pod("web-0"));
    let node = pod["spec"]["nodeName"].as_str().unwrap().to_owned();
    cluster.partition_node(&node);
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0").grace(0))
        .unwrap();
    cluster.advance_ms(20_000);
    assert_eq!(cluster.running_processes().len(), 1);
    cluster.heal_node(&node);
    cluster.advance_ms(5000);
    assert!(cluster.running_processes().is_empty());
}

#[test]
fn a_rebooted_node_starts_its_containers_anew_in_the_same_pods() {
    let mut cluster = cluster();
    let before = ready_pod(&mut cluster, pod("web-0"));
    let node = before["spec"]["nodeName"].as_str().unwrap().to_owned();
    cluster.kill_node(&node);
    assert!(cluster.running_processes().is_empty());
    cluster.advance_ms(1000);
    cluster.heal_node(&node);
    cluster.advance_ms(5000);
    let after = get_pod(&cluster, "web-0");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_ne!(after["status"]["podIP"], before["status"]["podIP"]);
    assert!(is_ready(&cluster, "web-0"));
}
