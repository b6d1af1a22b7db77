//! What is seen of a change from outside, in order: whose turn it was, and who led.

use super::patroni::lock_of;
use super::{NAME, mark, wanted_image};
use anyhow::{Context, Result};
use ensemble_testbed::harness::TestNamespace;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often is looked. Every step of a change takes much longer.
const EVERY: Duration = Duration::from_millis(150);

/// Something that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A member's turn: its pod was told to go, or to run another image, or was changed by nobody.
    Turn(String),
    /// Another member leads.
    Lead(String),
}

/// A film of what happens, until it is cut.
pub struct Film {
    scenes: Arc<Mutex<Vec<Scene>>>,
    shooting: tokio::task::JoinHandle<()>,
}

impl Film {
    /// Begins to film.
    pub async fn begin(namespace: &TestNamespace) -> Result<Film> {
        let mut camera = Camera {
            client: namespace.client(),
            namespace: namespace.name.clone(),
            turns: BTreeMap::new(),
            leader: None,
        };
        // The state before is not a scene.
        camera.look().await?;
        let scenes = Arc::new(Mutex::new(Vec::new()));
        let kept = scenes.clone();
        let shooting = tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                // The API server may be away; then nothing is seen.
                if let Ok(seen) = camera.look().await {
                    let mut kept = kept.lock().unwrap_or_else(|e| e.into_inner());
                    kept.extend(seen);
                }
            }
        });
        Ok(Film { scenes, shooting })
    }

    /// What was seen so far.
    pub fn scenes(&self) -> Vec<Scene> {
        let scenes = self.scenes.lock().unwrap_or_else(|e| e.into_inner());
        scenes.clone()
    }
}

impl Drop for Film {
    fn drop(&mut self) {
        self.shooting.abort();
    }
}

struct Camera {
    client: Client,
    namespace: String,
    /// What each member's pod was when it was last seen whole.
    turns: BTreeMap<String, Seen>,
    leader: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    mark: String,
    image: Option<String>,
    leaving: bool,
}

impl Camera {
    async fn look(&mut self) -> Result<Vec<Scene>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = kube::api::ListParams::default().labels("ensemble.dev/group=members");
        let pods = pods.list(&params).await?.items;
        let lock = lock_of(&maps.get(&format!("{NAME}-leader")).await?);
        let mut scenes = Vec::new();
        for pod in &pods {
            let name = pod.name_any();
            let seen = Seen {
                mark: mark(pod),
                image: wanted_image(pod),
                leaving: pod.metadata.deletion_timestamp.is_some(),
            };
            if self.is_turn(&name, &seen) {
                scenes.push(Scene::Turn(name.clone()));
            }
            self.turns.insert(name, seen);
        }
        if lock.holder.is_some() && lock.holder != self.leader {
            scenes.extend(lock.holder.clone().map(Scene::Lead));
            self.leader = lock.holder;
        }
        Ok(scenes)
    }

    /// A turn begins when a pod is told to go or to change; what follows from that is the same turn.
    fn is_turn(&self, name: &str, now: &Seen) -> bool {
        let Some(before) = self.turns.get(name) else {
            return false;
        };
        let pod = |seen: &Seen| seen.mark.split(' ').next().map(str::to_owned);
        if pod(before) != pod(now) {
            return !before.leaving;
        }
        (now.leaving && !before.leaving) || now.image != before.image
    }
}

/// The scenes that an upgrade must have: both replicas, the lead to one of them, the old primary.
pub fn is_upgrade(scenes: &[Scene], old: &str) -> Result<()> {
    let said = || format!("seen: {scenes:?}, and {old} led before");
    let turn = |n: usize| match scenes.get(n) {
        Some(Scene::Turn(name)) => Some(name.as_str()),
        _ => None,
    };
    let (first, second) = (turn(0).with_context(said)?, turn(1).with_context(said)?);
    let lead = match scenes.get(2) {
        Some(Scene::Lead(name)) => name.as_str(),
        _ => anyhow::bail!("{}", said()),
    };
    let replicas_first = first != old && second != old && first != second;
    let to_updated = lead == first || lead == second;
    let last = turn(3) == Some(old) && scenes.len() == 4;
    anyhow::ensure!(replicas_first && to_updated && last, "{}", said());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenes(text: &str) -> Vec<Scene> {
        let scene = |word: &str| match word.split_once(':') {
            Some(("lead", name)) => Scene::Lead(name.to_owned()),
            _ => Scene::Turn(word.to_owned()),
        };
        text.split_whitespace().map(scene).collect()
    }

    #[test]
    fn replicas_then_the_lead_then_the_old_primary_is_an_upgrade() {
        assert!(is_upgrade(&scenes("b c lead:b a"), "a").is_ok());
        assert!(is_upgrade(&scenes("c b lead:b a"), "a").is_ok());
    }

    #[test]
    fn every_other_order_is_not() {
        for text in [
            "a b c lead:b",
            "b lead:b c a",
            "b c a lead:b",
            "b c lead:b a lead:a",
            "b c lead:b lead:c a",
            "b b lead:b a",
            "b c lead:b",
            "",
        ] {
            assert!(is_upgrade(&scenes(text), "a").is_err(), "{text}");
        }
    }
}
