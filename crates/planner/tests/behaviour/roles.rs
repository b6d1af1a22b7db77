//! Roles: who is touched when, and who never.

use crate::common::*;
use ensemble_api::Rule;
use ensemble_engines::patroni::{Role, Sighting};
use ensemble_planner::engine::{EngineAct, FRESH_MS, WhyUnknown, is_no_news};
use ensemble_planner::errand::Errand;
use ensemble_planner::memory::{ErrandNews, Kind};
use ensemble_planner::plan::Watch;
use ensemble_planner::{Time, confirm, confirm_errand};
use serde_json::json;

/// A new image is there; both replicas have it and the primary has not.
fn primary_left(leader: u32) -> World {
    let mut world = World::led(3, leader);
    world.prepared("2");
    for ordinal in (0..3).filter(|o| *o != leader) {
        world.updated(ordinal, "2");
    }
    world
}

fn answer(world: &World, name: &str) -> Option<(String, String)> {
    let plan = world.plan();
    let key = (Kind::Request, name.to_owned());
    plan.writes.iter().any(|w| w.key() == key).then(|| {
        let body = body(&plan, Kind::Request, name);
        let text = |field: &str| body[field].as_str().unwrap().to_owned();
        (text("outcome"), text("message"))
    })
}

fn ask(world: &mut World, spec: serde_json::Value) {
    let mut spec = spec;
    spec["ensemble"] = "orders".into();
    let body =
        json!({"metadata": {"name": "r", "uid": "req-r", "resourceVersion": "3"}, "spec": spec});
    world.requests.insert("r".into(), body);
}

#[test]
fn a_led_ensemble_whose_replicas_stream_is_ready_and_at_rest() {
    let plan = World::led(3, 1).plan();
    assert_eq!(plan.report.state, ensemble_api::State::Ready);
    assert_eq!(plan.watch, Watch::Rest);
}

#[test]
fn replicas_are_updated_before_the_primary_wherever_it_is() {
    for (leader, first) in [(0, "orders-2"), (1, "orders-2"), (2, "orders-1")] {
        let mut world = World::led(3, leader);
        assert_eq!(granted(world.prepared("2")), [first], "leader {leader}");
    }
}

fn primary_first(leader: u32) -> World {
    let mut world = World::led(3, leader);
    world
        .prepared("2")
        .spec(&json!({"rollout": {"order": "PrimaryFirst"}}));
    world
}

#[test]
fn a_primary_that_is_to_go_first_hands_over_to_one_that_is_not_updated_yet() {
    let world = primary_first(0);
    assert!(granted(&world).is_empty());
    assert_eq!(switchover(&world.plan()).unwrap().0, "Proposed");
}

#[test]
fn after_that_it_goes_first_and_who_leads_now_goes_last() {
    let mut world = primary_first(0);
    let heir = switchover(&world.plan()).unwrap().1;
    assert_eq!(heir, "orders-1");
    world.store_status().lead(1, 8);
    world.ensemble["status"]["switchover"]["phase"] = "Arrived".into();
    assert_eq!(granted(&world), ["orders-0"]);
    world.updated(0, "2");
    assert_eq!(granted(&world), ["orders-2"]);
    world.updated(2, "2");
    assert!(granted(&world).is_empty());
    let (phase, to) = switchover(&world.plan()).unwrap();
    assert_eq!((phase.as_str(), to.as_str()), ("Proposed", "orders-0"));
}

#[test]
fn a_primary_that_does_not_become_ready_for_long_hands_over_before_its_replicas_are_updated() {
    let mut world = World::led(2, 1);
    world.prepared("2").unhealthy(1, NOW - 30_000);
    assert_eq!(switchover(&world.plan()), None);
    world.unhealthy(1, NOW - 90_000);
    let to = Some(("Proposed".into(), "orders-0".into()));
    assert_eq!(switchover(&world.plan()), to);
    world.but(1, |s| s.attached.clear());
    assert_eq!(switchover(&world.plan()), None, "nobody could take over");
}

#[test]
fn a_lead_that_was_handed_over_for_another_cause_does_not_spare_the_primary() {
    let mut world = primary_first(1);
    world.switching(0, 1, 6, "Arrived");
    assert!(granted(&world).is_empty());
    assert_eq!(switchover(&world.plan()).unwrap().0, "Proposed");
}

#[test]
fn the_most_lagging_replica_goes_first() {
    let mut world = World::led(3, 0);
    world.prepared("2").but(1, |s| s.lag = Some(9));
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn a_replica_that_is_ready_and_does_not_stream_uses_up_the_budget() {
    let mut world = World::led(3, 0);
    world.prepared("2").but(0, |s| {
        s.attached.remove("orders-1");
    });
    assert_eq!(
        granted(&world),
        ["orders-1"],
        "only the one that is away anyway"
    );
    world.updated(1, "2");
    assert!(granted(&world).is_empty());
    assert!(reasons(&world.plan()).contains(&"NotInSync orders-1".to_owned()));
}

#[test]
fn a_replica_at_an_older_term_or_far_behind_is_not_in_sync() {
    let mut world = World::led(3, 0);
    world.prepared("2").updated(1, "2").but(1, |s| s.term = 6);
    assert!(granted(&world).is_empty());
    world.lead(0, 7).but(1, |s| s.lag = Some(17 << 20));
    assert!(granted(&world).is_empty());
    world.lead(0, 7);
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn the_primary_hands_over_to_an_updated_replica_and_is_not_touched() {
    for leader in 0..3 {
        let world = primary_left(leader);
        assert!(granted(&world).is_empty());
        let (phase, to) = switchover(&world.plan()).unwrap();
        assert_eq!(phase, "Proposed");
        assert_ne!(to, format!("orders-{leader}"));
    }
}

#[test]
fn nobody_is_handed_the_lead_who_does_not_stream_at_its_term() {
    let mut world = primary_left(0);
    world.but(1, |s| s.term = 6).but(0, |s| {
        s.attached.remove("orders-2");
    });
    world.memory.led_since = Some(Time(0));
    let plan = world.plan();
    assert_eq!(switchover(&plan), None);
    assert!(reasons(&plan).contains(&"NoSuccessor orders-0".to_owned()));
    assert!(granted(&world).is_empty());
}

#[test]
fn in_synchronous_mode_only_the_named_standby_may_take_over() {
    let mut world = primary_left(0);
    world.synchronous(0, None);
    assert_eq!(switchover(&world.plan()), None);
    world.synchronous(0, Some(2));
    let (_, to) = switchover(&world.plan()).unwrap();
    assert_eq!(to, "orders-2");
}

#[test]
fn a_replica_that_may_not_lead_is_not_asked_to() {
    let mut world = primary_left(0);
    world.but(1, |s| s.electable = false);
    assert_eq!(switchover(&world.plan()).unwrap().1, "orders-2");
}

#[test]
fn the_lead_is_not_handed_over_while_another_member_is_on_its_way_back() {
    let mut world = primary_left(0);
    world.unhealthy(2, NOW);
    assert_eq!(switchover(&world.plan()), None);
}

#[test]
fn once_the_lead_has_arrived_the_old_primary_is_updated_as_a_replica() {
    let mut world = primary_left(0);
    world.store_status().lead(1, 8).switching(0, 1, 7, "Asked");
    assert_eq!(switchover(&world.plan()).unwrap().0, "Arrived");
    world.store_status();
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn a_lead_that_arrived_elsewhere_supersedes_and_one_at_the_same_term_is_none() {
    let mut world = primary_left(0);
    world.switching(0, 1, 7, "Asked").lead(2, 8);
    assert_eq!(switchover(&world.plan()).unwrap().0, "Superseded");
    world.lead(1, 7);
    assert_eq!(switchover(&world.plan()).unwrap().0, "Asked");
}

#[test]
fn at_the_deadline_the_old_primary_stays_and_the_report_says_so() {
    let mut world = primary_left(0);
    world.switching(0, 1, 7, "Asked").after(61).lead(0, 7);
    for ordinal in 0..3 {
        world.asked(ordinal, Time(NOW + 61_000));
    }
    assert_eq!(switchover(&world.plan()).unwrap().0, "Abandoned");
}

#[test]
fn while_the_lead_is_handed_over_nobody_is_disrupted() {
    let mut world = World::led(3, 0);
    world.prepared("2").switching(0, 1, 7, "Asked");
    assert!(granted(&world).is_empty());
    assert!(reasons(&world.plan()).contains(&"SwitchingOver orders-1".to_owned()));
    assert_eq!(world.plan().watch, Watch::Eagerly);
}

#[test]
fn a_switchover_is_asked_for_only_after_it_was_looked_at_afresh() {
    let mut world = primary_left(0);
    world.switching(0, 1, 7, "Proposed");
    assert_eq!(switchover(&world.plan()).unwrap().0, "Proposed");
    world
        .memory
        .errands
        .insert("s-1".into(), ErrandNews::Confirmed);
    assert_eq!(switchover(&world.plan()).unwrap().0, "Asked");
}

#[test]
fn a_fresh_look_refuses_what_members_said_before_it() {
    let mut world = primary_left(0);
    let snap = world.switching(0, 1, 7, "Proposed").snapshot();
    let stored = Errand::of(&stored_switch(&snap));
    assert!(confirm_errand(&snap, &stored, Time(NOW)).is_ok());
    assert!(confirm_errand(&snap, &stored, Time(NOW + 1)).is_err());
}

#[test]
fn a_fresh_look_refuses_a_switchover_from_another_term() {
    let mut world = primary_left(0);
    let snap = world.switching(0, 1, 6, "Proposed").snapshot();
    let refusal = confirm_errand(&snap, &Errand::of(&stored_switch(&snap)), Time(0)).unwrap_err();
    assert_eq!(refusal.predicate, Rule::RoleKnown);
}

#[test]
fn a_disruption_is_not_confirmed_by_what_members_said_before_it_was_written_down() {
    let mut world = World::led(3, 0);
    let snap = world.prepared("2").store_status().snapshot();
    let intent = snap.ensemble.status.in_flight[0].clone();
    assert!(confirm(&snap, &intent, Time(NOW)).is_ok());
    let refusal = confirm(&snap, &intent, Time(NOW + 1)).unwrap_err();
    assert_eq!(refusal.predicate, Rule::RoleKnown);
}

#[test]
fn while_the_role_of_a_running_member_is_unknown_and_nobody_leads_nobody_is_touched() {
    let mut world = World::led(3, 0);
    world.prepared("2");
    for ordinal in 0..3 {
        world.silent(ordinal, WhyUnknown::Unreachable("no route".into()));
    }
    assert!(granted(&world).is_empty());
    let plan = world.plan();
    assert!(reasons(&plan).contains(&"RoleUnknown".to_owned()));
    assert_eq!(plan.watch, Watch::Closely);
}

#[test]
fn a_silent_replica_does_not_hide_the_leader() {
    let mut world = World::led(3, 0);
    world
        .prepared("2")
        .silent(2, WhyUnknown::Unreachable("x".into()));
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn refused_credentials_are_named() {
    let mut world = World::led(3, 0);
    for ordinal in 0..3 {
        world.silent(ordinal, WhyUnknown::Unauthorised("401".into()));
    }
    assert!(reasons(&world.plan()).contains(&"EngineUnauthorised".to_owned()));
}

#[test]
fn two_that_claim_the_lead_stop_everything() {
    let mut world = World::led(3, 0);
    world.prepared("2").but(1, |s| s.role = Role::Leader);
    assert!(granted(&world).is_empty());
    assert!(reasons(&world.plan()).contains(&"LeadContested".to_owned()));
}

#[test]
fn a_leader_that_another_member_denies_is_not_backed() {
    let mut world = World::led(3, 0);
    world
        .prepared("2")
        .but(2, |s| s.lock = Some("orders-1".into()));
    assert!(granted(&world).is_empty());
}

#[test]
fn one_that_claims_the_lead_while_all_others_are_silent_is_not_believed_without_its_label() {
    let mut world = World::led(3, 0);
    for ordinal in [0, 2] {
        world.silent(ordinal, WhyUnknown::Unreachable("x".into()));
    }
    world.but(1, |s| {
        s.role = Role::Leader;
        s.lock = Some("orders-1".into());
    });
    assert!(reasons(&world.plan()).contains(&"RoleUnknown".to_owned()));
    world.pod(1, &json!({"metadata": {"labels": {"role": "primary"}}}));
    assert!(!reasons(&world.plan()).contains(&"RoleUnknown".to_owned()));
}

#[test]
fn an_answer_from_before_the_container_was_restarted_counts_for_nothing() {
    let mut world = World::led(3, 0);
    world
        .prepared("2")
        .updated(2, "2")
        .runs(2, "run-2", NOW + 1);
    assert!(granted(&world).is_empty());
}

#[test]
fn an_old_answer_counts_for_nothing() {
    let mut world = World::led(3, 0);
    world.prepared("2").after(13);
    assert!(granted(&world).is_empty());
}

#[test]
fn a_change_in_place_is_not_over_until_the_container_is_a_new_one() {
    let mut world = World::led(3, 0);
    world.prepared("2").updated(2, "2");
    let replaces = json!({"ensemble.dev/replaces": "app=run-1"});
    world.pod(2, &json!({"metadata": {"annotations": replaces}}));
    assert!(
        granted(&world).is_empty(),
        "Ready, and still the old container"
    );
    world.runs(2, "run-2", NOW);
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn an_engine_that_stops_or_starts_is_let_finish() {
    let mut world = World::led(3, 0);
    world.prepared("2").silent(2, WhyUnknown::Stopping);
    assert!(granted(&world).is_empty());
}

#[test]
fn a_paused_engine_is_left_alone() {
    let mut world = World::led(3, 0);
    world.prepared("2").but(0, |s| s.paused = true);
    assert!(granted(&world).is_empty());
    assert!(reasons(&world.plan()).contains(&"EnginePaused".to_owned()));
}

#[test]
fn a_new_exporter_image_moves_no_leader() {
    let mut world = World::led(3, 0);
    world.spec(&json!({"engine": {"container": "db"}}));
    assert_eq!(granted(world.prepared("2")), ["orders-2"]);
    world.updated(1, "2").updated(2, "2");
    assert_eq!(granted(&world), ["orders-0"]);
    assert_eq!(switchover(&world.plan()), None);
}

#[test]
fn a_single_member_is_updated_with_downtime_and_the_plan_says_so() {
    let mut world = World::led(1, 0);
    assert_eq!(granted(world.prepared("2")), ["orders-0"]);
    let plan = world.plan();
    assert!(
        plan.report
            .steps
            .iter()
            .any(|s| s.cause.contains("downtime is unavoidable"))
    );
}

#[test]
fn where_the_primary_is_to_be_restarted_it_is_once_a_replica_is_in_sync() {
    let mut world = primary_left(0);
    world.spec(&json!({"rollout": {"primary": "Restart"}}));
    assert_eq!(granted(&world), ["orders-0"]);
    world.but(0, |s| s.attached.clear());
    assert!(granted(&world).is_empty());
}

#[test]
fn a_supervised_rollout_waits_for_approval_of_this_revision() {
    let mut world = primary_left(0);
    world.spec(&json!({"rollout": {"primary": "Supervised"}}));
    let plan = world.plan();
    assert!(reasons(&plan).contains(&"AwaitingApproval orders-0".to_owned()));
    assert_eq!(switchover(&plan), None);
    ask(&mut world, json!({"approve": {"revision": "orders-other"}}));
    assert_eq!(answer(&world, "r").unwrap().0, "Refused");
    ask(
        &mut world,
        json!({"approve": {"revision": revision_name("2")}}),
    );
    assert_eq!(switchover(&world.plan()).unwrap().0, "Proposed");
    assert_eq!(
        answer(&world, "r"),
        None,
        "it holds until the primary is updated"
    );
}

#[test]
fn a_switch_is_asked_for_by_name_and_answered_when_it_has_arrived() {
    let mut world = World::led(3, 0);
    ask(&mut world, json!({"switch": {"to": "orders-2"}}));
    assert_eq!(
        switchover(&world.plan()).unwrap(),
        ("Proposed".into(), "orders-2".into())
    );
    world.store_status();
    assert_eq!(answer(&world, "r"), None);
    world.ensemble["status"]["switchover"]["phase"] = "Asked".into();
    world.lead(2, 8).store_status();
    assert_eq!(answer(&world, "r").unwrap().0, "Done");
}

#[test]
fn a_switch_to_somebody_who_is_behind_is_refused_with_the_rule() {
    let mut world = World::led(3, 0);
    world.but(2, |s| s.lag = Some(1 << 40));
    ask(&mut world, json!({"switch": {"to": "orders-2"}}));
    let (outcome, message) = answer(&world, "r").unwrap();
    assert_eq!(outcome, "Refused");
    assert!(message.contains("successor-synced is false"), "{message}");
}

#[test]
fn the_lead_leaves_a_cordoned_node_before_anybody_is_evicted() {
    let mut world = World::led(3, 1);
    world.node("n1", &json!({"spec": {"unschedulable": true}}));
    let (_, to) = switchover(&world.plan()).unwrap();
    assert_ne!(to, "orders-1");
    world.node("n0", &json!({"spec": {"unschedulable": true}}));
    assert_eq!(switchover(&world.plan()).unwrap().1, "orders-2");
}

#[test]
fn a_switch_that_nobody_can_take_is_refused_with_what_is_wrong_with_each() {
    let mut world = World::led(3, 0);
    world.but(1, |s| s.lag = Some(1 << 40));
    world.but(2, |s| s.lag = Some(1 << 40));
    ask(&mut world, json!({"switch": {}}));
    let (outcome, message) = answer(&world, "r").unwrap();
    assert_eq!(outcome, "Refused");
    assert!(message.starts_with("nobody can take over; orders-1: "));
    assert!(message.contains("; orders-2: "), "{message}");
    assert_eq!(switchover(&world.plan()), None);
}

#[test]
fn a_switch_that_is_made_is_not_refused_because_a_drain_found_nobody() {
    let mut world = World::led(3, 1);
    for node in ["n0", "n1"] {
        world.node(node, &json!({"spec": {"unschedulable": true}}));
    }
    world.but(2, |s| s.lag = Some(1 << 40));
    assert_eq!(switchover(&world.plan()), None, "no node is better");
    ask(&mut world, json!({"switch": {}}));
    assert_eq!(switchover(&world.plan()).unwrap().1, "orders-0");
    assert_eq!(answer(&world, "r"), None);
}

#[test]
fn a_member_that_leads_is_removed_only_after_it_handed_over() {
    let mut world = World::led(3, 2);
    world.spec(&json!({"replicas": 2}));
    assert!(granted(&world).is_empty());
    assert_ne!(switchover(&world.plan()).unwrap().1, "orders-2");
}

#[test]
fn budgets_are_disjoint_and_services_select_by_role() {
    let mut world = World::led(3, 0);
    world.budgets.clear();
    let plan = world.plan();
    let primary = body(&plan, Kind::Budget, "orders-primary");
    let replicas = body(&plan, Kind::Budget, "orders-replicas");
    let rule = |b: &serde_json::Value| b["spec"]["selector"]["matchExpressions"][0].clone();
    assert_eq!(
        rule(&primary),
        json!({"key": "role", "operator": "In", "values": ["primary", "master"]})
    );
    assert_eq!(
        rule(&replicas),
        json!({"key": "role", "operator": "NotIn", "values": ["primary", "master"]})
    );
    assert_eq!(replicas["spec"]["minAvailable"], 1);
    let service = body(&plan, Kind::Service, "orders-primary");
    assert_eq!(service["spec"]["selector"]["role"], "primary");
}

#[test]
fn a_leader_without_the_label_that_clients_follow_is_reported() {
    let mut world = World::led(3, 0);
    world.pod(0, &json!({"metadata": {"labels": {"role": "captain"}}}));
    assert!(reasons(&world.plan()).contains(&"RoleLabelMissing orders-0".to_owned()));
}

#[test]
fn a_grace_period_that_a_synchronous_standby_cannot_keep_is_reported() {
    let mut world = World::led(3, 0);
    world
        .synchronous(0, Some(1))
        .but(0, |s| s.loop_wait = Some(20));
    assert!(reasons(&world.plan()).contains(&"GraceTooShort".to_owned()));
}

#[test]
fn after_a_change_of_leader_the_engine_is_nudged_rather_than_waited_for() {
    let mut world = World::led(3, 0);
    let nudges = |world: &World| {
        let plan = world.plan();
        plan.engine
            .iter()
            .any(|tell| *tell.act() == EngineAct::Nudge)
    };
    assert!(!nudges(&world));
    world.but(0, |s| {
        s.attached.remove("orders-1");
    });
    world.memory.led_since = Some(Time(NOW - 1_000));
    assert!(nudges(&world));
}

#[test]
fn when_nobody_led_and_nobody_was_ready_for_long_one_member_is_recreated() {
    let mut world = World::led(3, 0);
    world.prepared("2");
    for ordinal in 0..3 {
        world.unhealthy(ordinal, NOW - 90_000);
        world.silent(ordinal, WhyUnknown::Unreachable("x".into()));
    }
    world.memory.leaderless_since = Some(Time(NOW - 30_000));
    assert!(granted(&world).is_empty(), "not for long enough");
    world.memory.leaderless_since = Some(Time(NOW - 61_000));
    assert_eq!(granted(&world).len(), 1);
}

#[test]
fn labels_of_another_agent_tell_roles_and_are_not_asked_to_switch() {
    let mut world = World::led(3, 0);
    world.spec(
        &json!({"engine": {"patroni": null, "labels": {"key": "role"}},
                       "rollout": {"primary": "Restart"}}),
    );
    for known in world.memory.pods.values_mut() {
        known.said = None;
    }
    assert_eq!(granted(world.prepared("2")), ["orders-2"]);
    world.updated(1, "2").updated(2, "2");
    assert_eq!(granted(&world), ["orders-0"]);
    ask(&mut world, json!({"switch": {}}));
    assert_eq!(answer(&world, "r").unwrap().0, "Refused");
}

/// Whether it is no news that a member says this so long after what it said before.
fn no_news(world: &World, after: i64, change: impl FnOnce(&mut Sighting)) -> bool {
    let mut snap = world.snapshot();
    let before = snap.memory.pod("pod-1").said.clone().unwrap();
    let mut said: Sighting = before.words::<Sighting>().unwrap().clone();
    change(&mut said);
    let said = said.answers(before.asked.plus_ms(after));
    snap.now = said.asked;
    is_no_news(&snap, "pod-1", &before, &said)
}

#[test]
fn what_a_member_says_again_is_no_news_and_anything_else_is() {
    let world = World::led(3, 1);
    assert!(no_news(&world, 1000, |_| ()));
    assert!(!no_news(&world, 1000, |s| s.role = Role::Follower));
    assert!(!no_news(&world, 1000, |s| s.term += 1));
    assert!(!no_news(&world, 1000, |s| s.paused = true));
    assert!(!no_news(&world, 1000, |s| s.attached.clear()));
}

#[test]
fn the_same_answer_is_news_where_a_rule_asks_when_it_was_given() {
    let stale = World::led(3, 1);
    assert!(!no_news(&stale, FRESH_MS + 1, |_| ()));
    let mut restarted = World::led(3, 1);
    restarted.runs(1, "run-2", NOW + 500);
    assert!(!no_news(&restarted, 1000, |_| ()));
    assert!(no_news(&restarted, 400, |_| ()));
    let mut world = World::led(3, 1);
    world.ensemble["status"]["parameters"] =
        json!({"state": "Applying", "from": {}, "to": {"max_connections": "200"}});
    assert!(!no_news(&world, 1000, |_| ()));
}
