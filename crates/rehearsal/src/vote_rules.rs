//! What must hold where members vote, by the truth of the model.

use crate::etcd::{self, Etcd};
use crate::invariants::Broken;
use crate::outcomes::act::{engine_image, is_member};
use crate::outcomes::broken;
use crate::scenario::ensemble;
use crate::world::World;
use serde_json::Value;
use simkube::{Change, Entry, Resource};
use std::collections::BTreeMap;

/// What is done by an answer comes a moment later.
const LOOK_MS: u64 = 3_000;
/// A member that has not led for so long is not to be called the leader: answers count for 12 s.
const LED_MS: u64 = 15_000;

/// Checks it as the journal grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct VoteRules {
    read: usize,
    changes: usize,
    /// By pod uid: members that we disrupted, and at which start.
    disrupted: BTreeMap<String, u64>,
}

impl VoteRules {
    /// Looks at what was written since, and at who came to lead.
    pub(crate) fn check(&mut self, world: &World) -> Result<(), Broken> {
        let entries = world.cluster.log().len();
        let Some(model) = etcd::of(world) else {
            self.read = entries;
            return Ok(());
        };
        for at in self.read..entries {
            let entry = &world.cluster.log()[at];
            self.read = at + 1;
            if entry.origin.client.starts_with("controller") {
                self.entry(world, model, entry)?;
            }
        }
        while let Some(change) = model.history().get(self.changes) {
            self.changes += 1;
            if change.lost > 0 {
                let seen = format!("{} acknowledged writes, {change:?}", change.lost);
                return broken("no-write-lost", seen);
            }
        }
        Ok(())
    }

    fn entry(&mut self, world: &World, model: &Etcd, entry: &Entry) -> Result<(), Broken> {
        let Some(previous) = &entry.previous else {
            return Ok(());
        };
        if entry.resource == world.ensembles && entry.change == Change::Modified {
            return lead_is_honest(model, previous, &entry.object, entry.at.0);
        }
        if entry.resource != Resource::Pods || !is_member(previous) {
            return Ok(());
        }
        let ending = |o: &Value| !o["metadata"]["deletionTimestamp"].is_null();
        let told = !ending(previous) && (entry.change == Change::Deleted || ending(&entry.object));
        let changed = engine_image(previous) != engine_image(&entry.object);
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let (name, uid) = (
            text(&previous["metadata"]["name"]),
            text(&previous["metadata"]["uid"]),
        );
        let running = world.cluster.running_processes();
        if !(told || changed) || !running.iter().any(|p| *p.pod_uid == *uid) {
            return Ok(());
        }
        let single = ensemble(world).is_some_and(|e| e["spec"]["replicas"] == 1);
        let began = model.history().last().map_or(0, |c| c.at);
        if model.leads(&uid) && began + LOOK_MS < entry.at.0 && !single {
            let seen = format!("{name} leads and was disrupted; {}", model.describe());
            return broken("leader-is-left-alone", seen);
        }
        self.quorum_is_kept(model, &name, entry.at.0)?;
        self.disrupted.insert(uid.clone(), model.start_of(&uid));
        Ok(())
    }

    /// After it is gone there are as many left as it takes, or all others where that cannot be had.
    fn quorum_is_kept(&self, model: &Etcd, name: &str, at: u64) -> Result<(), Broken> {
        let present = model.present(at.saturating_sub(LOOK_MS));
        if !present.iter().any(|n| n == name) {
            // It was not there before, either.
            return Ok(());
        }
        let ending = |n: &String| {
            let run = model.run_of(n);
            run.is_some_and(|(uid, start)| self.disrupted.get(uid) == Some(&start))
        };
        let left = present.iter().filter(|n| *n != name && !ending(n)).count();
        if left >= model.majority().min(model.voters().saturating_sub(1)) {
            return Ok(());
        }
        let seen = format!(
            "{name} was disrupted, which leaves {left}; {}",
            model.describe()
        );
        broken("quorum-is-kept", seen)
    }
}

/// Status names nobody who has not led just now.
fn lead_is_honest(model: &Etcd, before: &Value, after: &Value, at: u64) -> Result<(), Broken> {
    let lead = &after["status"]["lead"];
    let news = *lead != before["status"]["lead"];
    let Some(name) = lead["member"].as_str().filter(|_| news) else {
        return Ok(());
    };
    if model.led_at(name) + LED_MS >= at {
        return Ok(());
    }
    let seen = format!("{name} is said to lead; {}", model.describe());
    broken("status-lead-is-honest", seen)
}
