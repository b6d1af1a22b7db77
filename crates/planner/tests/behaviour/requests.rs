//! A request to rebuild members is written down, then answered, then carried out.

use crate::common::*;
use ensemble_planner::memory::Kind;
use serde_json::json;

/// orders-1 has lost a claim, and its pod.
fn incomplete() -> World {
    let mut world = World::settled(3);
    world.lose_claim("wal", 1).gone(1);
    world
}

fn answer(world: &World, name: &str) -> (String, String) {
    let body = body(&world.plan(), Kind::Request, name);
    let text = |field: &str| body[field].as_str().unwrap().to_owned();
    (text("outcome"), text("message"))
}

fn finish(world: &mut World, name: &str) {
    let status = body(&world.plan(), Kind::Request, name);
    world.requests.get_mut(name).unwrap()["status"] = status;
}

#[test]
fn without_accepting_the_loss_a_rebuild_is_refused() {
    let mut world = incomplete();
    world.request("r", &["orders-1"], false);
    let (outcome, message) = answer(&world, "r");
    assert_eq!(outcome, "Refused");
    assert!(message.contains("spec.rebuild.acceptDataLoss must be true"));
    assert!(
        world
            .store_status()
            .snapshot()
            .ensemble
            .status
            .let_go
            .is_empty()
    );
}

#[test]
fn a_member_with_all_its_claims_is_not_rebuilt() {
    let mut world = incomplete();
    world.request("r", &["orders-1", "orders-0"], true);
    let (outcome, message) = answer(&world, "r");
    assert_eq!(outcome, "Refused");
    assert!(message.contains("orders-0 has all its claims"));
    let incarnations =
        &world.store_status().snapshot().ensemble.status.ledger["members"].incarnations;
    assert!(incarnations.is_empty());
}

#[test]
fn a_stranger_is_not_rebuilt_and_the_answer_says_who_could_be() {
    for stranger in ["orders-3", "orders-01", "other-0", "orders"] {
        let mut world = incomplete();
        world.request("r", &[stranger], true);
        let (outcome, message) = answer(&world, "r");
        assert_eq!(outcome, "Refused");
        assert!(message.contains("orders-0 to orders-2"), "{message}");
    }
}

#[test]
fn a_rebuild_is_written_down_then_answered_then_begun() {
    let mut world = incomplete();
    world.request("r", &["orders-1"], true);
    let plan = world.plan();
    assert_eq!(
        written(&plan),
        [""; 0],
        "not answered before it is written down"
    );
    let stored = status(&plan).unwrap();
    assert_eq!(stored.ledger["members"].incarnations["1"], 1);
    assert_eq!(stored.ledger["members"].born, "0,2");
    assert_eq!(stored.let_go[0].claim, "data-orders-1");
    assert_eq!(stored.let_go[0].consent, "request r");

    world.store_status();
    let plan = world.plan();
    assert_eq!(written(&plan), ["Answer r"]);
    assert_eq!(let_go(&plan), ["data-orders-1"]);
    assert_eq!(answer(&world, "r").0, "Done");

    world.lose_claim("data", 1).store_status();
    assert_eq!(
        written(&world.plan()),
        ["Answer r"],
        "not begun before the answer is seen"
    );
    finish(&mut world, "r");
    let plan = world.plan();
    assert_eq!(
        created(&plan),
        ["Claim data-orders-1", "Claim wal-orders-1"]
    );
    let claim = body(&plan, Kind::Claim, "wal-orders-1");
    assert_eq!(claim["metadata"]["labels"]["ensemble.dev/incarnation"], "1");
}

#[test]
fn a_rebuild_that_is_planned_again_counts_one_life() {
    let mut world = incomplete();
    world.request("r", &["orders-1", "orders-1"], true);
    for _ in 0..4 {
        world.store_status();
    }
    let status = world.snapshot().ensemble.status;
    assert_eq!(status.ledger["members"].incarnations["1"], 1);
    assert_eq!(status.let_go.len(), 1);
}

#[test]
fn two_requests_for_one_member_give_it_one_life() {
    let mut world = incomplete();
    world
        .request("r", &["orders-1"], true)
        .request("s", &["orders-1"], true)
        .store_status();
    assert_eq!(written(&world.plan()), ["Answer r", "Answer s"]);
    let status = world.snapshot().ensemble.status;
    assert_eq!(status.ledger["members"].incarnations["1"], 1);
}

#[test]
fn missing_data_is_given_up_only_for_all_members() {
    let mut world = World::settled(2);
    world.claims.clear();
    world
        .passed("1")
        .gone(0)
        .gone(1)
        .request("r", &["orders-0"], true)
        .store_status();
    finish(&mut world, "r");
    assert_eq!(created(&world.plan()), [""; 0]);
    world.request("s", &["orders-1"], true).store_status();
    finish(&mut world, "s");
    let plan = world.plan();
    assert_eq!(created(&plan).len(), 4);
    assert_eq!(reasons(&plan), [""; 0]);
}

#[test]
fn missing_data_is_given_up_also_when_only_the_mark_remembers() {
    let mut world = World::settled(2);
    world.claims.clear();
    world
        .gone(0)
        .gone(1)
        .lose_status()
        .store_status()
        .passed("1");
    assert_eq!(created(&world.plan()), [""; 0]);
    world
        .request("r", &["orders-0", "orders-1"], true)
        .store_status();
    finish(&mut world, "r");
    assert_eq!(created_members(&world.plan()).len(), 4);
}

#[test]
fn a_member_that_still_runs_starts_anew_once_its_last_pod_is_gone() {
    let mut world = World::settled(3);
    world
        .lose_claim("wal", 1)
        .request("r", &["orders-1"], true)
        .store_status();
    finish(&mut world, "r");
    assert_eq!(
        world.snapshot().ensemble.status.ledger["members"].born,
        "0,2"
    );
    assert_eq!(granted(&world), ["orders-1"]);
    assert!(world.plan().lettings.is_empty(), "its pod still uses them");
    world.gone(1).store_status();
    assert_eq!(let_go(&world.plan()), ["data-orders-1"]);
    world.lose_claim("data", 1).store_status();
    assert_eq!(
        created(&world.plan()),
        ["Claim data-orders-1", "Claim wal-orders-1"]
    );
}

#[test]
fn a_finished_request_is_discarded_when_its_time_is_over() {
    let mut world = World::settled(1);
    world.request("r", &["orders-0"], true);
    let stamp = ensemble_planner::Time(NOW).stamp();
    let request = world.requests.get_mut("r").unwrap();
    request["spec"]["ttlSecondsAfterFinished"] = 100.into();
    request["status"] = json!({"outcome": "Done", "finishedAt": stamp});
    let plan = world.plan();
    assert_eq!(written(&plan), [""; 0]);
    assert_eq!(plan.wake_at, Some(ensemble_planner::Time(NOW + 100_000)));
    assert_eq!(written(&world.after(100).plan()), ["Discard Request r"]);
    world.requests.get_mut("r").unwrap()["metadata"]["deletionTimestamp"] = "x".into();
    assert_quiet(&world.plan());
}
