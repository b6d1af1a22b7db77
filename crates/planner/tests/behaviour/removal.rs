//! A member that a person has removed for good, at once or once another has taken its place.

use crate::common::*;
use ensemble_planner::memory::Kind;
use ensemble_planner::{Plan, Write};
use serde_json::{Value, json};

fn ask(world: &mut World, spec: Value) -> &mut World {
    let mut object = json!({
        "metadata": {"name": "ask", "namespace": "shop", "uid": "r-1", "resourceVersion": "1"},
        "spec": spec,
    });
    object["spec"]["ensemble"] = "orders".into();
    world.requests.insert("ask".into(), object);
    world
}

fn remove(world: &mut World, member: &str, keep: bool) {
    let wanted = json!({"member": member, "keepVolumes": keep});
    ask(world, json!({"remove": wanted}));
}

fn replace(world: &mut World, member: &str) {
    ask(world, json!({"replace": {"member": member}}));
}

/// The answer to the request, in words.
fn answer(plan: &Plan) -> Option<String> {
    plan.writes.iter().find_map(|write| match write {
        Write::Answer { body, .. } => {
            let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
            Some(format!("{}: {}", text("outcome"), text("message")))
        }
        _ => None,
    })
}

/// Everything that a plan writes on claims has come about.
fn mark_claims(world: &mut World, plan: &Plan) {
    for write in &plan.writes {
        if let Write::Patch {
            kind: Kind::Claim,
            pin,
            body,
        } = write
        {
            let claim = world.claims.get_mut(&pin.name).unwrap();
            claim["metadata"]["annotations"] = body["metadata"]["annotations"].clone();
        }
    }
}

fn ledger(world: &World) -> ensemble_api::status::Ledger {
    world.snapshot().ensemble.status.ledger["members"].clone()
}

#[test]
fn it_is_written_down_first_then_leaves_and_the_next_ordinal_takes_its_place() {
    let mut world = World::settled(3);
    remove(&mut world, "orders-1", false);
    assert_eq!(granted(&world), [""; 0]);
    world.store_status();
    assert_eq!(ledger(&world).retired, "1");
    assert_eq!(granted(&world), ["orders-1"]);
    let plan = world.plan();
    let step = |s: &&ensemble_api::Step| s.member.as_deref() == Some("orders-1");
    let step = plan.report.steps.iter().find(step).unwrap();
    assert_eq!(step.cause, "removed by request");
    world.store_status();
    let created = created_members(&world.plan());
    assert_eq!(created, ["Claim data-orders-3", "Claim wal-orders-3"]);
    assert_eq!(answer(&world.plan()), None);
}

#[test]
fn its_claims_say_that_it_was_removed_and_then_it_is_answered_once_it_is_gone() {
    let mut world = World::settled(3);
    remove(&mut world, "orders-1", true);
    world.store_status().gone(1);
    let plan = world.plan();
    assert_eq!(answer(&plan), None);
    mark_claims(&mut world, &plan);
    let mark = &world.claims["data-orders-1"]["metadata"]["annotations"]["ensemble.dev/retired"];
    assert_eq!(mark, "keep");
    let said = answer(&world.plan()).unwrap();
    assert_eq!(
        said,
        "Done: orders-1 was removed; the members are orders-0, orders-2, orders-3"
    );
}

#[test]
fn a_lost_status_takes_nobody_back_whose_claims_say_that_it_was_removed() {
    let mut world = World::settled(4);
    world.spec(&json!({"replicas": 3})).gone(1);
    for claim in ["data", "wal"] {
        let mark = json!({"ensemble.dev/retired": "keep"});
        world.change_claim(claim, 1, &json!({"metadata": {"annotations": mark}}));
    }
    world.lose_status().store_status();
    assert_eq!(created_members(&world.plan()), [""; 0]);
    assert_eq!(
        (ledger(&world).retired, ledger(&world).kept),
        ("1".into(), "1".into())
    );
}

#[test]
fn volumes_follow_when_scaled_unless_they_are_to_be_kept() {
    for keep in [false, true] {
        let mut world = World::settled(3);
        world.spec(&json!({"storage": {"whenScaled": "Delete"}}));
        remove(&mut world, "orders-1", keep);
        world.store_status().gone(1).store_status();
        let let_go = world.snapshot().ensemble.status.let_go;
        assert_eq!(let_go.is_empty(), keep, "{let_go:?}");
    }
}

#[test]
fn an_ordinal_that_was_removed_is_never_used_again() {
    let mut world = World::settled(4);
    world.spec(&json!({"replicas": 3})).gone(1);
    world.ensemble["status"]["ledger"]["members"]["retired"] = "1".into();
    world.store_status();
    world.spec(&json!({"replicas": 5})).store_status();
    let created = created_members(&world.plan());
    assert_eq!(
        created,
        [
            "Claim data-orders-4",
            "Claim wal-orders-4",
            "Claim data-orders-5",
            "Claim wal-orders-5"
        ]
    );
}

#[test]
fn the_last_replica_in_sync_is_not_removed_and_replacing_it_is_named() {
    let mut world = World::led(3, 0);
    world.but(0, |s| {
        s.attached.remove("orders-2");
    });
    remove(&mut world, "orders-1", false);
    let said = answer(&world.plan()).unwrap();
    assert!(
        said.starts_with("Refused: copies-left is false: orders-1 is the last replica"),
        "{said}"
    );
    assert!(
        said.contains("`ensemble replace orders orders-1 -n shop`"),
        "{said}"
    );
    world.store_status();
    assert_eq!(ledger(&world).retired, "");
}

#[test]
fn a_leader_without_a_successor_is_not_removed_and_one_with_hands_over_first() {
    let mut world = World::led(3, 1);
    world.but(1, |s| s.attached.clear());
    remove(&mut world, "orders-1", false);
    let said = answer(&world.plan()).unwrap();
    assert!(
        said.starts_with("Refused: primary-handed-over is false: no replica"),
        "{said}"
    );
    let mut world = World::led(3, 1);
    remove(&mut world, "orders-1", false);
    world.store_status();
    assert_eq!(ledger(&world).retired, "1");
    assert_eq!(granted(&world), [""; 0]);
    let said = steps(&world.plan());
    assert!(
        said.iter().any(|s| s.starts_with("Switch orders-")),
        "{said:?}"
    );
}

#[test]
fn nobody_is_removed_below_the_least_number_of_members() {
    let mut world = World::settled(3);
    world.spec(&json!({"scaling": {"min": 3}}));
    remove(&mut world, "orders-1", false);
    let said = answer(&world.plan()).unwrap();
    assert!(
        said.starts_with("Refused: minimum-kept is false: 2 members serve without orders-1"),
        "{said}"
    );
    // One that does not serve is missed already.
    world.waiting(1, "CrashLoopBackOff");
    world.store_status();
    assert_eq!(ledger(&world).retired, "1");
}

#[test]
fn a_name_that_is_no_members_is_refused_with_those_there_are() {
    for spec in [
        json!({"remove": {"member": "orders-7"}}),
        json!({"replace": {"member": "orders-7"}}),
    ] {
        let mut world = World::settled(3);
        ask(&mut world, spec);
        let said = answer(&world.plan()).unwrap();
        assert_eq!(
            said,
            "Refused: orders-7 is no member of orders; its members are orders-0 to orders-2"
        );
        assert_eq!(created_members(&world.store_status().plan()), [""; 0]);
    }
}

#[test]
fn a_member_is_replaced_once_its_successor_serves_and_not_before() {
    let mut world = World::settled(3);
    replace(&mut world, "orders-1");
    world.store_status();
    assert_eq!(ledger(&world).retired, "");
    assert_eq!(granted(&world), [""; 0]);
    let created = created_members(&world.plan());
    assert_eq!(created, ["Claim data-orders-3", "Claim wal-orders-3"]);
    world.member(3, "1");
    world.store_status();
    assert_eq!(ledger(&world).retired, "1");
    assert_eq!(granted(&world), ["orders-1"]);
    let plan = world.gone(1).plan();
    mark_claims(&mut world, &plan);
    assert!(
        answer(&world.plan())
            .unwrap()
            .starts_with("Done: orders-1 was removed")
    );
}

#[test]
fn a_replacement_whose_request_is_deleted_is_called_off() {
    let mut world = World::settled(3);
    replace(&mut world, "orders-1");
    world.store_status().member(3, "1");
    world.unhealthy(3, NOW).store_status();
    world.requests.clear();
    assert_eq!(granted(&world), ["orders-3"]);
    assert_eq!(ledger(&world).retired, "");
}

#[test]
fn budgets_are_those_of_the_spec_while_a_member_is_replaced() {
    let mut world = World::settled(3);
    replace(&mut world, "orders-1");
    let plan = world.plan();
    assert!(
        written(&plan).iter().all(|w| !w.contains("Budget")),
        "{:?}",
        written(&plan)
    );
}

#[test]
fn an_offline_member_is_removed_without_a_look_at_those_that_run() {
    let mut world = World::settled(4);
    world.spec(&json!({"replicas": 3, "offline": [1]})).gone(1);
    remove(&mut world, "orders-1", false);
    world.store_status();
    assert_eq!(ledger(&world).retired, "1");
    replace(&mut world, "orders-2");
    world.spec(&json!({"offline": [2]}));
    let said = answer(&world.plan()).unwrap();
    assert!(
        said.contains("`ensemble remove orders orders-2 -n shop`"),
        "{said}"
    );
}

#[test]
fn while_nobody_leads_the_claims_of_a_member_without_a_pod_are_not_given_up() {
    let mut world = World::led(3, 0);
    world.gone(0).gone(1).gone(2);
    remove(&mut world, "orders-0", false);
    let said = answer(&world.plan()).unwrap();
    assert!(said.starts_with("Refused: role-known is false"), "{said}");
}

#[test]
fn no_member_of_an_engine_with_a_fixed_list_of_members_is_removed_or_replaced() {
    let mut world = World::led(3, 0);
    world.store_status();
    for ask in [
        json!({"remove": {"member": "orders-1"}}),
        json!({"replace": {"member": "orders-1"}}),
    ] {
        self::ask(&mut world, ask);
        let mut snap = world.snapshot();
        snap.abilities.members_fixed = true;
        let said = answer(&ensemble_planner::plan(&snap)).unwrap();
        assert!(
            said.starts_with("Refused: Ensemble cannot add or remove"),
            "{said}"
        );
    }
}
