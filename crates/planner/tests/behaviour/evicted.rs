//! Members that live although a budget counts them as evicted.

use crate::common::*;
use ensemble_api::Reason;
use ensemble_planner::memory::{Kind, Miscount};
use ensemble_planner::{Plan, Time, Write};
use serde_json::json;

const ENTRY: &str = "2026-11-16T00:19:50Z";

/// A budget counts a pod as evicted, and both have been seen so for that long.
fn count(world: &mut World, budget: &str, pod: &str, seconds: i64) {
    let object = world.budgets.get_mut(budget).unwrap();
    object["status"]["disruptionsAllowed"] = 0.into();
    object["status"]["disruptedPods"][pod] = ENTRY.into();
    let uid = world.pods[pod]["metadata"]["uid"].as_str().unwrap();
    let miscount = Miscount {
        uid: uid.to_owned(),
        entry: ENTRY.to_owned(),
        since: Time(NOW - seconds * 1000),
    };
    let key = (budget.to_owned(), pod.to_owned());
    world.memory.miscounted.insert(key, miscount);
}

/// Three members serve, and the last of them counts as evicted.
fn counted(seconds: i64) -> World {
    let mut world = World::settled(3);
    count(&mut world, "orders-members", "orders-2", seconds);
    world
}

/// Whom a plan takes back, and in which budget.
fn taken_back(plan: &Plan) -> Vec<String> {
    let words = |w: &Write| match w {
        Write::Uncount { budget, pods } => Some(format!("{}: {}", budget.name, pods.join(" "))),
        _ => None,
    };
    plan.writes.iter().filter_map(words).collect()
}

#[test]
fn a_member_that_lives_on_is_no_longer_counted_as_evicted_after_three_seconds() {
    let mut world = counted(0);
    let plan = world.plan();
    assert!(taken_back(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(Time(NOW + 3_000)));
    assert!(taken_back(&world.after(2).plan()).is_empty());
    assert_eq!(
        taken_back(&world.after(1).plan()),
        ["orders-members: orders-2"]
    );
}

#[test]
fn several_members_are_taken_back_in_one_write() {
    let mut world = counted(3);
    count(&mut world, "orders-members", "orders-0", 4);
    let both = ["orders-members: orders-0 orders-2"];
    assert_eq!(taken_back(&world.plan()), both);
}

#[test]
fn a_member_that_is_ending_was_rightly_counted() {
    let mut world = counted(10);
    world.leaving(2, 1);
    assert!(taken_back(&world.plan()).is_empty());
    assert!(taken_back(&world.gone(2).plan()).is_empty());
}

#[test]
fn another_pod_or_another_entry_is_looked_at_from_the_beginning() {
    let mut successor = counted(10);
    successor.pod(2, &json!({"metadata": {"uid": "another"}}));
    let mut again = counted(10);
    let budget = again.budgets.get_mut("orders-members").unwrap();
    budget["status"]["disruptedPods"]["orders-2"] = "2026-11-16T00:19:59Z".into();
    let mut forgotten = counted(10);
    forgotten.memory.miscounted.clear();
    for world in [successor, again, forgotten] {
        let plan = world.plan();
        assert!(taken_back(&plan).is_empty());
        assert_eq!(plan.wake_at, Some(Time(NOW + 3_000)));
    }
}

#[test]
fn somebody_elses_budget_is_left_as_it_is() {
    let owners = [
        json!(null),
        json!([{"uid": "somebody", "controller": true}]),
        // One among several that look after it.
        json!([{"uid": "ens", "controller": false}]),
    ];
    for owner in owners {
        let mut world = World::settled(3);
        let budget = json!({"metadata": {"name": "theirs", "uid": "theirs", "ownerReferences": owner},
                            "spec": {"minAvailable": 2, "selector": {}}, "status": {}});
        world.budgets.clear();
        world.budgets.insert("theirs".into(), budget);
        count(&mut world, "theirs", "orders-2", 60);
        assert!(taken_back(&world.plan()).is_empty(), "{owner}");
    }
}

#[test]
fn a_pod_that_is_not_ours_is_left_counted() {
    let mut world = counted(60);
    let owner = json!([{"uid": "somebody", "controller": true}]);
    world.pod(2, &json!({"metadata": {"ownerReferences": owner}}));
    assert!(taken_back(&world.plan()).is_empty());
    let mut world = World::settled(3);
    let helper = world.pods["orders-2"].clone();
    world.pods.insert("orders-helper".into(), helper);
    count(&mut world, "orders-members", "orders-helper", 60);
    assert!(taken_back(&world.plan()).is_empty());
}

#[test]
fn a_write_that_was_refused_is_not_repeated_at_once_and_is_named_in_the_end() {
    let mut world = counted(10);
    let key = ensemble_planner::write::uncount_key("orders-members");
    world.failure(key.0, &key.1, Reason::ApiRefused);
    assert!(taken_back(&world.plan()).is_empty());
    assert_eq!(world.plan().wake_at, Some(Time(NOW + 1_000)));
    world.memory.failures.get_mut(&key).unwrap().tries = 3;
    assert_eq!(reasons(&world.plan()), ["ApiRefused"]);
}

#[test]
fn a_budget_is_kept_in_order_also_while_an_entry_cannot_be_taken_back() {
    let mut world = counted(10);
    let key = ensemble_planner::write::uncount_key("orders-members");
    world.failure(key.0, &key.1, Reason::ApiRefused);
    world.spec(&json!({"rollout": {"maxUnavailable": 2}}));
    let patch = body(&world.plan(), Kind::Budget, "orders-members");
    assert_eq!(patch["spec"]["minAvailable"], 1);
}

/// What is said of a refused eviction.
fn said(mut world: World) -> String {
    world
        .prepared("2")
        .failure(Kind::Pod, "orders-1", Reason::EvictionRefused)
        .updated(2, "2");
    let plan = world.plan();
    let (step, blocker) = plan.report.first_blocked().unwrap();
    assert_eq!(step.member.as_deref(), Some("orders-1"));
    blocker.message.clone()
}

#[test]
fn a_refused_eviction_names_who_counts_as_evicted_in_which_budget_and_for_how_long() {
    let mut world = counted(1);
    let ours = world.budgets.get_mut("orders-members").unwrap();
    // Long gone: that is in order.
    ours["status"]["disruptedPods"]["orders-9"] = ENTRY.into();
    let words = "; budget orders-members counts orders-2 as evicted since 2026-11-16T00:19:50Z \
                 although it runs, which is taken back in a few seconds";
    let message = said(world);
    assert!(message.ends_with(words), "{message}");

    let mut world = counted(1);
    let mut theirs = world.budgets.remove("orders-members").unwrap();
    theirs["metadata"] = json!({"name": "theirs"});
    world.budgets.insert("theirs".into(), theirs);
    let words = "; budget theirs counts orders-2 as evicted since 2026-11-16T00:19:50Z \
                 although it runs, which Kubernetes forgets after two minutes";
    let message = said(world);
    assert!(message.ends_with(words), "{message}");
}

#[test]
fn a_refused_eviction_that_is_asked_for_again_is_still_said_to_be_refused() {
    let mut world = counted(1);
    world.prepared("2").intent(2, "Recreate", 7).failure(
        Kind::Pod,
        "orders-2",
        Reason::EvictionRefused,
    );
    let plan = world.after(1).plan();
    assert!(reasons(&plan).contains(&"EvictionRefused orders-2".to_owned()));
}
