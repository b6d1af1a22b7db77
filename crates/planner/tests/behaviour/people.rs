//! What only a person overrides, whatever state a member's pod is in and however long it lasts; and who is
//! waited for, and for how long.

use crate::common::*;
use ensemble_api::{Reason, Rule};
use ensemble_engines::patroni::{Role, Sighting};
use ensemble_planner::cast::Cast;
use ensemble_planner::engine::WhyUnknown;
use ensemble_planner::presence::Presence;
use ensemble_planner::{Time, confirm};
use serde_json::json;

/// Everybody's PostgreSQL is stopped, and has been for long; their agents answer.
fn stopped_by_hand(paused: bool) -> World {
    let mut world = World::led(3, 0);
    world.prepared("2");
    for ordinal in 0..3 {
        world.unhealthy(ordinal, NOW - 600_000);
        let mut said = Sighting::unknown(WhyUnknown::Stopping);
        said.paused = paused;
        world.says(ordinal, said);
    }
    world.memory.leaderless_since = Some(Time(NOW - 600_000));
    world
}

#[test]
fn while_the_engine_is_paused_nobody_is_touched_whatever_else_holds() {
    let mut world = stopped_by_hand(true);
    assert!(granted(&world).is_empty());
    assert!(reasons(&world.plan()).contains(&"EnginePaused".to_owned()));
    world
        .waiting(1, "CrashLoopBackOff")
        .waiting(2, "CrashLoopBackOff");
    assert!(granted(&world).is_empty(), "two are down, one answers");
    world.spec(&json!({"replicas": 1}));
    assert!(granted(&world).is_empty(), "nor is anybody removed");
}

#[test]
fn a_pause_that_was_seen_holds_until_a_member_answers_that_it_is_over() {
    let mut world = stopped_by_hand(true);
    world.store_status();
    for ordinal in 0..3 {
        world.silent(ordinal, WhyUnknown::Unreachable("refused".into()));
    }
    assert!(granted(&world).is_empty());
    assert!(reasons(&world.plan()).contains(&"EnginePaused".to_owned()));
    world.store_status();
    for ordinal in 0..3 {
        world.waiting(ordinal, "CrashLoopBackOff");
    }
    assert!(granted(&world).is_empty(), "nobody is left to ask");
    let mut ended = sighting(Role::Follower, 7);
    ended.lock = None;
    world.unhealthy(1, NOW - 600_000).says(1, ended);
    world.pod(
        1,
        &json!({"status": {"containerStatuses": [
        {"name": "app", "image": "app:1", "state": {"running": {}}}]}}),
    );
    assert!(!reasons(&world.plan()).contains(&"EnginePaused".to_owned()));
}

#[test]
fn a_pod_that_has_ended_for_good_makes_way_during_a_pause() {
    let mut world = World::led(3, 0);
    world.but(0, |s| s.paused = true).ended(2, "Evicted");
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn a_member_at_work_on_its_data_is_let_finish_however_long_it_takes() {
    for work in [WhyUnknown::Starting, WhyUnknown::Stopping] {
        let mut world = World::led(3, 0);
        world.prepared("2").silent(2, work);
        world.unhealthy(2, NOW - 3_600_000);
        assert!(granted(&world).is_empty());
        let plan = world.plan();
        let blockers = plan.report.steps.iter().filter_map(|s| s.blocker.as_ref());
        let mut at_work = blockers.filter(|b| b.reason == Reason::EngineAtWork);
        let blocker = at_work.next().unwrap();
        assert_eq!(
            blocker.next_command,
            "ensemble waive orders engine-settled --member orders-2 --reason TEXT --for 10m -n shop"
        );
    }
}

#[test]
fn nor_is_it_interrupted_when_nobody_leads_and_nobody_is_ready_for_long() {
    let world = stopped_by_hand(false);
    assert!(granted(&world).is_empty());
}

#[test]
fn one_that_has_failed_or_has_no_data_is_not_at_work() {
    for why in [
        WhyUnknown::Unreadable("PostgreSQL is \"start failed\"".into()),
        WhyUnknown::Empty,
    ] {
        let mut world = stopped_by_hand(false);
        for ordinal in 0..3 {
            world.silent(ordinal, why.clone());
        }
        assert_eq!(granted(&world).len(), 1, "{why}");
    }
}

/// A supervised rollout whose replicas are updated.
fn supervised() -> World {
    let mut world = World::led(3, 0);
    world.prepared("2").updated(1, "2").updated(2, "2");
    world.spec(&json!({"rollout": {"primary": "Supervised"}}));
    world
}

fn approve(world: &mut World) {
    let body = json!({
        "metadata": {"name": "yes", "uid": "req-yes", "resourceVersion": "3"},
        "spec": {"ensemble": "orders", "approve": {"revision": revision_name("2")}}});
    world.requests.insert("yes".into(), body);
}

#[track_caller]
fn waits_for_approval(world: &World) {
    assert!(granted(world).is_empty());
    let plan = world.plan();
    assert!(reasons(&plan).contains(&"AwaitingApproval orders-0".to_owned()));
    let blockers = plan.report.steps.iter().filter_map(|s| s.blocker.as_ref());
    let mut waiting = blockers.filter(|b| b.reason == Reason::AwaitingApproval);
    let blocker = waiting.next().unwrap();
    assert!(blocker.message.contains("waits for approval"));
    assert_eq!(blocker.next_command, "ensemble approve orders");
}

#[test]
fn a_primary_that_waits_for_approval_waits_also_when_its_container_is_in_back_off() {
    let mut world = supervised();
    world.waiting(0, "CrashLoopBackOff");
    waits_for_approval(&world);
    world.lose_status();
    waits_for_approval(&world);
}

#[test]
fn it_waits_also_when_the_engine_has_moved_the_lead_meanwhile() {
    let mut world = supervised();
    world.lead(1, 8);
    waits_for_approval(&world);
    world.waiting(0, "CrashLoopBackOff");
    waits_for_approval(&world);
    approve(&mut world);
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn an_approval_holds_until_every_member_runs_what_was_approved() {
    let mut world = supervised();
    approve(&mut world);
    world.lead(1, 8);
    assert!(!written(&world.plan()).contains(&"Answer yes".to_owned()));
    world.updated(0, "2");
    assert!(written(&world.plan()).contains(&"Answer yes".to_owned()));
}

#[test]
fn a_single_member_waits_for_approval_too() {
    let mut world = World::led(1, 0);
    world.prepared("2");
    world.spec(&json!({"rollout": {"primary": "Supervised"}}));
    waits_for_approval(&world);
    approve(&mut world);
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn whoever_led_last_counts_as_the_primary_until_another_leads() {
    let mut world = World::led(3, 0);
    world.prepared("2");
    world.spec(&json!({"rollout": {"primary": "Supervised"}}));
    world.waiting(0, "CrashLoopBackOff");
    for ordinal in 1..3 {
        world.but(ordinal, |s| s.lock = None);
    }
    assert!(!granted(&world).contains(&"orders-0".to_owned()));
}

#[test]
fn a_disruption_is_not_confirmed_without_the_approval_that_it_was_granted_with() {
    let mut world = supervised();
    world.lead(1, 8);
    approve(&mut world);
    world.store_status().requests.clear();
    let snap = world.snapshot();
    let refusal = confirm(&snap, &snap.ensemble.status.in_flight[0], Time(0)).unwrap_err();
    assert_eq!(refusal.predicate, Rule::Approved);
}

#[test]
fn whoever_others_name_as_the_holder_of_the_lock_is_protected_until_the_lock_moves() {
    let mut world = World::led(3, 0);
    world.prepared("2").waiting(0, "CrashLoopBackOff");
    assert!(granted(&world).is_empty());
    assert!(reasons(&world.plan()).contains(&"NoLeader orders-0".to_owned()));
    world.lead(1, 8).waiting(0, "CrashLoopBackOff");
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn whoever_led_last_is_protected_for_as_long_as_its_lock_may_last() {
    let mut world = World::led(3, 0);
    world.prepared("2").waiting(0, "CrashLoopBackOff");
    for ordinal in 1..3 {
        world.silent(ordinal, WhyUnknown::Starting);
    }
    world.memory.leaderless_since = Some(Time(NOW - 59_000));
    assert!(granted(&world).is_empty());
    world.memory.leaderless_since = Some(Time(NOW - 60_000));
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn a_container_that_ended_once_is_restarted_at_once_and_its_member_is_not_down() {
    let presence = |change: fn(&mut World)| {
        let mut world = World::led(3, 0);
        change(&mut world);
        let snap = world.snapshot();
        Cast::of(&snap).presence(member(0))
    };
    let first = presence(|w| {
        w.ended_again(0, 0);
    });
    assert_eq!(first, Presence::Unhealthy);
    assert!(
        presence(|w| {
            w.ended_again(0, 1);
        })
        .is_down()
    );
}

/// All members run, none is Ready for long, and a newer template is there.
fn unready() -> World {
    let mut world = World::settled(3);
    world.prepared("2");
    for ordinal in 0..3 {
        world.unhealthy(ordinal, NOW - 90_000);
    }
    world
}

#[test]
fn recovery_waits_for_one_that_is_still_terminating_unless_it_is_stuck() {
    let mut world = unready();
    assert_eq!(granted(&world).len(), 1);
    world.leaving(2, 1);
    assert!(granted(&world).is_empty());
    world.leaving(2, 61);
    assert_eq!(granted(&world).len(), 1);
}

#[test]
fn a_member_whose_engine_has_just_come_up_gets_its_time_to_become_ready() {
    let mut world = unready();
    for known in world.memory.pods.values_mut() {
        known.up_since = Some(Time(NOW - 59_000));
    }
    assert!(granted(&world).is_empty());
    assert_eq!(world.plan().wake_at, Some(Time(NOW + 1_000)));
    world.after(1);
    assert_eq!(granted(&world).len(), 1);
}

#[test]
fn without_the_right_to_read_nodes_recovery_spares_what_may_have_been_ready() {
    let mut world = unready();
    world.nodes = None;
    assert!(granted(&world).is_empty());
    for known in world.memory.pods.values_mut() {
        known.once_ready = false;
    }
    assert!(granted(&world).is_empty(), "it may have been before us");
    for known in world.memory.pods.values_mut() {
        known.from_its_start = true;
    }
    assert_eq!(granted(&world).len(), 1);
}

/// The lead has to leave a cordoned node, in synchronous mode.
fn cordoned() -> World {
    let mut world = World::led(3, 1);
    world.synchronous(1, Some(2));
    world.node("n1", &json!({"spec": {"unschedulable": true}}));
    world
}

fn heir(world: &World) -> Option<String> {
    switchover(&world.plan()).map(|s| s.1)
}

#[test]
fn a_dead_node_does_not_hold_up_a_switchover() {
    let mut world = cordoned();
    world.unreachable_node("n0").unhealthy(0, NOW - 90_000);
    assert_eq!(heir(&world).as_deref(), Some("orders-2"));
    world.leaving(0, 5);
    assert_eq!(heir(&world).as_deref(), Some("orders-2"));
}

#[test]
fn a_member_that_is_absent_or_leaving_is_waited_for_a_minute() {
    let mut world = World::led(3, 1);
    world.node("n1", &json!({"spec": {"unschedulable": true}}));
    world.leaving(0, 59);
    assert_eq!(heir(&world), None);
    let plan = world.plan();
    assert_eq!(plan.wake_at, Some(Time(NOW + 1_000)));
    assert!(message(&plan, "BudgetUsed").contains("orders-0 not back yet"));
    world.leaving(0, 60);
    assert_eq!(heir(&world).as_deref(), Some("orders-2"));
    let mut world = cordoned();
    world.gone(0);
    assert_eq!(heir(&world), None, "nobody knows since when");
    let since = |seconds: i64| ("orders-0".to_owned(), Time(NOW - seconds * 1000));
    world.memory.absent_since.extend([since(59)]);
    assert_eq!(heir(&world), None);
    world.memory.absent_since.extend([since(60)]);
    assert_eq!(heir(&world).as_deref(), Some("orders-2"));
}
