//! A corrected template or `undo` proceeds at once from every state that a bad one leads into.

use crate::common::*;
use ensemble_api::State;
use ensemble_planner::Time;
use ensemble_planner::safety::How;
use ensemble_planner::{confirm, plan};
use serde_json::json;

type Change = fn(&mut World, u32);

const DOWN: [(&str, Change); 4] = [
    ("crash loop", |w, o| {
        w.waiting(o, "CrashLoopBackOff");
    }),
    ("image pull failing", |w, o| {
        w.waiting(o, "ImagePullBackOff");
    }),
    ("container cannot start", |w, o| {
        w.waiting(o, "CreateContainerConfigError");
    }),
    ("unschedulable", |w, o| {
        w.unscheduled(o, "0/3 nodes fit");
    }),
];

/// A rollout of tag 2 that got as far as its first member, which is in trouble.
fn bad_rollout(change: Change) -> World {
    let mut world = World::settled(3);
    world.prepared("2").member(2, "2");
    change(&mut world, 2);
    world.store_status();
    world
}

#[test]
fn a_corrected_template_replaces_the_broken_member_at_once() {
    for (state, change) in DOWN {
        let mut world = bad_rollout(change);
        assert_eq!(
            granted(&world),
            [""; 0],
            "{state}: it stops within its budget"
        );
        world.prepared("3");
        assert_eq!(granted(&world), ["orders-2"], "{state}");
        let state = world.plan().report.state;
        assert_eq!(state, State::Working, "nobody has to act any more");
    }
}

#[test]
fn going_back_replaces_the_broken_member_at_once() {
    for (state, change) in DOWN {
        let mut world = bad_rollout(change);
        world.prepared("1");
        assert_eq!(granted(&world), ["orders-2"], "{state}");
    }
}

#[test]
fn when_all_members_are_down_a_corrected_template_replaces_all_at_once() {
    for (state, change) in DOWN {
        let mut world = World::settled(3);
        world.prepared("2");
        for ordinal in 0..3 {
            world.member(ordinal, "2");
            change(&mut world, ordinal);
        }
        world.prepared("3");
        assert_eq!(granted(&world).len(), 3, "{state}");
    }
}

#[test]
fn a_single_member_that_never_became_ready_is_within_the_budget_of_a_corrected_template() {
    let mut world = bad_rollout(|w, o| {
        w.unhealthy(o, NOW);
    });
    assert_eq!(granted(world.prepared("3")), ["orders-2"]);
}

fn all_run_and_none_is_ready() -> World {
    let mut world = World::settled(3);
    world.prepared("2");
    for ordinal in 0..3 {
        world.member(ordinal, "2").unhealthy(ordinal, NOW);
    }
    world.prepared("3");
    world
}

#[test]
fn members_that_run_and_are_not_ready_are_replaced_one_at_a_time_after_a_minute() {
    let mut world = all_run_and_none_is_ready();
    let plan = world.plan();
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(plan.wake_at, Some(Time(NOW + 60_000)));
    world.after(59);
    assert_eq!(granted(&world), [""; 0]);
    world.after(1);
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn such_a_member_goes_past_the_eviction_budget_that_nobody_can_meet() {
    let mut world = all_run_and_none_is_ready();
    world.after(60).store_status();
    let snap = world.snapshot();
    let intent = &snap.ensemble.status.in_flight[0];
    let warrant = confirm(&snap, intent, ensemble_planner::Time(0)).unwrap();
    assert_eq!(
        (warrant.pod().uid.as_str(), warrant.how()),
        ("pod-2", How::Delete)
    );
    // The next waits for the first.
    assert!(plan(&snap).permits.is_empty());
}

#[test]
fn a_member_that_serves_is_never_taken_by_way_of_recovery() {
    let mut world = all_run_and_none_is_ready();
    world
        .spec(&json!({"replicas": 4}))
        .ledger(4, "0-3")
        .member(3, "1");
    world.after(60);
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn after_a_corrected_template_the_rest_of_the_rollout_goes_on() {
    let mut world = bad_rollout(DOWN[0].1);
    world.prepared("3").member(2, "3");
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn a_template_corrected_before_anybody_was_touched_touches_nobody() {
    let mut world = World::settled(3);
    world
        .image("2")
        .revision("2", 2)
        .refused("2", 60)
        .store_status();
    world.image("1").revision("1", 3);
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(written(&world.plan()), [""; 0]);
}
