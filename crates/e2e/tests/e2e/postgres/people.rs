//! What people ask for: a switchover, an upgrade that waits for their word, fewer members, roles by a
//! label alone.

use super::{nobody_touches, replicas, until_settled, until_waits_for, with, with_lent, with_time};
use anyhow::{Result, ensure};
use ensemble_e2e::ensemble::{ensemble, ready, waits_for};
use ensemble_e2e::postgres::film::{Film, Scene};
use ensemble_e2e::postgres::{LIMIT, NAME, Postgres, Shape, image, postgres_container};
use ensemble_testbed::full::Testbed;
use ensemble_testbed::full::faults::Target;
use ensemble_testbed::harness::is_ready;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn the_lead_is_handed_to_whom_a_person_names() -> Result<()> {
    with_lent(0, async |cluster, postgres| {
        postgres.start_writing().await?;
        let before = postgres.lock().await?;
        let [_, to] = replicas(postgres).await?;
        let namespace = &postgres.namespace.name;
        let words = ["switch", NAME, "--to", &to, "-n", namespace];
        let said = ensemble(cluster, &words)?;
        ensure!(said.code == 0, "{said:?}");
        until_settled(postgres).await?;
        let after = postgres.lock().await?;
        ensure!(after.holder.as_deref() == Some(&*to), "{after:?}");
        ensure!(after.transitions == before.transitions + 1, "{after:?}");
        let status = until_settled(postgres).await?;
        ensure!(status["lead"]["member"] == to.as_str(), "{status}");
        postgres.still_writes().await?;
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_supervised_upgrade_stops_before_the_primary_until_somebody_approves() -> Result<()> {
    with("approve", Shape::ensemble(2), async |cluster, postgres| {
        postgres.start_writing().await?;
        postgres
            .change_spec(json!({"rollout": {"primary": "Supervised"}}))
            .await?;
        let leader = postgres.leader().await?;
        postgres.set_image(&image("2")).await?;
        until_waits_for(postgres, &["AwaitingApproval"]).await?;
        for (name, pod) in postgres.members().await? {
            let wanted = if name == leader { "1" } else { "2" };
            let runs = ensemble_e2e::postgres::wanted_image(&pod);
            ensure!(runs == Some(image(wanted)), "{name} runs {runs:?}");
        }
        nobody_touches(postgres, &[&leader], Duration::from_secs(10)).await?;
        let namespace = &postgres.namespace.name;
        let said = ensemble(cluster, &["approve", NAME, "-n", namespace])?;
        ensure!(said.code == 0, "{said:?}");
        until_settled(postgres).await?;
        ensure!(postgres.leader().await? != leader, "the lead did not move");
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

/// Kills the process of a member's container, and waits until its kubelet has brought it back.
async fn dies_and_comes_back(
    testbed: &Testbed,
    postgres: &Postgres<'_>,
    member: &str,
) -> Result<()> {
    let pod = postgres.pod(member).await?;
    let runs = |pod: &Pod| postgres_container(pod).map_or(0, |c| c.restart_count);
    let before = runs(&pod);
    let patroni = Target {
        container: Some("postgres"),
        process: None,
    };
    testbed.signal_in_pod(&pod, &patroni, rustix::process::Signal::KILL)?;
    let back = postgres
        .namespace
        .pod_until(member, "is back", LIMIT, |now| {
            now.uid() != pod.uid() || runs(now) > before && is_ready(now)
        })
        .await?;
    ensure!(back.uid() == pod.uid(), "{member} has another pod");
    Ok(())
}

#[tokio::test]
async fn a_primary_that_waits_for_approval_keeps_its_pod_when_its_process_dies_three_times()
-> Result<()> {
    let shape = Shape::ensemble(1);
    with_time("dies-waiting", shape, async |cluster, postgres| {
        let Some(testbed) = cluster.testbed() else {
            return Ok(());
        };
        postgres.start_writing().await?;
        // Its kubelet waits longer each time: within this time Patroni lets it keep the lead.
        postgres.configure(&json!({"ttl": 120})).await?;
        let supervised = json!({"primary": "Supervised", "method": "Recreate"});
        postgres.change_spec(json!({"rollout": supervised})).await?;
        let leader = postgres.leader().await?;
        postgres.set_image(&image("2")).await?;
        until_waits_for(postgres, &["AwaitingApproval"]).await?;
        for _ in 0..3 {
            dies_and_comes_back(testbed, postgres, &leader).await?;
        }
        let pod = postgres.pod(&leader).await?;
        let runs = ensemble_e2e::postgres::wanted_image(&pod);
        ensure!(runs == Some(image("1")), "{leader} runs {runs:?}");
        ensure!(postgres.leader().await? == leader, "the lead moved");
        let status = until_waits_for(postgres, &["AwaitingApproval"]).await?;
        ensure!(waits_for(&status, "AwaitingApproval"), "{status}");
        nobody_touches(postgres, &[&leader], Duration::from_secs(10)).await?;
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn scaling_in_takes_the_lead_off_the_member_that_goes_and_out_brings_it_back() -> Result<()> {
    with("scale-in", Shape::ensemble(2), async |_, postgres| {
        postgres.start_writing().await?;
        let before = postgres.lock().await?;
        let film = Film::begin(postgres.namespace).await?;
        postgres.change_spec(json!({"replicas": 2})).await?;
        ready(postgres.namespace, NAME, LIMIT).await?;
        let scenes = film.scenes();
        let moved = scenes.iter().position(|s| matches!(s, Scene::Lead(_)));
        let went = scenes
            .iter()
            .position(|s| *s == Scene::Turn("orders-2".into()));
        ensure!(moved.is_some() && moved < went, "{scenes:?}");
        let after = postgres.lock().await?;
        ensure!(after.transitions == before.transitions + 1, "{after:?}");
        ensure!(
            postgres.members().await?.len() == 2,
            "orders-2 is still there"
        );
        // On the claim that it left behind.
        postgres.change_spec(json!({"replicas": 3})).await?;
        until_settled(postgres).await?;
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn with_roles_by_a_label_alone_the_primary_is_restarted_last() -> Result<()> {
    let shape = Shape {
        labels: true,
        ..Shape::ensemble(1)
    };
    with("labels", shape, async |_, postgres| {
        let leader = postgres.leader().await?;
        let before = postgres.image_ids().await?;
        let film = Film::begin(postgres.namespace).await?;
        postgres.set_image(&image("2")).await?;
        postgres.until_new_image("2", &before).await?;
        let scenes = film.scenes();
        let turns = scenes.iter().filter_map(|s| match s {
            Scene::Turn(name) => Some(name.as_str()),
            Scene::Lead(_) => None,
        });
        let turns: Vec<&str> = turns.collect();
        ensure!(turns.len() == 3 && turns[2] == leader, "{scenes:?}");
        let status = until_settled(postgres).await?;
        let leads = postgres.leader().await?;
        ensure!(status["lead"]["member"] == leads.as_str(), "{status}");
        Ok(())
    })
    .await
}
