//! What we do to members: acts of ours that end a process, as the journal shows them.

use serde_json::Value;
use simkube::{Change, Entry, Resource};

/// How a member is disrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Its pod is told to end.
    End,
    /// Its engine's container is changed such that it restarts.
    Change,
    /// Its engine is told to restart.
    Restart,
}

/// One act on one member.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub name: String,
    pub uid: String,
    pub how: How,
    pub at: u64,
    /// Its engine's image before.
    pub image: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn is_ours(entry: &Entry) -> bool {
    entry.origin.client.starts_with("controller")
}

pub(crate) fn is_member(pod: &Value) -> bool {
    !pod["metadata"]["labels"]["ensemble.dev/group"].is_null()
}

pub(crate) fn engine_image(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["image"]
}

pub(crate) fn ordinal(name: &str) -> Option<u32> {
    name.rsplit_once('-')?.1.parse().ok()
}

/// What the engine's container restarts for when it changes.
fn restarting_resources(pod: &Value) -> Vec<&Value> {
    let container = &pod["spec"]["containers"][0];
    let policies = container["resizePolicy"].as_array().into_iter().flatten();
    let restarting = policies.filter(|p| p["restartPolicy"] == "RestartContainer");
    let names = restarting.filter_map(|p| p["resourceName"].as_str());
    let amounts = |name| ["requests", "limits"].map(|part| &container["resources"][part][name]);
    names.flat_map(amounts).collect()
}

impl Act {
    /// What a write of ours does to a member, if it ends a process of it.
    pub fn of(entry: &Entry) -> Option<Self> {
        let previous = entry.previous.as_ref().filter(|p| is_member(p))?;
        if entry.resource != Resource::Pods || !is_ours(entry) {
            return None;
        }
        let ending = |o: &Value| !o["metadata"]["deletionTimestamp"].is_null();
        let told = !ending(previous) && (entry.change == Change::Deleted || ending(&entry.object));
        let changed = engine_image(previous) != engine_image(&entry.object)
            || restarting_resources(previous) != restarting_resources(&entry.object);
        let how = match (told, changed) {
            (true, _) => How::End,
            (false, true) => How::Change,
            (false, false) => return None,
        };
        Some(Self::on(previous, how, entry.at.0))
    }

    /// An act on that pod.
    pub fn on(pod: &Value, how: How, at: u64) -> Self {
        Self {
            name: text(&pod["metadata"]["name"]),
            uid: text(&pod["metadata"]["uid"]),
            how,
            at,
            image: text(engine_image(pod)),
        }
    }

    /// Its number in the ensemble.
    pub fn ordinal(&self) -> Option<u32> {
        ordinal(&self.name)
    }
}
