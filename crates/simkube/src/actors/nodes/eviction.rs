//! Pods that must leave their node, and pods whose node has left them.

use crate::actors::Task;
use crate::actors::scheduler_filters::toleration_covers;
use crate::cluster::Cluster;
use crate::kinds::conditions::{self, Condition};
use crate::request::{Request, Subresource};
use crate::resource::Resource;
use crate::store::{Key, split_key};
use crate::time::SimTime;
use crate::value::{Object, int, items, set, terminating, text, text_or_empty};

impl Cluster {
    /// Deletes a pod once it no longer tolerates its node. No preconditions:
    /// the real taint manager has none either.
    pub(crate) fn sync_taints(&mut self, pod_key: &Key) {
        let Some(pod) = self.server.store.get(Resource::Pods, pod_key).cloned() else {
            return;
        };
        if terminating(&pod) {
            return;
        }
        let node = text_or_empty(&pod, "spec.nodeName");
        let Some(node) = self.server.store.get(Resource::Nodes, node).cloned() else {
            return;
        };
        let Some(due) = leave_at(&pod, &node) else {
            return;
        };
        if due > self.now() {
            self.queue.add(Task::Taint(pod_key.clone()), due);
            return;
        }
        let why = "Taint manager: deleting due to NoExecute taint";
        self.mark_disrupted(pod_key, "DeletionByTaintManager", why);
        self.delete_pod(pod_key, &self.actors.nodes.clone(), None);
    }

    fn mark_disrupted(&mut self, pod_key: &str, reason: &str, why: &str) {
        let client = self.actors.nodes.clone();
        let now = self.now();
        let part = Some(Subresource::Status);
        let _gone = self
            .server
            .modify(&client, Resource::Pods, part, pod_key, |p| {
                let condition = Condition::pod("DisruptionTarget", true).because(reason, why);
                conditions::set(p, now, &condition);
            });
    }

    fn delete_pod(&mut self, pod_key: &str, client: &std::sync::Arc<str>, grace: Option<i64>) {
        let (ns, name) = split_key(pod_key);
        let mut request = Request::delete(Resource::Pods, ns, name).client(client.clone());
        request.params.grace_period_seconds = grace;
        // Somebody else may have been faster.
        let _gone = self.server.call(&request);
    }

    /// Clears up pods that no kubelet will ever finish.
    pub(crate) fn sync_pod_gc(&mut self, pod_key: &Key) {
        let Some(pod) = self.server.store.get(Resource::Pods, pod_key).cloned() else {
            return;
        };
        let node = text_or_empty(&pod, "spec.nodeName").to_owned();
        let again = self.config.delays.pod_gc_ms;
        if node.is_empty() {
            if terminating(&pod) {
                self.delete_pod(pod_key, &self.actors.pod_gc.clone(), Some(0));
            }
            return;
        }
        if self.server.store.get(Resource::Nodes, &node).is_some() {
            self.orphaned_since.remove(&*node);
            if !terminating(&pod) {
                return;
            }
            if self.is_out_of_service(&node) {
                self.clear_up(pod_key, None);
            } else if !self.is_reachable(&node) {
                self.after(again, Task::PodGc(pod_key.clone()));
            }
            return;
        }
        let now = self.now();
        let since = *self
            .orphaned_since
            .entry(node.as_str().into())
            .or_insert(now);
        if now.since_ms(since) >= self.config.delays.orphan_quarantine_ms {
            self.clear_up(pod_key, Some("PodGC: node no longer exists"));
        } else {
            self.after(again, Task::PodGc(pod_key.clone()));
        }
    }

    fn clear_up(&mut self, pod_key: &Key, orphan: Option<&str>) {
        let client = self.actors.pod_gc.clone();
        let now = self.now();
        let part = Some(Subresource::Status);
        let _gone = self
            .server
            .modify(&client, Resource::Pods, part, pod_key, |p| {
                let finished = matches!(text(p, "status.phase"), Some("Succeeded" | "Failed"));
                if !finished {
                    set(p, "status.phase", "Failed");
                }
                if let Some(why) = orphan {
                    let condition =
                        Condition::pod("DisruptionTarget", true).because("DeletionByPodGC", why);
                    conditions::set(p, now, &condition);
                }
            });
        self.delete_pod(pod_key, &client, Some(0));
    }
}

/// When a pod has to leave its node; `None` for never.
fn leave_at(pod: &Object, node: &Object) -> Option<SimTime> {
    let mut due: Option<SimTime> = None;
    for taint in items(node, "spec.taints")
        .iter()
        .filter(|t| text(t, "effect") == Some("NoExecute"))
    {
        let added = text(taint, "timeAdded")
            .and_then(SimTime::parse)
            .unwrap_or(SimTime(0));
        let covering: Vec<_> = items(pod, "spec.tolerations")
            .iter()
            .filter(|t| toleration_covers(t, taint))
            .collect();
        if covering.is_empty() {
            return Some(SimTime(0));
        }
        let seconds = covering
            .iter()
            .filter_map(|t| int(t, "tolerationSeconds"))
            .min();
        if let Some(seconds) = seconds {
            let at = added.plus_s(seconds.max(0).unsigned_abs());
            due = Some(due.map_or(at, |d| d.min(at)));
        }
    }
    due
}
