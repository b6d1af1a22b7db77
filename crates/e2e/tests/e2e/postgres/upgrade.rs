//! A new image: replicas first, the lead handed over once, the old primary last, nothing lost.

use super::{
    nobody_touches, replicas, until_settled, until_waits_for, why, with, with_lent, with_time,
};
use anyhow::{Result, ensure};
use ensemble_e2e::ensemble::ensembles;
use ensemble_e2e::postgres::film::{Film, Scene, is_upgrade};
use ensemble_e2e::postgres::{LIMIT, NAME, Shape, image, member, sample};
use ensemble_e2e::stage::{Need, enter};
use ensemble_testbed::eventually;
use ensemble_testbed::harness::{Cluster, TestNamespace};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::time::{Duration, Instant};

async fn upgrade(name: &str, shape: Shape) -> Result<()> {
    with(name, shape, async |_, postgres| {
        let uids = |pods: &std::collections::BTreeMap<String, _>| -> Vec<Option<String>> {
            pods.values()
                .map(|p: &k8s_openapi::api::core::v1::Pod| p.uid())
                .collect()
        };
        let before = uids(&postgres.members().await?);
        let outcome = postgres.upgraded("2").await?;
        is_upgrade(&outcome.scenes, &outcome.old_leader)?;
        outcome.one_change_nothing_lost()?;
        let status = until_settled(postgres).await?;
        let leader = postgres.leader().await?;
        let told = status["lead"]["member"] == leader.as_str();
        ensure!(told, "{leader} leads, and the status says {status}");
        let arrived = status["switchover"]["phase"] == "Arrived";
        ensure!(arrived, "the switchover has not arrived: {status}");
        let same_pods = before == uids(&postgres.members().await?);
        ensure!(
            same_pods != shape.recreate,
            "the same pods: {same_pods}, by {outcome:?} and {status}"
        );
        eprintln!("{name}: {:.1} s, {:?}", outcome.seconds, outcome.tallies);
        Ok(())
    })
    .await
}

#[tokio::test]
#[ignore = "in turn"]
async fn an_upgrade_with_the_lead_at_0_changes_leader_once_and_loses_nothing() -> Result<()> {
    upgrade("async-0", Shape::ensemble(0)).await
}

#[tokio::test]
async fn an_upgrade_with_the_lead_at_1_changes_leader_once_and_loses_nothing() -> Result<()> {
    upgrade("async-1", Shape::ensemble(1)).await
}

#[tokio::test]
#[ignore = "in turn"]
async fn an_upgrade_with_the_lead_at_2_changes_leader_once_and_loses_nothing() -> Result<()> {
    upgrade("async-2", Shape::ensemble(2)).await
}

#[tokio::test]
async fn a_synchronous_upgrade_with_the_lead_at_0_changes_leader_once_and_loses_nothing()
-> Result<()> {
    upgrade("sync-0", Shape::ensemble(0).synchronous(true)).await
}

#[tokio::test]
#[ignore = "in turn"]
async fn a_synchronous_upgrade_with_the_lead_at_1_changes_leader_once_and_loses_nothing()
-> Result<()> {
    upgrade("sync-1", Shape::ensemble(1).synchronous(true)).await
}

#[tokio::test]
#[ignore = "in turn"]
async fn a_synchronous_upgrade_with_the_lead_at_2_changes_leader_once_and_loses_nothing()
-> Result<()> {
    upgrade("sync-2", Shape::ensemble(2).synchronous(true)).await
}

#[tokio::test]
async fn an_upgrade_that_recreates_pods_changes_leader_once_and_loses_nothing() -> Result<()> {
    let shape = Shape {
        recreate: true,
        ..Shape::ensemble(1)
    };
    upgrade("recreate", shape).await
}

#[tokio::test]
async fn a_primary_that_is_to_go_first_hands_over_goes_first_and_the_lead_moves_twice_in_all()
-> Result<()> {
    with("first", Shape::ensemble(0), async |_, postgres| {
        let first = json!({"rollout": {"order": "PrimaryFirst"}});
        postgres.change_spec(first).await?;
        let outcome = postgres.upgraded("2").await?;
        let (old, scenes) = (&outcome.old_leader, &outcome.scenes);
        let [
            Scene::Lead(second),
            Scene::Turn(first),
            Scene::Turn(other),
            Scene::Lead(third),
            Scene::Turn(last),
        ] = scenes.as_slice()
        else {
            anyhow::bail!("seen: {scenes:?}");
        };
        let order = first == old && other != old && other != second && last == second;
        ensure!(order && third != second, "seen: {scenes:?}, {old} led");
        ensure!(outcome.timelines == 2, "{outcome:?}");
        outcome.nothing_lost()
    })
    .await
}

/// No controller of ours: what the others are compared with must work by itself.
#[tokio::test]
async fn the_same_under_a_stateful_set_is_measured_alike() -> Result<()> {
    let _turn = enter(Need::Database).await;
    let cluster = Cluster::connect().await?;
    TestNamespace::run(&cluster, "native", async |namespace| {
        let shape = Shape::stateful_set(0);
        let postgres = ensemble_e2e::postgres::Postgres::up(namespace, shape).await?;
        let outcome = postgres.upgraded("2").await?;
        ensure!(outcome.timelines >= 1, "{outcome:?}");
        let turns = |s: &&Scene| matches!(s, Scene::Turn(_));
        ensure!(
            outcome.scenes.iter().filter(turns).count() == 3,
            "{outcome:?}"
        );
        outcome.nothing_lost()
    })
    .await
}

#[tokio::test]
async fn the_sample_passes_validation_and_pod_security_restricted_and_patroni_is_not_process_1()
-> Result<()> {
    let _turn = enter(Need::Database).await;
    let cluster = Cluster::connect().await?;
    ensemble_e2e::ensemble::install(&cluster).await?;
    TestNamespace::run(&cluster, "restricted", async |namespace| {
        let spaces: Api<Namespace> = Api::all(namespace.client());
        let enforce = json!({"metadata": {"labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
        }}});
        spaces
            .patch(
                &namespace.name,
                &PatchParams::default(),
                &Patch::Merge(enforce),
            )
            .await?;
        for object in sample::stored()? {
            namespace.apply(object).await?;
        }
        ensemble_e2e::ensemble::ready(namespace, NAME, LIMIT).await?;
        // As process 1, Patroni may stop for good over a line of its log.
        let first = "tr '\\0' ' ' < /proc/1/cmdline";
        let first = namespace
            .shell_in(&member(0), Some("postgres"), first)
            .await?;
        ensure!(!first.contains("patroni"), "process 1 is {first}");
        Ok(())
    })
    .await
}

/// A window in which replicas are Ready and do not stream: elsewhere, acknowledged writes were lost
/// in it, because the new leader was restarted.
#[tokio::test]
async fn the_leader_is_not_touched_until_an_updated_replica_streams_from_it() -> Result<()> {
    with_time("window", Shape::ensemble(0), async |cluster, postgres| {
        postgres.start_writing().await?;
        // A change of leader just before, and a window that stays open: nobody may stream.
        let [next, _] = replicas(postgres).await?;
        postgres.switch(&postgres.leader().await?, &next).await?;
        let leader = postgres.leader().await?;
        // On a busy machine it has the lead some time before it takes writes.
        eventually("the new leader takes writes", LIMIT, async || {
            let closed = postgres.sql(&leader, "ALTER ROLE replicator NOLOGIN");
            Ok(closed.await.ok())
        })
        .await?;
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_replication";
        postgres.sql(&leader, cut).await?;
        eventually("nobody streams and everybody is ready", LIMIT, async || {
            // One that was on its way in gets through.
            postgres.sql(&leader, cut).await?;
            let streaming = postgres.streaming().await?.len();
            Ok((streaming == 0 && postgres.all_ready().await?).then_some(()))
        })
        .await?;

        let film = Film::begin(postgres.namespace).await?;
        postgres.set_image(&image("2")).await?;
        let reasons = ["NotInSync", "NoSuccessor", "BudgetUsed"];
        until_waits_for(postgres, &reasons).await?;
        let said = why(cluster, postgres)?;
        ensure!(reasons.iter().any(|r| said.out.contains(r)), "{said:?}");
        nobody_touches(postgres, &[&leader], Duration::from_secs(40)).await?;
        ensure!(
            !film.scenes().iter().any(|s| matches!(s, Scene::Lead(_))),
            "the lead moved: {:?}",
            film.scenes()
        );

        postgres.sql(&leader, "ALTER ROLE replicator LOGIN").await?;
        until_settled(postgres).await?;
        ensure!(postgres.leader().await? != leader, "the lead did not move");
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_tag_that_does_not_exist_touches_nobody_and_is_named_within_seconds() -> Result<()> {
    with_lent(1, async |cluster, postgres| {
        postgres.start_writing().await?;
        let before = postgres.marks().await?;
        let began = Instant::now();
        postgres.set_image(&image("nowhere")).await?;
        until_waits_for(postgres, &["ImageMissing"]).await?;
        let took = began.elapsed();
        ensure!(took < Duration::from_secs(30), "it took {took:?}");
        let said = why(cluster, postgres)?;
        ensure!(
            said.code == 4 && said.out.contains(&image("nowhere")),
            "{said:?}"
        );
        ensure!(postgres.marks().await? == before, "somebody was touched");

        postgres.set_image(&image("1")).await?;
        until_settled(postgres).await?;
        ensure!(
            postgres.marks().await? == before,
            "going back touched somebody"
        );
        let told = postgres.nothing_lost().await?;
        ensure!(told.iter().all(|t| t.failed_writes == 0), "{told:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_change_beside_the_engines_container_moves_no_leader() -> Result<()> {
    let shape = Shape {
        proxy: true,
        ..Shape::ensemble(0)
    };
    with("beside", shape, async |_, postgres| {
        let leader = postgres.leader().await?;
        let lock = postgres.lock().await?;
        let before = postgres.marks().await?;
        let api = ensembles(postgres.namespace.client(), &postgres.namespace.name);
        let mut list = api.get(NAME).await?.data["spec"]["template"]["spec"]["containers"].clone();
        list[1]["image"] = image("2").into();
        let template = json!({"template": {"spec": {"containers": list}}});
        postgres.change_spec(template).await?;
        until_settled(postgres).await?;
        ensure!(
            postgres.marks().await? == before,
            "PostgreSQL was restarted"
        );
        ensure!(
            postgres.lock().await? == lock,
            "the lead moved from {leader}"
        );
        Ok(())
    })
    .await
}
