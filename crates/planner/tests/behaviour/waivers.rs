//! A person suspends one rule for one member and a while: what counts, and for how long.

use crate::common::*;
use ensemble_api::{Outcome, Rule};
use ensemble_planner::cast::Cast;
use ensemble_planner::memory::Kind;
use ensemble_planner::waivers::Waivers;
use ensemble_planner::{Plan, Time};
use serde_json::{Value, json};

const RULE: &str = "within-budget";

fn suspended(world: &World, rule: Rule, ordinal: u32) -> bool {
    let snap = world.snapshot();
    Waivers::of(&snap, Cast::of(&snap).roster()).suspend(rule, member(ordinal))
}

fn in_force(world: &World) -> bool {
    suspended(world, Rule::WithinBudget, 2)
}

/// What a plan answers the request, if anything.
fn answer(plan: &Plan, name: &str) -> Option<Value> {
    let asked = format!("Answer {name}");
    written(plan)
        .contains(&asked)
        .then(|| body(plan, Kind::Request, name))
}

#[track_caller]
fn assert_answer(world: &World, name: &str, outcome: Outcome, words: &[&str]) {
    let answer = answer(&world.plan(), name).unwrap();
    assert_eq!(answer["outcome"], json!(outcome));
    let message = answer["message"].as_str().unwrap();
    for word in words {
        assert!(message.contains(word), "{message}");
    }
}

fn waived() -> World {
    let mut world = World::settled(3);
    world.waived(RULE, "orders-2", 600);
    world
}

const NAME: &str = "orders-2-within-budget";

#[test]
fn a_waiver_counts_once_its_acceptance_is_written_down() {
    let mut world = World::settled(3);
    world.waive("w", RULE, "orders-2", 600);
    assert!(!in_force(&world));
    let answer = answer(&world.plan(), "w").unwrap();
    assert_eq!(answer["outcome"], Value::Null);
    assert_eq!(answer["waiver"]["epoch"], 7);
    world.requests.get_mut("w").unwrap()["status"] = answer;
    assert!(in_force(&world));
}

#[test]
fn it_suspends_its_rule_with_the_guards_of_it_for_its_member_and_nothing_else() {
    let world = waived();
    assert!(suspended(&world, Rule::WithinBudget, 2));
    assert!(suspended(&world, Rule::BudgetCountsGrants, 2));
    assert!(!suspended(&world, Rule::WithinBudget, 1));
    assert!(!suspended(&world, Rule::RoleKnown, 2));
}

#[test]
fn as_long_as_it_holds_the_report_tells_it_and_wakes_at_its_end() {
    let world = waived();
    let plan = world.plan();
    let told = &plan.report.waivers[0];
    assert_eq!(
        (told.rule.as_str(), told.member.as_str()),
        (RULE, "orders-2")
    );
    assert_eq!(
        (told.request.as_str(), told.reason.as_str()),
        (NAME, "a test")
    );
    assert_eq!(plan.wake_at, Some(Time(NOW + 600_000)));
    assert_eq!(plan.report.state, ensemble_api::State::Ready);
}

#[test]
fn it_ends_when_its_time_is_up_and_says_whether_it_was_used() {
    let mut world = waived();
    world.after(599);
    assert!(in_force(&world));
    world.after(1);
    assert!(!in_force(&world));
    assert!(world.plan().report.waivers.is_empty());
    assert_answer(&world, NAME, Outcome::Done, &["expired at", "not used"]);
}

#[test]
fn a_disruption_by_its_leave_is_written_on_it() {
    let mut world = waived();
    world.intent(2, "Recreate", 7);
    let intents = world.ensemble["status"]["inFlight"].as_array_mut().unwrap();
    intents[0]["waived"] = json!([RULE]);
    let stored = answer(&world.plan(), NAME).unwrap();
    assert_eq!(stored["outcome"], Value::Null);
    world.requests.get_mut(NAME).unwrap()["status"]["waiver"] = stored["waiver"].clone();
    assert_eq!(answer(&world.plan(), NAME), None, "once");
    world.after(600);
    assert_answer(
        &world,
        NAME,
        Outcome::Done,
        &["used for: Recreate of pod pod-2"],
    );
}

#[test]
fn it_ends_with_the_controller_that_accepted_it() {
    let mut world = waived();
    world.epoch = 8;
    assert!(!in_force(&world));
    assert_answer(
        &world,
        NAME,
        Outcome::Done,
        &["controller", "create it again"],
    );
}

#[test]
fn no_clock_and_no_loss_makes_it_longer() {
    // What was written down says an hour more than was asked for.
    let mut world = waived();
    let late = json!(Time(NOW + 4_200_000).stamp());
    world.requests.get_mut(NAME).unwrap()["status"]["waiver"]["until"] = late;
    assert!(!in_force(world.after(600)));
    // The API server's clock is an hour ahead, and then this process forgets when it saw it.
    let mut ahead = waived();
    ahead.requests.get_mut(NAME).unwrap()["metadata"]["creationTimestamp"] =
        json!(Time(NOW + 3_600_000).stamp());
    assert!(!in_force(ahead.after(600)));
    ahead.memory.requests_since.clear();
    assert!(!in_force(&ahead));
    // The API server's clock is five minutes behind.
    let mut behind = waived();
    behind.requests.get_mut(NAME).unwrap()["metadata"]["creationTimestamp"] =
        json!(Time(NOW - 300_000).stamp());
    assert!(!in_force(behind.after(300)));
}

#[test]
fn a_request_that_lay_around_for_too_long_does_nothing() {
    let mut world = World::settled(3);
    world.waive("w", RULE, "orders-2", 600).after(601);
    world.memory.requests_since.clear();
    assert_answer(
        &world,
        "w",
        Outcome::Failed,
        &["expired at", "Create it again"],
    );
}

#[test]
fn what_cannot_be_waived_is_refused_by_its_field() {
    let cases = [
        (
            "claims-intact",
            "orders-2",
            600,
            "spec.waive.rule: claims-intact cannot",
        ),
        ("no-such-rule", "orders-2", 600, "spec.waive.rule: no rule"),
        (RULE, "orders-7", 600, "spec.waive.member: orders-7"),
        (RULE, "orders-2", 5, "spec.waive.forSeconds: 5"),
    ];
    for (rule, member, seconds, words) in cases {
        let mut world = World::settled(3);
        world.waive("w", rule, member, seconds);
        assert_answer(&world, "w", Outcome::Refused, &[words]);
        // Nor if somebody wrote an acceptance on it.
        let until = Time(NOW + 600_000).stamp();
        world.requests.get_mut("w").unwrap()["status"] =
            json!({"waiver": {"until": until, "epoch": 7}});
        assert!(world.plan().report.waivers.is_empty(), "{rule}");
    }
    let mut world = World::settled(3);
    world.waive("w", RULE, "orders-2", 600);
    world.requests.get_mut("w").unwrap()["spec"]["reason"] = " ".into();
    assert_answer(&world, "w", Outcome::Refused, &["spec.reason"]);
}

#[test]
fn a_request_that_is_being_deleted_ends_its_waiver() {
    let mut world = waived();
    world.requests.get_mut(NAME).unwrap()["metadata"]["deletionTimestamp"] = "x".into();
    assert!(!in_force(&world));
}

#[test]
fn there_are_never_more_of_them_than_the_status_can_show() {
    let mut world = World::settled(3);
    for n in 0..16 {
        world.waived(RULE, "orders-2", 600);
        let one = world.requests.remove(NAME).unwrap();
        let mut one: Value = one;
        one["metadata"]["uid"] = format!("req-{n}").into();
        world.requests.insert(format!("w-{n}"), one);
    }
    world.waive("more", RULE, "orders-1", 600);
    assert_answer(&world, "more", Outcome::Refused, &["16 waivers"]);
}

/// orders-1 has the new template, is not Ready and uses up the budget; the others wait.
fn stuck() -> World {
    let mut world = World::settled(3);
    world.prepared("2").updated(1, "2").unhealthy(1, NOW);
    world
}

fn blocker_of(world: &World, member: &str) -> ensemble_api::Blocker {
    let steps = world.plan().report.steps;
    let step = steps.into_iter().find(|s| {
        s.member.as_deref() == Some(member) && s.action != ensemble_api::report::Action::Start
    });
    step.and_then(|s| s.blocker).unwrap()
}

#[test]
fn a_waived_budget_lets_that_member_go_and_no_other() {
    let mut world = stuck();
    assert_eq!(granted(&world), [""; 0]);
    world.waived(RULE, "orders-2", 600);
    assert_eq!(granted(&world), ["orders-2"]);
    let plan = world.plan();
    let intents = &status(&plan).unwrap().in_flight;
    assert_eq!(intents[0].waived, [RULE]);
    let mut expired = stuck();
    assert_eq!(
        granted(expired.waived(RULE, "orders-2", 600).after(600)),
        [""; 0]
    );
}

#[test]
fn what_needs_no_waiver_is_not_said_to_have_used_one() {
    let mut world = World::settled(3);
    world.prepared("2").waived(RULE, "orders-2", 600);
    let plan = world.plan();
    let intents = &status(&plan).unwrap().in_flight;
    assert_eq!(intents[0].member, "orders-2");
    assert_eq!(intents[0].waived, [""; 0]);
}

#[test]
fn other_rules_hold_for_a_member_whose_budget_is_waived() {
    let mut behind = stuck();
    behind.waived(RULE, "orders-2", 600).behind = vec![Kind::Pod];
    assert_eq!(granted(&behind), [""; 0]);
    let mut claims = stuck();
    claims.waived(RULE, "orders-2", 600);
    assert_eq!(granted(claims.lose_claim("wal", 2)), [""; 0]);
}

#[test]
fn a_waiver_that_ended_in_between_confirms_nothing() {
    let mut world = stuck();
    world.waived(RULE, "orders-2", 600);
    world.store_status();
    let confirmed = |world: &World| {
        let snap = world.snapshot();
        let intent = snap.ensemble.status.in_flight[0].clone();
        ensemble_planner::confirm(&snap, &intent, Time(0)).map(drop)
    };
    assert!(confirmed(&world).is_ok());
    let refusal = confirmed(world.after(600)).unwrap_err();
    assert_eq!(refusal.predicate, Rule::WithinBudget);
}

/// Only the primary is left to be updated, and nobody can take over.
fn no_successor() -> World {
    let mut world = World::led(3, 0);
    world.prepared("2").updated(1, "2").updated(2, "2");
    for replica in [1, 2] {
        world
            .but(0, |s| s.attached.clear())
            .but(replica, |s| s.term = 6);
    }
    world
}

#[test]
fn a_primary_that_cannot_hand_over_is_disrupted_once_a_person_waives_that() {
    let mut world = no_successor();
    world.spec(&json!({"rollout": {"maxUnavailable": 3}}));
    assert_eq!(granted(&world), [""; 0]);
    world.waived("primary-handed-over", "orders-0", 600);
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn what_only_a_person_can_lift_names_the_whole_command() {
    let mut paused = World::led(3, 0);
    paused.prepared("2").but(0, |s| s.paused = true);
    let blocker = blocker_of(&paused, "orders-2");
    assert_eq!(blocker.reason, ensemble_api::Reason::EnginePaused);
    assert_eq!(
        blocker.next_command,
        "ensemble waive orders engine-not-paused --member orders-2 --reason TEXT --for 10m -n shop"
    );
    paused.waived("engine-not-paused", "orders-2", 600);
    assert_eq!(granted(&paused), ["orders-2"]);
}

#[test]
fn what_passes_by_itself_names_it_only_once_it_has_lasted() {
    let mut world = stuck();
    assert_eq!(blocker_of(&world, "orders-2").next_command, "");
    world.store_status().after(601);
    let command = blocker_of(&world, "orders-2").next_command;
    let words = "ensemble waive orders within-budget --member orders-2 ";
    assert!(command.starts_with(words), "{command}");
}
