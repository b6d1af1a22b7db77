//! What the owners of a cluster may have set up: rules about images, quotas, small nodes, old kubelets.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use serde_json::{Value, json};
use simkube::config::{ImageRule, PodQuota};
use simkube::{Request, Resource};

fn image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap()
}

fn mirror() -> String {
    "mirror.example/".to_owned()
}

/// Somebody writes another image into a running pod; what comes of it.
fn write_image(cluster: &mut simkube::Cluster, name: &str, image: &str) -> Value {
    let mut pod = (*get_pod(cluster, name)).clone();
    pod["spec"]["containers"][0]["image"] = image.into();
    let answer = cluster.call(&Request::update(Resource::Pods, NS, name, pod));
    (*answer.unwrap().into_object().unwrap()).clone()
}

#[test]
fn a_mirror_is_put_before_the_images_of_new_pods_and_once_only() {
    let mut cluster = cluster();
    cluster.rewrite_images(ImageRule::Mirror { prefix: mirror() });
    let pod = ready_pod(&mut cluster, pod("web-0"));
    assert_eq!(image(&pod), "mirror.example/web:1");
    let pod = write_image(&mut cluster, "web-0", "web:2");
    assert_eq!(image(&pod), "mirror.example/web:2");
    let pod = write_image(&mut cluster, "web-0", "mirror.example/web:3");
    assert_eq!(image(&pod), "mirror.example/web:3");
}

#[test]
fn a_rule_about_new_pods_leaves_changes_as_they_are_sent() {
    let mut cluster = cluster();
    cluster.rewrite_images(ImageRule::MirrorNew { prefix: mirror() });
    let pod = ready_pod(&mut cluster, pod("web-0"));
    assert_eq!(image(&pod), "mirror.example/web:1");
    let pod = write_image(&mut cluster, "web-0", "web:2");
    assert_eq!(image(&pod), "web:2");
}

#[test]
fn a_pod_that_is_to_keep_its_image_does_and_its_generation_stays() {
    let mut cluster = cluster();
    ready_pod(&mut cluster, pod("web-0"));
    cluster.rewrite_images(ImageRule::Keep);
    let pod = write_image(&mut cluster, "web-0", "web:2");
    assert_eq!(image(&pod), "web:1");
    assert_eq!(pod["metadata"]["generation"], 1);
}

#[test]
fn a_quota_counts_pods_that_have_not_ended_and_comes_after_all_else() {
    let mut cluster = cluster();
    let quota = PodQuota {
        name: "small".into(),
        pods: 1,
    };
    cluster.limit_pods(NS, Some(quota));
    ready_pod(&mut cluster, pod("web-0"));
    for dry_run in [true, false] {
        let request = Request::create(Resource::Pods, NS, pod("web-1"));
        let request = if dry_run { request.dry_run() } else { request };
        let refused = cluster.call(&request).unwrap_err();
        assert_eq!(refused.code, 403);
        assert_eq!(
            refused.message,
            "pods \"web-1\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"
        );
    }
    let mut wrong = pod("web-1");
    wrong["spec"]["containers"][0]["image"] = "".into();
    let refused = cluster.create(Resource::Pods, NS, wrong).unwrap_err();
    assert_eq!(refused.code, 422, "{}", refused.message);
    cluster.limit_pods(NS, None);
    cluster.create(Resource::Pods, NS, pod("web-1")).unwrap();
}

#[test]
fn a_full_node_rejects_what_somebody_binds_to_it() {
    let mut cluster = cluster();
    cluster.set_room("n1", 1);
    for name in ["web-0", "web-1"] {
        let mut bound = pod(name);
        bound["spec"]["nodeName"] = "n1".into();
        cluster.create(Resource::Pods, NS, bound).unwrap();
        cluster.advance_ms(5_000);
    }
    assert!(is_ready(&cluster, "web-0"));
    let rejected = get_pod(&cluster, "web-1");
    let status = &rejected["status"];
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!("OutOfpods"))
    );
    assert!(status["containerStatuses"].is_null());
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-1"))
        .unwrap();
    cluster.advance_ms(5_000);
    assert!(cluster.get(Resource::Pods, NS, "web-1").is_none());
}

#[test]
fn an_old_kubelet_tells_no_generations() {
    let mut cluster = cluster();
    for node in ["n1", "n2", "n3"] {
        cluster.set_kubelet(node, 1, 33);
    }
    let pod = ready_pod(&mut cluster, pod("web-0"));
    assert!(pod["status"]["observedGeneration"].is_null());
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    let node = cluster.get(Resource::Nodes, "", node).unwrap();
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.33.0");
}
