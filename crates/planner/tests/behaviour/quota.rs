//! A quota without room for one more pod is advice where a pod takes the place of another, and named where
//! one more is needed.

use crate::common::*;
use ensemble_api::Reason;
use ensemble_planner::Time;
use ensemble_planner::memory::{Check, Kind};
use ensemble_planner::render;
use serde_json::json;

fn words(requested: &str) -> String {
    format!(
        "pods \"x\" is forbidden: exceeded quota: small, requested: {requested}, used: pods=3, limited: pods=3"
    )
}

/// A quota refuses the trial of that tag.
fn refuse(world: &mut World, tag: &str, requested: &str) {
    world.refused(tag, 5);
    let check = world.memory.checks.get_mut(&revision_name(tag)).unwrap();
    let Check::Refused(failure) = check else {
        panic!("it was just refused");
    };
    failure.reason = Reason::QuotaExceeded;
    failure.message = words(requested);
}

fn changed(pre_pull: &str) -> World {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2);
    world.spec(&json!({"rollout": {"prePull": pre_pull}}));
    world
}

#[test]
fn a_trial_that_only_a_quota_of_pods_refuses_stops_nobody() {
    let mut world = changed("Skip");
    refuse(&mut world, "2", "pods=1");
    assert_eq!(granted(&world), ["orders-2"]);
    assert!(!reasons(&world.plan()).iter().any(|r| r.contains("Quota")));
}

#[test]
fn what_is_used_up_is_held_against_what_the_old_pod_asks_for() {
    let mut world = changed("Skip");
    refuse(&mut world, "2", "pods=1,requests.cpu=2");
    assert_eq!(
        written(&world.plan()),
        [format!("Check {}", revision_name("1"))]
    );
    assert_eq!(granted(&world), [""; 0]);
    refuse(&mut world, "1", "pods=1,requests.cpu=2");
    assert_eq!(granted(&world), ["orders-2"]);
    refuse(&mut world, "1", "pods=1,requests.cpu=1");
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(reasons(&world.plan())[0], "QuotaExceeded");
    world.passed("1");
    assert_eq!(granted(&world), [""; 0], "the old one would fit");
}

#[test]
fn a_quota_that_demands_something_of_every_pod_refuses_the_template() {
    let mut world = changed("Skip");
    refuse(&mut world, "2", "pods=1");
    let Some(Check::Refused(failure)) = world.memory.checks.get_mut(&revision_name("2")) else {
        panic!("it was just refused");
    };
    failure.message = "is forbidden: failed quota: small: must specify cpu".into();
    assert_eq!(granted(&world), [""; 0]);
}

#[test]
fn one_more_member_than_the_quota_allows_is_named_with_what_is_used() {
    let mut world = World::settled(3);
    world.spec(&json!({"replicas": 4})).ledger(4, "0-2");
    world.claim("data", 3).claim("wal", 3);
    world.failure(Kind::Pod, "orders-3", Reason::QuotaExceeded);
    let key = (Kind::Pod, "orders-3".to_owned());
    world.memory.failures.get_mut(&key).unwrap().message = words("pods=1");
    let plan = world.plan();
    let steps = plan.report.steps.iter();
    let mut blockers = steps.filter_map(|s| s.blocker.as_ref());
    let blocker = blockers
        .find(|b| b.reason == Reason::QuotaExceeded)
        .unwrap();
    assert_eq!(blocker.observed, "used: pods=3; requested: pods=1");
    assert_eq!(blocker.limit, "quota small: pods=3");
    assert_eq!(blocker.next_command, "kubectl describe quota small -n shop");
}

fn helper(node: &str) -> String {
    render::prefetch_name("orders", &revision_name("2"), node)
}

/// The template passes, and the quota refuses the helper on n1; the other nodes have the image.
fn no_room(pre_pull: &str) -> World {
    let mut world = changed(pre_pull);
    world.passed("2").passed("1");
    for node in ["n0", "n2"] {
        let pulled = (revision_name("2"), node.to_owned());
        world.memory.pulled.insert(pulled);
    }
    world
}

#[test]
fn a_helper_that_a_quota_refuses_is_done_without_where_the_spec_allows_it() {
    for (pre_pull, reason, goes_on) in [
        ("Required", "PullRefused", false),
        ("IfPossible", "PulledLate", true),
    ] {
        let mut world = no_room(pre_pull);
        assert_eq!(granted(&world), [""; 0], "it is tried first");
        world.failure(Kind::Pod, &helper("n1"), Reason::QuotaExceeded);
        assert_eq!(granted(&world).len(), usize::from(goes_on), "{pre_pull}");
        let said = message(&world.plan(), reason);
        assert!(said.contains("orders-1 on n1"), "{said}");
    }
}

#[test]
fn who_insists_on_pulling_ahead_is_told_how_to_do_without() {
    let mut world = no_room("Required");
    world.failure(Kind::Pod, &helper("n1"), Reason::QuotaExceeded);
    let plan = world.plan();
    let next = &plan.report.first_blocked().unwrap().1.next_command;
    assert_eq!(
        next,
        "kubectl -n shop patch ensemble orders --type merge -p '{\"spec\":{\"rollout\":{\"prePull\":\"IfPossible\"}}}'"
    );
}

/// The kubelet of n1 has rejected the helper, as this process saw so long ago.
fn rejected(world: &mut World, seconds: i64) {
    world.helper("2", "n1", "");
    let name = helper("n1");
    world.pods.get_mut(&name).unwrap()["status"] =
        json!({"phase": "Failed", "reason": "OutOfpods", "message": "no room"});
    let known = world.memory.pod_mut(&name);
    known.unready_since = Some(Time(NOW - seconds * 1000));
}

#[test]
fn a_helper_that_a_full_node_rejects_is_named_and_done_without_where_the_spec_allows_it() {
    for (pre_pull, reason, goes_on) in [
        ("Required", "PullRefused", false),
        ("IfPossible", "PulledLate", true),
    ] {
        let mut world = no_room(pre_pull);
        rejected(&mut world, 10);
        assert_eq!(granted(&world).len(), usize::from(goes_on), "{pre_pull}");
        let said = message(&world.plan(), reason);
        assert!(said.contains("OutOfpods"), "{said}");
        assert_eq!(written(&world.plan()), [""; 0], "and no other is tried");
    }
}

#[test]
fn after_a_while_another_helper_is_tried() {
    let mut world = no_room("Required");
    rejected(&mut world, 299);
    assert_eq!(world.plan().wake_at, Some(Time(NOW + 1000)));
    rejected(&mut world, 300);
    assert_eq!(
        written(&world.plan()),
        [format!("Discard Pod {}", helper("n1"))]
    );
}

#[test]
fn an_image_that_is_missing_is_never_done_without() {
    let mut world = no_room("IfPossible");
    world.helper("2", "n1", "ErrImagePull");
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(reasons(&world.plan())[0], "ImageMissing");
}
