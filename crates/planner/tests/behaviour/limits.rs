//! Lists in the status have limits, and the largest ensemble that may be asked for keeps to them: an API
//! server that refuses the status would stop everything.

use crate::common::*;
use ensemble_api::report::{PREDICATES_MAX, STEPS_MAX};
use ensemble_api::status::{IN_FLIGHT_MAX, LET_GO_MAX, MEMBERS_MAX};
use serde_json::json;

/// The most items that the definition lets a list of the status have.
fn most(list: &str) -> usize {
    let definition = &ensemble_api::crd::all_json()[0];
    let path = format!(
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/{list}/maxItems"
    );
    let most = definition.pointer(&path).and_then(|m| m.as_u64());
    usize::try_from(most.unwrap_or_else(|| panic!("{list} has no limit"))).unwrap()
}

#[test]
fn the_definition_has_the_limits_that_the_planner_keeps_to() {
    assert_eq!(most("inFlight"), IN_FLIGHT_MAX);
    assert_eq!(most("letGo"), LET_GO_MAX);
    assert_eq!(most("members"), MEMBERS_MAX);
    assert_eq!(most("plan/properties/steps"), STEPS_MAX);
    assert_eq!(most("plan/properties/predicates"), PREDICATES_MAX);
}

#[test]
fn more_members_may_be_unavailable_than_can_be_written_down_at_once() {
    let mut world = World::settled(300);
    world
        .spec(&json!({"rollout": {"maxUnavailable": 300, "method": "Recreate"}}))
        .prepared("2");
    let plan = world.plan();
    let status = status(&plan).unwrap();
    assert_eq!(status.in_flight.len(), IN_FLIGHT_MAX);
    assert!(status.members.len() <= MEMBERS_MAX && status.plan.steps.len() <= STEPS_MAX);
    // The others wait until some of these are over.
    world.store_status();
    let plan = world.plan();
    let in_flight = crate::common::status(&plan).map_or(0, |s| s.in_flight.len());
    assert!(in_flight <= IN_FLIGHT_MAX);
}

#[test]
fn an_ensemble_with_more_claims_than_can_be_written_down_at_once_is_deleted_to_the_last() {
    let mut world = World::converged(600);
    world.spec(&json!({"storage": {"whenDeleted": "Delete"}}));
    world.meta(&json!({"finalizers": ["ensemble.dev/claims"]}));
    world.store_status();
    world.meta(&json!({"deletionTimestamp": "x"}));
    let mut told = 0;
    for _ in 0..8 {
        let plan = world.plan();
        if written(&plan) == ["Patch Ensemble orders"] {
            assert_eq!(told, 1200, "the finalizer stays until all are told to go");
            return;
        }
        let let_go = let_go(&plan);
        told += let_go.len();
        for claim in &let_go {
            let claim = world.claims.get_mut(claim).unwrap();
            claim["metadata"]["deletionTimestamp"] = "x".into();
        }
        if let Some(status) = status(&plan) {
            assert!(status.let_go.len() <= LET_GO_MAX);
            world.store_status();
        }
    }
    panic!("{told} of 1200 claims were told to go, and no more");
}
