//! etcd: who leads, who votes, and whom it may lose, by what its members say.

use crate::common::*;
use ensemble_api::Reason;
use ensemble_engines::etcd::{Alarm, Listed, Sighting};
use ensemble_planner::Time;
use ensemble_planner::engine::{Answer, Duty, EngineView, Lead, WhyUnknown};
use ensemble_planner::roster::MemberId;
use serde_json::json;

/// The number by which etcd knows a member.
fn number(ordinal: u32) -> u64 {
    1_000 + u64::from(ordinal)
}

/// What a member of a cluster of so many says, led by that one.
fn said(replicas: u32, ordinal: u32, leader: u32) -> Sighting {
    let listed = (0..replicas).map(|o| {
        let listed = Listed {
            name: format!("orders-{o}"),
            ..Listed::default()
        };
        (number(o), listed)
    });
    Sighting {
        cluster: 77,
        member: number(ordinal),
        term: 4,
        leader: number(leader),
        index: 1 << 20,
        applied: 1 << 20,
        listed: listed.collect(),
        ..Sighting::default()
    }
}

/// Converged: the first leads, all vote and have everything.
fn cluster(replicas: u32) -> World {
    let mut world = World::led(replicas, 0);
    world.spec(&json!({"engine": {"patroni": null, "etcd": {}}}));
    world.spec(&json!({"rollout": {"method": "Recreate"}}));
    for ordinal in 0..replicas {
        tells(&mut world, ordinal, said(replicas, ordinal, 0));
    }
    world
}

fn tells(world: &mut World, ordinal: u32, said: Sighting) {
    let known = world.memory.pod_mut(&format!("pod-{ordinal}"));
    known.said = Some(said.answers(Time(NOW)).into());
}

fn is_silent(world: &mut World, ordinal: u32) {
    let why = WhyUnknown::Unreachable("timed out".into());
    let known = world.memory.pod_mut(&format!("pod-{ordinal}"));
    known.said = Some(Answer::unknown(Time(NOW), why).into());
}

fn view(world: &World) -> EngineView {
    let snap = world.snapshot();
    let cast = ensemble_planner::cast::Cast::of(&snap);
    cast.engine().clone()
}

fn member(ordinal: u32) -> MemberId {
    MemberId {
        ordinal,
        ..MemberId::default()
    }
}

fn why_out(world: &World, ordinal: u32) -> String {
    let snap = world.snapshot();
    let cast = ensemble_planner::cast::Cast::of(&snap);
    cast.in_sync(member(ordinal)).err().unwrap_or_default()
}

#[test]
fn one_that_a_majority_names_at_its_term_leads() {
    let mut world = cluster(3);
    is_silent(&mut world, 2);
    let lead = Lead::One {
        who: member(0),
        term: 4,
    };
    assert_eq!(view(&world).lead(), &lead);
    let quorum = view(&world).cohort().unwrap().quorum.clone().unwrap();
    assert_eq!((quorum.size(), quorum.needed, quorum.elsewhere), (3, 2, 0));
}

#[test]
fn one_that_only_itself_names_is_not_believed() {
    let mut world = cluster(3);
    for ordinal in [1, 2] {
        let mut other = said(3, ordinal, 0);
        (other.leader, other.term) = (0, 5);
        tells(&mut world, ordinal, other);
    }
    assert!(matches!(view(&world).lead(), Lead::Unknown(_)));
    world.prepared("2");
    assert!(granted(&world).is_empty());
}

#[test]
fn without_a_quorum_nobody_leads() {
    let mut world = cluster(3);
    for ordinal in 0..3 {
        let mut own = said(3, ordinal, 0);
        own.leader = 0;
        tells(&mut world, ordinal, own);
    }
    assert_eq!(view(&world).lead(), &Lead::Nobody);
}

#[test]
fn a_voter_that_is_no_member_of_ours_counts_and_is_never_there() {
    let mut world = cluster(3);
    for ordinal in 0..3 {
        let mut own = said(3, ordinal, 0);
        let stray = Listed {
            name: "old-7".into(),
            ..Listed::default()
        };
        own.listed.insert(9, stray);
        tells(&mut world, ordinal, own);
    }
    let quorum = view(&world).cohort().unwrap().quorum.clone().unwrap();
    assert_eq!((quorum.size(), quorum.needed, quorum.elsewhere), (4, 3, 1));
    // Three of four are there: none of them may be missed.
    world.prepared("2");
    assert!(granted(&world).is_empty());
    let report = world.plan().report;
    let mut blockers = report.steps.iter().filter_map(|s| s.blocker.as_ref());
    assert!(blockers.any(|b| b.reason == Reason::QuorumAtRisk));
}

#[test]
fn a_member_without_a_name_is_known_by_its_address() {
    let mut world = cluster(3);
    for ordinal in 0..3 {
        let mut own = said(3, ordinal, 0);
        for (id, listed) in &mut own.listed {
            listed.hosts = vec![std::mem::take(&mut listed.name)];
            listed.name = if *id == number(1) {
                String::new()
            } else {
                "default".into()
            };
        }
        tells(&mut world, ordinal, own);
    }
    assert_eq!(view(&world).leader(), Some(member(0)));
    assert!((0..3).all(|o| why_out(&world, o).is_empty()));
}

#[test]
fn somebody_else_at_an_address_is_a_stranger() {
    let mut world = cluster(3);
    // Another member answers; one that was removed; one of another cluster.
    for (stranger, name) in [
        (said(3, 2, 0), "orders-2"),
        (
            Sighting {
                member: 5,
                ..said(3, 1, 0)
            },
            "in no list",
        ),
        (
            Sighting {
                cluster: 78,
                ..said(3, 1, 0)
            },
            "another cluster",
        ),
    ] {
        tells(&mut world, 1, stranger);
        let standing = view(&world).standing(member(1)).unwrap().duty.clone();
        let Duty::Unknown(WhyUnknown::Stranger(who)) = &standing else {
            panic!("{standing:?}");
        };
        assert!(who.contains(name), "{who}");
    }
}

#[test]
fn two_clusters_that_each_have_a_leader_are_contested() {
    let mut world = cluster(3);
    let mut own = said(3, 2, 2);
    own.cluster = 78;
    own.listed.retain(|id, _| *id == number(2));
    tells(&mut world, 2, own);
    assert!(matches!(view(&world).lead(), Lead::Contested(who) if who.len() == 2));
    world.prepared("2");
    assert!(granted(&world).is_empty());
}

#[test]
fn a_learner_follows_and_neither_votes_nor_leads() {
    let mut world = cluster(4);
    for ordinal in 0..4 {
        let mut own = said(4, ordinal, 0);
        own.listed.get_mut(&number(3)).unwrap().learner = true;
        if ordinal == 3 {
            own.learner = true;
            own.listed.clear();
        }
        tells(&mut world, ordinal, own);
    }
    let view = view(&world);
    let learner = view.standing(member(3)).unwrap();
    assert_eq!(learner.duty, Duty::Learns);
    assert!(learner.may_lead.is_err());
    let quorum = view.cohort().unwrap().quorum.clone().unwrap();
    assert_eq!(
        (quorum.size(), quorum.voters.contains(&member(3))),
        (3, false)
    );
    let status = world.plan().report;
    assert!(!format!("{status:?}").contains("RoleLabelMissing"));
}

#[test]
fn in_sync_is_at_the_leaders_term_and_within_five_thousand_entries() {
    let of = |change: fn(&mut Sighting)| {
        let mut world = cluster(3);
        let mut own = said(3, 1, 0);
        change(&mut own);
        tells(&mut world, 1, own);
        why_out(&world, 1)
    };
    assert_eq!(of(|s| s.index -= 2_000), "");
    let behind = of(|s| s.index -= 10_000);
    assert!(
        behind.contains("log entries behind, at most 5000"),
        "{behind}"
    );
    assert!(of(|s| s.term = 3).contains("term 3 of 4"));
    assert!(of(|s| s.leader = 0).contains("hears of no leader"));
    let corrupt = of(|s| {
        let alarm = Alarm {
            member: s.member,
            kind: "CORRUPT".into(),
        };
        s.alarms.insert(alarm);
    });
    assert!(corrupt.contains("CORRUPT"), "{corrupt}");
    let full = of(|s| {
        let alarm = Alarm {
            member: s.member,
            kind: "NOSPACE".into(),
        };
        s.alarms.insert(alarm);
    });
    assert_eq!(full, "", "what mends it is a change of the template");
}

#[test]
fn what_a_follower_said_before_its_leader_was_asked_does_not_put_it_behind() {
    let mut world = cluster(3);
    let mut own = said(3, 1, 0);
    own.index -= 10_000;
    let known = world.memory.pod_mut("pod-1");
    known.said = Some(own.clone().answers(Time(NOW - 1_000)).into());
    assert_eq!(why_out(&world, 1), "");
    tells(&mut world, 1, own);
    assert!(why_out(&world, 1).contains("behind"));
}

#[test]
fn while_one_is_down_the_others_wait_and_the_quorum_is_named() {
    let mut world = cluster(3);
    world.unhealthy(2, NOW);
    is_silent(&mut world, 2);
    world.prepared("2").updated(2, "2");
    assert!(granted(&world).is_empty());
    let report = world.plan().report;
    let blocked = report.steps.iter().filter_map(|s| s.blocker.as_ref());
    let at_risk = blocked.clone().find(|b| b.reason == Reason::QuorumAtRisk);
    let at_risk = at_risk.unwrap_or_else(|| panic!("{:?}", blocked.collect::<Vec<_>>()));
    let missing = "1 of 3 voters are there without orders-1; missing: orders-2";
    assert_eq!(at_risk.observed, missing);
}
