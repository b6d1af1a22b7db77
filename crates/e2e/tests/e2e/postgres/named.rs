//! The member that somebody names: taken out wherever it stands and put back, replaced under a new ordinal,
//! under a client that writes all the time.

use super::{until_as_many, with, with_time};
use anyhow::{Result, ensure};
use ensemble_e2e::ensemble::ensemble;
use ensemble_e2e::postgres::{NAME, Postgres, Shape};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use serde_json::json;
use std::collections::BTreeMap;

/// Pods of members by name, each by its uid.
async fn uids(postgres: &Postgres<'_>) -> Result<BTreeMap<String, String>> {
    let pods = postgres.members().await?.into_iter();
    let uid = |(name, pod): (String, Pod)| (name, pod.metadata.uid.unwrap_or_default());
    Ok(pods.map(uid).collect())
}

fn names(pods: &BTreeMap<String, String>) -> Vec<&str> {
    pods.keys().map(String::as_str).collect()
}

/// Those that were there before and still are have the same pods.
fn untouched(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Result<()> {
    for (name, uid) in now {
        let same = before.get(name).is_none_or(|b| b == uid);
        ensure!(same, "{name} has another pod");
    }
    Ok(())
}

/// Takes orders-1 out, puts it back, and counts how often the lead moved.
async fn out_and_back(postgres: &Postgres<'_>, moves: u64) -> Result<()> {
    postgres.start_writing().await?;
    let before = uids(postgres).await?;
    let lock = postgres.lock().await?;
    postgres.change_spec(json!({"offline": [1]})).await?;
    until_as_many(postgres, 3).await?;
    let out = uids(postgres).await?;
    ensure!(
        names(&out) == ["orders-0", "orders-2", "orders-3"],
        "{out:?}"
    );
    untouched(&before, &out)?;
    let after = postgres.lock().await?;
    ensure!(
        after.transitions == lock.transitions + moves,
        "{lock:?}, then {after:?}"
    );
    let client = postgres.namespace.client().clone();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, &postgres.namespace.name);
    let kept = claims.get("data-orders-1").await?.metadata.uid;
    postgres.change_spec(json!({"offline": []})).await?;
    until_as_many(postgres, 3).await?;
    let back = uids(postgres).await?;
    ensure!(
        names(&back) == ["orders-0", "orders-1", "orders-2"],
        "{back:?}"
    );
    untouched(&out, &back)?;
    let same = claims.get("data-orders-1").await?.metadata.uid;
    ensure!(same == kept, "orders-1 came back on another claim");
    let last = postgres.lock().await?;
    ensure!(
        last.transitions == after.transitions,
        "{after:?}, then {last:?}"
    );
    postgres.still_writes().await?;
    postgres.nothing_lost().await?;
    Ok(())
}

#[tokio::test]
async fn the_middle_member_is_taken_out_while_it_follows_and_put_back() -> Result<()> {
    with("offline", Shape::ensemble(0), async |_, postgres| {
        out_and_back(postgres, 0).await
    })
    .await
}

#[tokio::test]
async fn the_middle_member_is_taken_out_while_it_leads_and_put_back() -> Result<()> {
    with("offline-leads", Shape::ensemble(1), async |_, postgres| {
        out_and_back(postgres, 1).await
    })
    .await
}

#[tokio::test]
async fn a_member_is_replaced_under_a_new_ordinal_that_streams_before_it_leaves() -> Result<()> {
    let shape = Shape {
        crowded: true,
        ..Shape::ensemble(1)
    };
    with_time("replace", shape, async |cluster, postgres| {
        postgres.start_writing().await?;
        let before = uids(postgres).await?;
        let lock = postgres.lock().await?;
        let namespace = &postgres.namespace.name;
        let said = ensemble(cluster, &["replace", NAME, "orders-1", "-n", namespace])?;
        ensure!(said.code == 0, "{said:?}");
        until_as_many(postgres, 3).await?;
        let after = uids(postgres).await?;
        ensure!(
            names(&after) == ["orders-0", "orders-2", "orders-3"],
            "{after:?}"
        );
        untouched(&before, &after)?;
        let moved = postgres.lock().await?;
        ensure!(moved.transitions == lock.transitions + 1, "{moved:?}");
        // The writer knows the first three members by name, and none that comes after them.
        postgres.still_writes().await?;
        postgres.nothing_lost().await?;
        postgres.stop_writing().await?;
        // Its ordinal is never used again.
        let said = ensemble(cluster, &["remove", NAME, "orders-0", "-n", namespace])?;
        ensure!(said.code == 0, "{said:?}");
        until_as_many(postgres, 3).await?;
        let last = uids(postgres).await?;
        ensure!(
            names(&last) == ["orders-2", "orders-3", "orders-4"],
            "{last:?}"
        );
        Ok(())
    })
    .await
}
