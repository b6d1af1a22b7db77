//! What people ask for: a switchover, and an upgrade that waits for their word.

use crate::{nobody_touches, replicas, until_settled, until_waits_for, with};
use anyhow::{Result, ensure};
use ensemble_e2e::ensemble::ensemble;
use ensemble_e2e::postgres::{NAME, Shape, image};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn the_lead_is_handed_to_whom_a_person_names() -> Result<()> {
    with("switch", Shape::ensemble(0), async |cluster, postgres| {
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
