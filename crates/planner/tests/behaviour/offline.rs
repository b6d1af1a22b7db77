//! The member that the user takes out: exactly that one leaves, wherever it stands, and the next ordinal
//! takes its place; put back, it returns with what it holds.

use crate::common::*;
use ensemble_planner::memory::Kind;
use serde_json::json;

fn without(mut world: World, offline: serde_json::Value) -> World {
    world.spec(&json!({"offline": offline}));
    world
}

#[test]
fn exactly_the_named_member_leaves_and_the_next_ordinal_is_created_at_once() {
    let mut world = without(World::settled(3), json!([1]));
    assert_eq!(granted(&world), ["orders-1"]);
    let plan = world.store_status().plan();
    assert_eq!(
        created_members(&plan),
        ["Claim data-orders-3", "Claim wal-orders-3"]
    );
    let step = plan
        .report
        .steps
        .iter()
        .find(|s| s.member.as_deref() == Some("orders-1"));
    assert_eq!(step.unwrap().cause, "spec.offline lists it");
    assert_eq!(world.snapshot().ensemble.status.ledger["members"].next, 4);
}

#[test]
fn ranges_are_taken_out_and_back_filled() {
    let mut world = World::settled(4);
    world.spec(&json!({"offline": [0, "2-3"], "rollout": {"maxUnavailable": 5}}));
    assert_eq!(granted(&world), ["orders-3", "orders-2", "orders-0"]);
    let created = created_members(&world.store_status().plan());
    assert_eq!(created.first().unwrap(), "Claim data-orders-4");
    assert_eq!(created.last().unwrap(), "Claim wal-orders-6");
}

#[test]
fn a_member_is_not_taken_out_while_another_is_away_beyond_the_budget() {
    let mut world = without(World::settled(3), json!([1]));
    world.unhealthy(0, NOW);
    // The back-fill that is not there yet and orders-0: two of three.
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&world.plan()).contains(&"BudgetUsed orders-1".to_owned()));
}

#[test]
fn an_offline_leader_hands_the_lead_over_before_it_leaves() {
    let world = without(World::led(3, 1), json!([1]));
    assert_eq!(granted(&world), [""; 0]);
    let plan = world.plan();
    let said = steps(&plan);
    assert!(
        said.iter().any(|s| s.starts_with("Switch orders-")),
        "{said:?}"
    );
    assert!(
        said.iter().any(|s| s == "Remove orders-1 Blocked"),
        "{said:?}"
    );
}

#[test]
fn the_last_replica_in_sync_is_not_taken_out() {
    let mut world = World::led(3, 0);
    world.but(0, |s| {
        s.attached.remove("orders-2");
    });
    let world = without(world, json!([1]));
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&world.plan()).contains(&"LastInSync orders-1".to_owned()));
}

#[test]
fn put_back_a_member_returns_on_its_own_claims_and_its_stand_in_leaves() {
    let mut world = World::settled(4);
    world
        .spec(&json!({"replicas": 3, "offline": [1]}))
        .fit_budget();
    world.gone(1).store_status();
    assert_quiet(&world.plan());
    world.spec(&json!({"offline": []}));
    let plan = world.plan();
    assert_eq!(created_members(&plan), ["Pod orders-1"]);
    let pod = body(&plan, Kind::Pod, "orders-1");
    assert_eq!(pod["metadata"]["labels"]["ensemble.dev/incarnation"], "0");
    assert_eq!(granted(&world), ["orders-3"]);
}

#[test]
fn the_claims_of_an_offline_member_are_kept_whatever_policy_says() {
    let mut world = World::settled(4);
    world
        .spec(&json!({"replicas": 3, "offline": [1], "storage": {"whenScaled": "Delete"}}))
        .gone(1);
    for _ in 0..3 {
        assert!(world.plan().lettings.is_empty());
        world.store_status();
    }
    let status = world.snapshot().ensemble.status;
    assert!(status.let_go.is_empty());
    assert_eq!(status.ledger["members"].incarnations.get("1"), None);
}

#[test]
fn a_lost_status_takes_nobody_back_who_is_offline() {
    let mut world = World::settled(4);
    world.spec(&json!({"replicas": 3, "offline": [1]})).gone(1);
    world.lose_status().store_status();
    assert_eq!(created_members(&world.plan()), [""; 0]);
    let ledger = &world.snapshot().ensemble.status.ledger["members"];
    assert_eq!((ledger.next, ledger.born.as_str()), (4, "0-3"));
}

#[test]
fn an_entry_that_cannot_be_read_takes_nobody_out() {
    let world = without(World::settled(3), json!(["2-1", -4]));
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(created_members(&world.plan()), [""; 0]);
}

#[test]
fn whoever_names_an_offline_member_is_told_that_it_is() {
    let mut world = World::settled(3);
    world.spec(&json!({"offline": [1]}));
    let snap = world.snapshot();
    let cast = ensemble_planner::cast::Cast::of(&snap);
    assert_eq!(
        cast.roster().asked_for("orders-1").unwrap_err(),
        "orders-1 is offline: spec.offline lists it; its members are orders-0, orders-2, orders-3"
    );
}

#[test]
fn members_wait_for_a_primary_that_is_offline_and_say_how_to_bring_it_back() {
    let mut world = World::led(3, 1);
    world.spec(&json!({"offline": [1]}));
    world.gone(0).gone(1).gone(2).passed("1").store_status();
    let plan = world.plan();
    assert_eq!(
        created(&plan)
            .iter()
            .filter(|c| c.starts_with("Pod"))
            .count(),
        0
    );
    let blocked = plan.report.steps.iter().filter_map(|s| s.blocker.as_ref());
    let left_out: Vec<_> = blocked
        .filter(|b| b.reason == ensemble_api::Reason::PrimaryLeftOut)
        .collect();
    assert!(left_out[0].message.contains("spec.offline lists it"));
    assert_eq!(
        left_out[0].next_command,
        "kubectl edit ensemble orders -n shop"
    );
}
