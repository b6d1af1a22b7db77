//! A status that is lost or older than the world is put right by what exists.

use crate::common::*;
use ensemble_planner::cast::Cast;
use serde_json::json;

fn ledger(world: &World) -> (u32, String) {
    let snap = world.snapshot();
    let cast = Cast::of(&snap);
    let stored = cast.ledger().to_status(cast.roster());
    let ledger = &stored["members"];
    (ledger.next, ledger.born.clone())
}

#[test]
fn a_lost_ledger_is_rebuilt_from_claims_and_pods() {
    let mut world = World::converged(3);
    assert_eq!(ledger(world.lose_status()), (3, "0-2".into()));
    assert_eq!(ledger(world.gone(0).gone(1).gone(2)), (3, "0-2".into()));
    let mut world = World::converged(3);
    world
        .gone(0)
        .gone(1)
        .lose_status()
        .meta(&json!({"annotations": null}));
    world.claims.clear();
    assert_eq!(ledger(&world), (3, "2".into()));
}

#[test]
fn a_rebuilt_ledger_keeps_a_half_lost_member_from_an_empty_volume() {
    let mut world = World::converged(3);
    world.lose_claim("wal", 1).gone(1).lose_status();
    let plan = world.plan();
    assert!(reasons(&plan).contains(&"ClaimMissing orders-1".to_owned()));
    assert_eq!(created_members(&plan), [""; 0]);
    assert_eq!(status(&plan).unwrap().ledger["members"].born, "0-2");
}

#[test]
fn what_stands_beyond_an_older_ledger_was_used_before() {
    let mut world = World::converged(3);
    world.ledger(1, "0");
    assert_eq!(ledger(&world), (3, "0-2".into()));
    world.ledger(2, "");
    assert_eq!(ledger(&world), (3, "2".into()));
}

#[test]
fn a_ledger_that_cannot_be_read_is_no_ledger() {
    let mut world = World::converged(3);
    world.ledger(9, "0-x");
    assert_eq!(ledger(&world), (3, "0-2".into()));
}

#[test]
fn a_status_that_cannot_be_read_is_no_status() {
    let mut world = World::converged(3);
    world.ensemble["status"] = json!({"ledger": "gibberish"});
    assert_eq!(ledger(&world), (3, "0-2".into()));
    assert!(status(&world.plan()).is_some());
}

#[test]
fn a_rebuilt_ledger_knows_which_life_a_member_is_in() {
    let mut world = World::converged(2);
    let life = json!({"metadata": {"labels": {"ensemble.dev/incarnation": "3"}}});
    world
        .change_claim("data", 1, &life)
        .change_claim("wal", 1, &life)
        .pod(1, &life);
    world.lose_status();
    let snap = world.snapshot();
    let cast = Cast::of(&snap);
    let lives = [0, 1].map(|o| cast.ledger().incarnation(member(o)));
    assert_eq!(lives, [0, 3]);
    assert!(
        !reasons(&world.plan())
            .iter()
            .any(|r| r.starts_with("NameTaken"))
    );
}

#[test]
fn the_next_ordinal_never_falls_when_scaling_in() {
    let mut world = World::settled(3);
    let plan = world.spec(&json!({"replicas": 1})).plan();
    assert_eq!(status(&plan).unwrap().ledger["members"].next, 3);
}

#[test]
fn a_wiped_status_is_rebuilt_and_touches_nobody() {
    let mut world = World::settled(3);
    world.lose_status();
    let plan = world.plan();
    assert_eq!((granted(&world), written(&plan)), (vec![], vec![]));
    let rebuilt = status(&plan).unwrap();
    assert_eq!((rebuilt.ready_replicas, rebuilt.updated_replicas), (3, 3));
    assert_eq!(rebuilt.ledger["members"].born, "0-2");
    assert_eq!(rebuilt.current_revision(), revision_name("1"));
    assert_quiet(&world.store_status().plan());
}

#[test]
fn with_a_lost_ledger_whoever_is_asked_for_counts_as_born_if_anybody_ever_was() {
    let mut world = World::converged(3);
    world
        .lose_claim("data", 2)
        .lose_claim("wal", 2)
        .gone(2)
        .lose_status();
    assert_eq!(ledger(&world), (3, "0-2".into()));
    for _ in 0..3 {
        let plan = world.plan();
        assert_eq!(created_members(&plan), [""; 0]);
        assert!(reasons(&plan).contains(&"ClaimMissing orders-2".to_owned()));
        world.store_status();
    }
}

#[test]
fn with_a_lost_ledger_and_nobody_ever_born_only_what_is_there_was_used() {
    let mut world = World::begun(3);
    world.claim("data", 0).claim("wal", 0).lose_status();
    assert_eq!(ledger(&world), (1, "0".into()));
}
