//! Deleted; orphaned and created again: claims follow `storage.whenDeleted`, nothing leaks, and an
//! Ensemble of that name takes its own back, and nobody else's.

use crate::common::*;
use ensemble_planner::memory::Kind;
use serde_json::json;

fn deleted(policy: &str, finalizers: &[&str]) -> World {
    let mut world = World::converged(2);
    world.spec(&json!({"storage": {"whenDeleted": policy}}));
    world.meta(&json!({"finalizers": finalizers}));
    world.store_status();
    world.meta(&json!({"deletionTimestamp": "x"}));
    world
}

const OURS: &str = "ensemble.dev/claims";

#[test]
fn a_deleted_ensemble_without_our_finalizer_is_left_to_the_collector() {
    let plan = deleted("Retain", &["theirs"]).plan();
    assert!(plan.writes.is_empty() && plan.permits.is_empty() && plan.lettings.is_empty());
}

#[test]
fn claims_that_are_to_go_are_written_down_then_let_go_then_the_finalizer_is_taken_away() {
    let mut world = deleted("Delete", &["theirs", OURS]);
    let plan = world.plan();
    assert!(plan.lettings.is_empty() && written(&plan).is_empty());
    assert_eq!(status(&plan).unwrap().let_go.len(), 4);

    world.store_status();
    let plan = world.plan();
    assert_eq!(let_go(&plan).len(), 4);
    assert_eq!(
        written(&plan),
        [""; 0],
        "the finalizer stays until all are told to go"
    );

    for claim in world.claims.values_mut() {
        claim["metadata"]["deletionTimestamp"] = "x".into();
    }
    let plan = world.plan();
    assert!(plan.lettings.is_empty());
    assert_eq!(written(&plan), ["Patch Ensemble orders"]);
    let patch = body(&plan, Kind::Ensemble, "orders");
    assert_eq!(patch["metadata"]["finalizers"], json!(["theirs"]));
}

#[test]
fn claims_of_members_that_were_scaled_away_go_too() {
    let mut world = deleted("Delete", &[OURS]);
    world.claim("data", 7);
    let plan = world.plan();
    let stored = &status(&plan).unwrap().let_go;
    assert!(stored.iter().any(|l| l.claim == "data-orders-7"));
}

#[test]
fn nobody_elses_claims_go() {
    let mut world = deleted("Delete", &[OURS]);
    world.change_claim(
        "data",
        1,
        &json!({"metadata": {"labels": {"ensemble.dev/ensemble": "x"}}}),
    );
    world.change_claim(
        "wal",
        1,
        &json!({"metadata": {"labels": {"ensemble.dev/claim": "x"}}}),
    );
    let plan = world.plan();
    let names: Vec<_> = status(&plan)
        .unwrap()
        .let_go
        .iter()
        .map(|l| &l.claim)
        .collect();
    assert_eq!(names, ["data-orders-0", "wal-orders-0"]);
}

#[test]
fn a_policy_changed_to_retain_keeps_the_claims_although_the_finalizer_is_there() {
    let plan = deleted("Retain", &[OURS]).plan();
    assert!(plan.lettings.is_empty());
    assert_eq!(written(&plan), ["Patch Ensemble orders"]);
}

#[test]
fn whoever_orphans_the_pods_keeps_the_data() {
    let plan = deleted("Delete", &[OURS, "orphan"]).plan();
    assert!(plan.lettings.is_empty() && status(&plan).is_none());
    let patch = body(&plan, Kind::Ensemble, "orders");
    assert_eq!(patch["metadata"]["finalizers"], json!(["orphan"]));

    let mut world = deleted("Delete", &[OURS]);
    world.pod(1, &json!({"metadata": {"ownerReferences": null}}));
    let plan = world.plan();
    assert!(plan.lettings.is_empty() && status(&plan).is_none());
}

#[test]
fn an_ensemble_that_is_being_deleted_creates_and_disrupts_nothing() {
    let mut world = deleted("Delete", &[OURS]);
    world.prepared("2").gone(0).ended(1, "Evicted");
    for _ in 0..3 {
        let plan = world.plan();
        assert_eq!(created(&plan), [""; 0]);
        assert!(plan.permits.is_empty());
        world.store_status();
    }
}

#[test]
fn a_suspended_ensemble_can_be_deleted() {
    let mut world = deleted("Delete", &[OURS]);
    world.spec(&json!({"suspend": true}));
    assert_eq!(status(&world.plan()).unwrap().let_go.len(), 4);
}

#[test]
fn an_ensemble_of_that_name_takes_its_pods_and_claims_back() {
    let mut world = World::converged(3);
    world.lose_status();
    world.ensemble["metadata"] = json!({"name": "orders", "namespace": "shop", "uid": "new",
                                        "generation": 1, "resourceVersion": "1"});
    for object in world.pods.values_mut().chain(world.services.values_mut()) {
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("ownerReferences");
    }
    for object in world
        .revisions
        .values_mut()
        .chain(world.budgets.values_mut())
    {
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("ownerReferences");
    }
    let plan = world.plan();
    let revision = format!("Patch Revision {}", revision_name("1"));
    let wanted = [
        revision.as_str(),
        "Patch Pod orders-0",
        "Patch Pod orders-1",
        "Patch Pod orders-2",
        "Patch Service orders-members",
        "Patch Budget orders-members",
        "Patch Ensemble orders",
    ];
    assert_eq!(written(&plan), wanted);
    assert!(plan.permits.is_empty());
    let owner = body(&plan, Kind::Pod, "orders-0")["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(owner, "new");
}

#[test]
fn pods_that_belong_to_the_former_ensemble_still_are_not_taken() {
    let mut world = World::converged(2);
    world.lose_status().meta(&json!({"uid": "new"}));
    let plan = world.plan();
    assert_eq!(created_members(&plan), [""; 0]);
    assert!(reasons(&plan).contains(&"NameTaken orders-0".to_owned()));
    assert!(!written(&plan).iter().any(|w| w.contains("Pod orders-")));
}
