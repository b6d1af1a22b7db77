//! A new version: followers first, the leader moved once, the old leader last, a quorum all the time.

use anyhow::{Context, Result, ensure};
use ensemble_e2e::ensemble::{ensemble, install, ready, status_until, waits_for};
use ensemble_e2e::etcd::{Etcd, LIMIT, NAME, NEW, OLD, member, stored};
use ensemble_e2e::stage::{Need, enter};
use ensemble_testbed::harness::{Cluster, TestNamespace, set_schedulable};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

async fn upgrade(name: &str, recreate: bool) -> Result<()> {
    let _turn = enter(Need::Database).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, name, async |namespace| {
        let etcd = Etcd::up(namespace, recreate).await?;
        etcd.start_writing().await?;
        let (old, before) = (etcd.leader().await?, etcd.told().await?);
        ensure!(before.values().all(|t| t.version == OLD), "{before:?}");
        let uids = uids(&etcd).await?;

        etcd.set_version(NEW).await?;
        let turns = etcd.turns_to(NEW).await?;
        let status = ready(namespace, NAME, LIMIT).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;

        ensure!(
            turns.last() == Some(&old),
            "{old} led, and turns were {turns:?}"
        );
        let after = etcd.told().await?;
        ensure!(after.values().all(|t| t.version == NEW), "{after:?}");
        let term = |told: &BTreeMap<String, _>| {
            told.values()
                .map(|t: &ensemble_e2e::etcd::Told| t.term)
                .max()
        };
        let changes = term(&after).zip(term(&before)).map(|(a, b)| a - b);
        ensure!(
            changes == Some(1),
            "not one change of leader: {before:?}, {after:?}"
        );
        let arrived = status["switchover"]["phase"] == "Arrived";
        ensure!(arrived, "the switchover has not arrived: {status}");
        let same = uids == self::uids(&etcd).await?;
        ensure!(same != recreate, "the same pods: {same}");
        let told = etcd.nothing_lost().await?;
        let (acked, failed) = (told.acked.len(), told.failed.len());
        let gap = told.longest_gap_seconds;
        eprintln!("{name}: {acked} acknowledged, {failed} failed, longest gap {gap:.2} s");
        Ok(())
    })
    .await
}

async fn uids(etcd: &Etcd<'_>) -> Result<BTreeMap<String, Option<String>>> {
    let pods = etcd.members().await?;
    Ok(pods.iter().map(|(n, p)| (n.clone(), p.uid())).collect())
}

#[tokio::test]
async fn an_upgrade_of_etcd_in_place_moves_the_leader_once_and_loses_nothing() -> Result<()> {
    upgrade("etcd-in-place", false).await
}

#[tokio::test]
async fn an_upgrade_of_etcd_that_recreates_pods_moves_the_leader_once_and_loses_nothing()
-> Result<()> {
    upgrade("etcd-recreate", true).await
}

#[tokio::test]
async fn etcd_with_one_member_down_waits_for_its_quorum_and_goes_on_when_it_is_back() -> Result<()>
{
    let mut turn = enter(Need::DatabaseAhead).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "etcd-down", async |namespace| {
        let etcd = Etcd::up(namespace, false).await?;
        etcd.start_writing().await?;
        turn.change(Need::DrainedNode).await;
        let leader = etcd.leader().await?;
        let down = (0..3).map(member).find(|name| *name != leader);
        let down = down.context("everybody leads")?;
        let pod = namespace.api::<Pod>().get(&down).await?;
        let node = pod.spec.and_then(|s| s.node_name).context("no node")?;
        set_schedulable(&cluster.client(), &node, false).await?;
        let waited = waits(&cluster, &etcd, &down).await;
        set_schedulable(&cluster.client(), &node, true).await?;
        waited?;
        etcd.turns_to(NEW).await?;
        ready(namespace, NAME, LIMIT).await?;
        let told = etcd.told().await?;
        ensure!(told.values().all(|t| t.version == NEW), "{told:?}");
        etcd.nothing_lost().await?;
        Ok(())
    })
    .await
}

/// The member's pod finds no node, a new version is asked for, and nobody else is touched.
async fn waits(cluster: &Cluster, etcd: &Etcd<'_>, down: &str) -> Result<()> {
    let namespace = etcd.namespace;
    let pods = namespace.api::<Pod>();
    pods.delete(down, &DeleteParams::default()).await?;
    let is_away = |p: &Pod| p.spec.as_ref().is_some_and(|s| s.node_name.is_none());
    namespace
        .pod_until(down, "it finds no node", LIMIT, is_away)
        .await?;
    let mut before = etcd.marks().await?;
    before.remove(down);
    etcd.set_version(NEW).await?;
    let what = "it waits for the quorum";
    status_until(namespace, NAME, what, LIMIT, |s| {
        waits_for(s, "QuorumAtRisk")
    })
    .await?;
    let said = ensemble(cluster, &["why", NAME, "-n", &namespace.name])?;
    ensure!(said.out.contains(down), "it does not name {down}: {said:?}");
    ensure!(said.out.contains("QuorumAtRisk"), "{said:?}");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let mut after = etcd.marks().await?;
    after.remove(down);
    ensure!(
        before == after,
        "somebody was touched: {before:?}, {after:?}"
    );
    Ok(())
}

#[tokio::test]
async fn the_sample_of_etcd_passes_validation_and_pod_security_restricted() -> Result<()> {
    let _turn = enter(Need::Database).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "etcd-restricted", async |namespace| {
        let spaces: Api<Namespace> = Api::all(namespace.client());
        let enforce = json!({"metadata": {"labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
        }}});
        let enforce = Patch::Merge(enforce);
        spaces
            .patch(&namespace.name, &PatchParams::default(), &enforce)
            .await?;
        for object in stored()? {
            namespace.apply(object).await?;
        }
        ready(namespace, NAME, LIMIT).await?;
        Ok(())
    })
    .await
}
