//! `suspend`; converged: zero writes.

use crate::common::*;
use ensemble_api::State;
use ensemble_planner::memory::Kind;
use serde_json::json;

#[test]
fn a_converged_ensemble_plans_nothing_at_all() {
    for replicas in [0, 1, 3, 100] {
        let world = World::settled(replicas);
        assert_quiet(&world.plan());
    }
}

#[test]
fn a_new_leader_writes_nothing() {
    let mut world = World::settled(3);
    world.epoch = 8;
    assert_quiet(&world.plan());
}

#[test]
fn time_alone_changes_nothing() {
    let mut world = World::settled(3);
    assert_quiet(&world.after(10_000_000).plan());
}

#[test]
fn a_process_that_remembers_nothing_writes_nothing() {
    let mut world = World::settled(3);
    world.memory = Default::default();
    assert_quiet(&world.plan());
}

#[test]
fn a_suspended_ensemble_plans_nothing_but_its_condition() {
    let changes: [fn(&mut World); 5] = [
        |_| {},
        |w| {
            w.gone(1).ended(0, "Evicted");
        },
        |w| {
            w.prepared("2");
        },
        |w| {
            w.spec(&json!({"replicas": 1, "storage": {"whenScaled": "Delete"}}));
        },
        |w| {
            w.budgets.clear();
            w.services.clear();
            w.request("r", &["orders-0"], true);
        },
    ];
    for change in changes {
        let mut world = World::settled(3);
        change(&mut world);
        world.spec(&json!({"suspend": true}));
        let plan = world.plan();
        assert_eq!(written(&plan), [""; 0]);
        assert!(plan.permits.is_empty() && plan.lettings.is_empty());
        let stored = status(&plan).unwrap();
        assert_eq!(stored.plan.state, State::Suspended);
        assert_eq!(stored.condition("Paused").unwrap().reason, "Suspended");
        assert_eq!(stored.ledger, world.snapshot().ensemble.status.ledger);
        world.store_status();
        assert!(world.plan().writes.is_empty(), "and says it once");
    }
}

#[test]
fn a_suspended_ensemble_keeps_its_intents_and_carries_none_out() {
    let mut world = World::settled(3);
    world
        .prepared("2")
        .store_status()
        .spec(&json!({"suspend": true}));
    assert_eq!(status(&world.plan()).unwrap().in_flight.len(), 1);
    let snap = world.store_status().snapshot();
    assert!(
        ensemble_planner::confirm(
            &snap,
            &snap.ensemble.status.in_flight[0],
            ensemble_planner::Time(0)
        )
        .is_err()
    );
}

#[test]
fn a_failed_write_is_not_repeated_before_its_time() {
    let mut world = World::settled(1);
    world.services.clear();
    world.failure(
        Kind::Service,
        "orders-members",
        ensemble_api::Reason::ApiRefused,
    );
    assert_eq!(written(&world.plan()), [""; 0]);
    assert_eq!(
        written(&world.after(1).plan()),
        ["Create Service orders-members"]
    );
}
