//! Plans of random worlds.

use crate::common::*;
use crate::worlds;
use ensemble_planner::cast::Cast;
use ensemble_planner::presence::Presence;
use ensemble_planner::{confirm, plan};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn ordinal(member: &str) -> u32 {
    member.strip_prefix("orders-").unwrap().parse().unwrap()
}

/// Members that are asked for and do not serve, or are about to be disrupted by a stored intent.
fn unavailable(world: &World) -> BTreeSet<u32> {
    let snap = world.snapshot();
    let live =
        |i: &&ensemble_api::status::Intent| ensemble_planner::safety::intent_is_live(&snap, i);
    let intents = snap.ensemble.status.in_flight.iter().filter(live);
    let in_flight: BTreeSet<u32> = intents.map(|i| ordinal(&i.member)).collect();
    let cast = Cast::of(&snap);
    let all = 0..snap.ensemble.spec.replicas;
    all.filter(|o| !cast.available(member(*o)) || in_flight.contains(o))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_world_makes_the_planner_panic(world in worlds::world()) {
        let snap = world.snapshot();
        let plan = plan(&snap);
        prop_assert!(plan.report.steps.len() <= 32);
        for intent in &snap.ensemble.status.in_flight {
            let _ = confirm(&snap, intent, ensemble_planner::Time(0));
        }
    }

    #[test]
    fn consent_never_takes_more_serving_members_than_the_budget_leaves(world in worlds::world()) {
        let snap = world.snapshot();
        let budget = snap.ensemble.spec.rollout.max_unavailable as usize;
        let granted: Vec<u32> = granted(&world).iter().map(|m| ordinal(m)).collect();
        let before = unavailable(&world);
        let serving = granted.iter().filter(|o| **o < snap.ensemble.spec.replicas && !before.contains(o)).count();
        if serving > 0 {
            prop_assert!(before.len() + serving <= budget, "{before:?} {granted:?} {budget}");
        }
        let unique: BTreeSet<_> = granted.iter().collect();
        prop_assert_eq!(unique.len(), granted.len());
    }

    #[test]
    fn beyond_the_budget_only_one_member_that_runs_is_taken(world in worlds::world()) {
        let snap = world.snapshot();
        let budget = snap.ensemble.spec.rollout.max_unavailable as usize;
        let cast = Cast::of(&snap);
        let running = |m: &String| !matches!(cast.presence(member(ordinal(m))), Presence::Down(_));
        let granted: Vec<String> = granted(&world).into_iter().filter(running).collect();
        let asked = granted.iter().filter(|m| ordinal(m) < snap.ensemble.spec.replicas).count();
        if unavailable(&world).len() > budget {
            prop_assert!(asked <= 1, "{granted:?}");
        }
    }

    #[test]
    fn what_is_consented_to_is_confirmed_if_nothing_changes(mut world in worlds::world()) {
        let granted = granted(&world);
        world.store_status();
        let snap = world.snapshot();
        let stored = &snap.ensemble.status.in_flight;
        // A mark that goes first holds the status back; the next pass grants again.
        for member in granted.iter().filter(|m| stored.iter().any(|i| i.member == **m)) {
            let intent = stored.iter().find(|i| i.member == *member).unwrap();
            let answer = confirm(&snap, intent, ensemble_planner::Time(0));
            prop_assert!(answer.is_ok(), "{member}: {answer:?}");
        }
    }

    #[test]
    fn storing_what_is_planned_comes_to_rest(mut world in worlds::world()) {
        for _ in 0..4 {
            world.store_status();
        }
        let plan = world.plan();
        let before = world.snapshot().ensemble.status;
        prop_assert!(status(&plan).is_none(), "{:#?}\n{:#?}", before, status(&plan));
    }

    #[test]
    fn no_claim_is_let_go_that_was_not_written_down(world in worlds::world()) {
        let stored = world.snapshot().ensemble.status.let_go;
        for letting in world.plan().lettings {
            let claim = letting.claim();
            prop_assert!(stored.iter().any(|l| l.claim == claim.name && l.uid == claim.uid));
        }
    }

    #[test]
    fn never_two_pods_for_one_identity_and_never_one_without_its_claims(world in worlds::world()) {
        for name in created_members(&world.plan()) {
            let Some(member) = name.strip_prefix("Pod ") else { continue };
            prop_assert!(!world.pods.contains_key(member));
            for claim in ["data", "wal"] {
                let claim = format!("{claim}-{member}");
                prop_assert!(world.claims.contains_key(&claim));
            }
        }
    }
}
