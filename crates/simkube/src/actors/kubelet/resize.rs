//! In-place resize: what is wanted, what the node gave.

use std::sync::Arc;

use serde_json::Value;

use super::LocalPod;
use crate::actors::scheduler_filters::requests;
use crate::cluster::Cluster;
use crate::kinds::conditions::Condition;
use crate::quantity::{self, Quantity};
use crate::resource::Resource;
use crate::time::SimTime;
use crate::value::{at, items, text, uid};

/// Where a resize stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ResizeState {
    #[default]
    Settled,
    InProgress(SimTime),
    /// The node cannot give it now.
    Deferred(String),
    /// The node could never give it.
    Infeasible(String),
}

const RETRY_MS: u64 = 180_000;

impl ResizeState {
    pub fn conditions(&self) -> Vec<Condition<'_>> {
        match self {
            ResizeState::Settled => Vec::new(),
            ResizeState::InProgress(_) => vec![Condition::pod("PodResizeInProgress", true)],
            ResizeState::Deferred(why) => {
                vec![Condition::pod("PodResizePending", true).because("Deferred", why)]
            }
            ResizeState::Infeasible(why) => {
                vec![Condition::pod("PodResizePending", true).because("Infeasible", why)]
            }
        }
    }
}

impl Cluster {
    /// Gives containers the resources their spec asks for, if the node has them.
    pub(super) fn sync_resize(&mut self, node: &Arc<str>, local: &mut LocalPod) -> Option<SimTime> {
        let now = self.now();
        let specs = items(&local.pod, "spec.containers");
        let changed = |i: usize, c: &super::ContainerSim| {
            let wanted = specs.get(i).and_then(|s| s.get("resources"));
            c.is_running() && wanted.is_some_and(|w| *w != c.resources)
        };
        if !local
            .containers
            .iter()
            .enumerate()
            .any(|(i, c)| changed(i, c))
        {
            local.resize = ResizeState::Settled;
            self.adopt_for_stopped(local);
            return None;
        }
        if let ResizeState::InProgress(at) = local.resize {
            if at > now {
                return Some(at);
            }
            self.apply_resources(local);
            local.resize = ResizeState::Settled;
            return None;
        }
        local.resize = self.judge(node, local);
        match local.resize {
            ResizeState::InProgress(at) => Some(at),
            ResizeState::Deferred(_) => Some(now.plus_ms(RETRY_MS)),
            _ => None,
        }
    }

    /// Containers that do not run take the new resources with their next start.
    fn adopt_for_stopped(&self, local: &mut LocalPod) {
        let pod = local.pod.clone();
        let specs = items(&pod, "spec.containers");
        for (container, spec) in local.containers.iter_mut().zip(specs) {
            if !container.is_running() {
                container.resources = spec.get("resources").cloned().unwrap_or(Value::Null);
            }
        }
    }

    fn judge(&self, node: &Arc<str>, local: &LocalPod) -> ResizeState {
        let Some(object) = self.server.store.get(Resource::Nodes, node) else {
            return ResizeState::Settled;
        };
        for resource in ["cpu", "memory"] {
            let path = format!("status.allocatable.{resource}");
            let Some(available) = at(object, &path).and_then(quantity::of) else {
                continue;
            };
            let wanted = requests(&local.pod, resource);
            if wanted > available {
                let why = format!("Node didn't have enough capacity: {resource}");
                return ResizeState::Infeasible(why);
            }
            let others = self
                .server
                .store
                .all(Resource::Pods)
                .map(|(_, p)| p)
                .filter(|p| {
                    text(p, "spec.nodeName") == Some(node)
                        && uid(p) != &*local.uid
                        && !matches!(text(p, "status.phase"), Some("Succeeded" | "Failed"))
                });
            let used = others
                .map(|p| requests(p, resource))
                .fold(wanted, Quantity::plus);
            if used > available {
                let why = format!("Node didn't have enough resource: {resource}");
                return ResizeState::Deferred(why);
            }
        }
        ResizeState::InProgress(self.now().plus_ms(self.config.delays.resize_ms))
    }

    fn apply_resources(&self, local: &mut LocalPod) {
        let now = self.now();
        let grace_ms = local.grace_ms();
        let pod = local.pod.clone();
        let specs = items(&pod, "spec.containers");
        for (container, spec) in local.containers.iter_mut().zip(specs) {
            let wanted = spec.get("resources").cloned().unwrap_or(Value::Null);
            if wanted == container.resources {
                continue;
            }
            if needs_restart(spec, &container.resources, &wanted) {
                let exits = self.config.images.of(&container.image).stop_after_ms;
                container.restart(now, grace_ms, exits);
            }
            container.resources = wanted;
        }
    }
}

fn needs_restart(spec: &Value, old: &Value, new: &Value) -> bool {
    items(spec, "resizePolicy").iter().any(|policy| {
        let Some(resource) = text(policy, "resourceName") else {
            return false;
        };
        let differs = |part: &str| {
            at(old, part).and_then(|p| p.get(resource))
                != at(new, part).and_then(|p| p.get(resource))
        };
        text(policy, "restartPolicy") == Some("RestartContainer")
            && (differs("requests") || differs("limits"))
    })
}
