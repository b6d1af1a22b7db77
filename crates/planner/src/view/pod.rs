//! Pods, and what their kubelets say of them.

use super::{Kept, Meta, Unreadable, View, at, list, text};
use crate::kinds::Kind;
use crate::replaced::{PutBack, Replaced};
use crate::resize::{self, Resize};
use crate::snapshot::Snapshot;
use ensemble_api::labels;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a container is doing, by its kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// It waits, for that reason.
    Waiting {
        /// The kubelet's word.
        reason: String,
        /// The kubelet's message.
        message: String,
    },
    /// It runs.
    Running,
    /// It has ended.
    Ended {
        /// The kubelet's word.
        reason: String,
        /// Its exit code.
        exit_code: i64,
    },
}

/// One container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// Its name.
    pub name: String,
    /// Whether it runs before the others, to an end.
    pub init: bool,
    /// Its image by the spec. A kubelet goes on naming the one that ran, while the new one cannot be
    /// had.
    pub image: String,
    /// Which run it is: the runtime's id of it, empty before it first ran.
    pub id: String,
    /// The digest, known once the image was pulled.
    pub image_id: String,
    /// What it does.
    pub state: ContainerState,
    /// Whether its kubelet says that it is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: i64,
    /// How the run before this one ended.
    pub last_exit: Option<(String, i64)>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// Running.
    Running,
    /// Ended for good.
    Ended,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// Metadata.
    pub meta: Meta,
    /// Its phase.
    pub phase: Phase,
    /// Why it ended, by the kubelet's word (`Evicted`), or the phase.
    pub ended: String,
    /// The node it is bound to, empty if none.
    pub node: String,
    /// Its address, empty if it has none.
    pub ip: String,
    /// Whether its Ready condition is True.
    pub ready: bool,
    /// Why the scheduler finds no node.
    pub unschedulable: Option<String>,
    /// Up to which generation its kubelet has looked at it.
    pub observed_generation: i64,
    /// Whether its kubelet has said anything yet.
    pub reported: bool,
    /// Containers, init containers first.
    pub containers: Vec<ContainerView>,
    /// The grace period it was told to end within.
    pub grace_seconds: u32,
    /// What is known of its resize, if it is being resized.
    pub resize: Option<Resize>,
    /// Which containers were to be replaced, if it was changed in place.
    replaced: Option<Replaced>,
    /// The name of the revision it was made from.
    revision: String,
}

fn container_state(status: &Value) -> ContainerState {
    let state = status.get("state").unwrap_or(&Value::Null);
    if state.get("running").is_some_and(|v| !v.is_null()) {
        return ContainerState::Running;
    }
    if let Some(ended) = state.get("terminated").filter(|v| !v.is_null()) {
        let exit_code = ended.get("exitCode").and_then(Value::as_i64).unwrap_or(-1);
        return ContainerState::Ended {
            reason: text(ended, "/reason"),
            exit_code,
        };
    }
    let waiting = state.get("waiting").unwrap_or(&Value::Null);
    ContainerState::Waiting {
        reason: text(waiting, "/reason"),
        message: text(waiting, "/message"),
    }
}

fn spec_image(pod: &Value, specs: &str, status: &Value) -> String {
    let own = list(pod, specs).find(|c| c.get("name") == status.get("name"));
    text(own.unwrap_or(status), "/image")
}

fn containers(pod: &Value) -> Vec<ContainerView> {
    let inits = list(pod, "/status/initContainerStatuses")
        .map(|status| ("/spec/initContainers", true, status));
    let mains =
        list(pod, "/status/containerStatuses").map(|status| ("/spec/containers", false, status));
    inits
        .chain(mains)
        .map(|(specs, init, status)| ContainerView {
            name: text(status, "/name"),
            init,
            image: spec_image(pod, specs, status),
            id: text(status, "/containerID"),
            image_id: text(status, "/imageID"),
            state: container_state(status),
            ready: status.get("ready").and_then(Value::as_bool) == Some(true),
            restarts: status
                .get("restartCount")
                .and_then(Value::as_i64)
                .unwrap_or(0),
            last_exit: at(status, "/lastState/terminated")
                .filter(|v| !v.is_null())
                .map(|t| {
                    (
                        text(t, "/reason"),
                        t.get("exitCode").and_then(Value::as_i64).unwrap_or(-1),
                    )
                }),
        })
        .collect()
}

impl View for PodView {
    const KIND: Kind = Kind::Pod;

    fn read(pod: &Value) -> Result<Self, Unreadable> {
        let condition = |type_: &str| {
            list(pod, "/status/conditions")
                .find(|c| c.get("type").and_then(Value::as_str) == Some(type_))
        };
        let is_true = |c: &Value| c.get("status").and_then(Value::as_str) == Some("True");
        let phase_text = text(pod, "/status/phase");
        let phase = match phase_text.as_str() {
            "Running" => Phase::Running,
            "Succeeded" | "Failed" => Phase::Ended,
            _ => Phase::Pending,
        };
        let reason = text(pod, "/status/reason");
        let ended = match phase {
            Phase::Ended if reason.is_empty() => phase_text,
            Phase::Ended => reason,
            _ => String::new(),
        };
        let unschedulable = condition("PodScheduled").filter(|c| !is_true(c));
        let grace = at(pod, "/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64);
        let meta = Meta::read(pod);
        Ok(Self {
            revision: meta.label(labels::REVISION_HASH).to_owned(),
            replaced: Replaced::of(&meta.annotations),
            meta,
            phase,
            ended,
            node: text(pod, "/spec/nodeName"),
            ip: text(pod, "/status/podIP"),
            ready: condition("Ready").is_some_and(is_true),
            unschedulable: unschedulable
                .map(|c| text(c, "/message"))
                .filter(|m| !m.is_empty()),
            observed_generation: at(pod, "/status/observedGeneration")
                .and_then(Value::as_i64)
                .unwrap_or(0),
            reported: at(pod, "/status/startTime").is_some_and(|v| !v.is_null()),
            containers: containers(pod),
            resize: resize::read(pod),
            grace_seconds: grace.and_then(|g| u32::try_from(g).ok()).unwrap_or(30),
        })
    }
}

impl Kept for PodView {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shelf(snap: &mut Snapshot) -> &mut BTreeMap<String, Self> {
        &mut snap.pods
    }
}

impl PodView {
    /// The name of the revision it was made from.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The container of that name, by its kubelet's word.
    pub fn container(&self, name: &str) -> Option<&ContainerView> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// The containers of a pod as it was read.
    pub fn read_containers(pod: &Value) -> Vec<ContainerView> {
        containers(pod)
    }

    /// Whether a change that was made in place is not complete: its kubelet has not looked at it, or
    /// a container that it replaces is still the one that runs. The image proves nothing.
    pub fn is_changing(&self) -> bool {
        if self.resize.as_ref().is_some_and(|r| r.restarting) {
            return true;
        }
        // What replaced nothing needs no kubelet.
        let Some(replaced) = self.replaced.as_ref().filter(|r| !r.is_empty()) else {
            return false;
        };
        self.observed_generation < self.meta.generation || replaced.any_stays(&self.containers)
    }

    /// An image that was written in place and did not stay.
    pub fn put_back(&self) -> Option<PutBack> {
        self.replaced.as_ref()?.put_back(&self.containers)
    }

    /// Whether some container of it runs, by its kubelet.
    pub fn anything_runs(&self) -> bool {
        self.containers
            .iter()
            .any(|c| c.state == ContainerState::Running)
    }
}
