//! Few members, one, and none.

use super::{until_as_many, until_waits_for, with_left, with_time};
use anyhow::{Result, ensure};
use ensemble_e2e::postgres::{Postgres, Shape};
use serde_json::{Value, json};

async fn scale(postgres: &Postgres<'_>, members: usize) -> Result<()> {
    postgres.change_spec(json!({"replicas": members})).await?;
    until_as_many(postgres, members).await?;
    Ok(())
}

#[tokio::test]
async fn scaling_to_one_moves_the_lead_and_to_none_and_back_keeps_all_data() -> Result<()> {
    with_time("to-none", Shape::ensemble(2), async |_, postgres| {
        postgres.start_writing().await?;
        scale(postgres, 1).await?;
        ensure!(postgres.leader().await? == "orders-0", "the lead elsewhere");
        postgres.still_writes().await?;
        scale(postgres, 0).await?;
        scale(postgres, 3).await?;
        postgres.still_writes().await?;
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}

/// Sets where the kubelets ask whether a member is ready.
async fn ask_at(postgres: &Postgres<'_>, path: &str) -> Result<()> {
    let change = |container: &mut Value| {
        container["readinessProbe"]["httpGet"]["path"] = path.into();
    };
    postgres.change_container(change).await
}

#[tokio::test]
async fn with_two_members_a_corrected_readiness_probe_gets_through() -> Result<()> {
    with_left(0, async |_, postgres| {
        scale(postgres, 2).await?;
        postgres.start_writing().await?;
        ask_at(postgres, "/nowhere").await?;
        let reasons = ["NotReady", "BudgetUsed", "NoSuccessor", "NotInSync"];
        until_waits_for(postgres, &reasons).await?;
        ask_at(postgres, "/readiness").await?;
        until_as_many(postgres, 2).await?;
        postgres.still_writes().await?;
        postgres.nothing_lost().await?;
        Ok(())
    })
    .await
}
