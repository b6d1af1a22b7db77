//! The primary Service follows the label that the primary's own pod carries: agents of two versions, which
//! call a primary by two names, are there at once while a rollout brings the newer.

use crate::common::*;
use ensemble_planner::engine::WhyUnknown;
use ensemble_planner::memory::Kind;
use ensemble_planner::{Plan, Write};
use serde_json::{Value, json};

/// What the primary Service is to select, if it is written at all.
fn selected(plan: &Plan) -> Option<Value> {
    let body = plan.writes.iter().find_map(|write| match write {
        Write::Create {
            kind: Kind::Service,
            body,
        } if body["metadata"]["name"] == "orders-primary" => Some(body),
        Write::Patch {
            kind: Kind::Service,
            pin,
            body,
        } if pin.name == "orders-primary" => Some(body),
        _ => None,
    })?;
    Some(body["spec"]["selector"]["role"].clone())
}

/// The primary Service is there as it is wanted now.
fn made(world: &mut World) {
    let mut service = body(&world.plan(), Kind::Service, "orders-primary");
    service["metadata"]["uid"] = "service-primary".into();
    service["metadata"]["resourceVersion"] = "1".into();
    world.services.insert("orders-primary".into(), service);
    assert_eq!(selected(&world.plan()), None, "it is as it is to be");
}

fn labelled(world: &mut World, ordinal: u32, value: &str) {
    world.pod(ordinal, &json!({"metadata": {"labels": {"role": value}}}));
}

#[test]
fn the_primary_service_selects_what_the_primarys_own_pod_carries() {
    let mut world = World::led(3, 0);
    assert_eq!(selected(&world.plan()), Some(json!("primary")));
    labelled(&mut world, 0, "master");
    assert_eq!(selected(&world.plan()), Some(json!("master")));
    assert!(!reasons(&world.plan()).contains(&"RoleLabelMissing orders-0".to_owned()));
}

#[test]
fn a_new_value_in_the_spec_does_not_take_the_primary_out_of_its_service() {
    let mut world = World::led(3, 0);
    world.spec(&json!({"engine": {"patroni": {"primaryValue": "master"}}}));
    labelled(&mut world, 0, "master");
    made(&mut world);
    world.spec(&json!({"engine": {"patroni": {"primaryValue": "primary"}}}));
    assert_eq!(selected(&world.plan()), None);
}

#[test]
fn when_the_lead_goes_to_a_member_of_the_other_version_its_service_goes_along() {
    let mut world = World::led(3, 0);
    labelled(&mut world, 0, "master");
    made(&mut world);
    world.lead(1, 8);
    labelled(&mut world, 1, "primary");
    assert_eq!(selected(&world.plan()), Some(json!("primary")));
}

#[test]
fn while_nobody_is_known_to_lead_the_primary_service_stays_as_it_is() {
    let mut world = World::led(3, 0);
    labelled(&mut world, 0, "master");
    made(&mut world);
    for ordinal in 0..3 {
        world.silent(ordinal, WhyUnknown::Starting);
    }
    assert_eq!(selected(&world.plan()), None);
}

#[test]
fn a_label_that_says_nothing_of_a_primary_is_not_followed() {
    let mut world = World::led(3, 0);
    labelled(&mut world, 0, "master");
    made(&mut world);
    for value in ["replica", "captain", ""] {
        labelled(&mut world, 0, value);
        assert_eq!(selected(&world.plan()), None, "{value:?}");
    }
}
