//! The engine's parameters: told once written down, restarted in the right order, put back if wrong.

use crate::common::*;
use ensemble_api::status::ParameterState;
use ensemble_api::{Reason, Rule};
use ensemble_planner::engine::{EngineAct, WhyUnknown};
use ensemble_planner::memory::Kind;
use ensemble_planner::{Time, confirm};
use serde_json::json;

fn told(world: &World) -> Vec<String> {
    let plan = world.plan();
    let sets = plan.engine.iter().filter_map(|w| match w.act() {
        EngineAct::Configure(parameters) => Some(parameters.clone()),
        _ => None,
    });
    sets.flatten()
        .map(|(name, value)| format!("{name}={}", value.unwrap_or_default()))
        .collect()
}

fn state(world: &World) -> Option<ParameterState> {
    let snap = world.snapshot();
    snap.ensemble.status.parameters.map(|p| p.state)
}

fn wants(world: &mut World, parameters: serde_json::Value) {
    world.spec(&json!({"engine": {"patroni": {"parameters": parameters}}}));
}

#[test]
fn a_change_is_written_down_before_the_engine_is_told() {
    let mut world = World::led(3, 0);
    wants(&mut world, json!({"work_mem": "8MB"}));
    world.keeps(0, "work_mem", "4MB");
    assert!(told(&world).is_empty());
    world.store_status();
    assert_eq!(told(&world), ["work_mem=8MB"]);
    assert!(granted(&world).is_empty());
}

#[test]
fn what_is_raised_restarts_replicas_first_one_at_a_time() {
    let mut world = World::led(3, 0);
    world.parameter("max_connections", "100", "200");
    assert_eq!(granted(&world), ["orders-2"]);
    world.but(2, |s| s.pending_restart = false);
    assert_eq!(granted(&world), ["orders-1"]);
    world.but(1, |s| s.pending_restart = false);
    world.memory.told_since = Some(Time(NOW - 14_000));
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn the_second_turn_waits_until_everybody_of_the_first_had_time_to_notice() {
    for (leads, from, to, early) in [(0, "100", "200", 0), (0, "200", "100", 2)] {
        let mut world = World::led(3, leads);
        world.parameter("max_connections", from, to);
        for ordinal in (0..3).filter(|o| *o != early) {
            world.but(ordinal, |s| s.pending_restart = false);
        }
        world.memory.told_since = Some(Time(NOW - 500));
        assert!(granted(&world).is_empty(), "{from} -> {to}");
        world.memory.told_since = Some(Time(NOW - 14_000));
        assert_eq!(granted(&world), [format!("orders-{early}")]);
    }
}

#[test]
fn the_second_turn_waits_for_one_of_the_first_that_does_not_answer() {
    let mut world = only_the_primary_is_left();
    world.spec(&json!({"rollout": {"maxUnavailable": 2}}));
    assert_eq!(granted(&world), ["orders-0"]);
    world.silent(1, WhyUnknown::Unreachable("no route".into()));
    assert!(granted(&world).is_empty());
}

#[test]
fn while_the_rollout_is_paused_no_engine_restarts_and_it_comes_to_rest() {
    let mut world = World::led(3, 0);
    world.parameter("max_connections", "100", "200");
    world.spec(&json!({"rollout": {"paused": true}}));
    assert!(granted(&world).is_empty());
    assert_eq!(reasons(&world.plan()), ["Paused"]);
    world.store_status();
    assert!(status(&world.plan()).is_none());
    world.spec(&json!({"rollout": {"paused": false}}));
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn a_restart_that_was_granted_before_the_pause_is_not_confirmed() {
    let mut world = only_the_primary_is_left();
    world.store_status();
    assert_eq!(confirmed(&world, "orders-0"), Ok(()));
    world.spec(&json!({"rollout": {"paused": true}}));
    assert_eq!(confirmed(&world, "orders-0"), Err(Rule::RolloutNotPaused));
}

#[test]
fn a_restart_that_nobody_waits_for_any_more_is_not_confirmed() {
    let mut world = only_the_primary_is_left();
    world.store_status();
    world.but(0, |s| s.pending_restart = false);
    assert_eq!(confirmed(&world, "orders-0"), Err(Rule::StillWanted));
}

/// More connections: both replicas have restarted, and everybody had time to notice.
fn only_the_primary_is_left() -> World {
    let mut world = World::led(3, 0);
    world.parameter("max_connections", "100", "200");
    for replica in 1..3 {
        world.but(replica, |s| s.pending_restart = false);
    }
    world.memory.told_since = Some(Time(NOW - 14_000));
    world
}

/// Whether the intent that is stored for a member is confirmed; else the rule that says no.
fn confirmed(world: &World, member: &str) -> Result<(), Rule> {
    let snap = world.snapshot();
    let mut intents = snap.ensemble.status.in_flight.iter();
    let intent = intents.find(|i| i.member == member).unwrap();
    let warrant = confirm(&snap, intent, Time(NOW));
    warrant.map(drop).map_err(|refusal| refusal.predicate)
}

#[test]
fn a_restart_is_not_confirmed_by_what_the_first_turn_said_before_it_could_notice() {
    let mut world = only_the_primary_is_left();
    world.store_status();
    assert_eq!(confirmed(&world, "orders-0"), Ok(()));
    world.memory.told_since = Some(Time(NOW - 500));
    assert_eq!(confirmed(&world, "orders-0"), Err(Rule::ParametersNoticed));
}

#[test]
fn a_restart_is_not_confirmed_if_another_has_the_first_turn_by_now() {
    let mut world = only_the_primary_is_left();
    world.store_status();
    world.but(1, |s| s.pending_restart = true);
    assert_eq!(confirmed(&world, "orders-0"), Err(Rule::ParametersInOrder));
    let mut world = World::led(3, 0);
    world
        .parameter("max_connections", "100", "200")
        .store_status();
    assert_eq!(confirmed(&world, "orders-2"), Ok(()));
    world.lead(2, 8).but(1, |s| s.pending_restart = true);
    assert_eq!(confirmed(&world, "orders-2"), Err(Rule::ParametersInOrder));
}

#[test]
fn what_is_lowered_restarts_the_primary_first() {
    let mut world = World::led(3, 0);
    world.parameter("max_connections", "200", "100");
    assert_eq!(granted(&world), ["orders-0"]);
    world.but(0, |s| s.pending_restart = false);
    world.memory.told_since = Some(Time(NOW - 14_000));
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn what_is_lowered_waits_until_what_is_raised_has_arrived() {
    let mut world = World::led(3, 0);
    wants(
        &mut world,
        json!({"max_connections": "50", "max_worker_processes": "16"}),
    );
    world.store_status();
    assert_eq!(told(&world), ["max_worker_processes=16"]);
}

#[test]
fn the_primary_restarts_only_while_a_replica_is_in_sync() {
    let mut world = World::led(3, 0);
    world.parameter("max_connections", "200", "100");
    world.but(0, |s| s.attached.clear());
    assert!(granted(&world).is_empty());
}

#[test]
fn a_change_is_applied_once_nobody_waits_and_everybody_had_time_to_notice() {
    let mut world = World::led(3, 0);
    world.parameter("work_mem", "4MB", "8MB");
    for ordinal in 0..3 {
        world.but(ordinal, |s| s.pending_restart = false);
    }
    world.memory.told_since = Some(Time(NOW));
    assert_eq!(state(world.store_status()), Some(ParameterState::Applying));
    world.memory.told_since = Some(Time(NOW - 14_000));
    assert_eq!(state(world.store_status()), Some(ParameterState::Applied));
    assert_eq!(world.plan().report.state, ensemble_api::State::Ready);
}

#[test]
fn a_value_that_a_member_does_not_come_up_with_is_put_back_and_not_tried_again() {
    let mut world = World::led(3, 0);
    world.parameter("shared_buffers", "64MB", "7000GB");
    world.not_restarted(2, Some("restart failed"));
    assert_eq!(
        state(world.store_status()),
        Some(ParameterState::RollingBack)
    );
    assert_eq!(told(&world), ["shared_buffers=64MB"]);
    world.keeps(0, "shared_buffers", "64MB");
    world.memory.restarts.clear();
    for ordinal in 0..3 {
        world.but(ordinal, |s| s.pending_restart = false);
    }
    world.memory.told_since = Some(Time(NOW - 14_000));
    assert_eq!(state(world.store_status()), Some(ParameterState::Refused));
    assert!(told(&world).is_empty());
    let said = reasons(&world.plan());
    assert!(said.contains(&"ParameterRefused".to_owned()), "{said:?}");
    wants(&mut world, json!({"shared_buffers": "128MB"}));
    assert_eq!(told(world.store_status()), ["shared_buffers=128MB"]);
}

#[test]
fn what_was_raised_and_is_put_back_restarts_the_primary_first() {
    let mut world = World::led(3, 0);
    world.parameter("max_connections", "100", "200");
    world.not_restarted(2, Some("restart failed"));
    assert_eq!(
        state(world.store_status()),
        Some(ParameterState::RollingBack)
    );
    world.keeps(0, "max_connections", "100");
    world.memory.restarts.clear();
    assert_eq!(granted(&world), ["orders-0"]);
    world.but(0, |s| s.pending_restart = false);
    world.memory.told_since = Some(Time(NOW - 14_000));
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn a_restart_that_nobody_answered_says_nothing_about_the_value() {
    let mut world = World::led(3, 0);
    world.parameter("shared_buffers", "64MB", "128MB");
    world.not_restarted(2, None);
    assert_eq!(state(world.store_status()), Some(ParameterState::Applying));
    let state_of = WhyUnknown::Unreadable("PostgreSQL is \"start failed\"".into());
    world.silent(2, state_of);
    assert_eq!(
        state(world.store_status()),
        Some(ParameterState::RollingBack)
    );
}

#[test]
fn a_value_with_which_a_member_that_crashed_does_not_come_up_is_put_back() {
    let mut world = World::led(3, 0);
    world.parameter("shared_buffers", "64MB", "7000GB");
    world.memory.told_since = Some(Time(NOW - 10_000));
    let failed = WhyUnknown::Unreadable("PostgreSQL is \"start failed\"".into());
    world.silent(1, failed.clone());
    let before = "its container began before the engine was told";
    assert_eq!(
        state(world.store_status()),
        Some(ParameterState::Applying),
        "{before}"
    );
    world.runs(1, "run-2", NOW - 5_000);
    assert_eq!(
        state(world.store_status()),
        Some(ParameterState::RollingBack)
    );
}

#[test]
fn who_waits_for_a_restart_of_which_nothing_is_written_down_is_named_and_left_alone() {
    let mut world = World::led(3, 0);
    wants(&mut world, json!({"max_connections": "200"}));
    world.keeps(0, "max_connections", "200");
    world.but(1, |s| s.pending_restart = true);
    world.store_status();
    let plan = world.plan();
    assert!(plan.permits.is_empty());
    assert_eq!(reasons(&plan), ["RestartPending orders-1"]);
    world.but(1, |s| s.pending_restart = false);
    assert_eq!(world.plan().report.state, ensemble_api::State::Ready);
}

#[test]
fn a_value_that_cannot_be_is_named_by_its_field_and_holds_up_no_other() {
    let mut world = World::led(3, 0);
    wants(
        &mut world,
        json!({"work_mem": "banana", "autovacuum": "off"}),
    );
    world.store_status();
    assert_eq!(told(&world), ["autovacuum=off"]);
    let plan = world.plan();
    let mut blockers = plan.report.steps.iter().filter_map(|s| s.blocker.as_ref());
    let refused = blockers.find(|b| b.reason == Reason::ParameterRefused);
    let refused = refused.unwrap();
    let field = "spec.engine.patroni.parameters.work_mem: 'banana' is no amount of memory";
    assert!(refused.message.starts_with(field), "{}", refused.message);
    wants(&mut world, json!({"work_mem": "64MB", "autovacuum": "off"}));
    assert!(!reasons(&world.plan()).contains(&"ParameterRefused".to_owned()));
}

#[test]
fn a_value_that_cannot_be_is_named_while_nobody_leads() {
    let mut world = World::led(3, 0);
    wants(&mut world, json!({"work_mem": "banana"}));
    for ordinal in 0..3 {
        world.silent(ordinal, WhyUnknown::Starting);
    }
    let said = reasons(&world.plan());
    assert!(said.contains(&"ParameterRefused".to_owned()), "{said:?}");
}

#[test]
fn parameters_that_nobody_names_are_left_alone() {
    let mut world = World::led(3, 0);
    world.keeps(0, "work_mem", "4MB");
    assert!(told(world.store_status()).is_empty());
}

/// A value that a member did not come up with was put back, and what came of it is still remembered.
fn refused_and_remembered() -> World {
    let mut world = World::led(3, 0);
    world.parameter("shared_buffers", "64MB", "7000GB");
    world
        .not_restarted(2, Some("restart failed"))
        .store_status();
    world.keeps(0, "shared_buffers", "64MB");
    for ordinal in 0..3 {
        world.but(ordinal, |s| s.pending_restart = false);
    }
    world.memory.told_since = Some(Time(NOW - 14_000));
    assert_eq!(state(world.store_status()), Some(ParameterState::Refused));
    world
}

#[test]
fn a_failure_of_an_earlier_change_does_not_condemn_a_later_one() {
    let mut world = refused_and_remembered();
    wants(&mut world, json!({"shared_buffers": "128MB"}));
    assert_eq!(told(world.store_status()), ["shared_buffers=128MB"]);
    world.keeps(0, "shared_buffers", "128MB");
    world.but(2, |s| s.pending_restart = true);
    assert_eq!(granted(&world), ["orders-2"]);
    assert_eq!(state(world.store_status()), Some(ParameterState::Applying));
}

#[test]
fn what_came_of_restarts_is_forgotten_with_the_change_that_they_were_for() {
    let mut world = refused_and_remembered();
    world.failure(Kind::Pod, "orders-2", Reason::EngineFailing);
    world.failure(Kind::Pod, "orders-1", Reason::EvictionRefused);
    let of = world.memory.restarts["orders-2"].of.clone();
    world.memory.keep_restarts(Some(&of));
    assert_eq!(
        (world.memory.restarts.len(), world.memory.failures.len()),
        (1, 2)
    );
    world.memory.keep_restarts(Some("work_mem 4MB -> 8MB"));
    let left: Vec<&str> = world.memory.failures.keys().map(|k| k.1.as_str()).collect();
    assert_eq!((world.memory.restarts.len(), left), (0, vec!["orders-1"]));
}

#[test]
fn a_parameter_that_is_removed_while_it_is_applied_is_finished_and_left_as_it_is() {
    let mut world = World::led(3, 0);
    world.parameter("max_connections", "100", "200");
    world.but(2, |s| s.pending_restart = false);
    // As if the spec was replaced by one without it.
    world.ensemble["spec"]["engine"]["patroni"] = json!({});
    assert_eq!(granted(&world), ["orders-1"]);
    assert!(told(&world).is_empty());
    for ordinal in 0..3 {
        world.but(ordinal, |s| s.pending_restart = false);
    }
    world.memory.told_since = Some(Time(NOW - 14_000));
    assert_eq!(state(world.store_status()), Some(ParameterState::Applied));
    assert_eq!(world.plan().report.state, ensemble_api::State::Ready);
}

#[test]
fn another_value_in_between_is_ordered_by_what_the_primary_runs_with() {
    // 100 -> 200: a replica has 200 already, the primary still has 100; then 150 is wanted.
    let mut world = World::led(3, 0);
    world.parameter("max_connections", "100", "200");
    world.but(2, |s| s.pending_restart = false);
    wants(&mut world, json!({"max_connections": "150"}));
    world.store_status().keeps(0, "max_connections", "150");
    world.but(2, |s| s.pending_restart = true);
    assert_eq!(
        granted(&world),
        ["orders-2"],
        "replicas first: 100 becomes 150"
    );
    // The same, and the primary has 200 already: it has to go first.
    let mut world = only_the_primary_is_left();
    world.but(0, |s| s.pending_restart = false);
    wants(&mut world, json!({"max_connections": "150"}));
    world.store_status().keeps(0, "max_connections", "150");
    for ordinal in 0..3 {
        world.but(ordinal, |s| s.pending_restart = true);
    }
    assert_eq!(
        granted(&world),
        ["orders-0"],
        "the primary first: 200 becomes 150"
    );
}

#[test]
fn another_value_waits_until_it_is_known_what_the_primary_runs_with() {
    let mut world = World::led(3, 0);
    world.parameter("max_connections", "100", "200");
    world.but(0, |s| s.pending_restart = false);
    wants(&mut world, json!({"max_connections": "150"}));
    world.memory.told_since = Some(Time(NOW - 500));
    world.store_status();
    assert!(told(&world).is_empty());
    world.memory.told_since = Some(Time(NOW - 14_000));
    assert_eq!(told(world.store_status()), ["max_connections=150"]);
}

#[test]
fn what_is_still_wanted_of_a_change_goes_along_with_the_next_in_its_order() {
    let mut world = World::led(3, 0);
    wants(
        &mut world,
        json!({"max_connections": "200", "shared_buffers": "7000GB"}),
    );
    world.store_status();
    world
        .keeps(0, "max_connections", "200")
        .keeps(0, "shared_buffers", "7000GB");
    for ordinal in 0..3 {
        world.but(ordinal, |s| s.pending_restart = true);
    }
    wants(
        &mut world,
        json!({"max_connections": "200", "shared_buffers": "64MB"}),
    );
    world.store_status().keeps(0, "shared_buffers", "64MB");
    let change = world.snapshot().ensemble.status.parameters.unwrap();
    assert_eq!(
        change.words(),
        "max_connections -> 200, shared_buffers -> 64MB"
    );
    assert_eq!(granted(&world), ["orders-2"]);
}
