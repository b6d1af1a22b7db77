//! PostgreSQL under Patroni on the cluster: the sample as it stands, under Ensemble or, to compare,
//! under a StatefulSet.

pub mod bench;
pub mod film;
pub mod lent;
pub mod patroni;
pub mod sample;
pub mod secured;
pub mod upgrade;
pub mod writer;

use anyhow::{Context, Result};
use ensemble_testbed::harness::{TestNamespace, is_ready};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use std::collections::BTreeMap;
use std::time::Duration;

pub use sample::{Kind, Shape};

/// The sample's name.
pub const NAME: &str = "orders";

/// How long anything may take that is not expected to be quick.
pub const LIMIT: Duration = Duration::from_secs(240);

/// The sample, running in a namespace.
pub struct Postgres<'a> {
    /// Where.
    pub namespace: &'a TestNamespace,
    /// How it was asked for.
    pub shape: Shape,
}

/// The name of a member.
pub fn member(ordinal: u32) -> String {
    format!("{NAME}-{ordinal}")
}

/// The image under that tag.
pub fn image(tag: &str) -> String {
    format!("registry.testbed/postgres:{tag}")
}

impl<'a> Postgres<'a> {
    /// Brings it up with everybody in sync and the lead where it is wanted.
    pub async fn up(namespace: &'a TestNamespace, shape: Shape) -> Result<Postgres<'a>> {
        for object in sample::objects(&shape)? {
            namespace.apply(object).await?;
        }
        let postgres = Postgres { namespace, shape };
        for ordinal in 0..3 {
            namespace.ready_pod(&member(ordinal), LIMIT).await?;
        }
        postgres.until_all_stream(LIMIT).await?;
        postgres.lead_at(&member(shape.leader)).await?;
        if shape.synchronous {
            // Not from the beginning: then only one replica could have been given the lead.
            postgres.set_synchronous().await?;
        }
        Ok(postgres)
    }

    /// The pods of all members, by name.
    pub async fn members(&self) -> Result<BTreeMap<String, Pod>> {
        members(self.namespace).await
    }

    /// Whether the members named have a pod that is ready.
    pub async fn all_ready(&self) -> Result<bool> {
        let pods = self.members().await?;
        Ok(pods.len() == 3 && pods.values().all(is_ready))
    }

    /// What tells whether a member's container is the same as before: its pod and the container.
    pub async fn marks(&self) -> Result<BTreeMap<String, String>> {
        let pods = self.members().await?;
        Ok(pods
            .iter()
            .map(|(name, pod)| (name.clone(), mark(pod)))
            .collect())
    }

    /// One member's pod.
    pub async fn pod(&self, name: &str) -> Result<Pod> {
        let pod = self.members().await?.remove(name);
        pod.with_context(|| format!("{name} has no pod"))
    }
}

/// The pods of all members, by name.
pub async fn members(namespace: &TestNamespace) -> Result<BTreeMap<String, Pod>> {
    let params = ListParams::default().labels("ensemble.dev/group=members");
    let pods = namespace.api::<Pod>().list(&params).await?;
    Ok(pods.items.into_iter().map(|p| (p.name_any(), p)).collect())
}

/// A pod and the run of its PostgreSQL container.
pub fn mark(pod: &Pod) -> String {
    let container = postgres_container(pod).and_then(|c| c.container_id.clone());
    format!(
        "{} {}",
        pod.uid().unwrap_or_default(),
        container.unwrap_or_default()
    )
}

/// The status of a pod's PostgreSQL container.
pub fn postgres_container(pod: &Pod) -> Option<&k8s_openapi::api::core::v1::ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|c| c.name == "postgres")
}

/// The image that a pod's PostgreSQL container is to run.
pub fn wanted_image(pod: &Pod) -> Option<String> {
    let containers = &pod.spec.as_ref()?.containers;
    containers
        .iter()
        .find(|c| c.name == "postgres")?
        .image
        .clone()
}
