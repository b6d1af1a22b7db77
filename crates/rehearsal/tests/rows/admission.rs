//! What the owners of a cluster have set up: images from a mirror, a quota that fits just the members.

use crate::desk::{Desk, orders};
use ensemble_api::Reason;
use ensemble_conductor::{ApiCall, Input, Kind, Verb};
use serde_json::json;
use simkube::config::{ImageRule, PodQuota};
use std::sync::Arc;

fn changes(call: &ApiCall) -> bool {
    *call.verb() == Verb::Replace
}

/// Three members serve; what can be changed in place is.
fn serving(rule: ImageRule) -> Desk {
    let mut ensemble = orders(3);
    ensemble["spec"]["rollout"]["method"] = "InPlaceIfPossible".into();
    let mut desk = Desk::new(ensemble);
    desk.cluster().rewrite_images(rule);
    desk.settle();
    assert!(desk.is_ready(), "{:?}", desk.status().plan);
    desk.done.clear();
    desk
}

fn mirrored() -> Desk {
    let prefix = "mirror/".to_owned();
    serving(ImageRule::MirrorNew { prefix })
}

fn label(desk: &mut Desk) {
    let template = json!({"metadata": {"labels": {"tier": "gold"}}});
    let spec = json!({"spec": {"template": template}});
    desk.edit(Kind::Ensemble, "orders", &spec);
}

#[test]
fn a_label_is_written_and_the_image_that_admission_put_in_stays() {
    let mut desk = mirrored();
    label(&mut desk);
    for member in ["orders-2", "orders-1", "orders-0"] {
        let (id, call) = desk.settle_until(changes).unwrap();
        assert_eq!(call.name(), member);
        assert_eq!(call.body()["spec"]["containers"][0]["image"], "mirror/db:1");
        assert_eq!(call.body()["metadata"]["labels"]["tier"], "gold");
        desk.carry_out(id, &call);
    }
    desk.settle();
    assert!(desk.is_ready(), "{:?}", desk.status().plan);
}

#[test]
fn a_new_image_is_written_as_the_dry_run_showed_it_also_after_a_restart_of_the_controller() {
    let mut desk = mirrored();
    desk.image("db:2");
    let (id, call) = desk.settle_until(changes).unwrap();
    assert_eq!(call.body()["spec"]["containers"][0]["image"], "mirror/db:2");
    desk.carry_out(id, &call);
    let restarted = json!({"status": {"containerStatuses": [
        {"name": "db", "containerID": "run-2", "state": {"running": {}}}]}});
    desk.edit(Kind::Pod, "orders-2", &restarted);
    let mut next = desk.successor(8);
    let (_, call) = next.settle_until(changes).unwrap();
    assert_eq!(call.name(), "orders-1");
    assert_eq!(call.body()["spec"]["containers"][0]["image"], "mirror/db:2");
}

#[test]
fn an_image_that_is_put_back_gets_the_member_a_new_pod() {
    let mut desk = serving(ImageRule::Keep);
    desk.image("db:2");
    let (id, call) = desk.settle_until(changes).unwrap();
    desk.carry_out(id, &call);
    let evicts = |c: &ApiCall| *c.verb() == Verb::Evict;
    let (id, call) = desk.settle_until(evicts).unwrap();
    assert_eq!(call.name(), "orders-2");
    let steps = desk.status().plan.steps;
    let told = steps.iter().filter_map(|s| s.blocker.as_ref());
    assert!(
        told.into_iter().any(|b| b.reason == Reason::ImagePutBack),
        "{steps:?}"
    );
    desk.carry_out(id, &call);
    desk.settle();
    let pod = desk.get(Kind::Pod, "orders-2").unwrap();
    assert_eq!(pod["spec"]["containers"][0]["image"], "db:2");
}

#[test]
fn a_quota_without_room_for_a_trial_stops_no_label_and_names_itself_to_one_more_member() {
    let mut desk = serving(ImageRule::AsSent);
    let quota = PodQuota {
        name: "small".into(),
        pods: 3,
    };
    desk.cluster().limit_pods("shop", Some(quota));
    label(&mut desk);
    desk.settle();
    assert!(desk.is_ready(), "{:?}", desk.status().plan);
    assert!(!desk.done.iter().any(|d| d.starts_with("evict")));
    desk.edit(Kind::Ensemble, "orders", &json!({"spec": {"replicas": 4}}));
    desk.settle();
    let status = desk.status();
    let (_, blocker) = status.plan.first_blocked().unwrap();
    assert_eq!(blocker.reason, Reason::QuotaExceeded);
    assert_eq!(blocker.limit, "quota small: pods=3");
}

#[test]
fn a_pod_of_ours_that_lost_its_label_is_found_though_the_quota_has_no_room_for_it() {
    let mut desk = serving(ImageRule::AsSent);
    let quota = PodQuota {
        name: "small".into(),
        pods: 3,
    };
    desk.cluster().limit_pods("shop", Some(quota));
    let mut pod = desk.get(Kind::Pod, "orders-1").unwrap();
    let labels = pod["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("ensemble.dev/ensemble");
    desk.put(Kind::Pod, pod.clone());
    desk.tell(Input::Deleted(Kind::Pod, Arc::new(pod)));
    for _ in 0..20 {
        desk.after(1_000);
        desk.settle();
    }
    assert!(desk.done.contains(&"get Pod orders-1".to_owned()));
    assert!(desk.is_ready(), "{:?}", desk.status().plan);
    let pod = desk.get(Kind::Pod, "orders-1").unwrap();
    assert_eq!(pod["metadata"]["labels"]["ensemble.dev/ensemble"], "orders");
}
