//! A foreign pod or claim that has our name is never touched; we go on by ourselves once it is gone.

use crate::common::*;
use ensemble_planner::Time;
use ensemble_planner::memory::Kind;
use serde_json::json;

fn foreign_owner() -> serde_json::Value {
    json!({"metadata": {"ownerReferences": [{"uid": "somebody", "controller": true}]}})
}

#[test]
fn a_foreign_pod_of_our_name_is_reported_and_never_touched() {
    let mut world = World::settled(3);
    world.pod(1, &foreign_owner());
    let plan = world.plan();
    assert_eq!(reasons(&plan), ["NameTaken orders-1"]);
    assert_eq!((written(&plan), granted(&world)), (vec![], vec![]));
    assert_eq!(created(&world.gone(1).plan()), ["Pod orders-1"]);
}

#[test]
fn a_foreign_pod_is_not_rolled_removed_or_replaced() {
    let mut world = World::settled(3);
    world
        .pod(2, &foreign_owner())
        .prepared("2")
        .spec(&json!({"rollout": {"maxUnavailable": 3}}));
    assert_eq!(granted(&world), ["orders-1", "orders-0"]);
    let mut world = World::settled(3);
    world.pod(2, &foreign_owner()).spec(&json!({"replicas": 2}));
    assert_eq!(granted(&world), [""; 0]);
    let mut world = World::settled(3);
    world.pod(2, &foreign_owner()).ended(2, "Evicted");
    assert_eq!(granted(&world), [""; 0]);
}

#[test]
fn a_pod_labelled_for_another_ensemble_is_foreign_even_without_an_owner() {
    let mut world = World::settled(3);
    let patch = json!({"metadata": {"ownerReferences": null,
                                    "labels": {"ensemble.dev/ordinal": "7"}}});
    world.pod(1, &patch);
    let plan = world.plan();
    assert_eq!(reasons(&plan), ["NameTaken orders-1"]);
    assert_eq!(written(&plan), [""; 0]);
}

#[test]
fn a_claim_with_a_label_that_does_not_fit_is_not_ours() {
    let labels = [
        ("ensemble.dev/ensemble", "other"),
        ("ensemble.dev/group", "other"),
        ("ensemble.dev/ordinal", "2"),
        ("ensemble.dev/claim", "wal"),
        ("ensemble.dev/incarnation", "1"),
        ("ensemble.dev/incarnation", "x"),
    ];
    for (label, value) in labels {
        let mut world = World::settled(3);
        world.change_claim("data", 1, &json!({"metadata": {"labels": {label: value}}}));
        let plan = world.gone(1).plan();
        assert_eq!(reasons(&plan), ["NameTaken orders-1"], "{label}");
        assert_eq!(written(&plan), [""; 0], "{label}");
        assert!(plan.lettings.is_empty());
    }
}

#[test]
fn a_name_that_the_api_server_says_is_taken_is_looked_at_again_from_time_to_time() {
    for (kind, name) in [(Kind::Pod, "orders-0"), (Kind::Claim, "wal-orders-0")] {
        let mut world = World::begun(1);
        world.claim("data", 0);
        if kind == Kind::Pod {
            world.claim("wal", 0);
        }
        world.taken(kind, name, false);
        let plan = world.plan();
        assert_eq!(created_members(&plan), [""; 0]);
        assert!(message(&plan, "NameTaken").contains(name));
        assert_eq!(plan.wake_at, Some(Time(NOW + 1000)));
        let look = format!("Look {kind:?} {name}");
        assert!(!written(&plan).contains(&look));
        assert!(written(&world.after(1).plan()).contains(&look));
        world.memory.taken.clear();
        assert_eq!(created_members(&world.plan()).len(), 1);
    }
}

#[test]
fn a_pod_of_ours_that_lost_its_labels_is_given_them_back() {
    let mut world = World::settled(2);
    world.gone(1).taken(Kind::Pod, "orders-1", true);
    let plan = world.plan();
    assert_eq!(written(&plan), ["Patch Pod orders-1"]);
    let labels = &body(&plan, Kind::Pod, "orders-1")["metadata"]["labels"];
    assert_eq!(labels["ensemble.dev/ensemble"], "orders");
}

#[test]
fn a_pod_of_ours_whose_label_was_edited_is_named_and_put_right() {
    let mut world = World::settled(3);
    let edited = json!({"metadata": {"labels": {"ensemble.dev/ensemble": "other"}}});
    let plan = world.pod(2, &edited).plan();
    assert_eq!(written(&plan), ["Patch Pod orders-2"]);
    let labels = &body(&plan, Kind::Pod, "orders-2")["metadata"]["labels"];
    assert_eq!(labels["ensemble.dev/ensemble"], "orders");
    assert_eq!(steps(&plan), ["Maintain orders-2 Running"]);
    let cause = &plan.report.steps[0].cause;
    let words = "the label ensemble.dev/ensemble was changed from 'orders' to 'other'";
    assert!(cause.starts_with(words), "{cause}");
    assert_eq!(granted(&world), [""; 0]);
}

#[test]
fn a_label_that_cannot_be_put_back_says_why() {
    let mut world = World::settled(3);
    let edited = json!({"metadata": {"labels": {"ensemble.dev/ensemble": "other"}}});
    world.pod(2, &edited);
    world.failure(Kind::Pod, "orders-2", ensemble_api::Reason::ApiRefused);
    assert_eq!(reasons(&world.plan()), ["ApiRefused orders-2"]);
}

#[test]
fn pods_of_an_ensemble_whose_name_begins_with_ours_are_not_ours() {
    let mut world = World::settled(3);
    let mut pod = world.pods["orders-1"].clone();
    pod["metadata"]["name"] = "orders-1-0".into();
    world.pods.insert("orders-1-0".into(), pod.clone());
    world.pods.insert("orders-01".into(), pod);
    assert_quiet(&world.plan());
}
