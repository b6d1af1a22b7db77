//! Intents that were stored: cleared when they are over; a foreign one is waited for, then made
//! impossible, then cleared.

use crate::common::*;
use ensemble_planner::Time;
use ensemble_planner::memory::Kind;
use serde_json::json;

/// A rollout in which a controller before us, of epoch 6, was about to disrupt orders-2.
fn foreign(known_for_seconds: i64) -> World {
    let mut world = World::settled(3);
    world.prepared("2").intent(2, "Recreate", 6);
    world.memory.pod_mut("pod-2").foreign_since = Some(Time(NOW - known_for_seconds * 1000));
    world
}

#[test]
fn a_foreign_intent_is_first_waited_for() {
    let mut world = foreign(0);
    world
        .spec(&json!({"rollout": {"maxUnavailable": 3}}))
        .fit_budget();
    let plan = world.plan();
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(written(&plan), [""; 0]);
    assert_eq!(reasons(&plan)[0], "ForeignIntent orders-2");
    assert_eq!(plan.wake_at, Some(Time(NOW + 4000)));
    assert_eq!(status(&plan).unwrap().in_flight.len(), 1);
}

#[test]
fn a_foreign_intent_that_nobody_remembers_is_waited_for_from_now() {
    let mut world = foreign(0);
    world.memory.pod_mut("pod-2").foreign_since = None;
    assert_eq!(written(&world.plan()), [""; 0]);
}

#[test]
fn then_its_target_is_touched_so_that_a_late_write_fails() {
    let world = foreign(4);
    let plan = world.plan();
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(written(&plan), ["Patch Pod orders-2"]);
    let patch = body(&plan, Kind::Pod, "orders-2");
    assert_eq!(
        patch["metadata"]["annotations"]["ensemble.dev/touched-by-epoch"],
        "7"
    );
    assert_eq!(status(&plan).unwrap().in_flight.len(), 1);
}

#[test]
fn then_it_is_cleared_and_only_then_others_go_on() {
    let mut world = foreign(4);
    world.pod(
        2,
        &json!({"metadata": {"annotations": {"ensemble.dev/touched-by-epoch": "7"}}}),
    );
    let plan = world.plan();
    assert_eq!(granted(&world), [""; 0]);
    assert!(status(&plan).unwrap().in_flight.is_empty());
    world.store_status();
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn a_touch_by_an_older_epoch_does_not_count() {
    let mut world = foreign(4);
    world.pod(
        2,
        &json!({"metadata": {"annotations": {"ensemble.dev/touched-by-epoch": "6"}}}),
    );
    assert_eq!(written(&world.plan()), ["Patch Pod orders-2"]);
}

#[test]
fn an_intent_whose_pod_is_gone_ending_or_another_is_over() {
    for epoch in [6, 7] {
        let changes: [fn(&mut World); 3] = [
            |w| {
                w.gone(2);
            },
            |w| {
                w.leaving(2, 1);
            },
            |w| {
                w.pod(2, &json!({"metadata": {"uid": "another"}}));
            },
        ];
        for change in changes {
            let mut world = World::settled(3);
            world.intent(2, "Recreate", epoch);
            change(&mut world);
            assert!(status(&world.plan()).unwrap().in_flight.is_empty());
        }
    }
}

#[test]
fn an_intent_of_ours_that_was_refused_is_cleared_and_may_be_asked_for_again() {
    let mut world = World::settled(3);
    world.prepared("2").store_status();
    world.memory.cancelled.insert("pod-2".into());
    assert!(status(&world.plan()).unwrap().in_flight.is_empty());
    world.store_status();
    world.memory.cancelled.clear();
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn an_intent_of_ours_under_way_is_kept_and_not_asked_for_twice() {
    let mut world = World::settled(3);
    world.prepared("2").store_status();
    let plan = world.plan();
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(plan.report.steps[0].since, Some(Time(NOW).stamp()));
    assert_eq!(world.snapshot().ensemble.status.in_flight.len(), 1);
    assert!(status(&plan).is_none_or(|s| s.in_flight.len() == 1));
}

#[test]
fn an_intent_names_member_pod_method_and_epoch() {
    let mut world = World::settled(3);
    let plan = world.prepared("2").plan();
    let intent = &status(&plan).unwrap().in_flight[0];
    assert_eq!(
        (intent.member.as_str(), intent.uid.as_str()),
        ("orders-2", "pod-2")
    );
    assert_eq!((intent.epoch, &intent.since), (7, &Time(NOW).stamp()));
}
