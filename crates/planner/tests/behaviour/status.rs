//! Status: conditions as kstatus reads them, columns, the report.

use crate::common::*;
use ensemble_api::{EnsembleStatus, Reason, State};
use ensemble_planner::Time;
use ensemble_planner::memory::Kind;
use serde_json::json;

fn planned(world: &World) -> EnsembleStatus {
    let plan = world.plan();
    status(&plan)
        .cloned()
        .unwrap_or_else(|| world.snapshot().ensemble.status)
}

/// Type and value of all conditions.
fn conditions(world: &World) -> Vec<String> {
    let status = planned(world);
    status
        .conditions
        .iter()
        .map(|c| format!("{}={}", c.type_, c.status))
        .collect()
}

#[test]
fn ready_is_always_said_and_reconciling_and_stalled_only_when_true() {
    let mut world = World::new(3);
    assert_eq!(
        conditions(&world),
        ["Available=False", "Ready=False", "Reconciling=True"]
    );
    world = World::settled(3);
    assert_eq!(conditions(&world), ["Available=True", "Ready=True"]);
    world.prepared("2");
    assert_eq!(
        conditions(&world),
        ["Available=True", "Ready=False", "Reconciling=True"]
    );
    world.spec(&json!({"rollout": {"paused": true}}));
    assert_eq!(
        conditions(&world),
        ["Available=True", "Paused=True", "Ready=False"]
    );
}

#[test]
fn what_lasts_until_somebody_acts_is_stalled() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).refused("2", 5);
    let all = [
        "Available=True",
        "Ready=False",
        "Reconciling=True",
        "Stalled=True",
    ];
    assert_eq!(conditions(&world), all);
    let status = planned(&world);
    assert_eq!(
        status.condition("Stalled").unwrap().reason,
        "TemplateRefused"
    );
    assert_eq!(
        status.condition("Ready").unwrap().message,
        "spec.containers[0].image: bad"
    );
}

#[test]
fn the_reason_to_be_stalled_is_one_that_lasts() {
    let mut world = World::settled(3);
    world
        .prepared("2")
        .member(2, "2")
        .waiting(2, "CrashLoopBackOff");
    world.memory.pulled.clear();
    let status = planned(&world);
    assert_eq!(status.condition("Stalled").unwrap().reason, "CrashLooping");
    assert_eq!(status.summary.waiting, "CrashLooping (orders-2)");
}

#[test]
fn too_few_members_are_not_available() {
    let mut world = World::settled(3);
    world.unhealthy(0, NOW);
    assert!(conditions(&world).contains(&"Available=True".to_owned()));
    world.unhealthy(1, NOW);
    assert!(conditions(&world).contains(&"Available=False".to_owned()));
    let status = planned(&world);
    let message = &status.condition("Available").unwrap().message;
    assert_eq!(message, "1 of 3 members serve, 2 are needed");
}

#[test]
fn a_single_member_that_does_not_serve_is_not_available_whatever_the_budget() {
    let mut world = World::settled(1);
    world.unhealthy(0, NOW);
    assert!(conditions(&world).contains(&"Available=False".to_owned()));
}

#[test]
fn every_condition_and_the_status_carry_the_generation_they_speak_of() {
    let mut world = World::settled(3);
    let status = planned(world.image("2"));
    assert_eq!(status.observed_generation, 2);
    assert!(
        status
            .conditions
            .iter()
            .all(|c| c.observed_generation == Some(2))
    );
}

#[test]
fn the_time_of_a_condition_is_when_its_value_last_changed() {
    let mut world = World::settled(3);
    world.after(100).unhealthy(0, NOW).store_status();
    let changed = planned(&world)
        .condition("Ready")
        .unwrap()
        .last_transition_time
        .clone();
    assert_eq!(changed, Time(NOW + 100_000).stamp());
    world.after(100).unhealthy(1, NOW).store_status();
    let status = planned(&world);
    assert_eq!(
        status.condition("Ready").unwrap().last_transition_time,
        changed
    );
    let available = &status.condition("Available").unwrap().last_transition_time;
    assert_eq!(*available, Time(NOW + 200_000).stamp());
}

#[test]
fn since_when_a_step_waits_is_carried_over() {
    let mut world = World::settled(3);
    world
        .waiting(1, "CrashLoopBackOff")
        .store_status()
        .after(50);
    let plan = world.plan();
    assert_eq!(plan.report.steps[0].since, Some(Time(NOW).stamp()));
    assert!(plan.writes.is_empty());
}

#[test]
fn the_columns_count_ready_and_updated_members_and_name_what_is_waited_for() {
    let mut world = World::settled(3);
    let summary = |world: &World| {
        let s = planned(world).summary;
        [s.ready, s.updated, s.step, s.waiting]
    };
    assert_eq!(summary(&world), ["3/3", "3/3", "-", "-"]);
    world.prepared("2").member(2, "2").unhealthy(2, NOW);
    assert_eq!(
        summary(&world),
        ["2/3", "1/3", "3 left", "NotReady (orders-2)"]
    );
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).refused("2", 5);
    assert_eq!(summary(&world)[3], "TemplateRefused");
}

#[test]
fn tolerance_is_how_many_more_may_be_lost() {
    let tolerance = |world: &World| world.plan().report.tolerance;
    let mut world = World::settled(5);
    assert_eq!(tolerance(&world), 1);
    world.spec(&json!({"rollout": {"maxUnavailable": 3}}));
    assert_eq!(tolerance(&world), 3);
    assert_eq!(tolerance(world.unhealthy(0, NOW)), 2);
    assert_eq!(tolerance(world.gone(1).leaving(2, 1).gone(3)), 0);
    world.spec(&json!({"rollout": {"maxUnavailable": 9}}));
    assert_eq!(tolerance(&world), 0, "the last one never may");
    assert_eq!(tolerance(&World::settled(0)), 0);
}

#[test]
fn a_member_in_flight_is_counted_as_lost_by_the_tolerance() {
    let mut world = World::settled(3);
    world.prepared("2");
    assert_eq!(world.plan().report.tolerance, 0);
}

#[test]
fn each_member_is_listed_with_presence_node_and_trouble() {
    let mut world = World::settled(3);
    world.waiting(1, "CrashLoopBackOff").gone(2);
    let members = planned(&world).members;
    let rows: Vec<_> = members
        .iter()
        .map(|m| (m.presence.as_str(), m.node.as_str()))
        .collect();
    assert_eq!(rows, [("Serving", "n0"), ("Down", "n1"), ("Absent", "")]);
    assert!(members[1].message.contains("ended 4 times"));
    assert!(members[0].updated && members[0].message.is_empty());
}

#[test]
fn at_most_sixty_four_members_are_listed_those_in_need_first() {
    let mut world = World::settled(100);
    world.unhealthy(90, NOW).gone(95);
    let members = planned(&world).members;
    assert_eq!(members.len(), 64);
    assert_eq!(
        (members[0].name.as_str(), members[1].name.as_str()),
        ("orders-90", "orders-95")
    );
}

#[test]
fn the_report_is_bound_to_thirty_two_steps_and_counts_the_rest() {
    let mut world = World::settled(100);
    let plan = world.prepared("2").plan();
    assert_eq!((plan.report.steps.len(), plan.report.more_steps), (32, 68));
    assert_eq!(planned(&world).summary.step, "100 left");
}

#[test]
fn the_same_goal_has_the_same_plan_id() {
    let mut world = World::settled(3);
    let id = world.plan().report.id;
    assert_eq!(world.unhealthy(0, NOW).after(9).plan().report.id, id);
    assert_ne!(world.image("2").plan().report.id, id);
}

#[test]
fn counts_speak_of_members_that_are_asked_for_and_pods_that_exist() {
    let mut world = World::settled(5);
    world
        .spec(&json!({"replicas": 3}))
        .unhealthy(0, NOW)
        .gone(4);
    let status = planned(&world);
    assert_eq!(
        (
            status.replicas,
            status.ready_replicas,
            status.updated_replicas
        ),
        (4, 2, 3)
    );
    assert_eq!(
        status.selector,
        "ensemble.dev/ensemble=orders,ensemble.dev/group=members"
    );
}

#[test]
fn a_rollout_without_progress_is_stalled_after_its_deadline() {
    let mut world = World::settled(3);
    world
        .prepared("2")
        .member(2, "2")
        .unhealthy(2, NOW)
        .store_status();
    let plan = world.after(599).plan();
    assert_ne!(plan.report.state, State::Stalled);
    assert_eq!(plan.wake_at, Some(Time(NOW + 600_000)));
    let plan = world.after(1).plan();
    assert_eq!(plan.report.state, State::Stalled);
    assert!(reasons(&plan).contains(&"Stalled".to_owned()));
}

#[test]
fn what_begins_after_a_long_quiet_is_not_stalled() {
    let changes: [fn(&mut World); 4] = [
        |w| {
            w.prepared("2");
        },
        |w| {
            w.unhealthy(0, NOW);
        },
        |w| {
            w.gone(0);
        },
        |w| {
            w.spec(&json!({"replicas": 4}))
                .meta(&json!({"generation": 2}));
        },
    ];
    for change in changes {
        let mut world = World::settled(3);
        world.after(100_000);
        change(&mut world);
        for _ in 0..3 {
            let plan = world.plan();
            assert!(
                !reasons(&plan).contains(&"Stalled".to_owned()),
                "{:?}",
                reasons(&plan)
            );
            world.store_status();
        }
    }
}

#[test]
fn a_paused_rollout_is_never_stalled_for_want_of_progress() {
    let mut world = World::settled(3);
    world
        .prepared("2")
        .spec(&json!({"rollout": {"paused": true}}))
        .store_status();
    let plan = world.after(100_000).plan();
    assert_eq!(plan.report.state, State::Paused);
}

#[test]
fn a_view_that_stays_behind_is_said() {
    let mut world = World::settled(3);
    let key = ensemble_planner::memory::Kind::Ensemble;
    world.failure(key, "behind", ensemble_api::Reason::CacheBehind);
    assert_eq!(reasons(&world.plan()), ["CacheBehind"]);
}

#[test]
fn the_status_says_which_leadership_wrote_it() {
    let mut world = World::settled(3);
    world.epoch = 9;
    assert_eq!(planned(world.gone(0)).epoch, 9);
}

#[test]
fn a_write_around_the_members_that_keeps_failing_is_reported_with_its_cause() {
    let mut world = World::settled(3);
    world.failure(Kind::Budget, "orders-members", Reason::ApiRefused);
    assert_eq!(world.plan().report.state, State::Ready);
    let key = (Kind::Budget, "orders-members".to_owned());
    world.memory.failures.get_mut(&key).unwrap().tries = 3;
    let plan = world.plan();
    assert_eq!(reasons(&plan), ["ApiRefused"]);
    assert_eq!(plan.report.state, State::Stalled);
}
