//! The scheduler: one pod at a time to the node that suits it best.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Task;
use super::routing::claims_of;
use crate::cluster::Cluster;
use crate::kinds::conditions::{self, Condition};
use crate::request::{Request, Subresource};
use crate::resource::Resource;
use crate::store::{Key, split_key};
use crate::value::{Object, at, items, name, set, terminating, text, text_or_empty, uid};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const RETRY_MS: u64 = 5000;

/// What the claims of a pod say about where it can go.
enum Claims {
    /// All bound, or to be bound once a node is chosen: those listed.
    Usable(Vec<Key>),
    /// A node was chosen for them, and the provisioner is at work.
    Waiting,
    /// Something is missing.
    Missing(String),
}

impl Cluster {
    pub(crate) fn schedule(&mut self, pod_key: &Key) {
        let Some(pod) = self.server.store.get(Resource::Pods, pod_key).cloned() else {
            return;
        };
        let done = !text_or_empty(&pod, "spec.nodeName").is_empty() || terminating(&pod);
        if done || text_or_empty(&pod, "spec.schedulerName") != "default-scheduler" {
            return;
        }
        if !items(&pod, "spec.schedulingGates").is_empty() {
            self.report_unscheduled(
                pod_key,
                "SchedulingGated",
                "Scheduling is blocked due to non-empty scheduling gates",
            );
            return;
        }
        match self.claims_for(&pod) {
            Claims::Missing(why) => self.give_up(pod_key, &why),
            // The claim will change when the provisioner is done, and bring the pod back here.
            Claims::Waiting => {}
            Claims::Usable(unbound) => match self.choose(&pod) {
                Ok(node) if unbound.is_empty() => self.bind_pod(&pod, &node),
                Ok(node) => self.select_node(pod_key, &unbound, &node),
                Err(why) => self.give_up(pod_key, &why),
            },
        }
    }

    fn claims_for(&self, pod: &Object) -> Claims {
        let mut unbound = Vec::new();
        for claim_key in claims_of(pod) {
            let claim_name = split_key(&claim_key).1;
            let Some(claim) = self
                .server
                .store
                .get(Resource::PersistentVolumeClaims, &claim_key)
            else {
                return Claims::Missing(format!(
                    "persistentvolumeclaim \"{claim_name}\" not found"
                ));
            };
            if terminating(claim) {
                return Claims::Missing(format!(
                    "persistentvolumeclaim \"{claim_name}\" is being deleted"
                ));
            }
            match text_or_empty(claim, "status.phase") {
                "Bound" => continue,
                "Lost" => {
                    return Claims::Missing(format!(
                        "persistentvolumeclaim \"{claim_name}\" bound to non-existent persistentvolume"
                    ));
                }
                _ => {}
            }
            if !self.binds_late(claim) {
                return Claims::Missing("pod has unbound immediate PersistentVolumeClaims".into());
            }
            if selected_node(claim).is_some() {
                return Claims::Waiting;
            }
            unbound.push(claim_key);
        }
        Claims::Usable(unbound)
    }

    /// Whether a claim waits for its first consumer.
    pub(crate) fn binds_late(&self, claim: &Value) -> bool {
        let class = text_or_empty(claim, "spec.storageClassName");
        self.server
            .store
            .get(Resource::StorageClasses, class)
            .is_some_and(|c| text(c, "volumeBindingMode") == Some("WaitForFirstConsumer"))
    }

    /// The node with the fewest pods among those that fit; the first by name among equals.
    fn choose(&self, pod: &Object) -> Result<String, String> {
        let mut load: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, other) in self.server.store.all(Resource::Pods) {
            *load
                .entry(text_or_empty(other, "spec.nodeName"))
                .or_default() += 1;
        }
        let mut best: Option<(usize, &str)> = None;
        let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
        let mut total = 0;
        for (_, node) in self.server.store.all(Resource::Nodes) {
            total += 1;
            match self.fits(pod, node) {
                Ok(()) => {
                    let candidate = (load.get(name(node)).copied().unwrap_or(0), name(node));
                    if best.is_none_or(|b| candidate < b) {
                        best = Some(candidate);
                    }
                }
                Err(why) => *refusals.entry(why).or_default() += 1,
            }
        }
        if let Some((_, node)) = best {
            return Ok(node.to_owned());
        }
        let list: Vec<String> = refusals
            .iter()
            .map(|(why, n)| format!("{n} {why}"))
            .collect();
        Err(format!(
            "0/{total} nodes are available: {}.",
            list.join(", ")
        ))
    }

    fn bind_pod(&mut self, pod: &Object, node: &str) {
        let ns = crate::value::namespace(pod);
        let mut request = Request::bind(ns, name(pod), node).client(self.actors.scheduler.clone());
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name(pod), "uid": uid(pod)},
            "target": {"kind": "Node", "name": node},
        });
        request = request.body(body);
        if self.server.call(&request).is_err() {
            self.after(RETRY_MS, Task::Schedule(crate::store::key(ns, name(pod))));
        }
    }

    /// Claims that wait for a consumer learn the node; the pod is bound once they are.
    fn select_node(&mut self, pod_key: &Key, claims: &[Key], node: &str) {
        let client = self.actors.scheduler.clone();
        for claim in claims {
            let answer = self.server.modify(
                &client,
                Resource::PersistentVolumeClaims,
                None,
                claim,
                |c| {
                    let annotations = crate::value::slot(c, "metadata.annotations");
                    crate::value::as_map(annotations).insert(SELECTED_NODE.into(), node.into());
                },
            );
            if answer.is_err() {
                self.after(RETRY_MS, Task::Schedule(pod_key.clone()));
            }
        }
    }

    fn give_up(&mut self, pod_key: &Key, why: &str) {
        self.report_unscheduled(pod_key, "Unschedulable", why);
        self.unschedulable.insert(pod_key.clone());
    }

    fn report_unscheduled(&mut self, pod_key: &Key, reason: &str, why: &str) {
        let client = self.actors.scheduler.clone();
        let now = self.now();
        let condition = Condition::pod("PodScheduled", false).because(reason, why);
        // A pod that has gone meanwhile needs no report.
        let _gone = self.server.modify(
            &client,
            Resource::Pods,
            Some(Subresource::Status),
            pod_key,
            |pod| conditions::set(pod, now, &condition),
        );
    }
}

/// The node that the scheduler chose for a claim.
pub(super) fn selected_node(claim: &Value) -> Option<&str> {
    at(claim, "metadata.annotations")?
        .get(SELECTED_NODE)?
        .as_str()
}

/// Takes the choice back, so that the pod is scheduled anew.
pub(super) fn forget_selected_node(claim: &mut Value) {
    if let Some(annotations) = claim.pointer_mut("/metadata/annotations") {
        crate::value::as_map(annotations).remove(SELECTED_NODE);
    }
    if claim
        .pointer("/metadata/annotations")
        .is_some_and(|a| a == &json!({}))
    {
        set(claim, "metadata.annotations", Value::Null);
    }
}
