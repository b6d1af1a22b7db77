//! What an engine can do and demands is handed in: the planner decides by it, and knows no engine.

use crate::common::*;
use ensemble_planner::abilities::{Abilities, Ordered, Port};
use ensemble_planner::memory::Kind;
use ensemble_planner::{Plan, Time, plan};
use serde_json::json;

/// The plan for the same world, with an engine that differs a little.
fn with(world: &World, change: impl FnOnce(&mut Abilities)) -> Plan {
    let mut snap = world.snapshot();
    change(&mut snap.abilities);
    plan(&snap)
}

#[test]
fn services_lead_to_where_the_engine_listens_if_its_container_does_not_say() {
    let mut world = World::led(3, 0);
    world.services.clear();
    let port = |plan: &Plan| body(plan, Kind::Service, "orders-primary")["spec"]["ports"].clone();
    let sql = json!([{"name": "postgres", "port": 5432, "protocol": "TCP", "targetPort": 5432}]);
    assert_eq!(port(&world.plan()), sql);
    let other = Port {
        name: "wire",
        number: 77,
    };
    let found = port(&with(&world, |a| a.port = Some(other)));
    assert_eq!(found[0]["port"], 77);
    world.ensemble["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 6432, "name": "pool"}, {"containerPort": 8008, "name": "agent"}]);
    let found = port(&world.plan());
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found[0]["port"], 6432);
}

#[test]
fn an_engine_that_cannot_be_nudged_is_not() {
    let mut world = World::led(3, 0);
    world.memory.led_since = Some(Time(NOW));
    world.but(0, |s| s.attached.clear());
    assert!(!world.plan().engine.is_empty());
    assert!(with(&world, |a| a.can_nudge = false).engine.is_empty());
}

#[test]
fn the_grace_period_is_held_against_as_many_rounds_as_the_engine_needs() {
    let mut world = World::led(3, 0);
    world.synchronous(0, Some(1));
    let short = |plan: Plan| reasons(&plan).contains(&"GraceTooShort".to_owned());
    assert!(!short(world.plan()));
    let thrice = |a: &mut Abilities| a.rounds.as_mut().unwrap().before_stop = 3;
    assert!(short(with(&world, thrice)));
    assert!(!short(with(&world, |a| a.rounds = None)));
}

#[test]
fn which_parameters_have_an_order_is_the_engines_to_say() {
    let mut world = World::led(3, 0);
    world.parameter("work_mem", "200", "100");
    assert_eq!(granted(&world), ["orders-2"]);
    let ordered = &[Ordered {
        name: "work_mem",
        default: 64,
    }];
    let plan = with(&world, |a| a.ordered = ordered);
    let intents = status(&plan).unwrap().in_flight.clone();
    assert_eq!(intents.len(), 1);
    assert_eq!(intents[0].member, "orders-0");
}
