//! Scaled: up at once; down from the highest ordinal, within the budget; claims follow
//! `storage.whenScaled`.

use crate::common::*;
use ensemble_api::Reason;
use ensemble_planner::memory::Kind;
use serde_json::json;

fn scaled(from: u32, to: u32) -> World {
    let mut world = World::settled(from);
    world.spec(&json!({"replicas": to})).fit_budget();
    world
}

#[test]
fn scaling_out_raises_the_ledger_then_creates_all_at_once() {
    let mut world = scaled(3, 6);
    let plan = world.plan();
    assert_eq!(created_members(&plan), [""; 0]);
    assert_eq!(status(&plan).unwrap().ledger["members"].next, 6);
    let created = created_members(&world.store_status().plan());
    assert_eq!(created.len(), 6);
    assert!(created.contains(&"Claim wal-orders-5".to_owned()));
}

#[test]
fn scaling_in_takes_the_highest_first_within_the_budget() {
    let mut world = scaled(5, 2);
    assert_eq!(granted(&world), ["orders-4"]);
    let plan = world.plan();
    let wanted = [
        "Remove orders-4 Running",
        "Remove orders-3 Blocked",
        "Remove orders-2 Idle",
    ];
    assert_eq!(steps(&plan), wanted);
    world.spec(&json!({"rollout": {"maxUnavailable": 2}}));
    assert_eq!(granted(&world), ["orders-4", "orders-3"]);
}

#[test]
fn those_that_are_leaving_count() {
    let mut world = scaled(5, 2);
    assert_eq!(granted(world.leaving(4, 1)), [""; 0]);
    assert_eq!(granted(world.gone(4)), ["orders-3"]);
}

#[test]
fn scaling_in_waits_while_too_many_members_are_unavailable() {
    let mut world = scaled(4, 3);
    world.unhealthy(0, NOW).unhealthy(1, NOW);
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&world.plan()).contains(&"BudgetUsed orders-3".to_owned()));
}

#[test]
fn a_superfluous_member_that_is_down_goes_at_once() {
    let mut world = scaled(4, 3);
    world
        .unhealthy(0, NOW)
        .unhealthy(1, NOW)
        .waiting(3, "CrashLoopBackOff");
    assert_eq!(granted(&world), ["orders-3"]);
}

#[test]
fn scaling_to_zero_removes_everybody_and_is_then_ready() {
    let mut world = scaled(2, 0);
    world.spec(&json!({"rollout": {"maxUnavailable": 5}}));
    assert_eq!(granted(&world), ["orders-1", "orders-0"]);
    world.gone(0).gone(1).store_status();
    let status = world.snapshot().ensemble.status;
    assert_eq!(status.condition("Ready").unwrap().status, "True");
    assert_eq!(status.summary.ready, "0/0");
}

#[test]
fn retained_claims_are_never_let_go_and_taken_up_again() {
    let mut world = scaled(3, 2);
    world.gone(2).store_status();
    let plan = world.plan();
    assert!(plan.lettings.is_empty() && world.snapshot().ensemble.status.let_go.is_empty());
    world.spec(&json!({"replicas": 3}));
    let plan = world.plan();
    assert_eq!(created_members(&plan), ["Pod orders-2"]);
    let pod = body(&plan, Kind::Pod, "orders-2");
    assert_eq!(pod["metadata"]["labels"]["ensemble.dev/incarnation"], "0");
}

fn scaled_with_delete() -> World {
    let mut world = scaled(3, 2);
    world.spec(&json!({"storage": {"whenScaled": "Delete"}}));
    world
}

#[test]
fn claims_are_not_let_go_while_their_pod_is_there() {
    let mut world = scaled_with_delete();
    for _ in 0..3 {
        let plan = world.plan();
        assert!(plan.lettings.is_empty());
        world.store_status();
    }
    assert!(world.snapshot().ensemble.status.let_go.is_empty());
    world.leaving(2, 1).store_status();
    assert!(world.snapshot().ensemble.status.let_go.is_empty());
}

#[test]
fn deleted_claims_are_written_down_first_with_a_new_life_then_let_go() {
    let mut world = scaled_with_delete();
    let plan = world.gone(2).plan();
    assert!(plan.lettings.is_empty());
    let stored = status(&plan).unwrap();
    assert_eq!(stored.ledger["members"].incarnations["2"], 1);
    assert_eq!(stored.ledger["members"].born, "0-1");
    let uids: Vec<&str> = stored.let_go.iter().map(|l| l.uid.as_str()).collect();
    assert_eq!(uids, ["data-2", "wal-2"]);
    assert!(
        stored
            .let_go
            .iter()
            .all(|l| l.consent == "storage.whenScaled")
    );
    let plan = world.store_status().plan();
    assert_eq!(let_go(&plan), ["data-orders-2", "wal-orders-2"]);
}

#[test]
fn only_the_claim_that_was_written_down_is_let_go() {
    let mut world = scaled_with_delete();
    world.gone(2).store_status();
    world.change_claim("data", 2, &json!({"metadata": {"uid": "another"}}));
    assert_eq!(let_go(&world.plan()), ["wal-orders-2"]);
}

#[test]
fn a_claim_that_is_already_going_is_not_deleted_twice() {
    let mut world = scaled_with_delete();
    world.gone(2).store_status();
    world.change_claim("data", 2, &json!({"metadata": {"deletionTimestamp": "x"}}));
    assert_eq!(let_go(&world.plan()), ["wal-orders-2"]);
}

#[test]
fn what_is_gone_is_forgotten_and_the_life_counted_once() {
    let mut world = scaled_with_delete();
    world.gone(2).store_status().store_status();
    world
        .lose_claim("data", 2)
        .store_status()
        .lose_claim("wal", 2)
        .store_status();
    let status = world.snapshot().ensemble.status;
    assert!(status.let_go.is_empty());
    assert_eq!(status.ledger["members"].incarnations["2"], 1);
    assert!(world.plan().writes.is_empty());
}

#[test]
fn scaled_out_again_a_member_waits_for_its_old_claims_to_go_then_starts_anew() {
    let mut world = scaled_with_delete();
    world
        .gone(2)
        .store_status()
        .spec(&json!({"replicas": 3}))
        .store_status();
    let plan = world.plan();
    assert_eq!(created_members(&plan), [""; 0]);
    assert!(reasons(&plan).contains(&"Terminating orders-2".to_owned()));
    assert_eq!(let_go(&plan), ["data-orders-2", "wal-orders-2"]);
    world
        .lose_claim("data", 2)
        .lose_claim("wal", 2)
        .store_status();
    let plan = world.plan();
    assert_eq!(
        created_members(&plan),
        ["Claim data-orders-2", "Claim wal-orders-2"]
    );
    let claim = body(&plan, Kind::Claim, "data-orders-2");
    assert_eq!(claim["metadata"]["labels"]["ensemble.dev/incarnation"], "1");
}

#[test]
fn claims_of_members_that_are_asked_for_are_never_let_go() {
    let mut world = World::settled(3);
    world
        .spec(&json!({"storage": {"whenScaled": "Delete"}}))
        .gone(0)
        .gone(2);
    for _ in 0..3 {
        assert!(world.plan().lettings.is_empty());
        world.store_status();
    }
    assert!(world.snapshot().ensemble.status.let_go.is_empty());
}

#[test]
fn a_request_of_the_status_alone_lets_no_claim_go_that_a_pod_uses() {
    let mut world = World::settled(3);
    world.ensemble["status"]["letGo"] =
        json!([{"claim": "data-orders-1", "uid": "data-1", "consent": "storage.whenScaled"}]);
    assert!(world.plan().lettings.is_empty());
}

#[test]
fn a_claim_whose_deletion_has_just_failed_is_not_let_go_again_at_once() {
    let mut world = scaled_with_delete();
    world.gone(2).store_status();
    assert_eq!(let_go(&world.plan()).len(), 2);
    world.failure(Kind::Claim, "data-orders-2", Reason::Conflict);
    let plan = world.plan();
    assert_eq!(let_go(&plan).len(), 1);
    let retry = world.memory.failures[&(Kind::Claim, "data-orders-2".to_owned())].retry_at;
    assert!(plan.wake_at.is_some_and(|at| at <= retry));
}
