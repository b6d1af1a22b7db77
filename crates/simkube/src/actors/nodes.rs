//! Node lifecycle: a silent node is declared unreachable, its pods are driven
//! away after their tolerations, and what is left behind is cleared up.

mod eviction;

use std::sync::Arc;

use serde_json::{Value, json};

use super::Task;
use super::scheduler_filters::label;
use crate::cluster::Cluster;
use crate::kinds::conditions::{self, Condition};
use crate::request::Subresource;
use crate::resource::Resource;
use crate::store::Key;
use crate::time::SimTime;
use crate::value::{Object, condition, condition_true, items, set, text, text_or_empty};

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const ZONE: &str = "topology.kubernetes.io/zone";
const HEARTBEAT_MS: u64 = 10_000;
/// One node of a zone is tainted every ten seconds.
const TAINT_EVERY_MS: u64 = 10_000;

impl Cluster {
    pub(crate) fn sync_node(&mut self, node: &Key) {
        let Some(object) = self.server.store.get(Resource::Nodes, node).cloned() else {
            return;
        };
        let silent_since = self
            .nodes
            .get(node)
            .map_or(Some(SimTime(0)), |n| n.silent_since);
        match silent_since {
            None => self.welcome_back(node, &object),
            Some(since) => {
                let unknown_at = self.unknown_at(since);
                if unknown_at > self.now() {
                    self.queue.add(Task::Node(node.clone()), unknown_at);
                } else {
                    self.declare_unknown(node, &object);
                    self.taint_unreachable(node);
                }
            }
        }
    }

    /// The last heartbeat lies up to ten seconds back, and the monitor looks every five.
    fn unknown_at(&self, silent_since: SimTime) -> SimTime {
        let last_heartbeat = SimTime(silent_since.0 / HEARTBEAT_MS * HEARTBEAT_MS);
        let due = last_heartbeat.plus_ms(self.config.delays.node_grace_ms);
        let tick = self.config.delays.node_monitor_ms.max(1);
        SimTime(due.0.div_ceil(tick) * tick)
    }

    fn declare_unknown(&mut self, node: &Key, object: &Object) {
        let state = condition(object, "Ready").map_or("", |c| text_or_empty(c, "status"));
        if state == "Unknown" {
            return;
        }
        let now = self.now();
        self.node_status(node, |n| {
            for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
                let condition = Condition {
                    kind,
                    status: "Unknown",
                    reason: "NodeStatusUnknown",
                    message: "Kubelet stopped posting node status.",
                    probe_time: false,
                    observed_generation: None,
                };
                conditions::set(n, now, &condition);
            }
        });
        self.mark_pods_unready(node);
    }

    fn node_status(&mut self, node: &str, change: impl FnOnce(&mut Value)) {
        let client = self.actors.nodes.clone();
        let part = Some(Subresource::Status);
        let _gone = self
            .server
            .modify(&client, Resource::Nodes, part, node, change);
    }

    /// Nobody vouches for the pods of a silent node: Ready becomes False, the phase stays.
    fn mark_pods_unready(&mut self, node: &str) {
        let pods: Vec<Key> = self
            .server
            .store
            .all(Resource::Pods)
            .filter(|(_, p)| text(p, "spec.nodeName") == Some(node) && condition_true(p, "Ready"))
            .map(|(k, _)| k.clone())
            .collect();
        let client = self.actors.nodes.clone();
        let now = self.now();
        for pod in pods {
            let part = Some(Subresource::Status);
            let _gone = self
                .server
                .modify(&client, Resource::Pods, part, &pod, |p| {
                    conditions::set(p, now, &Condition::pod("Ready", false));
                });
        }
    }

    /// NoSchedule at once; NoExecute at the zone's pace, and not at all while
    /// so much is down that the fault is more likely elsewhere.
    fn taint_unreachable(&mut self, node: &Key) {
        self.add_taint(node, UNREACHABLE, "NoSchedule");
        let zone = self.zone_of(node);
        if self.whole_cluster_is_down() {
            self.withdraw_evictions();
            return;
        }
        if self.zone_is_half_down(&zone) || self.has_taint(node, UNREACHABLE, "NoExecute") {
            return;
        }
        let now = self.now();
        let next = self.zone_pace.get(&*zone).copied().unwrap_or(now);
        if next > now {
            self.queue.add(Task::Node(node.clone()), next);
            return;
        }
        self.zone_pace.insert(zone, now.plus_ms(TAINT_EVERY_MS));
        self.add_taint(node, UNREACHABLE, "NoExecute");
    }

    fn zone_of(&self, node: &str) -> Arc<str> {
        let object = self.server.store.get(Resource::Nodes, node);
        Arc::from(object.and_then(|n| label(n, ZONE)).unwrap_or(""))
    }

    fn whole_cluster_is_down(&self) -> bool {
        !self
            .server
            .store
            .all(Resource::Nodes)
            .any(|(_, n)| condition_true(n, "Ready"))
    }

    /// More than two nodes and at least 55 % of a zone that is not wholly down.
    fn zone_is_half_down(&self, zone: &str) -> bool {
        let nodes = self.server.store.all(Resource::Nodes).map(|(_, n)| n);
        let ready: Vec<bool> = nodes
            .filter(|n| label(n, ZONE).unwrap_or("") == zone)
            .map(|n| condition_true(n, "Ready"))
            .collect();
        let down = ready.iter().filter(|r| !**r).count();
        down > 2 && down < ready.len() && down * 100 >= ready.len() * 55
    }

    fn withdraw_evictions(&mut self) {
        let nodes: Vec<Key> = self
            .server
            .store
            .all(Resource::Nodes)
            .map(|(k, _)| k.clone())
            .collect();
        for node in nodes {
            self.remove_taints(&node, |t| {
                text(t, "key") == Some(UNREACHABLE) && text(t, "effect") == Some("NoExecute")
            });
        }
    }

    fn has_taint(&self, node: &str, key: &str, effect: &str) -> bool {
        self.server
            .store
            .get(Resource::Nodes, node)
            .is_some_and(|n| {
                items(n, "spec.taints")
                    .iter()
                    .any(|t| text(t, "key") == Some(key) && text(t, "effect") == Some(effect))
            })
    }

    fn add_taint(&mut self, node: &str, key: &str, effect: &str) {
        if self.has_taint(node, key, effect) {
            return;
        }
        let client = self.actors.nodes.clone();
        let taint = json!({"key": key, "effect": effect, "timeAdded": self.now().rfc3339()});
        let _gone =
            self.server.modify(
                &client,
                Resource::Nodes,
                None,
                node,
                |n| match crate::value::slot(n, "spec.taints") {
                    Value::Array(list) => list.push(taint),
                    empty => *empty = json!([taint]),
                },
            );
    }

    fn remove_taints(&mut self, node: &str, which: impl Fn(&Value) -> bool) {
        let object = self.server.store.get(Resource::Nodes, node);
        if !object.is_some_and(|n| items(n, "spec.taints").iter().any(&which)) {
            return;
        }
        let client = self.actors.nodes.clone();
        let _gone = self
            .server
            .modify(&client, Resource::Nodes, None, node, |n| {
                if let Some(Value::Array(list)) = n.pointer_mut("/spec/taints") {
                    list.retain(|t| !which(t));
                }
                if items(n, "spec.taints").is_empty() {
                    crate::value::take(n, "spec.taints");
                }
            });
    }

    /// The kubelet is heard again.
    fn welcome_back(&mut self, node: &Key, object: &Object) {
        if condition_true(object, "Ready") && items(object, "spec.taints").is_empty() {
            return;
        }
        let now = self.now();
        if !condition_true(object, "Ready") {
            let client = self.actors.kubelet.clone();
            let part = Some(Subresource::Status);
            let _gone = self
                .server
                .modify(&client, Resource::Nodes, part, node, |n| {
                    let ready = Condition {
                        kind: "Ready",
                        status: "True",
                        reason: "KubeletReady",
                        message: "kubelet is posting ready status",
                        probe_time: false,
                        observed_generation: None,
                    };
                    conditions::set(n, now, &ready);
                    for (kind, reason) in [
                        ("MemoryPressure", "KubeletHasSufficientMemory"),
                        ("DiskPressure", "KubeletHasNoDiskPressure"),
                        ("PIDPressure", "KubeletHasSufficientPID"),
                    ] {
                        let fine = Condition {
                            kind,
                            status: "False",
                            reason,
                            ..ready.clone()
                        };
                        conditions::set(n, now, &fine);
                    }
                    set(n, "status.nodeInfo.kubeletVersion", "v1.36.0");
                });
        }
        self.remove_taints(node, |t| text(t, "key") == Some(UNREACHABLE));
    }
}
