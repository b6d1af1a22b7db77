//! Patroni behind TLS and a password: the same upgrade, and a word where the password is wrong.

use super::{nobody_touches, until_settled, until_waits_for, why, with_time};
use anyhow::{Result, ensure};
use ensemble_e2e::postgres::film::is_upgrade;
use ensemble_e2e::postgres::secured::{PASSWORD, SECRET};
use ensemble_e2e::postgres::{Postgres, Shape, image};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

/// Changes the password that Ensemble is given; Patroni keeps its own.
async fn tell_password(postgres: &Postgres<'_>, password: &str) -> Result<()> {
    let secrets: Api<Secret> = postgres.namespace.api();
    let body = json!({"stringData": {"password": password}});
    let patch = Patch::Merge(body);
    secrets
        .patch(SECRET, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_secured_patroni_is_upgraded_alike_and_a_refused_password_is_named() -> Result<()> {
    let shape = Shape {
        secured: true,
        ..Shape::ensemble(1)
    };
    with_time("secured", shape, async |cluster, postgres| {
        let outcome = postgres.upgraded("2").await?;
        is_upgrade(&outcome.scenes, &outcome.old_leader)?;
        outcome.one_change_nothing_lost()?;
        until_settled(postgres).await?;

        tell_password(postgres, "forgotten").await?;
        // What a Secret brought is used for half a minute before it is read again.
        tokio::time::sleep(Duration::from_secs(35)).await;
        let leader = postgres.leader().await?;
        postgres.set_image(&image("1")).await?;
        until_waits_for(postgres, &["EngineUnauthorised"]).await?;
        let said = why(cluster, postgres)?;
        ensure!(said.out.contains(SECRET), "{said:?}");
        nobody_touches(postgres, &[&leader], Duration::from_secs(10)).await?;

        tell_password(postgres, PASSWORD).await?;
        until_settled(postgres).await?;
        ensure!(postgres.leader().await? != leader, "the lead did not move");
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}
