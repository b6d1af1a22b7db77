//! Patroni as it is found in the wild: replicas that follow replicas, or stream from nobody, or may not
//! lead; several synchronous standbys; modes that are not handled. Each is handled, or refused by name
//! before any member is touched.

use crate::common::*;
use ensemble_engines::patroni::{Stream, Synchronous};
use ensemble_planner::cast::Cast;
use ensemble_planner::engine::WhyUnknown;
use serde_json::json;

/// That replica streams from another one, as `replicatefrom` has it, and not from the primary.
fn cascades(world: &mut World, ordinal: u32, from: u32, leader: u32) {
    let name = format!("orders-{ordinal}");
    let stream = Stream {
        streaming: true,
        synchronous: false,
    };
    world.but(leader, |s| s.attached.retain(|n, _| *n != name));
    world.but(from, |s| s.attached.extend([(name, stream)]));
}

/// That replica has the tag `nostream`: nobody sees it stream.
fn streams_from_nobody(world: &mut World, ordinal: u32, leader: u32) {
    let name = format!("orders-{ordinal}");
    world.but(leader, |s| s.attached.retain(|n, _| *n != name));
    world.but(ordinal, |s| s.streams = false);
}

fn in_sync(world: &World, ordinal: u32) -> Result<(), String> {
    let snap = world.snapshot();
    let cast = Cast::of(&snap);
    let who = cast.roster().named(&format!("orders-{ordinal}"));
    cast.in_sync(who.unwrap())
}

/// Only the primary is left to be updated.
fn handing_over() -> World {
    let mut world = World::led(3, 0);
    world.prepared("2").updated(1, "2").updated(2, "2");
    world
}

/// Who is to lead next, if somebody is; else what stands in the way.
fn next_leader(world: &World) -> Result<String, String> {
    let plan = world.plan();
    let blocked = plan.report.steps.iter().filter_map(|s| s.blocker.as_ref());
    let message = blocked.map(|b| b.message.clone()).collect::<Vec<_>>();
    switchover(&plan)
        .map(|(_, to)| to)
        .ok_or_else(|| message.join("; "))
}

#[test]
fn a_replica_that_follows_a_replica_is_in_sync_and_holds_nobody_up() {
    let mut world = World::led(3, 0);
    world.prepared("2");
    cascades(&mut world, 2, 1, 0);
    assert_eq!(in_sync(&world, 2), Ok(()));
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn a_replica_that_follows_one_that_does_not_stream_is_not_in_sync() {
    let mut world = World::led(3, 0);
    cascades(&mut world, 2, 1, 0);
    world.but(0, |s| s.attached.clear());
    let why = in_sync(&world, 2).unwrap_err();
    assert_eq!(why, "orders-0 does not see it streaming");
    // Nor if the one between has not come along to the term of the primary.
    let mut world = World::led(3, 0);
    cascades(&mut world, 2, 1, 0);
    world.but(1, |s| s.term = 6);
    assert!(in_sync(&world, 2).is_err());
}

#[test]
fn two_that_follow_each_other_follow_nobody() {
    let mut world = World::led(3, 0);
    cascades(&mut world, 2, 1, 0);
    cascades(&mut world, 1, 2, 0);
    assert!(in_sync(&world, 1).is_err() && in_sync(&world, 2).is_err());
}

#[test]
fn a_replica_that_follows_a_replica_is_not_the_next_to_lead() {
    let mut world = handing_over();
    cascades(&mut world, 1, 2, 0);
    assert_eq!(next_leader(&world), Ok("orders-2".into()));
    world.but(2, |s| s.electable = false);
    let why = next_leader(&world).unwrap_err();
    assert!(
        why.contains("orders-1: it follows orders-2, not the primary"),
        "{why}"
    );
    assert!(why.contains("orders-2: its tag nofailover"), "{why}");
}

#[test]
fn a_replica_that_streams_from_nobody_by_its_tag_costs_no_budget_and_is_no_copy() {
    let mut world = World::led(3, 0);
    world.prepared("2");
    streams_from_nobody(&mut world, 2, 0);
    assert!(in_sync(&world, 2).unwrap_err().contains("nostream"));
    assert_eq!(
        granted(&world),
        ["orders-2"],
        "it is updated like any other"
    );
    world.updated(2, "2");
    assert_eq!(granted(&world), ["orders-1"], "it holds up nobody");
    assert!(
        !reasons(&world.plan())
            .iter()
            .any(|r| r.starts_with("NotInSync"))
    );
    let mut world = handing_over();
    streams_from_nobody(&mut world, 1, 0);
    streams_from_nobody(&mut world, 2, 0);
    let why = next_leader(&world).unwrap_err();
    assert!(why.contains("orders-1: its tag nostream"), "{why}");
}

#[test]
fn one_that_follows_a_replica_without_streaming_is_apart_with_it() {
    let mut world = World::led(3, 0);
    world.prepared("2");
    cascades(&mut world, 2, 1, 0);
    streams_from_nobody(&mut world, 1, 0);
    let why = in_sync(&world, 2).unwrap_err();
    assert_eq!(why, "it follows orders-1, which does not stream");
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn each_of_several_synchronous_standbys_may_lead_and_nobody_else() {
    let mut world = World::led(4, 0);
    world.prepared("2");
    for ordinal in 1..4 {
        world.updated(ordinal, "2");
    }
    world.but(0, |s| {
        s.synchronous = Synchronous::On;
        s.sync_standbys = ["orders-2", "orders-3"].map(str::to_owned).into();
    });
    assert_eq!(next_leader(&world), Ok("orders-2".into()));
    world.but(2, |s| s.electable = false);
    assert_eq!(next_leader(&world), Ok("orders-3".into()));
    world.but(3, |s| s.electable = false);
    let why = next_leader(&world).unwrap_err();
    let expected = "orders-1: it is none of the synchronous standbys orders-2, orders-3";
    assert!(why.contains(expected), "{why}");
}

#[test]
fn one_that_has_much_left_to_replay_is_in_sync_and_does_not_lead() {
    let mut world = handing_over();
    world.but(1, |s| s.unreplayed = 1 << 30);
    assert_eq!(in_sync(&world, 1), Ok(()));
    assert_eq!(next_leader(&world), Ok("orders-2".into()));
    world.but(2, |s| s.electable = false);
    let why = next_leader(&world).unwrap_err();
    assert!(why.contains("bytes received and not applied yet"), "{why}");
}

#[test]
fn a_mode_that_is_not_handled_is_refused_by_name_before_anybody_is_touched() {
    for (why, reason) in [
        (
            WhyUnknown::Unsupported("a standby cluster".into()),
            "EngineUnsupported",
        ),
        (WhyUnknown::CutOff("failsafe mode".into()), "EngineCutOff"),
    ] {
        let mut world = World::led(3, 0);
        world.prepared("2").silent(0, why);
        let plan = world.plan();
        assert!(plan.permits.is_empty());
        assert!(
            reasons(&plan).contains(&reason.to_owned()),
            "{:?}",
            reasons(&plan)
        );
    }
}

#[test]
fn what_does_not_pass_by_itself_is_named_first() {
    let mut world = World::led(3, 0);
    world.silent(0, WhyUnknown::CutOff("failsafe mode".into()));
    world.silent(1, WhyUnknown::Unauthorised("no".into()));
    world.silent(2, WhyUnknown::Starting);
    let said = reasons(&world.plan());
    assert!(said.contains(&"EngineUnauthorised".to_owned()), "{said:?}");
}

#[test]
fn a_label_that_nobody_writes_is_named() {
    // Patroni labels pods only where Kubernetes is its store.
    let mut world = World::led(3, 0);
    for ordinal in 0..3 {
        world.pod(ordinal, &json!({"metadata": {"labels": {"role": null}}}));
    }
    let said = reasons(&world.plan());
    assert!(
        said.contains(&"RoleLabelMissing orders-0".to_owned()),
        "{said:?}"
    );
}
