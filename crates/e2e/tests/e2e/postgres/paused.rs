//! Paused, by Patroni or in the spec: nobody is touched and nothing is written, whatever else holds.

use super::{
    nobody_touches, until_settled, until_waits_for, why, with_left, with_lent, writes_within,
};
use anyhow::{Result, ensure};
use ensemble_e2e::postgres::{LIMIT, Postgres};
use ensemble_testbed::eventually;
use ensemble_testbed::harness::is_ready;
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than any patience that is set below.
const A_WHILE: Duration = Duration::from_secs(45);

/// Pauses Patroni or lets it go on, by the word of any member: nobody may lead.
async fn pause(postgres: &Postgres<'_>, member: &str, paused: Value) -> Result<()> {
    let change = json!({"pause": paused});
    let answer = postgres.ask(member, "PATCH", "/config", &change).await?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(())
}

/// As before a major upgrade or a restore: Patroni is told to keep its hands off, and PostgreSQL is
/// stopped everywhere, the primary first so that the replicas have all it wrote.
async fn stop_everywhere(postgres: &Postgres<'_>) -> Result<()> {
    let leader = postgres.leader().await?;
    pause(postgres, &leader, true.into()).await?;
    for member in postgres.members().await?.into_keys() {
        eventually("Patroni is paused there", LIMIT, async || {
            let said = postgres.get(&member, "/patroni").await?;
            Ok((said["pause"] == true).then_some(()))
        })
        .await?;
    }
    let mut members: Vec<String> = postgres.members().await?.into_keys().collect();
    members.sort_by_key(|member| *member != leader);
    for member in members {
        let stop = "/usr/lib/postgresql/15/bin/pg_ctl stop -D /data/postgres -m fast";
        postgres.shell(&member, stop).await?;
    }
    eventually("nobody is ready", LIMIT, async || {
        let pods = postgres.members().await?;
        Ok((!pods.values().any(is_ready)).then_some(()))
    })
    .await
}

#[tokio::test]
async fn while_patroni_is_paused_and_postgresql_is_stopped_everywhere_nobody_is_touched()
-> Result<()> {
    with_left(0, async |cluster, postgres| {
        let patience = json!({"engine": {"recoverAfterSeconds": 10}});
        postgres.change_spec(patience).await?;
        let leader = postgres.leader().await?;
        let table = "CREATE TABLE kept AS SELECT 42 AS answer";
        postgres.sql(&leader, table).await?;
        stop_everywhere(postgres).await?;
        let change = |container: &mut Value| container["workingDir"] = "/tmp".into();
        postgres.change_container(change).await?;
        until_waits_for(postgres, &["EnginePaused"]).await?;
        let all = ["orders-0", "orders-1", "orders-2"];
        nobody_touches(postgres, &all, A_WHILE).await?;
        let said = why(cluster, postgres)?;
        ensure!(said.out.contains("EnginePaused"), "{said:?}");

        pause(postgres, "orders-0", Value::Null).await?;
        until_settled(postgres).await?;
        for pod in postgres.members().await?.values() {
            let containers = pod.spec.as_ref().map(|spec| &spec.containers);
            let changed = containers.is_some_and(|c| c[0].working_dir.is_some());
            ensure!(changed, "the change did not get through");
        }
        let leader = postgres.leader().await?;
        let answer = postgres.sql(&leader, "SELECT answer FROM kept").await?;
        ensure!(answer == "42", "{answer}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_paused_rollout_holds_a_parameter_that_needs_a_restart_and_nothing_is_written()
-> Result<()> {
    with_lent(0, async |cluster, postgres| {
        let set = async |paused: Value, value: Value| {
            let parameters = json!({"max_connections": value});
            let engine = json!({"patroni": {"parameters": parameters}});
            let spec = json!({"rollout": {"paused": paused}, "engine": engine});
            postgres.change_spec(spec).await
        };
        set(true.into(), "150".into()).await?;
        until_waits_for(postgres, &["Paused"]).await?;
        // What it says of it may take a moment to settle.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let writes = writes_within(postgres, Duration::from_secs(20)).await?;
        ensure!(writes == 0, "written {writes} times");
        let said = why(cluster, postgres)?;
        ensure!(said.out.contains("Paused"), "{said:?}");
        for member in postgres.members().await?.into_keys() {
            let shown = postgres.sql(&member, "SHOW max_connections").await?;
            ensure!(shown == "100", "{member} has {shown}");
        }
        set(Value::Null, Value::Null).await?;
        until_settled(postgres).await?;
        Ok(())
    })
    .await
}
