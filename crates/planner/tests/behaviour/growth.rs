//! New members copy their data from the primary: a few at a time. Equals come all at once.

use crate::common::*;
use serde_json::json;

/// Three members play roles, and so many are asked for; all claims are there.
fn growing(replicas: u32) -> World {
    let mut world = World::led(3, 0);
    world
        .spec(&json!({"replicas": replicas}))
        .ledger(replicas, "0-2");
    for ordinal in 3..replicas {
        world.claim("data", ordinal).claim("wal", ordinal);
    }
    world
}

fn pods(world: &World) -> Vec<String> {
    let created = created_members(&world.plan()).into_iter();
    created.filter(|c| c.starts_with("Pod ")).collect()
}

#[test]
fn two_new_members_copy_their_data_at_a_time_and_the_others_say_that_they_wait() {
    let world = growing(10);
    assert_eq!(pods(&world), ["Pod orders-3", "Pod orders-4"]);
    let plan = world.plan();
    let waits = reasons(&plan);
    let waits: Vec<_> = waits.iter().filter(|r| r.starts_with("Cloning")).collect();
    assert_eq!(waits.len(), 5);
    assert_eq!(
        message(&plan, "Cloning"),
        "orders-5 waits: orders-3, orders-4 copy their data, and at most 2 do so at a time"
    );
}

#[test]
fn the_next_begins_when_one_was_ready() {
    let mut world = growing(10);
    world.member(3, "1").unhealthy(3, NOW);
    assert_eq!(pods(&world), ["Pod orders-4"]);
    world.member(4, "1").unhealthy(4, NOW);
    assert_eq!(pods(&world), [""; 0]);
    world.ledger(10, "0-3").member(3, "1");
    assert_eq!(pods(&world), ["Pod orders-5"]);
}

#[test]
fn a_larger_budget_lets_more_of_them_begin() {
    let mut world = growing(10);
    world.spec(&json!({"rollout": {"maxUnavailable": 4}}));
    assert_eq!(pods(&world).len(), 4);
}

#[test]
fn one_that_was_ready_before_comes_back_at_once_whoever_else_is_new() {
    let mut world = growing(10);
    world.member(3, "1").unhealthy(3, NOW);
    world.member(4, "1").unhealthy(4, NOW);
    world.gone(1);
    assert_eq!(pods(&world), ["Pod orders-1"]);
}

#[test]
fn equals_come_all_at_once() {
    let mut world = World::begun(7);
    for ordinal in 0..7 {
        world.claim("data", ordinal).claim("wal", ordinal);
    }
    assert_eq!(pods(&world).len(), 7);
}

#[test]
fn at_first_one_begins_and_two_copy_from_it() {
    let mut world = growing(5);
    world.ledger(5, "").passed("1");
    world.meta(&json!({"annotations": null}));
    for ordinal in 0..3 {
        world.gone(ordinal);
    }
    assert_eq!(pods(&world).len(), 3);
}
