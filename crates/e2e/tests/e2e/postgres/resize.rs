//! CPU, memory, labels and annotations: changed on the running pods, and the lead stays unless the
//! container has to restart.

use super::{until_settled, why, with, with_left};
use anyhow::{Context, Result, ensure};
use ensemble_e2e::ensemble::{ensembles, status_until, waits_for};
use ensemble_e2e::postgres::film::{Film, Scene};
use ensemble_e2e::postgres::upgrade::Outcome;
use ensemble_e2e::postgres::{LIMIT, NAME, Postgres, Shape, postgres_container};
use kube::ResourceExt;
use serde_json::json;

/// Changes what PostgreSQL asks for while a client writes.
async fn resized(
    postgres: &Postgres<'_>,
    part: &str,
    resource: &str,
    amount: &str,
) -> Result<Outcome> {
    let change = async || {
        postgres
            .change_container(|c| c["resources"][part][resource] = amount.into())
            .await
    };
    let settled = async || until_settled(postgres).await.map(drop);
    postgres.measured(change, settled).await
}

/// Each member's limit or request, by its kubelet's word.
async fn given(postgres: &Postgres<'_>, part: &str, resource: &str) -> Result<Vec<String>> {
    let pods = postgres.members().await?;
    let amount = |pod| {
        let status = serde_json::to_value(postgres_container(pod)?).ok()?;
        let amount = status["resources"][part][resource].as_str()?;
        Some(amount.to_owned())
    };
    Ok(pods.values().filter_map(amount).collect())
}

/// The kernel's own word for the CPU limit of a member, in thousandths of a CPU.
async fn milli_cpu(postgres: &Postgres<'_>, member: &str) -> Result<u64> {
    let read = "cat /sys/fs/cgroup/cpu.max 2>/dev/null || \
        cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us";
    let namespace = postgres.namespace;
    let text = namespace.shell_in(member, Some("postgres"), read).await?;
    let mut words = text.split_whitespace().map(str::parse::<u64>);
    let (quota, period) = (words.next(), words.next());
    let (quota, period) = quota.zip(period).with_context(|| text.clone())?;
    Ok(quota? * 1000 / period?)
}

#[tokio::test]
async fn more_cpu_restarts_nobody_moves_no_lead_and_the_kernel_has_it() -> Result<()> {
    with_left(1, async |_, postgres| {
        let before = postgres.marks().await?;
        let outcome = resized(postgres, "limits", "cpu", "900m").await?;
        ensure!(postgres.marks().await? == before, "somebody was restarted");
        let restarts = |pod| postgres_container(pod).is_some_and(|c| c.restart_count > 0);
        let pods = postgres.members().await?;
        ensure!(!pods.values().any(restarts), "a container was restarted");
        let changes = (outcome.timelines, outcome.transitions);
        ensure!(changes == (0, 0), "the lead moved: {outcome:?}");
        let all = given(postgres, "limits", "cpu").await?;
        ensure!(all == ["900m"; 3], "{all:?}");
        for member in pods.keys() {
            let milli = milli_cpu(postgres, member).await?;
            ensure!(milli == 900, "{member}: {milli}");
        }
        let noted = |pod: &k8s_openapi::api::core::v1::Pod| {
            pod.annotations().contains_key("ensemble.dev/resizes")
        };
        ensure!(!pods.values().any(noted), "the note is still there");
        eprintln!("cpu: {:.1} s, {:?}", outcome.seconds, outcome.tallies);
        outcome.nothing_lost()
    })
    .await
}

#[tokio::test]
async fn memory_for_which_the_container_restarts_hands_the_lead_over_once() -> Result<()> {
    let shape = Shape {
        memory_restarts: true,
        ..Shape::ensemble(0)
    };
    with("memory", shape, async |_, postgres| {
        let uids = |pods: &std::collections::BTreeMap<String, _>| -> Vec<Option<String>> {
            let pods = pods.values();
            pods.map(|p: &k8s_openapi::api::core::v1::Pod| p.uid())
                .collect()
        };
        let before = uids(&postgres.members().await?);
        let marks = postgres.marks().await?;
        let outcome = resized(postgres, "limits", "memory", "640Mi").await?;
        ensure!(uids(&postgres.members().await?) == before, "new pods");
        let now = postgres.marks().await?;
        ensure!(
            now.iter().all(|(name, mark)| marks.get(name) != Some(mark)),
            "somebody was not restarted: {marks:?} {now:?}"
        );
        let leads = |s: &&Scene| matches!(s, Scene::Lead(_));
        let changes = outcome.scenes.iter().filter(leads).count();
        ensure!(changes == 1, "{:?}", outcome.scenes);
        let all = given(postgres, "limits", "memory").await?;
        ensure!(all == ["640Mi"; 3], "{all:?}");
        eprintln!("memory: {:.1} s, {:?}", outcome.seconds, outcome.tallies);
        outcome.one_change_nothing_lost()
    })
    .await
}

#[tokio::test]
async fn another_label_restarts_nobody_and_what_no_node_has_touches_nobody() -> Result<()> {
    with_left(2, async |cluster, postgres| {
        postgres.start_writing().await?;
        let before = postgres.marks().await?;
        let film = Film::begin(postgres.namespace).await?;
        let api = ensembles(postgres.namespace.client(), &postgres.namespace.name);
        let mut metadata = api.get(NAME).await?.data["spec"]["template"]["metadata"].clone();
        metadata["labels"]["tier"] = "gold".into();
        metadata["annotations"]["example.com/note"] = "hello".into();
        let template = json!({"template": {"metadata": metadata}});
        postgres.change_spec(template).await?;
        until_settled(postgres).await?;
        for pod in postgres.members().await?.values() {
            let label = pod.labels().get("tier").map(String::as_str);
            let note = pod.annotations().get("example.com/note");
            ensure!((label, note.map(String::as_str)) == (Some("gold"), Some("hello")));
        }

        let old = api.get(NAME).await?.data["spec"]["template"]["spec"]["containers"][0]
            ["resources"]["requests"]["cpu"]
            .clone();
        postgres
            .change_container(|c| {
                c["resources"]["limits"]["cpu"] = "4000".into();
                c["resources"]["requests"]["cpu"] = "4000".into();
            })
            .await?;
        status_until(postgres.namespace, NAME, "it is infeasible", LIMIT, |s| {
            waits_for(s, "ResizeInfeasible")
        })
        .await?;
        let said = why(cluster, postgres)?;
        ensure!(said.out.contains("cpu request 4"), "{said:?}");
        postgres
            .change_container(|c| {
                c["resources"]["limits"]["cpu"] = "1".into();
                c["resources"]["requests"]["cpu"] = old.clone();
            })
            .await?;
        until_settled(postgres).await?;
        ensure!(postgres.marks().await? == before, "somebody was restarted");
        ensure!(film.scenes().is_empty(), "{:?}", film.scenes());
        let told = postgres.nothing_lost().await?;
        ensure!(told.iter().all(|t| t.failed_writes == 0), "{told:?}");
        Ok(())
    })
    .await
}
