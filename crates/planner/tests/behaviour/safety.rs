//! A warrant is given on a fresh view, after the intent was stored, or not at all.

use crate::common::*;
use ensemble_api::{Reason, Rule};
use ensemble_planner::memory::Kind;
use ensemble_planner::safety::How;
use ensemble_planner::{Refusal, Warrant, confirm};
use serde_json::json;

/// A rollout whose intent for orders-2 is stored.
fn stored() -> World {
    let mut world = World::settled(3);
    world.prepared("2").store_status();
    world
}

fn confirmed(world: &World) -> Result<Warrant, Refusal> {
    let snap = world.snapshot();
    let intents = &snap.ensemble.status.in_flight;
    let intent = intents.iter().find(|i| i.member == "orders-2").unwrap();
    confirm(&snap, intent, ensemble_planner::Time(0))
}

#[track_caller]
fn refused(world: &World) -> (Rule, Reason) {
    let refusal = confirmed(world).unwrap_err();
    (refusal.predicate, refusal.reason)
}

#[test]
fn a_stored_intent_becomes_a_warrant_for_the_pod_as_it_was_just_read() {
    let warrant = confirmed(&stored()).unwrap();
    assert_eq!(warrant.pod().name, "orders-2");
    assert_eq!(
        (
            warrant.pod().uid.as_str(),
            warrant.pod().resource_version.as_str()
        ),
        ("pod-2", "5")
    );
    assert_eq!(warrant.how(), How::Evict);
}

/// API servers forget the version that an eviction names if the pod is not Ready.
#[test]
fn what_is_not_ready_is_deleted_at_its_version_and_what_is_ready_is_evicted() {
    assert_eq!(confirmed(&stored()).unwrap().how(), How::Evict);
    let mut world = stored();
    world.waiting(2, "CrashLoopBackOff");
    assert_eq!(confirmed(&world).unwrap().how(), How::Delete);
    let mut world = stored();
    world.unhealthy(2, NOW);
    assert_eq!(confirmed(&world).unwrap().how(), How::Delete);
}

#[test]
fn somebody_elses_budget_is_asked_about_a_member_that_is_not_ready() {
    let mut world = stored();
    world.unhealthy(2, NOW);
    let labels = json!({"app": "orders"});
    world.pod(2, &json!({"metadata": {"labels": labels}}));
    let budget = json!({
        "metadata": {"name": "hands-off", "uid": "theirs"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}},
    });
    world.budgets.insert("hands-off".into(), budget);
    assert_eq!(confirmed(&world).unwrap().how(), How::Evict);
}

#[test]
fn an_intent_that_is_not_stored_is_worth_nothing() {
    let world = stored();
    let mut snap = world.snapshot();
    let intent = snap.ensemble.status.in_flight.remove(0);
    assert_eq!(
        confirm(&snap, &intent, ensemble_planner::Time(0))
            .unwrap_err()
            .predicate,
        Rule::OneChangeAtATime
    );
}

#[test]
fn an_intent_of_another_epoch_is_not_ours_to_carry_out() {
    for epoch in [6, 8] {
        let mut world = stored();
        world.epoch = epoch;
        assert_eq!(refused(&world).0, Rule::OneChangeAtATime);
    }
}

#[test]
fn another_pod_of_the_same_name_is_not_the_one_that_was_meant() {
    let mut world = stored();
    world.pod(2, &json!({"metadata": {"uid": "another"}}));
    assert_eq!(refused(&world).0, Rule::IdentityKnown);
}

#[test]
fn a_pod_that_is_gone_or_ending_needs_no_warrant() {
    assert_eq!(refused(stored().gone(2)).0, Rule::IdentityKnown);
    assert_eq!(refused(stored().leaving(2, 1)).0, Rule::IdentityKnown);
}

#[test]
fn a_pod_that_somebody_else_took_over_is_not_touched() {
    let mut world = stored();
    world.pod(
        2,
        &json!({"metadata": {"ownerReferences": [{"uid": "x", "controller": true}]}}),
    );
    assert_eq!(refused(&world), (Rule::IdentityKnown, Reason::NameTaken));
}

#[test]
fn the_budget_is_looked_at_again() {
    let mut world = stored();
    world.unhealthy(0, NOW);
    assert_eq!(refused(&world), (Rule::WithinBudget, Reason::BudgetUsed));
    let mut world = stored();
    assert_eq!(
        refused(world.gone(1)),
        (Rule::WithinBudget, Reason::BudgetUsed)
    );
    let mut world = stored();
    assert_eq!(
        refused(world.leaving(0, 1)),
        (Rule::WithinBudget, Reason::BudgetUsed)
    );
}

#[test]
fn two_intents_that_together_exceed_the_budget_are_both_refused() {
    let mut world = stored();
    world.intent(1, "Recreate", 7);
    assert_eq!(refused(&world), (Rule::WithinBudget, Reason::BudgetUsed));
    world.spec(&json!({"rollout": {"maxUnavailable": 2}}));
    assert!(confirmed(&world).is_ok());
}

#[test]
fn a_foreign_intent_refuses_everything() {
    let mut world = stored();
    world
        .intent(1, "Recreate", 6)
        .spec(&json!({"rollout": {"maxUnavailable": 3}}));
    assert_eq!(
        refused(&world),
        (Rule::OneChangeAtATime, Reason::ForeignIntent)
    );
}

#[test]
fn a_claim_that_began_to_end_in_between_refuses() {
    let mut world = stored();
    world.change_claim("data", 2, &json!({"metadata": {"deletionTimestamp": "x"}}));
    assert_eq!(refused(&world), (Rule::ClaimsIntact, Reason::ClaimEnding));
    let mut world = stored();
    assert_eq!(
        refused(world.lose_claim("wal", 2)),
        (Rule::ClaimsIntact, Reason::ClaimMissing)
    );
}

#[test]
fn a_view_that_lags_refuses() {
    let mut world = stored();
    world.behind.push(Kind::Claim);
    assert_eq!(refused(&world), (Rule::ViewCurrent, Reason::CacheBehind));
}

#[test]
fn a_template_that_was_taken_back_in_between_refuses() {
    let mut world = stored();
    assert_eq!(refused(world.image("1")).0, Rule::StillWanted);
}

#[test]
fn a_pause_or_suspension_in_between_refuses() {
    let mut world = stored();
    assert_eq!(
        refused(world.spec(&json!({"suspend": true}))).0,
        Rule::RolloutNotPaused
    );
    let mut world = stored();
    assert_eq!(
        refused(world.spec(&json!({"rollout": {"paused": true}}))).0,
        Rule::RolloutNotPaused
    );
}

#[test]
fn a_member_that_is_asked_for_again_is_not_removed() {
    let mut world = World::settled(3);
    world.spec(&json!({"replicas": 2})).store_status();
    assert!(confirmed(&world).is_ok());
    assert_eq!(
        refused(world.spec(&json!({"replicas": 3}))).0,
        Rule::StillWanted
    );
}

#[test]
fn a_pod_that_was_to_be_replaced_and_runs_after_all_is_left_alone() {
    let mut world = World::settled(3);
    world.ended(2, "Evicted").store_status();
    assert_eq!(confirmed(&world).unwrap().how(), How::Delete);
    world.pod(2, &json!({"status": {"phase": "Running"}}));
    assert_eq!(refused(&world), (Rule::ProvenDown, Reason::NotReady));
}

#[test]
fn every_rule_is_reported_also_when_it_holds() {
    let plan = World::settled(3).plan();
    let names: Vec<&str> = plan
        .report
        .predicates
        .iter()
        .map(|p| p.name.as_str())
        .collect();
    let all = [
        "within-budget",
        "claims-intact",
        "data-present",
        "one-change-at-a-time",
        "nodes-known",
    ];
    assert_eq!(names, all);
    assert!(
        plan.report
            .predicates
            .iter()
            .all(|p| p.holds && !p.observed.is_empty())
    );
}

#[test]
fn a_rule_that_does_not_hold_is_reported_with_its_value() {
    let fails = |world: &World, name: &str| {
        let predicates = world.plan().report.predicates;
        let rule = predicates.iter().find(|p| p.name == name).unwrap();
        (!rule.holds).then(|| rule.observed.clone())
    };
    let mut world = World::settled(3);
    world.unhealthy(0, NOW).gone(1);
    assert_eq!(fails(&world, "within-budget").unwrap(), "2 unavailable");
    world.lose_claim("wal", 1);
    assert_eq!(fails(&world, "claims-intact").unwrap(), "orders-1");
    world.nodes = None;
    assert_eq!(
        fails(&world, "nodes-known").unwrap(),
        "no right to read nodes"
    );
    world.claims.clear();
    assert_eq!(fails(&world, "data-present").unwrap(), "no claim is left");
}
