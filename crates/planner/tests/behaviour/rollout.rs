//! Down members first and free of budget, then the others within `maxUnavailable`, each Ready for
//! `minReadySeconds` before the next.

use crate::common::*;
use ensemble_api::Reason;
use ensemble_planner::Time;
use ensemble_planner::memory::Kind;
use serde_json::json;

fn budget(world: &mut World, max: u32) {
    world.spec(&json!({"rollout": {"maxUnavailable": max}}));
}

#[test]
fn one_member_at_a_time_from_the_highest_ordinal() {
    let mut world = World::settled(3);
    world.prepared("2");
    assert_eq!(granted(&world), ["orders-2"]);
    assert_eq!(granted(world.member(2, "2")), ["orders-1"]);
    assert_eq!(granted(world.member(1, "2")), ["orders-0"]);
    assert_eq!(granted(world.member(0, "2")), [""; 0]);
}

#[test]
fn grants_of_one_pass_add_up() {
    for (max, expected) in [(1, 1), (2, 2), (3, 3), (5, 5), (7, 5)] {
        let mut world = World::settled(5);
        world.prepared("2");
        budget(&mut world, max);
        assert_eq!(granted(&world).len(), expected, "maxUnavailable {max}");
    }
}

#[test]
fn members_that_are_down_go_first_all_at_once_and_cost_nothing() {
    let mut world = World::settled(5);
    world
        .prepared("2")
        .waiting(0, "CrashLoopBackOff")
        .unscheduled(1, "no")
        .waiting(3, "ErrImagePull");
    let mut members = granted(&world);
    members.sort();
    assert_eq!(members, ["orders-0", "orders-1", "orders-3"]);
}

#[test]
fn members_that_are_down_go_although_the_budget_is_used_up() {
    let mut world = World::settled(5);
    world
        .prepared("2")
        .member(4, "2")
        .unhealthy(4, NOW)
        .waiting(0, "CrashLoopBackOff");
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn a_member_that_is_down_uses_the_budget_of_those_that_serve() {
    let mut world = World::settled(5);
    world.prepared("2").waiting(0, "CrashLoopBackOff");
    assert_eq!(granted(&world), ["orders-0"]);
    budget(&mut world, 2);
    assert_eq!(granted(&world), ["orders-0", "orders-4"]);
}

#[test]
fn an_unhealthy_member_goes_before_those_that_serve_and_costs_budget() {
    let mut world = World::settled(3);
    world.prepared("2").unhealthy(1, NOW);
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn two_unhealthy_members_are_not_down_and_wait_for_the_budget() {
    let mut world = World::settled(3);
    world.prepared("2").unhealthy(0, NOW).unhealthy(1, NOW);
    let plan = world.plan();
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&plan).contains(&"BudgetUsed orders-1".to_owned()));
    let mut blocked = plan.report.steps.iter().filter_map(|s| s.blocker.as_ref());
    let used = blocked.find(|b| b.reason == Reason::BudgetUsed).unwrap();
    assert_eq!(used.observed, "2 unavailable: orders-0, orders-1");
    assert_eq!(used.limit, "maxUnavailable 1");
}

#[test]
fn a_new_member_that_is_not_ready_holds_the_rollout() {
    let mut world = World::settled(3);
    world.prepared("2").member(2, "2").unhealthy(2, NOW);
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&world.plan()).contains(&"BudgetUsed orders-1".to_owned()));
}

#[test]
fn a_new_member_that_crashes_holds_the_rollout() {
    let mut world = World::settled(3);
    world
        .prepared("2")
        .member(2, "2")
        .waiting(2, "CrashLoopBackOff");
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&world.plan()).contains(&"CrashLooping orders-2".to_owned()));
}

#[test]
fn a_missing_or_ending_member_holds_the_rollout() {
    let mut world = World::settled(3);
    world.prepared("2").gone(0);
    assert_eq!(granted(&world), [""; 0]);
    let mut world = World::settled(3);
    world.prepared("2").leaving(2, 1);
    assert_eq!(granted(&world), [""; 0]);
}

#[test]
fn an_unreachable_member_is_not_down_and_uses_the_budget() {
    let mut world = World::settled(3);
    world.prepared("2").member(0, "2").unreachable_node("n0");
    assert_eq!(granted(&world), [""; 0]);
    budget(&mut world, 2);
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn an_intent_in_flight_counts_against_the_budget() {
    let mut world = World::settled(3);
    world.prepared("2").intent(1, "Recreate", 7);
    assert_eq!(granted(&world), [""; 0]);
    budget(&mut world, 2);
    assert_eq!(granted(&world), ["orders-2"]);
    let plan = world.plan();
    assert!(steps(&plan).contains(&"Recreate orders-1 Running".to_owned()));
    assert_eq!(status(&plan).unwrap().in_flight.len(), 2);
}

#[test]
fn a_member_is_ready_for_min_ready_seconds_before_the_next() {
    let mut world = World::settled(3);
    world
        .prepared("2")
        .member(2, "2")
        .spec(&json!({"minReadySeconds": 10}));
    world.memory.pod_mut("pod-2").ready_since = Some(Time(NOW - 4000));
    let plan = world.plan();
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&plan).contains(&"Settling orders-2".to_owned()));
    assert_eq!(plan.wake_at, Some(Time(NOW + 6000)));
    assert_eq!(granted(world.after(6)), ["orders-1"]);
}

#[test]
fn a_member_of_which_nobody_remembers_since_when_it_is_ready_has_just_become_so() {
    let mut world = World::settled(3);
    world.prepared("2").spec(&json!({"minReadySeconds": 10}));
    world.memory.pods.clear();
    assert_eq!(granted(&world), [""; 0]);
}

#[test]
fn a_refused_eviction_is_named_and_nobody_else_is_taken_instead() {
    let mut world = World::settled(3);
    world
        .prepared("2")
        .failure(Kind::Pod, "orders-2", Reason::EvictionRefused);
    let plan = world.plan();
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&plan).contains(&"EvictionRefused orders-2".to_owned()));
    assert_eq!(plan.wake_at, Some(Time(NOW + 1000)));
    assert_eq!(granted(world.after(1)), ["orders-2"]);
}

type Change = (&'static str, fn(&mut World));

#[test]
fn members_whose_claims_are_not_all_there_are_not_disrupted() {
    let changes: [Change; 3] = [
        ("ClaimEnding", |w| {
            w.change_claim("data", 2, &json!({"metadata": {"deletionTimestamp": "x"}}));
        }),
        ("ClaimMissing", |w| {
            w.lose_claim("wal", 2);
        }),
        ("ClaimLost", |w| {
            w.change_claim("data", 2, &json!({"status": {"phase": "Lost"}}));
        }),
    ];
    for (reason, change) in changes {
        let mut world = World::settled(3);
        world.prepared("2");
        change(&mut world);
        assert!(
            !granted(&world).contains(&"orders-2".to_owned()),
            "{reason}"
        );
        let expected = format!("{reason} orders-2");
        assert!(reasons(&world.plan()).contains(&expected), "{reason}");
    }
}

#[test]
fn while_the_view_lags_behind_our_own_writes_nobody_is_disrupted() {
    let mut world = World::settled(3);
    world.prepared("2").behind.push(Kind::Pod);
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&world.plan()).contains(&"CacheBehind orders-2".to_owned()));
}

#[test]
fn the_plan_shows_everybody_whose_turn_comes() {
    let mut world = World::settled(3);
    let plan = world.prepared("2").plan();
    assert_eq!(
        steps(&plan),
        [
            "Recreate orders-2 Running",
            "Recreate orders-1 Blocked",
            "Recreate orders-0 Idle"
        ]
    );
    let cause = &plan.report.steps[0].cause;
    assert!(cause.contains(&revision_name("1")) && cause.contains(&revision_name("2")));
}
