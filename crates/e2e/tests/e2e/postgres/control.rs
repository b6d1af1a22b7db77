//! The controller and the API server come and go; the results are the same.

use super::{alone, until_settled};
use anyhow::{Context, Result, ensure};
use ensemble_e2e::postgres::film::is_upgrade;
use ensemble_e2e::postgres::{LIMIT, Postgres, Shape, image};
use ensemble_e2e::stage::Need;
use ensemble_testbed::full::Testbed;
use ensemble_testbed::full::faults::Target;
use ensemble_testbed::{Component, eventually};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOME: &str = "ensemble-system";

/// Ends all controllers at once, without a chance to say good-bye.
async fn kill_controllers(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), HOME);
    for pod in pods.list(&ListParams::default()).await? {
        // It may be gone already.
        let _ = pods.delete(&pod.name_any(), &at_once()).await;
    }
    Ok(())
}

async fn scale_controllers(client: &Client, replicas: u32) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), HOME);
    let list = deployments.list(&ListParams::default()).await?;
    let name = list.items.first().context("no controller")?.name_any();
    let body = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments
        .patch(&name, &PatchParams::default(), &body)
        .await?;
    eventually("the controllers are as many", LIMIT, async || {
        let pods: Api<Pod> = Api::namespaced(client.clone(), HOME);
        let pods = pods.list(&ListParams::default()).await?.items;
        Ok((pods.len() == replicas as usize).then_some(()))
    })
    .await
}

/// Some milliseconds below a limit, by the clock: enough to hit different moments of a run.
fn some(limit: u64) -> Duration {
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.subsec_nanos());
    Duration::from_millis(u64::from(nanos) / 1000 % limit)
}

/// An upgrade that something disturbs all the while.
async fn disturbed(
    postgres: &Postgres<'_>,
    disturb: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let before = postgres.image_ids().await?;
    let outcome = postgres
        .measured(
            async || {
                postgres.set_image(&image("2")).await?;
                disturb().await
            },
            async || postgres.until_new_image("2", &before).await,
        )
        .await?;
    outcome.one_change_nothing_lost()?;
    is_upgrade(&outcome.scenes, &outcome.old_leader)?;
    until_settled(postgres).await?;
    Ok(())
}

#[tokio::test]
async fn a_controller_that_is_killed_ten_times_upgrades_all_the_same() -> Result<()> {
    alone(
        "killed",
        Shape::ensemble(1),
        Need::ControlPlane,
        async |_, postgres| {
            let client = postgres.namespace.client();
            disturbed(postgres, async || {
                for _ in 0..10 {
                    tokio::time::sleep(Duration::from_secs(1) + some(4000)).await;
                    kill_controllers(&client).await?;
                }
                Ok(())
            })
            .await
        },
    )
    .await
}

#[tokio::test]
async fn two_controllers_upgrade_as_one_does() -> Result<()> {
    alone(
        "two",
        Shape::ensemble(2),
        Need::ControlPlane,
        async |_, postgres| {
            let client = postgres.namespace.client();
            scale_controllers(&client, 2).await?;
            let done = disturbed(postgres, async || {
                // The one that works goes away in the middle; the other takes over.
                tokio::time::sleep(Duration::from_secs(2) + some(3000)).await;
                kill_controllers(&client).await
            })
            .await;
            scale_controllers(&client, 1).await?;
            done
        },
    )
    .await
}

#[tokio::test]
async fn a_restart_of_the_api_server_changes_nothing() -> Result<()> {
    alone(
        "api",
        Shape::ensemble(0),
        Need::ControlPlane,
        async |cluster, postgres| {
            let Some(testbed) = cluster.testbed() else {
                return Ok(());
            };
            // A primary that cannot reach its store for longer steps down; a slow machine's API server may
            // need more than the ten seconds of the sample to come back.
            let patient = json!({"ttl": 90, "retry_timeout": 40});
            postgres.configure(&patient).await?;
            disturbed(postgres, async || {
                tokio::time::sleep(Duration::from_secs(2) + some(3000)).await;
                testbed.stop(Component::ApiServer(0))?;
                testbed.start(Component::ApiServer(0)).await
            })
            .await
        },
    )
    .await
}

#[tokio::test]
async fn without_the_controller_patroni_fails_over_and_clients_follow_through_the_service()
-> Result<()> {
    let shape = Shape::ensemble(0).synchronous(true);
    alone(
        "absent",
        shape,
        Need::ControlPlane,
        async |cluster, postgres| {
            let Some(testbed) = cluster.testbed() else {
                return Ok(());
            };
            let client = postgres.namespace.client();
            postgres.start_writing().await?;
            scale_controllers(&client, 0).await?;
            let failed_over = primary_dies(testbed, postgres).await;
            scale_controllers(&client, 1).await?;
            failed_over?;
            until_settled(postgres).await?;
            eprintln!("absent: {:?}", postgres.nothing_lost().await?);
            Ok(())
        },
    )
    .await
}

/// The primary vanishes without a word; nobody is there to make it anew.
async fn primary_dies(testbed: &Testbed, postgres: &Postgres<'_>) -> Result<()> {
    let leader = postgres.leader().await?;
    let pod = postgres.pod(&leader).await?;
    // Killed before it is deleted: a deletion alone would let Patroni give the lock back in order.
    let patroni = Target {
        container: Some("postgres"),
        process: None,
    };
    testbed.signal_in_pod(&pod, &patroni, rustix::process::Signal::KILL)?;
    let pods = postgres.namespace.api::<Pod>();
    pods.delete(&leader, &at_once()).await?;
    eventually("another member leads", LIMIT, async || {
        let holder = postgres.lock().await?.holder;
        Ok(holder.filter(|holder| *holder != leader))
    })
    .await?;
    postgres.still_writes().await?;
    ensure!(
        postgres.members().await?.len() == 2,
        "somebody made it anew"
    );
    Ok(())
}

fn at_once() -> DeleteParams {
    DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    }
}
