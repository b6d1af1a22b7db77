//! A change of the cluster with a client that writes all the while, and what it cost that client.

use super::film::{Film, Scene};
use super::patroni::Lock;
use super::sample::Kind;
use super::writer::now;
use super::{LIMIT, NAME, Postgres, image, postgres_container, wanted_image};
use crate::ensemble::ensembles;
use anyhow::{Result, ensure};
use ensemble_testbed::eventually;
use ensemble_writer::tally::Tally;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// After everything stands again, so that a late trouble is seen too.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// What a change was seen to do.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What became of the writes, by each way.
    pub tallies: Vec<Tally>,
    /// How far the timeline went: how often a member was promoted.
    pub timelines: u64,
    /// How many entries the history has more.
    pub histories: u64,
    /// How often the lock was acquired anew.
    pub transitions: u64,
    /// How long until all were ready and both replicas streamed.
    pub seconds: f64,
    /// Whose turn it was and who led, in order.
    pub scenes: Vec<Scene>,
    /// Who led before.
    pub old_leader: String,
}

struct Before {
    lock: Lock,
    timeline: u64,
    history: usize,
}

impl Postgres<'_> {
    /// Changes something while a client writes, waits until it is done and everybody streams, and
    /// tells what it cost.
    pub async fn measured(
        &self,
        change: impl AsyncFnOnce() -> Result<()>,
        done: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<Outcome> {
        self.start_writing().await?;
        self.until_all_stream(LIMIT).await?;
        let before = self.before().await?;
        let film = Film::begin(self.namespace).await?;
        let since = now()?;
        change().await?;
        done().await?;
        self.until_all_stream(LIMIT).await?;
        let seconds = now()? - since;
        tokio::time::sleep(AFTERWARDS).await;
        let scenes = film.scenes();
        drop(film);
        let tallies = self.written(since - 1.0, now()?).await?;
        let lock = self.lock().await?;
        Ok(Outcome {
            tallies,
            timelines: self.timeline().await?.saturating_sub(before.timeline),
            histories: (self.history().await?.saturating_sub(before.history)) as u64,
            transitions: lock.transitions.saturating_sub(before.lock.transitions),
            seconds,
            scenes,
            old_leader: before.lock.holder.unwrap_or_default(),
        })
    }

    /// Upgrades to the image under that tag, measured.
    pub async fn upgraded(&self, tag: &str) -> Result<Outcome> {
        let before = self.image_ids().await?;
        self.measured(
            async || self.set_image(&image(tag)).await,
            async || self.until_new_image(tag, &before).await,
        )
        .await
    }

    async fn before(&self) -> Result<Before> {
        Ok(Before {
            lock: self.lock().await?,
            timeline: self.timeline().await?,
            history: self.history().await?,
        })
    }

    /// The content that each member's container runs.
    pub async fn image_ids(&self) -> Result<BTreeMap<String, Option<String>>> {
        let pods = self.members().await?;
        let id = |pod: &Pod| postgres_container(pod).map(|c| c.image_id.clone());
        Ok(pods.iter().map(|(n, p)| (n.clone(), id(p))).collect())
    }

    /// Changes the image of whoever runs the members.
    pub async fn set_image(&self, image: &str) -> Result<()> {
        self.change_container(|container| container["image"] = image.into())
            .await
    }

    /// Changes the container of PostgreSQL in the template.
    pub async fn change_container(&self, change: impl FnOnce(&mut Value)) -> Result<()> {
        let namespace = self.namespace;
        match self.shape.kind {
            Kind::Ensemble => {
                let api = ensembles(namespace.client(), &namespace.name);
                let object = api.get(NAME).await?;
                let mut list = object.data["spec"]["template"]["spec"]["containers"].clone();
                change(&mut list[0]);
                let body = json!({"spec": {"template": {"spec": {"containers": list}}}});
                api.patch(NAME, &PatchParams::default(), &Patch::Merge(body))
                    .await?;
            }
            Kind::StatefulSet => {
                let api: Api<StatefulSet> = namespace.api();
                let object = serde_json::to_value(api.get(NAME).await?)?;
                let mut list = object["spec"]["template"]["spec"]["containers"].clone();
                change(&mut list[0]);
                let body = json!({"spec": {"template": {"spec": {"containers": list}}}});
                api.patch(NAME, &PatchParams::default(), &Patch::Merge(body))
                    .await?;
            }
        }
        Ok(())
    }

    /// Changes the spec of the Ensemble.
    pub async fn change_spec(&self, spec: Value) -> Result<()> {
        let api = ensembles(self.namespace.client(), &self.namespace.name);
        let body = json!({"spec": spec});
        api.patch(NAME, &PatchParams::default(), &Patch::Merge(body))
            .await?;
        Ok(())
    }

    /// Waits until every member runs another content than before, by its kubelet's word.
    pub async fn until_new_image(
        &self,
        tag: &str,
        before: &BTreeMap<String, Option<String>>,
    ) -> Result<()> {
        let wanted = image(tag);
        let limit = LIMIT * 2;
        eventually(&format!("everybody runs {wanted}"), limit, async || {
            let pods = self.members().await?;
            let new = pods.iter().all(|(name, pod)| {
                let id = postgres_container(pod).map(|c| c.image_id.clone());
                wanted_image(pod).as_deref() == Some(&*wanted)
                    && id.as_ref().is_some_and(|id| !id.is_empty())
                    && before.get(name) != Some(&id)
            });
            Ok((pods.len() == 3 && new && self.all_ready().await?).then_some(()))
        })
        .await
    }
}

impl Outcome {
    /// Fails unless the lead changed exactly once and nothing was lost.
    pub fn one_change_nothing_lost(&self) -> Result<()> {
        let changes = (self.timelines, self.histories, self.transitions);
        ensure!(changes == (1, 1, 1), "not one change of leader: {self:?}");
        self.nothing_lost()
    }

    /// Fails if a write was lost.
    pub fn nothing_lost(&self) -> Result<()> {
        for tally in &self.tallies {
            ensure!(tally.acked > 0, "nothing was written: {tally}");
            ensure!(tally.lost.is_empty(), "writes were lost: {tally}");
        }
        Ok(())
    }
}
