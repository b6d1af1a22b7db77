//! Each named rule is needed: with it switched off, some situation gets another, unsafe answer.
//!
//! `cargo test -p ensemble-planner --features mutants`
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use ensemble_api::Rule;
use ensemble_engines::patroni::Role;
use ensemble_planner::cast::Cast;
use ensemble_planner::engine::WhyUnknown;
use ensemble_planner::errand::Errand;
use ensemble_planner::memory::{Check, Images, Kind};
use ensemble_planner::method::{InPlace, in_place};
use ensemble_planner::roster::MemberId;
use ensemble_planner::safety::How;
use ensemble_planner::waivers::Waivers;
use ensemble_planner::wish::{Act, Cause, Round, Wish};
use ensemble_planner::{Safety, Time, confirm, confirm_errand, mutants};
use serde_json::json;

/// Only the primary is left to be updated.
fn handing_over() -> World {
    let mut world = World::led(3, 0);
    world.prepared("2").updated(1, "2").updated(2, "2");
    world
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

/// Whether safety lets a member be disrupted so, whoever may wish for it.
fn may(world: &World, ordinal: u32, act: Act) -> bool {
    let snap = world.snapshot();
    let wish = Wish {
        who: MemberId {
            ordinal,
            ..MemberId::default()
        },
        act,
        cause: Cause::Ended("by itself".into()),
        round: Round::Clear,
    };
    Safety::assess(&Cast::of(&snap)).grant(&wish).is_ok()
}

/// A rule, and what is asked of the planner in a situation where it matters: whether the answer is
/// safe.
type Case = (Rule, fn() -> bool);

/// A quota refuses a pod that asks for so much.
fn quota_refuses(world: &mut World, tag: &str, requested: &str) {
    world.refused(tag, 5);
    let Some(Check::Refused(failure)) = world.memory.checks.get_mut(&revision_name(tag)) else {
        return;
    };
    failure.reason = ensemble_api::Reason::QuotaExceeded;
    failure.message = format!(
        "is forbidden: exceeded quota: small, requested: {requested}, used: x=3, limited: x=3"
    );
}

/// Whether within-budget is suspended for a member.
fn suspended(world: &World, rule: Rule, ordinal: u32) -> bool {
    let snap = world.snapshot();
    let waivers = Waivers::of(&snap, Cast::of(&snap).roster());
    waivers.suspend(rule, member(ordinal))
}

const CASES: &[Case] = &[
    (Rule::MinimumKept, || {
        let mut world = World::settled(3);
        world.spec(&json!({"scaling": {"min": 3}}));
        let spec = json!({"ensemble": "orders", "remove": {"member": "orders-1"}});
        let meta = json!({"name": "ask", "uid": "r-1", "resourceVersion": "1"});
        world
            .requests
            .insert("ask".into(), json!({"metadata": meta, "spec": spec}));
        world.store_status();
        world.snapshot().ensemble.status.ledger["members"]
            .retired
            .is_empty()
    }),
    (Rule::OfflineKeepsItsClaims, || {
        let mut world = World::settled(4);
        let storage = json!({"whenScaled": "Delete"});
        world.spec(&json!({"replicas": 3, "offline": [1], "storage": storage}));
        world.gone(1).store_status();
        world.snapshot().ensemble.status.let_go.is_empty()
    }),
    (Rule::WaivedForOneMember, || {
        let mut world = World::settled(3);
        world.waived("within-budget", "orders-2", 600);
        !suspended(&world, Rule::WithinBudget, 1)
    }),
    (Rule::WaiverExpires, || {
        let mut world = World::settled(3);
        world.waived("within-budget", "orders-2", 600).after(600);
        !suspended(&world, Rule::WithinBudget, 2)
    }),
    (Rule::SomeRulesStand, || {
        let mut world = World::settled(3);
        world.waive("w", "claims-intact", "orders-2", 600);
        let until = Time(NOW + 600_000).stamp();
        world.requests.get_mut("w").unwrap()["status"] =
            json!({"waiver": {"until": until, "epoch": 7}});
        !suspended(&world, Rule::ClaimsIntact, 2)
    }),
    (Rule::OnlyWhatChanged, || {
        let mut world = World::settled(1);
        let mirrored = json!([{"name": "app", "image": "mirror/app:1"}]);
        world.pod(0, &json!({"spec": {"containers": mirrored}}));
        let (from, mut to) = (template("1"), template("1"));
        to.insert("metadata".into(), json!({"labels": {"tier": "gold"}}));
        let pod = &world.pods["orders-0"];
        let write = in_place(pod, "orders-2", 2, &from, &to, &Images::new());
        matches!(write, Some(InPlace::Pod(pod))
                 if pod["spec"]["containers"][0]["image"] == "mirror/app:1")
    }),
    (Rule::PutBackNoticed, || {
        let mut world = World::settled(1);
        let note = json!({"ensemble.dev/replaces": "app=run-1",
                          "ensemble.dev/replaces-images": "{\"app\":\"app:1\"}"});
        world.pod(0, &json!({"metadata": {"annotations": note}}));
        world.pods.get_mut("orders-0").unwrap()["status"]["containerStatuses"][0]["containerID"] =
            "run-1".into();
        !world.snapshot().pods["orders-0"].is_changing()
    }),
    (Rule::TakenBackRestartsNothing, || {
        let mut world = World::settled(1);
        let note = json!({"ensemble.dev/replaces": "app=run-1",
                          "ensemble.dev/replaces-images": "{\"app\":\"app:1\"}"});
        world.pod(0, &json!({"metadata": {"annotations": note}}));
        let pod = world.pods.get_mut("orders-0").unwrap();
        pod["spec"]["containers"][0]["image"] = "app:2".into();
        pod["status"]["containerStatuses"][0]["containerID"] = "run-1".into();
        let (old, new) = (template("2"), template("1"));
        let written = in_place(pod, "orders-1", 3, &old, &new, &Images::new());
        let Some(InPlace::Pod(pod)) = written else {
            return false;
        };
        pod["metadata"]["annotations"]["ensemble.dev/replaces"] == "app="
    }),
    (Rule::GenerationsTold, || {
        let mut world = World::settled(3);
        world.prepared("2");
        world.spec(&json!({"rollout": {"method": "InPlaceIfPossible"}}));
        world.pod(2, &json!({"status": {"observedGeneration": null}}));
        steps(&world.plan()).contains(&"Recreate orders-2 Running".to_owned())
    }),
    (Rule::TemplateTried, || {
        let mut world = World::settled(3);
        world.image("2").revision("2", 2);
        world.spec(&json!({"rollout": {"prePull": "Skip"}}));
        granted(&world).is_empty()
    }),
    (Rule::NoMoreThanBefore, || {
        let mut world = World::settled(3);
        world.image("2").revision("2", 2);
        world.spec(&json!({"rollout": {"prePull": "Skip"}}));
        quota_refuses(&mut world, "1", "requests.cpu=1");
        quota_refuses(&mut world, "2", "requests.cpu=2");
        granted(&world).is_empty()
    }),
    (Rule::GrowthPaced, || {
        let mut world = World::led(3, 0);
        world.spec(&json!({"replicas": 10})).ledger(10, "0-2");
        for ordinal in 3..10 {
            world.claim("data", ordinal).claim("wal", ordinal);
        }
        let created = created_members(&world.plan());
        created.iter().filter(|c| c.starts_with("Pod ")).count() == 2
    }),
    (Rule::ZonesEven, || {
        let mut world = World::new(2);
        world.revision("1", 1).passed("1").ledger(2, "");
        world.spec(&json!({"zones": {"names": ["a", "b"]}}));
        let claim = body(&world.plan(), Kind::Claim, "data-orders-1");
        claim["metadata"]["labels"]["ensemble.dev/zone"] == "b"
    }),
    (Rule::ZoneKept, || {
        let mut world = World::settled(2);
        world.spec(&json!({"zones": {"names": ["a", "b"]}}));
        let zone = json!({"metadata": {"labels": {"ensemble.dev/zone": "b"}}});
        world.change_claim("data", 0, &zone).gone(0);
        let pod = body(&world.plan(), Kind::Pod, "orders-0");
        pod["metadata"]["labels"]["ensemble.dev/zone"] == "b"
    }),
    (Rule::LedgerFirst, || {
        let mut world = World::new(1);
        world.revision("1", 1).passed("1");
        created_members(&world.plan()).is_empty()
    }),
    (Rule::BornKeepsItsClaims, || {
        let mut world = World::settled(3);
        world.lose_claim("wal", 1).gone(1);
        created(&world.plan()).is_empty()
    }),
    (Rule::BornKnowsItsClaims, || {
        let mut world = World::settled(3);
        world.passed("1").born_on(1, "wal", "1ca1ab1e").gone(1);
        created(&world.plan()).is_empty()
    }),
    (Rule::DataPresent, || {
        let mut world = World::settled(1);
        world
            .ledger(2, "0")
            .spec(&json!({"replicas": 2}))
            .fit_budget()
            .passed("1")
            .gone(0);
        world.claims.clear();
        created(&world.plan()).is_empty()
    }),
    (Rule::ClaimsBeforePod, || {
        let mut world = World::begun(1);
        !created(&world.claim("data", 0).plan()).contains(&"Pod orders-0".to_owned())
    }),
    (Rule::OwnerCheck, || {
        let mut world = World::settled(3);
        let owner = json!([{"uid": "somebody", "controller": true}]);
        world
            .pod(2, &json!({"metadata": {"ownerReferences": owner}}))
            .ended(2, "Evicted");
        granted(&world).is_empty()
    }),
    (Rule::IdentityKnown, || {
        let mut world = World::settled(3);
        !may(world.leaving(2, 1), 2, Act::Recreate)
    }),
    (Rule::ProvenDown, || !may(&World::settled(3), 2, Act::Clear)),
    (Rule::NodesKnown, || {
        let mut world = World::settled(3);
        world.prepared("2").nodes = None;
        world
            .waiting(0, "CrashLoopBackOff")
            .waiting(1, "CrashLoopBackOff");
        granted(&world).is_empty()
    }),
    (Rule::UnhealthyIsNotDown, || {
        let mut world = World::settled(3);
        world.prepared("2").unhealthy(0, NOW).unhealthy(1, NOW);
        granted(&world).is_empty()
    }),
    (Rule::NodeGoneAfterAWhile, || {
        let mut world = World::settled(3);
        world.nodes.as_mut().unwrap().remove("n0");
        world.nodes.as_mut().unwrap().remove("n1");
        world
            .memory
            .node_missing_since
            .insert("n0".into(), Time(NOW));
        granted(world.prepared("2")).is_empty()
    }),
    (Rule::WaitForTerminating, || {
        let mut world = World::settled(3);
        world.prepared("2").leaving(2, 1);
        granted(&world).is_empty()
    }),
    (Rule::WithinBudget, || {
        let mut world = World::settled(3);
        world.prepared("2").unhealthy(0, NOW).unhealthy(1, NOW);
        granted(&world).is_empty()
    }),
    (Rule::BudgetCountsGrants, || {
        let mut world = World::settled(3);
        granted(world.prepared("2")).len() <= 1
    }),
    (Rule::BudgetCountsIntents, || {
        let mut world = World::settled(3);
        granted(world.prepared("2").intent(1, "Recreate", 7)).is_empty()
    }),
    (Rule::OneChangeAtATime, || {
        let mut world = World::settled(3);
        world.prepared("2").intent(1, "Recreate", 6);
        world.spec(&json!({"rollout": {"maxUnavailable": 2}}));
        granted(&world).is_empty()
    }),
    (Rule::EvictionLetFinish, || {
        let mut world = World::settled(3);
        let budget = world.budgets.get_mut("orders-members").unwrap();
        budget["status"] = json!({"disruptedPods": {"orders-2": "2026-11-16T00:19:50Z"}});
        written(&world.plan()).is_empty()
    }),
    (Rule::UnreadyByVersion, || {
        let mut world = World::settled(3);
        world.prepared("2").store_status();
        world.unhealthy(2, NOW);
        let snap = world.snapshot();
        let warrant = confirm(&snap, &snap.ensemble.status.in_flight[0], Time(0));
        warrant.unwrap().how() == How::Delete
    }),
    (Rule::ClaimsIntact, || {
        let mut world = World::settled(3);
        world.change_claim("data", 2, &json!({"metadata": {"deletionTimestamp": "x"}}));
        granted(world.prepared("2")).is_empty()
    }),
    (Rule::ViewCurrent, || {
        let mut world = World::settled(3);
        world
            .prepared("2")
            .behind
            .push(ensemble_planner::memory::Kind::Pod);
        granted(&world).is_empty()
    }),
    (Rule::StillWanted, || {
        let mut world = World::settled(3);
        let snap = world.prepared("2").store_status().image("1").snapshot();
        confirm(&snap, &snap.ensemble.status.in_flight[0], Time(0)).is_err()
    }),
    (Rule::LetGoByUid, || {
        let mut world = World::settled(3);
        world.spec(&json!({"replicas": 2, "storage": {"whenScaled": "Delete"}}));
        world.gone(2).store_status();
        world.change_claim("data", 2, &json!({"metadata": {"uid": "another"}}));
        let_go(&world.plan()) == ["wal-orders-2"]
    }),
    (Rule::ReadyIsNotInSync, || {
        let mut world = World::led(3, 0);
        world.prepared("2").updated(1, "2");
        world.but(0, |s| {
            s.attached.remove("orders-1");
        });
        granted(&world).is_empty()
    }),
    (Rule::SyncAtItsTerm, || {
        let mut world = World::led(3, 0);
        world.prepared("2").updated(1, "2").but(1, |s| s.term = 6);
        granted(&world).is_empty()
    }),
    (Rule::SyncStandbyNamed, || {
        let mut world = handing_over();
        switchover(&world.synchronous(0, None).plan()).is_none()
    }),
    (Rule::SuccessorSynced, || {
        let mut world = World::led(3, 0);
        world.but(2, |s| s.lag = Some(1 << 40));
        let snap = world.switching(0, 2, 7, "Proposed").snapshot();
        confirm_errand(&snap, &Errand::of(&stored_switch(&snap)), Time(0)).is_err()
    }),
    (Rule::SwitchWithinBudget, || {
        let mut world = handing_over();
        switchover(&world.unhealthy(2, NOW).plan()).is_none()
    }),
    (Rule::PrimaryHandedOver, || {
        let mut world = handing_over();
        world.ensemble["status"]["inFlight"] = json!([{
            "member": "orders-0", "uid": "pod-0", "method": "InPlace", "epoch": 7,
            "since": "2001-01-01T00:00:00Z", "target": revision_name("2")}]);
        let snap = world.snapshot();
        confirm(&snap, &snap.ensemble.status.in_flight[0], Time(0)).is_err()
    }),
    (Rule::RoleKnown, || {
        let mut world = World::led(3, 0);
        world.prepared("2");
        for ordinal in 0..3 {
            world.silent(ordinal, WhyUnknown::Unreachable("x".into()));
        }
        world.spec(&json!({"rollout": {"maxUnavailable": 3}}));
        granted(&world).is_empty()
    }),
    (Rule::LeadContested, || {
        let mut world = World::led(3, 0);
        world.prepared("2").but(1, |s| s.role = Role::Leader);
        world.spec(&json!({"rollout": {"maxUnavailable": 3}}));
        granted(&world).is_empty()
    }),
    (Rule::LeaderBacked, || {
        let mut world = World::led(3, 0);
        world
            .prepared("2")
            .but(2, |s| s.lock = Some("orders-1".into()));
        granted(&world).is_empty()
    }),
    (Rule::LeaderBorneOut, || {
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
    (Rule::SightingOfThisRun, || {
        let mut world = World::led(3, 0);
        world
            .prepared("2")
            .updated(2, "2")
            .runs(2, "run-2", NOW + 1);
        granted(&world).is_empty()
    }),
    (Rule::SightingFresh, || {
        let mut world = World::led(3, 0);
        granted(world.prepared("2").after(13)).is_empty()
    }),
    (Rule::EngineNotPaused, || {
        let mut world = World::led(3, 0);
        granted(world.prepared("2").but(0, |s| s.paused = true)).is_empty()
    }),
    (Rule::EngineSettled, || {
        let mut world = World::led(3, 0);
        granted(world.prepared("2").silent(2, WhyUnknown::Stopping)).is_empty()
    }),
    (Rule::EngineAskedAgain, || {
        let mut world = World::led(3, 0);
        let snap = world.prepared("2").store_status().snapshot();
        let intent = &snap.ensemble.status.in_flight[0];
        confirm(&snap, intent, Time(NOW + 1)).is_err()
    }),
    (Rule::QuorumHolds, || {
        let mut world = World::voting(5);
        world.spec(&json!({"rollout": {"maxUnavailable": 5}}));
        granted(world.prepared("2")).len() == 2
    }),
    (Rule::BudgetKeepsQuorum, || {
        let mut world = World::new(5);
        world.spec(&json!({"engine": {"etcd": {}}, "rollout": {"maxUnavailable": 4}}));
        kept_by_budgets(&world) == [3]
    }),
    (Rule::FewVotersGiveWay, || {
        granted(World::voting(2).prepared("2")) == ["orders-1"]
    }),
    (Rule::SwitchAtTheSameTerm, || {
        let mut world = handing_over();
        let snap = world.switching(0, 1, 6, "Proposed").snapshot();
        confirm_errand(&snap, &Errand::of(&stored_switch(&snap)), Time(0)).is_err()
    }),
    (Rule::NoChangeInASwitch, || {
        let mut world = World::led(3, 0);
        granted(world.prepared("2").switching(0, 1, 7, "Asked")).is_empty()
    }),
    (Rule::ArrivedAtAHigherTerm, || {
        let mut world = handing_over();
        world.switching(0, 1, 7, "Asked").lead(1, 7);
        switchover(&world.plan()).is_some_and(|s| s.0 == "Asked")
    }),
    (Rule::SwitchHasADeadline, || {
        let mut world = handing_over();
        world.switching(0, 1, 7, "Asked").after(600);
        switchover(&world.plan()).is_some_and(|s| s.0 == "Abandoned")
    }),
    (Rule::SwitchByItsAuthor, || {
        let mut world = handing_over();
        world.switching(0, 1, 7, "Proposed").epoch += 1;
        switchover(&world.plan()).is_some_and(|s| s.0 == "Abandoned")
    }),
    (Rule::ApartCostsNoBudget, || {
        let mut world = World::led(3, 0);
        world.prepared("2").updated(2, "2");
        world.but(0, |s| s.attached.retain(|n, _| n != "orders-2"));
        world.but(2, |s| s.streams = false);
        granted(&world) == ["orders-1"]
    }),
    (Rule::ApartIsNoCopy, || {
        let mut world = handing_over();
        world.but(1, |s| s.streams = false);
        world.but(2, |s| s.streams = false);
        switchover(&world.plan()).is_none()
    }),
    (Rule::SuccessorFollowsTheLeader, || {
        let mut world = handing_over();
        world.but(2, |s| s.electable = false);
        let mut stream = None;
        world.but(0, |s| stream = s.attached.remove("orders-1"));
        world.but(2, |s| {
            s.attached.extend([("orders-1".into(), stream.unwrap())])
        });
        switchover(&world.plan()).is_none()
    }),
    (Rule::SuccessorApplied, || {
        let mut world = handing_over();
        world.but(1, |s| s.unreplayed = 1 << 30);
        world.but(2, |s| s.unreplayed = 1 << 30);
        switchover(&world.plan()).is_none()
    }),
    (Rule::PrimaryRouted, || {
        let mut world = World::led(3, 0);
        world.pod(0, &json!({"metadata": {"labels": {"role": "master"}}}));
        let service = body(&world.plan(), Kind::Service, "orders-primary");
        service["spec"]["selector"]["role"] == "master"
    }),
    (Rule::FailureOfThisChange, || {
        let mut world = World::led(3, 0);
        world.parameter("shared_buffers", "64MB", "128MB");
        world.not_restarted(2, Some("restart failed"));
        world.memory.restarts.get_mut("orders-2").unwrap().of = "another".into();
        !granted(&world).is_empty()
    }),
    (Rule::ParametersInOrder, || {
        let mut world = World::led(3, 0);
        world.parameter("max_connections", "100", "200");
        granted(&world) == ["orders-2"]
    }),
    (Rule::ParametersNoticed, || {
        let mut world = World::led(3, 0);
        world.parameter("max_connections", "100", "200");
        for ordinal in 1..3 {
            world.but(ordinal, |s| s.pending_restart = false);
        }
        granted(&world).is_empty()
    }),
    (Rule::SupersededStandsDown, || {
        let mut world = World::settled(3);
        world.ensemble["status"]["epoch"] = 8.into();
        ensemble_planner::safety::superseded(&world.snapshot())
    }),
    (Rule::TakeOverAfterSilence, || {
        let mut world = World::settled(3);
        world.ensemble["status"]["epoch"] = 8.into();
        let snap = world.after(59).snapshot();
        let mut memory = (*snap.memory).clone();
        memory.overtaken = Some(ensemble_planner::memory::Overtaken {
            since: snap.now.plus_ms(-59_000),
            times: 0,
        });
        let snap = ensemble_planner::Snapshot {
            memory: memory.into(),
            ..snap
        };
        ensemble_planner::safety::takes_over_at(&snap).is_some_and(|at| at > snap.now)
    }),
    (Rule::ClaimUnused, || {
        let mut world = World::settled(3);
        world.ensemble["status"]["letGo"] =
            json!([{"claim": "data-orders-1", "uid": "data-1", "consent": "storage.whenScaled"}]);
        world.plan().lettings.is_empty()
    }),
    (Rule::ResizeSeenDone, || {
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
    (Rule::PrimaryHasSuccessor, || {
        let mut world = handing_over();
        world.spec(&json!({"rollout": {"primary": "Restart", "maxUnavailable": 3}}));
        granted(world.but(0, |s| s.attached.clear())).is_empty()
    }),
    (Rule::SingleRunsAlone, || {
        let mut world = World::led(2, 0);
        world.spec(&json!({"replicas": 1})).prepared("2");
        granted(world.leaving(1, 1)).is_empty()
    }),
    (Rule::CopiesLeft, || {
        let mut world = World::led(3, 0);
        world.spec(&json!({"replicas": 2})).but(0, |s| {
            s.attached.remove("orders-1");
        });
        granted(&world).is_empty()
    }),
    (Rule::LastPrimaryFirst, || {
        let mut world = World::led(3, 2);
        for ordinal in 0..3 {
            world.gone(ordinal);
        }
        created_members(&world.passed("1").plan()) == ["Pod orders-2"]
    }),
    // What only a person overrides, and what makes an exception.
    (Rule::RolloutNotPaused, || {
        let mut world = World::settled(3);
        world.prepared("2").store_status();
        let snap = world.spec(&json!({"suspend": true})).snapshot();
        confirm(&snap, &snap.ensemble.status.in_flight[0], Time(0)).is_err()
    }),
    (Rule::Approved, || {
        let mut world = handing_over();
        world.spec(&json!({"rollout": {"primary": "Supervised"}}));
        granted(world.lead(1, 8)).is_empty()
    }),
    (Rule::PauseRemembered, || {
        let mut world = World::led(3, 0);
        world.prepared("2").but(0, |s| s.paused = true);
        world.store_status();
        for ordinal in 0..3 {
            world.waiting(ordinal, "CrashLoopBackOff");
        }
        granted(&world).is_empty()
    }),
    (Rule::EndedMakesWay, || {
        let mut world = World::led(3, 0);
        world.but(0, |s| s.paused = true).ended(2, "Evicted");
        granted(&world) == ["orders-2"]
    }),
    (Rule::LockHolderKept, || {
        let mut world = World::led(3, 0);
        granted(world.prepared("2").waiting(0, "CrashLoopBackOff")).is_empty()
    }),
    (Rule::OnlyMemberRestarts, || {
        granted(World::led(1, 0).prepared("2")) == ["orders-0"]
    }),
    (Rule::EndedOnceIsNotDown, || {
        let mut world = World::settled(3);
        world.prepared("2").unhealthy(0, NOW);
        granted(world.ended_again(1, 0)).is_empty()
    }),
    (Rule::DownHasNoRole, || {
        let mut world = World::led(3, 0);
        world.prepared("2");
        for ordinal in 0..3 {
            world.waiting(ordinal, "CrashLoopBackOff");
        }
        world.memory.leaderless_since = Some(Time(NOW - 90_000));
        granted(&world).len() == 3
    }),
    (Rule::RecoveryNeedsNoLeader, || {
        let mut world = World::led(3, 0);
        world.prepared("2");
        for ordinal in 0..3 {
            world.unhealthy(ordinal, NOW - 90_000);
            world.silent(ordinal, WhyUnknown::Unreachable("x".into()));
        }
        world.memory.leaderless_since = Some(Time(NOW - 90_000));
        granted(&world).len() == 1
    }),
    (Rule::NoneNeedsNoLeader, || {
        granted(&unled_to_none(90_000)) == ["orders-0"]
    }),
    (Rule::DownCostsNoBudget, || {
        let mut world = World::settled(3);
        world.prepared("2").unhealthy(0, NOW);
        granted(world.waiting(1, "CrashLoopBackOff")) == ["orders-1"]
    }),
    (Rule::RecoveryExceedsBudget, || {
        granted(&unready()).len() == 1
    }),
    (Rule::RecoveryOneAtATime, || {
        granted(unready().leaving(2, 1)).is_empty()
    }),
    (Rule::RecoveryLetsSettle, || {
        let mut world = unready();
        for known in world.memory.pods.values_mut() {
            known.up_since = Some(Time(NOW - 1_000));
        }
        granted(&world).is_empty()
    }),
    (Rule::RecoverySparesOnceReady, || {
        let mut world = unready();
        world.nodes = None;
        granted(&world).is_empty()
    }),
    (Rule::SwitchWaitIsBounded, || {
        let mut world = handing_over();
        world.leaving(2, 90);
        switchover(&world.plan()).is_some()
    }),
    (Rule::VoterMissedAlready, || {
        let mut world = World::voting(3);
        world.prepared("2").waiting(2, "CrashLoopBackOff");
        granted(world.unhealthy(1, NOW)) == ["orders-2"]
    }),
    (Rule::LetGoWrittenFirst, || {
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
        mutants::switch_off(Some(*rule));
        assert!(!safe(), "{rule}: safe also without the rule");
    }
    mutants::switch_off(None);
}

/// Rules that are kept outside of the planner; rehearsals show that they are needed.
const ELSEWHERE: &[(Rule, &str)] = &[
    (Rule::DeleteByUid, "the conductor writes the preconditions"),
    (Rule::ReadYourWrites, "the conductor knows what was written"),
    (Rule::IntentByVersion, "the API server compares versions"),
    (Rule::SwitchStoredFirst, "the conductor asks the engine"),
    (Rule::LiveConfirmation, "the conductor lists the pods"),
];

#[test]
fn each_rule_has_a_case_or_is_kept_elsewhere() {
    for rule in Rule::ALL {
        let cases = CASES.iter().filter(|(of, _)| of == rule).count();
        let elsewhere = ELSEWHERE.iter().filter(|(of, _)| of == rule).count();
        assert_eq!(cases + elsewhere, 1, "{rule}");
    }
}
