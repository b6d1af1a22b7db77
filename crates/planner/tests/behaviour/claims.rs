//! A born ordinal never gets an empty volume; what was never Ready is finished as if nothing had
//! happened.

use crate::common::*;
use serde_json::json;

#[test]
fn a_born_member_that_lost_a_claim_gets_no_empty_one_and_no_pod() {
    let mut world = World::settled(3);
    let plan = world.lose_claim("wal", 1).gone(1).plan();
    assert_eq!(created(&plan), [""; 0]);
    assert_eq!(reasons(&plan), ["ClaimMissing orders-1"]);
    assert!(message(&plan, "ClaimMissing").contains("wal-orders-1"));
}

#[test]
fn a_born_member_that_lost_all_claims_gets_none_while_others_have_theirs() {
    let mut world = World::settled(3);
    let plan = world
        .lose_claim("wal", 1)
        .lose_claim("data", 1)
        .gone(1)
        .plan();
    assert_eq!(created(&plan), [""; 0]);
    assert!(message(&plan, "ClaimMissing").contains("data-orders-1, wal-orders-1"));
}

#[test]
fn one_incomplete_member_does_not_keep_others_from_being_repaired() {
    let mut world = World::settled(3);
    let plan = world.lose_claim("wal", 1).gone(1).gone(2).plan();
    assert_eq!(created(&plan), ["Pod orders-2"]);
}

#[test]
fn a_half_created_member_that_was_never_ready_is_finished() {
    let mut world = World::begun(3);
    let plan = world.claim("data", 1).plan();
    assert!(created(&plan).contains(&"Claim wal-orders-1".to_owned()));
    assert!(!created(&plan).contains(&"Claim data-orders-1".to_owned()));
    assert!(!reasons(&plan).iter().any(|r| r.starts_with("ClaimMissing")));
}

#[test]
fn whoever_is_ready_is_written_down_as_born() {
    let mut world = World::begun(3);
    world
        .member(1, "1")
        .meta(&json!({"annotations": {"ensemble.dev/born": "true"}}));
    let plan = world.plan();
    assert_eq!(status(&plan).unwrap().ledger["members"].born, "1");
}

#[test]
fn a_member_that_is_ready_gets_no_empty_claim_even_before_its_birth_is_stored() {
    let mut world = World::begun(1);
    world.member(0, "1").lose_claim("wal", 0);
    let plan = world.plan();
    assert_eq!(created_members(&plan), [""; 0]);
    assert!(reasons(&plan).contains(&"ClaimMissing orders-0".to_owned()));
}

#[test]
fn when_no_claim_of_any_born_member_is_left_nothing_is_created_at_all() {
    let mut world = World::settled(3);
    world.spec(&json!({"replicas": 5})).ledger(5, "0-2");
    world.passed("1").claims.clear();
    let plan = world.gone(0).gone(1).gone(2).plan();
    assert_eq!(created_members(&plan), [""; 0]);
    assert_eq!(reasons(&plan)[0], "DataMissing");
}

#[test]
fn data_is_also_missing_when_the_status_is_lost_too() {
    let mut world = World::settled(3);
    world.claims.clear();
    world.gone(0).gone(1).gone(2).lose_status();
    // Also after the empty ledger was stored and the template tried.
    for _ in 0..3 {
        let plan = world.plan();
        assert_eq!(created_members(&plan), [""; 0]);
        assert!(reasons(&plan).contains(&"DataMissing".to_owned()));
        world.store_status().passed("1");
    }
}

#[test]
fn an_ensemble_that_was_never_born_has_no_data_to_miss() {
    let mut world = World::begun(3);
    assert!(!created_members(&world.plan()).is_empty());
    assert!(!created_members(&world.store_status().plan()).is_empty());
}

#[test]
fn an_ensemble_without_claims_has_no_data_to_miss() {
    let mut world = World::settled(3);
    world.spec(&json!({"claims": []})).passed("1");
    world.claims.clear();
    let plan = world.gone(0).gone(1).gone(2).plan();
    assert_eq!(created(&plan).len(), 3);
}

#[test]
fn data_is_not_missing_while_one_claim_is_left() {
    let mut world = World::settled(3);
    world.claims.retain(|name, _| name == "data-orders-2");
    let plan = world.gone(0).gone(1).gone(2).plan();
    assert_eq!(created(&plan), [""; 0]);
    assert!(!reasons(&plan).contains(&"DataMissing".to_owned()));
}

#[test]
fn a_claim_of_somebody_else_does_not_count_as_data() {
    let mut world = World::settled(1);
    let other = json!({"metadata": {"labels": {"ensemble.dev/ensemble": "other"}}});
    world
        .change_claim("data", 0, &other)
        .change_claim("wal", 0, &other)
        .gone(0);
    assert!(reasons(&world.plan()).contains(&"DataMissing".to_owned()));
}

#[test]
fn a_claim_that_is_being_deleted_is_reported_and_not_replaced() {
    let mut world = World::settled(3);
    world.change_claim("data", 1, &json!({"metadata": {"deletionTimestamp": "x"}}));
    let plan = world.plan();
    assert_eq!(reasons(&plan), ["ClaimEnding orders-1"]);
    assert_eq!(written(&plan), [""; 0]);
    let plan = world.gone(1).plan();
    assert_eq!(created(&plan), [""; 0]);
}

#[test]
fn a_lost_volume_is_reported_and_not_replaced() {
    let mut world = World::settled(3);
    world.change_claim("data", 1, &json!({"status": {"phase": "Lost"}}));
    let plan = world.gone(1).plan();
    assert_eq!(created(&plan), [""; 0]);
    assert_eq!(reasons(&plan), ["ClaimLost orders-1"]);
}

#[test]
fn a_claim_that_comes_back_under_its_name_is_used_again() {
    let mut world = World::settled(3);
    world.lose_claim("wal", 1).gone(1);
    assert_eq!(created(&world.plan()), [""; 0]);
    assert_eq!(created(&world.claim("wal", 1).plan()), ["Pod orders-1"]);
}

/// What a manifest that is applied again, a restore, or a create that arrives late makes of it.
fn another_claim(world: &mut World) -> &mut World {
    world
        .passed("1")
        .born_on(1, "wal", "1ca1ab1e")
        .change_claim("wal", 1, &json!({"metadata": {"uid": "0ddba11-fee1"}}))
        .gone(1)
}

#[test]
fn which_claims_a_member_was_born_on_is_written_down_with_its_birth() {
    let mut world = World::begun(1);
    world
        .member(0, "1")
        .meta(&json!({"annotations": {"ensemble.dev/born": "true"}}));
    let plan = world.plan();
    let ledger = &status(&plan).unwrap().ledger["members"];
    assert_eq!(ledger.born, "0");
    assert_eq!(ledger.claims["0"]["wal"], "0");
}

#[test]
fn a_born_member_does_not_start_on_a_claim_that_took_the_place_of_its_own() {
    let mut world = World::settled(3);
    let plan = another_claim(&mut world).plan();
    assert_eq!(created(&plan), [""; 0]);
    assert_eq!(reasons(&plan), ["ClaimReplaced orders-1"]);
    let remedy = "kubectl annotate pvc wal-orders-1 --namespace shop ensemble.dev/accepted=fee1";
    assert!(message(&plan, "ClaimReplaced").contains(remedy));
}

#[test]
fn a_claim_that_somebody_accepted_is_the_members_from_then_on() {
    let mut world = World::settled(3);
    another_claim(&mut world);
    let accepted = json!({"metadata": {"annotations": {"ensemble.dev/accepted": "fee1"}}});
    let plan = world.change_claim("wal", 1, &accepted).plan();
    assert_eq!(created(&plan), ["Pod orders-1"]);
    let ledger = &status(&plan).unwrap().ledger["members"];
    assert_eq!(ledger.claims["1"]["wal"], "fee1");
}

#[test]
fn an_acceptance_of_another_claim_does_not_count() {
    let mut world = World::settled(3);
    another_claim(&mut world);
    let stale = json!({"metadata": {"annotations": {"ensemble.dev/accepted": "1ca1ab1e"}}});
    let plan = world.change_claim("wal", 1, &stale).plan();
    assert_eq!(reasons(&plan), ["ClaimReplaced orders-1"]);
}
