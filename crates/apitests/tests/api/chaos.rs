//! Killed between any two calls, two at once, conflicts and restarts: never more than the budget
//! down, never two pods for one identity, and in the end all is well.

use anyhow::{Context, Result, ensure};
use ensemble_api::Reason;
use ensemble_apitests::{Stage, cluster};
use ensemble_testbed::Component;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Kubernetes counts evicted pods by name. If its controller manager does not see the old one go, the
/// new one counts as evicted for two minutes; busy machines need a while more.
pub const EVICTION_FORGOTTEN: Duration = Duration::from_secs(300);

/// Looks at the pods all the time; the smallest number that were Ready and not ending.
async fn fewest_ready(stage: Arc<Stage>, stop: Arc<AtomicBool>) -> usize {
    let mut fewest = usize::MAX;
    while !stop.load(Ordering::Relaxed) {
        if let Ok(pods) = stage.members().await {
            let ready = pods.iter().filter(|p| {
                let conditions = p.status.as_ref().and_then(|s| s.conditions.as_ref());
                let ready = conditions
                    .is_some_and(|c| c.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
                ready && p.metadata.deletion_timestamp.is_none()
            });
            fewest = fewest.min(ready.count());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fewest
}

pub struct Watcher {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<usize>,
}

impl Watcher {
    pub fn start(stage: &Arc<Stage>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(fewest_ready(stage.clone(), stop.clone()));
        Self { stop, task }
    }

    pub async fn fewest(self) -> Result<usize> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.task.await?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_again_and_again_still_rolls_within_the_budget() -> Result<()> {
    let stage = Arc::new(Stage::new("killed").await?);
    let controller = stage.controller("first").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    controller.stop().await?;
    let watcher = Watcher::start(&stage);
    stage.image("fake/db:2").await?;
    for round in 0..12_u64 {
        // The same identity takes its own Lease up again at once.
        let controller = stage.controller("again").await?;
        tokio::time::sleep(Duration::from_millis(150 + 97 * round)).await;
        controller.kill();
    }
    let _controller = stage.controller("again").await?;
    stage.ready().await?;
    let fewest = watcher.fewest().await?;
    ensure!(fewest >= 2, "only {fewest} members were Ready at some time");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_that_both_believe_to_lead_never_exceed_the_budget() -> Result<()> {
    let stage = Arc::new(Stage::new("two_leaders").await?);
    let first = stage.controller("first").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    first.stop().await?;
    let watcher = Watcher::start(&stage);
    // Each has a Lease of its own, as if the one Lease had failed to keep them apart.
    let one = stage.controller_leading("lease-one", 2_000_000_010).await?;
    let two = stage.controller_leading("lease-two", 2_000_000_020).await?;
    for tag in ["2", "3", "4"] {
        stage.image(&format!("fake/db:{tag}")).await?;
        stage.ready().await?;
    }
    drop((one, two));
    let fewest = watcher.fewest().await?;
    ensure!(fewest >= 2, "only {fewest} members were Ready at some time");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_api_server_is_lived_through() -> Result<()> {
    let stage = Arc::new(Stage::own_cluster("api_restart").await?);
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    stage.image("fake/db:2").await?;
    let plane = stage.plane().unwrap_or(cluster().await?);
    plane.restart(Component::ApiServer(0)).await?;
    // Kubernetes' own parts may take minutes to notice that the API server is back; we are not to.
    plane.restart(Component::ControllerManager).await?;
    plane.restart(Component::Scheduler).await?;
    stage.ready_within(EVICTION_FORGOTTEN).await?;
    plane.restart(Component::Etcd).await?;
    plane.restart(Component::ControllerManager).await?;
    plane.restart(Component::Scheduler).await?;
    stage.image("fake/db:3").await?;
    stage.ready_within(EVICTION_FORGOTTEN).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_whose_end_kubernetes_missed_is_taken_back_and_lived_through() -> Result<()> {
    let stage = Stage::own_cluster("missed").await?;
    let _controller = stage.controller("one").await?;
    let mut orders = stage.orders();
    // Only a member that is recreated is evicted.
    orders["spec"]["rollout"]["method"] = "Recreate".into();
    stage.create(&orders).await?;
    stage.ready().await?;
    let plane = stage.plane().context("a cluster of its own")?;
    plane.stop(Component::ControllerManager)?;
    // The first member is evicted and replaced while nobody counts.
    stage.image("fake/db:2").await?;
    let step = stage.blocked(Reason::EvictionRefused).await?;
    ensure!(step.member.as_deref() == Some("orders-1"), "{step:?}");
    // Its successor counts as evicted, which nobody but us takes back.
    let budgets = stage.api::<PodDisruptionBudget>();
    stage
        .eventually("orders-2 is no longer counted", async || {
            let status = budgets.get("orders-members").await?.status;
            let counted = status.and_then(|s| s.disrupted_pods).unwrap_or_default();
            Ok((!counted.contains_key("orders-2")).then_some(()))
        })
        .await?;
    plane.start_again(Component::ControllerManager).await?;
    stage.ready_within(EVICTION_FORGOTTEN).await?;
    Ok(())
}
