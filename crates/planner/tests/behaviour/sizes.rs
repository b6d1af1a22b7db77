//! Small ensembles: none, one and two members, with an engine and without. Whatever is asked for is
//! reached, the primary leaves last, and what stays has all the data.

use crate::common::*;
use ensemble_engines::patroni::Role;
use ensemble_planner::Time;
use ensemble_planner::engine::WhyUnknown;
use ensemble_planner::render;
use serde_json::json;

/// Members with an engine of which that one leads, scaled to so many.
fn scaled(from: u32, leader: u32, to: u32) -> World {
    let mut world = World::led(from, leader);
    world.spec(&json!({"replicas": to})).fit_budget();
    world
}

fn minimums(world: &World) -> Vec<String> {
    let budgets = render::budgets(&world.snapshot());
    let one = |b: &render::Wanted| format!("{} {}", b.name, b.spec["minAvailable"]);
    budgets.iter().map(one).collect()
}

#[test]
fn there_is_no_budget_that_keeps_nobody() {
    for (replicas, most, equals, roles) in [
        (0, 1, vec![], vec![]),
        (1, 1, vec![], vec![]),
        (2, 1, vec!["orders-members 1"], vec!["orders-primary 1"]),
        (2, 2, vec![], vec!["orders-primary 1"]),
        (
            3,
            1,
            vec!["orders-members 2"],
            vec!["orders-primary 1", "orders-replicas 1"],
        ),
    ] {
        let mut world = World::new(replicas);
        world.spec(&json!({"rollout": {"maxUnavailable": most}}));
        assert_eq!(minimums(&world), equals, "{replicas} equals, {most}");
        world.spec(&json!({"engine": {"patroni": {}}}));
        assert_eq!(minimums(&world), roles, "{replicas} with roles, {most}");
    }
}

#[test]
fn a_budget_that_would_keep_nobody_is_deleted_when_scaled_in() {
    let mut world = World::settled(2);
    let plan = world.spec(&json!({"replicas": 1})).plan();
    assert!(written(&plan).contains(&"Discard Budget orders-members".to_owned()));
}

#[test]
fn of_two_members_the_one_with_a_bad_template_is_replaced_when_it_is_corrected() {
    let mut world = World::led(2, 0);
    world.prepared("2").member(1, "2").unhealthy(1, NOW);
    world.silent(1, WhyUnknown::Unreachable("refused".into()));
    world.store_status();
    assert_eq!(granted(&world), [""; 0]);
    world.prepared("3");
    assert_eq!(granted(&world), ["orders-1"]);
    let selects = |b: &render::Wanted| b.name == "orders-replicas";
    assert!(!render::budgets(&world.snapshot()).iter().any(selects));
}

#[test]
fn a_leader_that_scaling_in_removes_hands_over_to_the_one_that_stays() {
    for leader in [1, 2] {
        let world = scaled(3, leader, 1);
        let plan = world.plan();
        assert_eq!(
            switchover(&plan),
            Some(("Proposed".into(), "orders-0".into()))
        );
        assert_eq!(disrupted(&plan), [""; 0], "nobody leaves meanwhile");
    }
}

#[test]
fn whoever_commits_wait_for_leaves_before_the_leader_so_that_the_one_that_stays_is_named() {
    let mut world = scaled(3, 2, 1);
    world.synchronous(2, Some(1));
    assert_eq!(switchover(&world.plan()), None, "orders-0 is not named");
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn scaled_to_the_one_that_leads_all_others_leave() {
    let mut world = scaled(3, 0, 1);
    world.but(0, |s| {
        s.attached.remove("orders-1");
    });
    assert_eq!(granted(&world), ["orders-2"]);
    world.gone(2).lead(0, 7);
    assert_eq!(granted(&world), ["orders-1"], "the last one in sync, too");
}

#[test]
fn scaled_to_none_replicas_leave_first_and_the_leader_last() {
    let mut world = scaled(3, 0, 0);
    world.spec(&json!({"rollout": {"maxUnavailable": 5}}));
    assert_eq!(granted(&world), ["orders-2", "orders-1"]);
    world.leaving(2, 1).gone(1);
    assert_eq!(granted(&world), [""; 0], "orders-2 still runs");
    assert!(reasons(&world.plan()).contains(&"Terminating orders-0".to_owned()));
    world.gone(2).lead(0, 7);
    assert_eq!(granted(&world), ["orders-0"]);
    world.gone(0).store_status();
    let status = world.snapshot().ensemble.status;
    assert_eq!(status.condition("Ready").unwrap().status, "True");
    assert_eq!(status.summary.ready, "0/0");
    assert_eq!(status.plan.tolerance, 0);
    assert_eq!(status.lead.unwrap().member, "orders-0", "it is remembered");
    let told = ["role-known", "primary-has-successor"];
    let mut predicates = status.plan.predicates.iter();
    assert!(!predicates.any(|p| told.contains(&p.name.as_str())));
}

#[test]
fn scaled_to_none_the_lead_goes_to_the_lowest_ordinal_first_if_that_can_take_it() {
    let mut world = scaled(3, 2, 0);
    let wanted = Some(("Proposed".into(), "orders-0".into()));
    assert_eq!(switchover(&world.plan()), wanted);
    world.but(2, |s| {
        s.attached.remove("orders-0");
    });
    assert_eq!(switchover(&world.plan()), None);
    assert_eq!(granted(&world), ["orders-1"], "nobody waits for it");
}

#[test]
fn a_single_leader_is_not_touched_while_another_member_still_runs() {
    let mut world = World::led(2, 0);
    world.spec(&json!({"replicas": 1})).fit_budget();
    world.prepared("2").leaving(1, 1);
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&world.plan()).contains(&"Terminating orders-0".to_owned()));
    assert_eq!(granted(world.gone(1).lead(0, 7)), ["orders-0"]);
}

/// Nobody runs any more, and all claims are there; that one led last.
fn stopped(leader: u32, replicas: u32) -> World {
    let mut world = World::led(3, leader);
    for ordinal in 0..3 {
        world.gone(ordinal);
    }
    world.spec(&json!({"replicas": 0})).fit_budget();
    world.store_status().passed("1");
    world.spec(&json!({"replicas": replicas})).fit_budget();
    world
}

#[test]
fn from_none_the_one_that_led_last_starts_first_and_the_others_once_it_leads() {
    let mut world = stopped(1, 3);
    let plan = world.plan();
    assert_eq!(created_members(&plan), ["Pod orders-1"]);
    let waits = ["PrimaryFirst orders-0", "PrimaryFirst orders-2"];
    assert_eq!(reasons(&plan), waits);
    world
        .member(1, "1")
        .runs(1, "run-2", NOW)
        .silent(1, WhyUnknown::Starting);
    world.unhealthy(1, NOW).store_status();
    assert_eq!(
        created_members(&world.plan()),
        [""; 0],
        "it does not lead yet"
    );
    world.ready(1).says(1, leading(1));
    let created = created_members(&world.plan());
    assert_eq!(created, ["Pod orders-0", "Pod orders-2"]);
}

fn leading(ordinal: u32) -> ensemble_engines::patroni::Sighting {
    let mut said = sighting(Role::Leader, 8);
    said.lock = Some(format!("orders-{ordinal}"));
    said
}

#[test]
fn the_others_start_all_the_same_if_the_first_does_not_come_up() {
    let mut world = stopped(1, 3);
    world.member(1, "1").unhealthy(1, NOW);
    world.silent(1, WhyUnknown::Starting);
    let plan = world.plan();
    assert_eq!(created_members(&plan), [""; 0]);
    assert!(plan.wake_at.is_some_and(|at| at <= Time(NOW + 60_000)));
    let created = created_members(&world.after(61).plan());
    assert_eq!(created, ["Pod orders-0", "Pod orders-2"]);
}

#[test]
fn if_it_is_not_known_who_led_last_the_lowest_ordinal_starts_first() {
    let mut world = stopped(2, 3);
    world.ensemble["status"]["lead"] = json!(null);
    assert_eq!(created_members(&world.plan()), ["Pod orders-0"]);
}

#[test]
fn from_none_nobody_starts_without_the_one_that_led_last() {
    let mut world = stopped(2, 2);
    let plan = world.plan();
    assert_eq!(created_members(&plan), [""; 0]);
    let waits = ["PrimaryLeftOut orders-0", "PrimaryLeftOut orders-1"];
    assert_eq!(reasons(&plan), waits);
    assert!(message(&plan, "PrimaryLeftOut").contains("orders-2 led last, and replicas is 2"));
    assert_eq!(
        plan.report.steps[0].blocker.as_ref().unwrap().next_command,
        "kubectl scale ensemble orders --replicas=3 -n shop"
    );
    world.lose_claim("data", 2).lose_claim("wal", 2);
    let created = created_members(&world.plan());
    assert_eq!(
        created,
        ["Pod orders-0", "Pod orders-1"],
        "its data is gone"
    );
}

#[test]
fn members_that_never_were_start_all_at_once() {
    let mut world = World::begun(3);
    world.spec(&json!({"engine": {"patroni": {}}}));
    for ordinal in 0..3 {
        world.claim("data", ordinal).claim("wal", ordinal);
    }
    assert_eq!(created_members(&world.plan()).len(), 3);
}

#[test]
fn equals_start_all_at_once() {
    let mut world = World::settled(3);
    for ordinal in 0..3 {
        world.gone(ordinal);
    }
    world.passed("1");
    assert_eq!(created_members(&world.plan()).len(), 3);
}

#[test]
fn scaling_in_does_not_remove_the_last_replica_in_sync() {
    let mut world = scaled(3, 0, 2);
    world.but(0, |s| {
        s.attached.remove("orders-1");
    });
    assert_eq!(granted(&world), [""; 0]);
    let plan = world.plan();
    let said = message(&plan, "LastInSync");
    assert!(
        said.contains("orders-2 is the last replica in sync with orders-0"),
        "{said}"
    );
    assert!(
        said.contains("orders-1: orders-0 does not see it streaming"),
        "{said}"
    );
    let blockers = plan.report.steps.iter().filter_map(|s| s.blocker.as_ref());
    let mut commands = blockers.map(|b| b.next_command.as_str());
    let waive = "ensemble waive orders copies-left --member orders-2 --reason TEXT --for 10m";
    assert!(commands.any(|c| c.starts_with(waive)));
    world.lead(0, 7);
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn the_one_that_commits_wait_for_leaves_only_if_another_can_be_named() {
    let mut world = scaled(3, 0, 2);
    world.synchronous(0, Some(2));
    assert_eq!(granted(&world), ["orders-2"]);
    world.but(0, |s| {
        s.attached.remove("orders-1");
    });
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&world.plan()).contains(&"LastInSync orders-2".to_owned()));
}

#[test]
fn a_replica_that_is_not_in_sync_may_leave_whoever_else_is() {
    let mut world = scaled(3, 0, 2);
    world.but(0, |s| s.attached.clear());
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn scaled_to_none_the_last_one_leaves_though_nobody_has_led_for_long() {
    assert_eq!(granted(&unled_to_none(30_000)), [""; 0]);
    assert_eq!(granted(&unled_to_none(90_000)), ["orders-0"]);
    let mut unheard = unled_to_none(90_000);
    unheard.silent(0, WhyUnknown::Unreachable("timed out".into()));
    assert_eq!(granted(&unheard), [""; 0], "it may lead");
}

#[test]
fn one_that_has_just_handed_the_lead_over_stays_until_another_replica_is_in_sync() {
    let mut world = scaled(3, 0, 2);
    world.but(0, |s| s.attached.clear());
    world.memory.led_since = Some(Time(NOW - 2_000));
    assert_eq!(granted(&world), [""; 0]);
    let said = message(&world.plan(), "LastInSync");
    assert!(
        said.contains("orders-2 is the last replica about to be in sync with orders-0"),
        "{said}"
    );
    world.memory.led_since = Some(Time(NOW - 61_000));
    assert_eq!(
        granted(&world),
        ["orders-2"],
        "it is not waited for without end"
    );
}

#[test]
fn while_nobody_leads_nobody_leaves_whose_data_may_be_the_newest() {
    let mut world = scaled(3, 0, 2);
    for ordinal in 0..3 {
        world.waiting(ordinal, "CrashLoopBackOff");
    }
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&world.plan()).contains(&"NoLeader orders-2".to_owned()));
    world.spec(&json!({"replicas": 0}));
    assert_eq!(
        granted(&world),
        ["orders-2", "orders-1", "orders-0"],
        "all data is kept"
    );
}

#[test]
fn of_equals_the_highest_ordinal_leaves() {
    let mut world = World::settled(2);
    world.spec(&json!({"replicas": 1})).fit_budget();
    assert_eq!(granted(&world), ["orders-1"]);
    world.gone(1).spec(&json!({"replicas": 0})).fit_budget();
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn a_single_member_tolerates_no_loss() {
    for (replicas, tolerated) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        let world = World::settled(replicas);
        assert_eq!(world.plan().report.tolerance, tolerated, "{replicas}");
    }
}

#[test]
fn small_ensembles_at_rest_are_ready_and_write_nothing() {
    for replicas in 0..3 {
        let plan = World::settled(replicas).plan();
        assert_eq!(written(&plan), [""; 0], "{replicas} equals");
        assert_eq!(reasons(&plan), [""; 0], "{replicas} equals");
    }
}
