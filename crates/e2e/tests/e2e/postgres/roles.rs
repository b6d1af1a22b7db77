//! Roles that cannot be relied on: the primary is left alone, with a reason, until they can.

use super::{nobody_touches, replicas, until_settled, until_waits_for, why, with, with_time};
use anyhow::{Context, Result, ensure};
use ensemble_e2e::postgres::{LIMIT, NAME, Postgres, Shape, image};
use ensemble_testbed::eventually;
use ensemble_testbed::full::faults::Target;
use serde_json::json;
use std::time::Duration;

const A_WHILE: Duration = Duration::from_secs(25);

fn behind_a_proxy(leader: u32) -> Shape {
    Shape {
        proxy: true,
        ..Shape::ensemble(leader)
    }
}

/// Tells the proxy of one member what to do.
async fn proxy(postgres: &Postgres<'_>, member: &str, mode: &str) -> Result<()> {
    let script = format!("echo {mode} > /tmp/proxy-mode");
    postgres.shell(member, &script).await?;
    Ok(())
}

#[tokio::test]
async fn a_replica_that_dies_in_the_middle_holds_the_primary_back_until_it_is_back() -> Result<()> {
    with("dies", Shape::ensemble(0), async |cluster, postgres| {
        let Some(testbed) = cluster.testbed() else {
            return Ok(());
        };
        postgres.start_writing().await?;
        let leader = postgres.leader().await?;
        let lock = postgres.lock().await?;
        let before = postgres.image_ids().await?;
        postgres.set_image(&image("2")).await?;
        let first = eventually("the first replica has its turn", LIMIT, async || {
            let pods = postgres.members().await?;
            let mut turned = pods.iter().filter(|(_, pod)| {
                ensemble_e2e::postgres::wanted_image(pod).as_deref() == Some(&*image("2"))
            });
            Ok(turned.next().map(|(name, _)| name.clone()))
        })
        .await?;
        ensure!(first != leader, "the primary was first");
        // The other one dies while the first is on its way.
        let [one, two] = replicas(postgres).await?;
        let victim = if one == first { two } else { one };
        let pod = postgres.pod(&victim).await?;
        let target = Target {
            container: Some("postgres"),
            process: None,
        };
        testbed.signal_in_pod(&pod, &target, rustix::process::Signal::KILL)?;
        postgres.until_new_image("2", &before).await?;
        until_settled(postgres).await?;
        let transitions = postgres.lock().await?.transitions - lock.transitions;
        ensure!(transitions == 1, "the lead changed {transitions} times");
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_primary_whose_replicas_lag_is_not_touched_until_one_has_caught_up() -> Result<()> {
    with("lags", Shape::ensemble(0), async |cluster, postgres| {
        postgres.start_writing().await?;
        postgres
            .change_spec(json!({"engine": {"maxLag": "256Ki"}}))
            .await?;
        until_settled(postgres).await?;
        let leader = postgres.leader().await?;
        let names = replicas(postgres).await?;
        let mut stopped = Vec::new();
        for name in &names {
            let pid = postgres
                .sql(name, "SELECT pid FROM pg_stat_wal_receiver")
                .await?;
            let stop = format!("kill -STOP {pid}");
            postgres.shell(name, &stop).await?;
            stopped.push((name, pid));
        }
        let fill = "CREATE TABLE filler AS SELECT repeat('x', 900) FROM generate_series(1, 4000)";
        postgres.sql(&leader, fill).await?;
        postgres.set_image(&image("2")).await?;
        let reasons = ["NotInSync", "NoSuccessor", "BudgetUsed"];
        until_waits_for(postgres, &reasons).await?;
        let said = why(cluster, postgres)?;
        ensure!(reasons.iter().any(|r| said.out.contains(r)), "{said:?}");
        // A walsender gives up on a silent replica after ten seconds, so not for long.
        nobody_touches(postgres, &[&leader], Duration::from_secs(8)).await?;
        for (name, pid) in stopped {
            let go_on = format!("kill -CONT {pid} || true");
            // Its container may have been restarted meanwhile; then it lags no more.
            let _ = postgres.shell(name, &go_on).await;
        }
        until_settled(postgres).await?;
        ensure!(postgres.leader().await? != leader, "the lead did not move");
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_silent_role_api_holds_the_primary_back_and_is_named() -> Result<()> {
    with_time("silent", behind_a_proxy(0), async |cluster, postgres| {
        postgres.start_writing().await?;
        let leader = postgres.leader().await?;
        for member in postgres.members().await?.into_keys() {
            proxy(postgres, &member, "silent").await?;
        }
        postgres.set_image(&image("2")).await?;
        let reasons = ["RoleUnknown", "NotInSync", "NoSuccessor", "BudgetUsed"];
        until_waits_for(postgres, &reasons).await?;
        nobody_touches(postgres, &[&leader], A_WHILE).await?;
        let said = why(cluster, postgres)?;
        ensure!(said.out.contains("RoleUnknown"), "{said:?}");
        for member in postgres.members().await?.into_keys() {
            proxy(postgres, &member, "honest").await?;
        }
        until_settled(postgres).await?;
        ensure!(postgres.leader().await? != leader, "the lead did not move");
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn two_members_that_claim_the_lead_are_both_left_alone() -> Result<()> {
    with_time("contested", behind_a_proxy(0), async |cluster, postgres| {
        postgres.start_writing().await?;
        let leader = postgres.leader().await?;
        let [liar, _] = replicas(postgres).await?;
        proxy(postgres, &liar, "leading").await?;
        postgres.set_image(&image("2")).await?;
        let reasons = ["LeadContested", "RoleUnknown"];
        let status = until_waits_for(postgres, &reasons).await?;
        ensure!(status["plan"]["steps"].is_array(), "{status}");
        let said = why(cluster, postgres)?;
        ensure!(reasons.iter().any(|r| said.out.contains(r)), "{said:?}");
        nobody_touches(postgres, &[&leader, &liar], A_WHILE).await?;
        proxy(postgres, &liar, "honest").await?;
        until_settled(postgres).await?;
        ensure!(postgres.leader().await? != leader, "the lead did not move");
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

/// Everybody starts with a configuration that cannot work: nobody leads, nobody is Ready.
#[tokio::test]
async fn a_configuration_that_breaks_everybody_is_recovered_from_once_corrected() -> Result<()> {
    with_time("recover", Shape::ensemble(0), async |_, postgres| {
        postgres
            .change_spec(json!({"engine": {"recoverAfterSeconds": 10}}))
            .await?;
        let good = config(postgres).await?;
        let bad = good.replace("/usr/lib/postgresql/15/bin", "/nowhere");
        ensure!(bad != good, "nothing to break");
        set_config(postgres, &bad).await?;
        let pods = postgres.namespace.api::<k8s_openapi::api::core::v1::Pod>();
        for member in postgres.members().await?.into_keys() {
            pods.delete(&member, &kube::api::DeleteParams::default())
                .await?;
        }
        eventually("nobody is ready", LIMIT, async || {
            let all = postgres.members().await?;
            let ready = all
                .values()
                .filter(|p| ensemble_testbed::harness::is_ready(p));
            Ok((all.len() == 3 && ready.count() == 0).then_some(()))
        })
        .await?;
        // They do not come up by themselves: a kubelet reads the map anew only after a while, and
        // holds a container that ended again and again.
        set_config(postgres, &good).await?;
        let note = json!({"template": {"metadata": {"annotations": {"corrected": "yes"}}}});
        postgres.change_spec(note).await?;
        until_settled(postgres).await?;
        for pod in postgres.members().await?.values() {
            let notes = pod.metadata.annotations.as_ref();
            let corrected = notes.and_then(|n| n.get("corrected"));
            ensure!(corrected.is_some(), "the correction did not get through");
        }
        // Not before: the test ends all three at once, and what an asynchronous primary acknowledges
        // after its replicas are gone, PostgreSQL may lose.
        postgres.start_writing().await?;
        postgres.still_writes().await?;
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

fn map() -> String {
    format!("{NAME}-patroni")
}

async fn config(postgres: &Postgres<'_>) -> Result<String> {
    let maps = postgres
        .namespace
        .api::<k8s_openapi::api::core::v1::ConfigMap>();
    let data = maps.get(&map()).await?.data.unwrap_or_default();
    data.get("patroni.yml").cloned().context("no configuration")
}

async fn set_config(postgres: &Postgres<'_>, text: &str) -> Result<()> {
    let maps = postgres
        .namespace
        .api::<k8s_openapi::api::core::v1::ConfigMap>();
    let body = kube::api::Patch::Merge(json!({"data": {"patroni.yml": text}}));
    maps.patch(&map(), &kube::api::PatchParams::default(), &body)
        .await?;
    Ok(())
}
