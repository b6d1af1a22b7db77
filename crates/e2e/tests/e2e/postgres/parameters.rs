//! `engine.patroni.parameters`: applied in the order that the change demands, or undone.

use super::{replicas, until_settled, until_waits_for, why, with, with_lent};
use anyhow::{Context, Result, ensure};
use ensemble_e2e::ensemble::status_until;
use ensemble_e2e::postgres::{LIMIT, NAME, Postgres, Shape};
use serde_json::json;
use std::collections::BTreeMap;

async fn set(postgres: &Postgres<'_>, value: &str) -> Result<()> {
    let parameters = json!({"max_connections": value});
    postgres
        .change_spec(json!({"engine": {"patroni": {"parameters": parameters}}}))
        .await
}

/// When PostgreSQL itself was started in each member, as text that sorts.
async fn starts(postgres: &Postgres<'_>) -> Result<BTreeMap<String, String>> {
    let mut starts = BTreeMap::new();
    for member in postgres.members().await?.into_keys() {
        let query = "SELECT to_char(pg_postmaster_start_time(), 'YYYYMMDDHH24MISS.US')";
        starts.insert(member.clone(), postgres.sql(&member, query).await?);
    }
    Ok(starts)
}

/// Fails unless everybody runs with that value, restarted since, and nobody complained.
async fn everybody_has(
    postgres: &Postgres<'_>,
    value: &str,
    before: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    let now = starts(postgres).await?;
    everybody_shows(postgres, "max_connections", value).await?;
    for (member, started) in &now {
        ensure!(
            before.get(member) < Some(started),
            "{member} did not restart"
        );
        let log = postgres.namespace.logs(member).await?;
        let bad = ["recovery has paused", "insufficient parameter settings"];
        let complaint = bad.into_iter().find(|text| log.contains(text));
        ensure!(complaint.is_none(), "{member} complained: {complaint:?}");
    }
    Ok(now)
}

#[tokio::test]
async fn max_connections_is_raised_replicas_first_and_lowered_primary_first() -> Result<()> {
    with("parameters", Shape::ensemble(1), async |_, postgres| {
        postgres.start_writing().await?;
        let pods = postgres.marks().await?;
        let leader = postgres.leader().await?;
        let [one, two] = replicas(postgres).await?;
        let before = starts(postgres).await?;

        set(postgres, "150").await?;
        until_settled(postgres).await?;
        let raised = everybody_has(postgres, "150", &before).await?;
        let order = |s: &BTreeMap<String, String>, a: &str, b: &str| s.get(a) < s.get(b);
        ensure!(
            order(&raised, &one, &leader) && order(&raised, &two, &leader),
            "raised, and {leader} was not last: {raised:?}"
        );

        set(postgres, "80").await?;
        until_settled(postgres).await?;
        let lowered = everybody_has(postgres, "80", &raised).await?;
        ensure!(
            order(&lowered, &leader, &one) && order(&lowered, &leader, &two),
            "lowered, and {leader} was not first: {lowered:?}"
        );

        let refused = set(postgres, "nonsense").await;
        let refused = refused.err().context("nonsense was taken")?;
        let told = format!("{refused:#}");
        ensure!(told.contains("max_connections"), "{told}");
        let kept = everybody_shows(postgres, "max_connections", "80").await;
        kept.context("after nonsense was refused")?;
        until_settled(postgres).await?;
        ensure!(postgres.marks().await? == pods, "a container was restarted");
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

async fn everybody_shows(postgres: &Postgres<'_>, name: &str, value: &str) -> Result<()> {
    for member in postgres.members().await?.into_keys() {
        let shown = postgres.sql(&member, &format!("SHOW {name}")).await?;
        ensure!(shown == value, "{member} has {name} {shown}");
    }
    Ok(())
}

/// No schema can know what a node's kernel has: pages of that size are there only if somebody has set
/// them aside. Too much memory would not do, as kernels may promise it and kill who takes it.
#[tokio::test]
async fn a_value_that_postgresql_does_not_start_with_is_put_back_and_named() -> Result<()> {
    with_lent(0, async |_, postgres| {
        postgres.start_writing().await?;
        let leader = postgres.leader().await?;
        let pods = postgres.marks().await?;
        let parameters = json!({"huge_pages": "on"});
        postgres
            .change_spec(json!({"engine": {"patroni": {"parameters": parameters}}}))
            .await?;
        let status = until_waits_for(postgres, &["ParameterRefused"]).await?;
        let told = status["plan"]["steps"].to_string();
        ensure!(told.contains("huge_pages"), "{told}");
        // Patroni asks everybody to restart for what is taken back, too, the primary last.
        status_until(
            postgres.namespace,
            NAME,
            "it is put back",
            LIMIT * 3,
            |status| status["parameters"]["state"] == "Refused",
        )
        .await?;
        postgres.until_all_stream(LIMIT).await?;
        everybody_shows(postgres, "huge_pages", "try").await?;
        ensure!(postgres.leader().await? == leader, "the lead moved");
        let none = json!({"huge_pages": null});
        postgres
            .change_spec(json!({"engine": {"patroni": {"parameters": none}}}))
            .await?;
        until_settled(postgres).await?;
        ensure!(postgres.marks().await? == pods, "a container was restarted");
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

/// Patroni drops nonsense and leaves PostgreSQL with its default, so it must never hear of it.
#[tokio::test]
async fn what_can_be_reloaded_restarts_nothing_and_nonsense_is_named_and_not_told() -> Result<()> {
    with_lent(0, async |cluster, postgres| {
        let before = starts(postgres).await?;
        let set = async |parameters: serde_json::Value| {
            let engine = json!({"patroni": {"parameters": parameters}});
            postgres.change_spec(json!({"engine": engine})).await
        };
        set(json!({"work_mem": "5MB"})).await?;
        until_settled(postgres).await?;
        everybody_shows(postgres, "work_mem", "5MB").await?;

        set(json!({"work_mem": "banana", "max_conections": "200"})).await?;
        let status = until_waits_for(postgres, &["ParameterRefused"]).await?;
        let told = status["plan"]["steps"].to_string();
        ensure!(told.contains("parameters.work_mem: 'banana'"), "{told}");
        ensure!(told.contains("write max_connections"), "{told}");
        let said = why(cluster, postgres)?;
        ensure!(said.out.contains("ParameterRefused"), "{said:?}");
        everybody_shows(postgres, "work_mem", "5MB").await?;

        set(json!({"work_mem": "6MB", "max_conections": null})).await?;
        until_settled(postgres).await?;
        everybody_shows(postgres, "work_mem", "6MB").await?;

        set(json!({"work_mem": null})).await?;
        until_settled(postgres).await?;
        ensure!(
            starts(postgres).await? == before,
            "PostgreSQL was restarted"
        );
        Ok(())
    })
    .await
}
