//! PostgreSQL under Patroni on real nodes, with a client that writes all the time: the rows of the
//! table "roles". The sample is taken as it stands.

mod control;
mod lost;
mod named;
mod nodes;
mod parameters;
mod paused;
mod people;
mod resize;
mod roles;
mod secured;
mod sizes;
mod upgrade;

use anyhow::{Context, Result};
use ensemble_e2e::ensemble::{Said, ensemble, ensembles, install, ready, status_until, waits_for};
use ensemble_e2e::postgres::lent::on_lent;
use ensemble_e2e::postgres::{LIMIT, NAME, Postgres, Shape, member};
use ensemble_e2e::stage::{Need, enter};
use ensemble_testbed::eventually;
use ensemble_testbed::harness::{Cluster, TestNamespace, is_ready};
use futures::StreamExt;
use kube::api::{WatchEvent, WatchParams};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Runs a test on the sample, beside others.
async fn with(
    name: &str,
    shape: Shape,
    test: impl AsyncFnOnce(&Cluster, &Postgres<'_>) -> Result<()>,
) -> Result<()> {
    on_stage(name, shape, Need::Database, None, test).await
}

/// The same, for a test that takes longer than most.
async fn with_time(
    name: &str,
    shape: Shape,
    test: impl AsyncFnOnce(&Cluster, &Postgres<'_>) -> Result<()>,
) -> Result<()> {
    on_stage(name, shape, Need::LongDatabase, None, test).await
}

/// Runs a test that leaves the sample as it found it, on one that other tests have before and after.
async fn with_lent(
    leader: u32,
    test: impl AsyncFnOnce(&Cluster, &Postgres<'_>) -> Result<()>,
) -> Result<()> {
    on_lent(Need::LentDatabase, leader, test).await
}

/// Runs a test that changes the sample for good, on one that other tests had before.
async fn with_left(
    leader: u32,
    test: impl AsyncFnOnce(&Cluster, &Postgres<'_>) -> Result<()>,
) -> Result<()> {
    on_lent(Need::LeftDatabase, leader, test).await
}

/// Runs a test on the sample that breaks what others need. The sample is brought up before.
async fn alone(
    name: &str,
    shape: Shape,
    need: Need,
    test: impl AsyncFnOnce(&Cluster, &Postgres<'_>) -> Result<()>,
) -> Result<()> {
    on_stage(name, shape, Need::DatabaseAhead, Some(need), test).await
}

async fn on_stage(
    name: &str,
    shape: Shape,
    first: Need,
    then: Option<Need>,
    test: impl AsyncFnOnce(&Cluster, &Postgres<'_>) -> Result<()>,
) -> Result<()> {
    let mut turn = enter(first).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, name, async |namespace| {
        let postgres = Postgres::up(namespace, shape).await?;
        ready(namespace, NAME, LIMIT).await?;
        turn.note("up");
        if let Some(need) = then {
            turn.change(need).await;
            postgres.lead_at(&member(shape.leader)).await?;
        }
        test(&cluster, &postgres).await
    })
    .await
}

/// What `ensemble why` says.
fn why(cluster: &Cluster, postgres: &Postgres<'_>) -> Result<Said> {
    ensemble(cluster, &["why", NAME, "-n", &postgres.namespace.name])
}

/// Waits until the Ensemble waits for one of these reasons.
async fn until_waits_for(postgres: &Postgres<'_>, reasons: &[&str]) -> Result<Value> {
    let what = format!("it waits for one of {reasons:?}");
    status_until(postgres.namespace, NAME, &what, LIMIT, |status| {
        reasons.iter().any(|reason| waits_for(status, reason))
    })
    .await
}

/// Fails if one of these members is touched before the time is up.
async fn nobody_touches(postgres: &Postgres<'_>, members: &[&str], time: Duration) -> Result<()> {
    let before = postgres.marks().await?;
    let began = Instant::now();
    while began.elapsed() < time {
        let now = postgres.marks().await?;
        for member in members {
            let same = now.get(*member) == before.get(*member);
            anyhow::ensure!(same, "{member} was touched after {:?}", began.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

/// Waits until the Ensemble is Ready at its newest spec and everybody streams.
async fn until_settled(postgres: &Postgres<'_>) -> Result<Value> {
    let status = ready(postgres.namespace, NAME, LIMIT * 3).await?;
    postgres.until_all_stream(LIMIT).await?;
    Ok(status)
}

/// Waits until the Ensemble is Ready at its newest spec with that many members, all but one of which
/// stream from the leader.
async fn until_as_many(postgres: &Postgres<'_>, members: usize) -> Result<Value> {
    let status = ready(postgres.namespace, NAME, LIMIT * 2).await?;
    let what = format!("{members} members, all but the leader streaming");
    eventually(&what, LIMIT, async || {
        let pods = postgres.members().await?;
        if pods.len() != members || !pods.values().all(is_ready) {
            return Ok(None);
        }
        let streaming = match members {
            0 => 0,
            _ => postgres.streaming().await?.len() + 1,
        };
        Ok((streaming == members).then_some(()))
    })
    .await?;
    Ok(status)
}

/// How often the Ensemble was written within that time.
async fn writes_within(postgres: &Postgres<'_>, time: Duration) -> Result<usize> {
    let api = ensembles(postgres.namespace.client(), &postgres.namespace.name);
    let now = api.get(NAME).await?;
    let version = now.metadata.resource_version.context("no version")?;
    let params = WatchParams::default()
        .timeout(time.as_secs().try_into()?)
        .fields(&format!("metadata.name={NAME}"));
    let events = api.watch(&params, &version).await?;
    let written = events.filter(|event| {
        let written = matches!(event, Ok(WatchEvent::Modified(_)));
        std::future::ready(written)
    });
    Ok(written.count().await)
}

/// The replicas, by name.
async fn replicas(postgres: &Postgres<'_>) -> Result<[String; 2]> {
    let leader = postgres.leader().await?;
    let names = postgres.members().await?.into_keys();
    let names: Vec<String> = names.filter(|name| *name != leader).collect();
    names.try_into().ok().context("there are not two replicas")
}
