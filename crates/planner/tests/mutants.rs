//! Each named rule is needed: with it switched off, some situation gets another, unsafe answer.
//!
//! `cargo test -p ensemble-planner --features mutants`
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It reads files; the planner does not.

mod common;

use common::*;
use ensemble_planner::engine::{Role, WhyUnknown};
use ensemble_planner::{Time, confirm, confirm_switch, mutants};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

/// Only the primary is left to be updated.
fn handing_over() -> World {
    let mut world = World::led(3, 0);
    world.prepared("2").updated(1, "2").updated(2, "2");
    world
}

/// A rule, and what is asked of the planner in a situation where it matters: whether the answer is
/// safe.
type Case = (&'static str, fn() -> bool);

const CASES: &[Case] = &[
    ("ledger-first", || {
        let mut world = World::new(1);
        world.revision("1", 1).passed("1");
        created_members(&world.plan()).is_empty()
    }),
    ("born-keeps-its-claims", || {
        let mut world = World::settled(3);
        world.lose_claim("wal", 1).gone(1);
        created(&world.plan()).is_empty()
    }),
    ("born-knows-its-claims", || {
        let mut world = World::settled(3);
        world.passed("1").born_on(1, "wal", "1ca1ab1e").gone(1);
        created(&world.plan()).is_empty()
    }),
    ("data-missing-halts", || {
        let mut world = World::settled(1);
        world
            .ledger(2, "0")
            .spec(&json!({"replicas": 2}))
            .passed("1")
            .gone(0);
        world.claims.clear();
        created(&world.plan()).is_empty()
    }),
    ("claims-before-pod", || {
        let mut world = World::begun(1);
        !created(&world.claim("data", 0).plan()).contains(&"Pod orders-0".to_owned())
    }),
    ("owner-check", || {
        let mut world = World::settled(3);
        let owner = json!([{"uid": "somebody", "controller": true}]);
        world
            .pod(2, &json!({"metadata": {"ownerReferences": owner}}))
            .ended(2, "Evicted");
        granted(&world).is_empty()
    }),
    ("unhealthy-is-not-down", || {
        let mut world = World::settled(3);
        world.prepared("2").unhealthy(0, NOW).unhealthy(1, NOW);
        granted(&world).is_empty()
    }),
    ("node-gone-after-a-while", || {
        let mut world = World::settled(3);
        world.nodes.as_mut().unwrap().remove("n0");
        world.nodes.as_mut().unwrap().remove("n1");
        world
            .memory
            .node_missing_since
            .insert("n0".into(), Time(NOW));
        granted(world.prepared("2")).is_empty()
    }),
    ("wait-for-terminating", || {
        let mut world = World::settled(3);
        world.prepared("2").leaving(2, 1);
        granted(&world).is_empty()
    }),
    ("budget-counts-grants", || {
        let mut world = World::settled(3);
        granted(world.prepared("2")).len() <= 1
    }),
    ("budget-counts-intents", || {
        let mut world = World::settled(3);
        granted(world.prepared("2").intent(1, "Recreate", 7)).is_empty()
    }),
    ("one-change-at-a-time", || {
        let mut world = World::settled(3);
        world.prepared("2").intent(1, "Recreate", 6);
        world.spec(&json!({"rollout": {"maxUnavailable": 2}}));
        granted(&world).is_empty()
    }),
    ("eviction-let-finish", || {
        let mut world = World::settled(3);
        let budget = world.budgets.get_mut("orders-members").unwrap();
        budget["status"] = json!({"disruptedPods": {"orders-2": "2026-11-16T00:19:50Z"}});
        written(&world.plan()).is_empty()
    }),
    ("claims-intact", || {
        let mut world = World::settled(3);
        world.change_claim("data", 2, &json!({"metadata": {"deletionTimestamp": "x"}}));
        granted(world.prepared("2")).is_empty()
    }),
    ("view-current", || {
        let mut world = World::settled(3);
        world
            .prepared("2")
            .behind
            .push(ensemble_planner::memory::Kind::Pod);
        granted(&world).is_empty()
    }),
    ("still-wanted", || {
        let mut world = World::settled(3);
        let snap = world.prepared("2").store_status().image("1").snapshot();
        confirm(&snap, &snap.ensemble.status.in_flight[0], Time(0)).is_err()
    }),
    ("let-go-by-uid", || {
        let mut world = World::settled(3);
        world.spec(&json!({"replicas": 2, "storage": {"whenScaled": "Delete"}}));
        world.gone(2).store_status();
        world.change_claim("data", 2, &json!({"metadata": {"uid": "another"}}));
        let_go(&world.plan()) == ["wal-orders-2"]
    }),
    ("ready-is-not-in-sync", || {
        let mut world = World::led(3, 0);
        world.prepared("2").updated(1, "2");
        world.but(0, |s| {
            s.attached.remove("orders-1");
        });
        granted(&world).is_empty()
    }),
    ("sync-at-its-term", || {
        let mut world = World::led(3, 0);
        world.prepared("2").updated(1, "2").but(1, |s| s.term = 6);
        granted(&world).is_empty()
    }),
    ("sync-standby-named", || {
        let mut world = handing_over();
        switchover(&world.synchronous(0, None).plan()).is_none()
    }),
    ("successor-synced", || {
        let mut world = World::led(3, 0);
        world.but(2, |s| s.lag = Some(1 << 40));
        let snap = world.switching(0, 2, 7, "Proposed").snapshot();
        confirm_switch(&snap, &stored_switch(&snap), Time(0)).is_err()
    }),
    ("switch-within-budget", || {
        let mut world = handing_over();
        switchover(&world.unhealthy(2, NOW).plan()).is_none()
    }),
    ("primary-handed-over", || {
        let mut world = handing_over();
        world.ensemble["status"]["inFlight"] = json!([{
            "member": "orders-0", "uid": "pod-0", "method": "InPlace", "epoch": 7,
            "since": "2001-01-01T00:00:00Z", "target": revision_name("2")}]);
        let snap = world.snapshot();
        confirm(&snap, &snap.ensemble.status.in_flight[0], Time(0)).is_err()
    }),
    ("role-known", || {
        let mut world = World::led(3, 0);
        world.prepared("2");
        for ordinal in 0..3 {
            world.silent(ordinal, WhyUnknown::Unreachable("x".into()));
        }
        world.spec(&json!({"rollout": {"maxUnavailable": 3}}));
        granted(&world).is_empty()
    }),
    ("lead-contested", || {
        let mut world = World::led(3, 0);
        world.prepared("2").but(1, |s| s.role = Role::Leader);
        world.spec(&json!({"rollout": {"maxUnavailable": 3}}));
        granted(&world).is_empty()
    }),
    ("leader-backed", || {
        let mut world = World::led(3, 0);
        world
            .prepared("2")
            .but(2, |s| s.lock = Some("orders-1".into()));
        granted(&world).is_empty()
    }),
    ("leader-borne-out", || {
        let mut world = World::led(3, 0);
        world
            .prepared("2")
            .spec(&json!({"rollout": {"maxUnavailable": 3}}));
        for ordinal in [0, 2] {
            world.silent(ordinal, WhyUnknown::Unreachable("x".into()));
        }
        world.but(1, |s| {
            s.role = Role::Leader;
            s.lock = Some("orders-1".into());
        });
        granted(&world).is_empty()
    }),
    ("sighting-of-this-run", || {
        let mut world = World::led(3, 0);
        world
            .prepared("2")
            .updated(2, "2")
            .runs(2, "run-2", NOW + 1);
        granted(&world).is_empty()
    }),
    ("sighting-fresh", || {
        let mut world = World::led(3, 0);
        granted(world.prepared("2").after(13)).is_empty()
    }),
    ("engine-not-paused", || {
        let mut world = World::led(3, 0);
        granted(world.prepared("2").but(0, |s| s.paused = true)).is_empty()
    }),
    ("engine-settled", || {
        let mut world = World::led(3, 0);
        granted(world.prepared("2").silent(2, WhyUnknown::Stopping)).is_empty()
    }),
    ("engine-asked-again", || {
        let mut world = World::led(3, 0);
        let snap = world.prepared("2").store_status().snapshot();
        let intent = &snap.ensemble.status.in_flight[0];
        confirm(&snap, intent, Time(NOW + 1)).is_err()
    }),
    ("switch-at-the-same-term", || {
        let mut world = handing_over();
        let snap = world.switching(0, 1, 6, "Proposed").snapshot();
        confirm_switch(&snap, &stored_switch(&snap), Time(0)).is_err()
    }),
    ("no-change-in-a-switch", || {
        let mut world = World::led(3, 0);
        granted(world.prepared("2").switching(0, 1, 7, "Asked")).is_empty()
    }),
    ("arrived-at-a-higher-term", || {
        let mut world = handing_over();
        world.switching(0, 1, 7, "Asked").lead(1, 7);
        switchover(&world.plan()).is_some_and(|s| s.0 == "Asked")
    }),
    ("switch-has-a-deadline", || {
        let mut world = handing_over();
        world.switching(0, 1, 7, "Asked").after(600);
        switchover(&world.plan()).is_some_and(|s| s.0 == "Abandoned")
    }),
    ("switch-by-its-author", || {
        let mut world = handing_over();
        world.switching(0, 1, 7, "Proposed").epoch += 1;
        switchover(&world.plan()).is_some_and(|s| s.0 == "Abandoned")
    }),
    ("parameters-in-order", || {
        let mut world = World::led(3, 0);
        world.parameter("max_connections", "100", "200");
        granted(&world) == ["orders-2"]
    }),
    ("parameters-noticed", || {
        let mut world = World::led(3, 0);
        world.parameter("max_connections", "100", "200");
        for ordinal in 1..3 {
            world.but(ordinal, |s| s.pending_restart = false);
        }
        granted(&world).is_empty()
    }),
    ("superseded-stands-down", || {
        let mut world = World::settled(3);
        world.ensemble["status"]["epoch"] = 8.into();
        ensemble_planner::safety::superseded(&world.snapshot())
    }),
    ("claim-unused", || {
        let mut world = World::settled(3);
        world.ensemble["status"]["letGo"] =
            json!([{"claim": "data-orders-1", "uid": "data-1", "consent": "storage.whenScaled"}]);
        world.plan().lettings.is_empty()
    }),
    ("resize-seen-done", || {
        let mut world = World::settled(3);
        world.pod(
            2,
            &json!({"metadata": {"annotations": {
                "ensemble.dev/resizes": r#"{"app":{"requests":{"cpu":"2"}}}"#}}}),
        );
        let pod = world.pods.get_mut("orders-2").unwrap();
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "2"}});
        !written(&world.plan()).contains(&"Patch Pod orders-2".to_owned())
    }),
    ("primary-has-successor", || {
        let mut world = handing_over();
        world.spec(&json!({"rollout": {"primary": "Restart", "maxUnavailable": 3}}));
        granted(world.but(0, |s| s.attached.clear())).is_empty()
    }),
    ("let-go-written-first", || {
        let mut world = World::settled(3);
        world.spec(&json!({"replicas": 2, "storage": {"whenScaled": "Delete"}}));
        world.gone(2).plan().lettings.is_empty()
    }),
];

#[test]
fn each_rule_is_needed() {
    for (rule, safe) in CASES {
        mutants::switch_off(None);
        assert!(safe(), "{rule}: not safe even with the rule");
        mutants::switch_off(Some(rule));
        assert!(!safe(), "{rule}: safe also without the rule");
    }
    mutants::switch_off(None);
}

fn rules_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rules_in(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for call in ["is_off(\"", "if on(\""] {
            let names = text
                .split(call)
                .skip(1)
                .filter_map(|rest| rest.split('"').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn each_rule_in_the_source_has_a_case() {
    let mut found = BTreeSet::new();
    rules_in(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    let known: BTreeSet<String> = CASES.iter().map(|(rule, _)| (*rule).to_owned()).collect();
    let missing: Vec<_> = found.difference(&known).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "no such rule: {gone:?}");
}
