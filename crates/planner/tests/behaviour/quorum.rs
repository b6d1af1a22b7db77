//! Members that vote, by an engine of the test's own.

use crate::common::*;
use ensemble_api::{Reason, Rule};
use serde_json::json;

#[test]
fn a_voter_is_not_touched_while_too_few_others_are_there() {
    // The budget would allow all of them.
    let mut world = World::voting(5);
    world.spec(&json!({"rollout": {"maxUnavailable": 5}}));
    world.prepared("2");
    assert_eq!(granted(&world), ["orders-4", "orders-3"]);
    let report = world.plan().report;
    let blocked = report
        .steps
        .iter()
        .find_map(|s| s.blocker.as_ref())
        .unwrap();
    assert_eq!(blocked.reason, Reason::QuorumAtRisk);
    assert_eq!(
        (blocked.observed.as_str(), blocked.limit.as_str()),
        (
            "2 of 5 voters are there without orders-2; missing: orders-3, orders-4",
            "3 needed"
        )
    );
}

#[test]
fn a_voter_that_is_down_is_missed_already() {
    let mut world = World::voting(3);
    world.prepared("2").ended(2, "Failed").unhealthy(1, NOW);
    // Without it there is only one, and there was only one before.
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn of_two_voters_one_may_be_touched_while_the_other_is_there() {
    let mut world = World::voting(2);
    world.prepared("2");
    assert_eq!(granted(&world), ["orders-1"]);
    world.unhealthy(0, NOW);
    assert!(granted(&world).is_empty());
}

#[test]
fn what_touches_no_engine_costs_no_voter() {
    let mut world = World::voting(3);
    world.unhealthy(1, NOW);
    world.spec(&json!({"template": {"metadata": {"labels": {"tier": "gold"}}}}));
    let refusals = world.plan().report;
    let at_risk = |s: &ensemble_api::Step| {
        let blocker = s.blocker.as_ref();
        blocker.is_some_and(|b| b.reason == Reason::QuorumAtRisk)
    };
    assert!(!refusals.steps.iter().any(at_risk));
}

#[test]
fn the_report_has_voters_needed_and_present() {
    let mut world = World::voting(3);
    let row = |world: &World| {
        let rules = world.plan().report.predicates;
        let row = rules.iter().find(|r| r.name == Rule::QuorumHolds.as_str());
        row.map(|r| (r.holds, r.observed.clone(), r.limit.clone()))
    };
    let all = (true, "3 of 3 voters are there".into(), "2 needed".into());
    assert_eq!(row(&world), Some(all));
    world.unhealthy(1, NOW).unhealthy(2, NOW);
    let few = (false, "1 of 3 voters are there".into(), "2 needed".into());
    assert_eq!(row(&world), Some(few));
    assert_eq!(row(&World::led(3, 0)), None);
}

#[test]
fn a_budget_of_voters_keeps_a_majority_whatever_may_be_unavailable() {
    for (replicas, unavailable, kept) in [
        (3, 1, vec![2]),
        (3, 3, vec![2]),
        (5, 1, vec![4]),
        (5, 4, vec![3]),
        // One of two is too many already, and a drain has to end.
        (2, 1, vec![1]),
        (1, 1, vec![]),
    ] {
        let mut world = World::new(replicas);
        let rollout = json!({"maxUnavailable": unavailable});
        world.spec(&json!({"engine": {"etcd": {}}, "rollout": rollout}));
        assert_eq!(kept_by_budgets(&world), kept, "{replicas} {unavailable}");
    }
}

#[test]
fn where_no_label_tells_roles_no_service_leads_to_one() {
    let mut world = World::converged(3);
    world.spec(&json!({"engine": {"etcd": {}}}));
    let created: Vec<String> = world
        .plan()
        .writes
        .iter()
        .map(|write| format!("{write:?}"))
        .filter(|write| write.contains("orders-primary") || write.contains("orders-replicas"))
        .collect();
    assert_eq!(created, Vec::<String>::new());
}
