//! What is seen of a change from outside, in order: whose turn it was, and who led.

use super::patroni::lock_of;
use super::{NAME, mark, wanted_image};
use anyhow::{Context, Result};
use ensemble_testbed::harness::TestNamespace;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, ResourceExt};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Something that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A member's turn: its pod was told to go, or to run another image, or was changed by nobody.
    Turn(String),
    /// Another member leads.
    Lead(String),
}

/// A scene, and the resource version at which it happened. Pods and the lock are watched apart, and
/// only their versions tell in which order they changed, however late we hear of it.
type Take = (u64, Scene);

/// A film of what happens, until it is cut.
pub struct Film {
    takes: Arc<Mutex<Vec<Take>>>,
    shooting: tokio::task::JoinHandle<()>,
}

impl Film {
    /// Begins to film.
    pub async fn begin(namespace: &TestNamespace) -> Result<Film> {
        let pods: Api<Pod> = namespace.api();
        let maps: Api<ConfigMap> = namespace.api();
        let lock = format!("{NAME}-leader");
        let members = "ensemble.dev/group=members";
        // The state before is not a scene.
        let mut camera = Camera::default();
        let params = kube::api::ListParams::default().labels(members);
        for pod in pods.list(&params).await? {
            camera.sees_pod(&pod);
        }
        camera.sees_lock(&maps.get(&lock).await?);

        let takes = Arc::new(Mutex::new(Vec::new()));
        let kept = takes.clone();
        let pods = watcher(pods, watcher::Config::default().labels(members));
        let named = watcher::Config::default().fields(&format!("metadata.name={lock}"));
        let maps = watcher(maps, named);
        let shooting = tokio::spawn(async move {
            let mut pods = pods.default_backoff().applied_objects().boxed();
            let mut maps = maps.default_backoff().applied_objects().boxed();
            loop {
                // The API server may be away; then nothing is seen until it is back.
                let seen = tokio::select! {
                    Some(pod) = pods.next() => pod.ok().and_then(|pod| camera.sees_pod(&pod)),
                    Some(map) = maps.next() => map.ok().and_then(|map| camera.sees_lock(&map)),
                    else => return,
                };
                let mut kept = kept.lock().unwrap_or_else(|e| e.into_inner());
                kept.extend(seen);
            }
        });
        Ok(Film { takes, shooting })
    }

    /// What was seen so far, in the order in which it happened.
    pub fn scenes(&self) -> Vec<Scene> {
        let takes = self.takes.lock().unwrap_or_else(|e| e.into_inner());
        in_order(takes.clone())
    }
}

fn in_order(mut takes: Vec<Take>) -> Vec<Scene> {
    takes.sort_by_key(|(version, _)| *version);
    takes.into_iter().map(|(_, scene)| scene).collect()
}

fn version(object: &impl ResourceExt) -> u64 {
    let version = object.resource_version().and_then(|v| v.parse().ok());
    version.unwrap_or_default()
}

impl Drop for Film {
    fn drop(&mut self) {
        self.shooting.abort();
    }
}

#[derive(Default)]
struct Camera {
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
    fn sees_pod(&mut self, pod: &Pod) -> Option<Take> {
        let name = pod.name_any();
        let seen = Seen {
            mark: mark(pod),
            image: wanted_image(pod),
            leaving: pod.metadata.deletion_timestamp.is_some(),
        };
        let turn = self.is_turn(&name, &seen);
        self.turns.insert(name.clone(), seen);
        turn.then(|| (version(pod), Scene::Turn(name)))
    }

    fn sees_lock(&mut self, map: &ConfigMap) -> Option<Take> {
        let holder = lock_of(map).holder?;
        let before = self.leader.replace(holder.clone());
        (before.as_ref() != Some(&holder)).then(|| (version(map), Scene::Lead(holder)))
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
    fn what_is_heard_late_stands_where_it_happened() {
        let heard = vec![
            (7, Scene::Turn("b".into())),
            (9, Scene::Turn("a".into())),
            (8, Scene::Lead("b".into())),
        ];
        assert_eq!(in_order(heard), scenes("b lead:b a"));
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
