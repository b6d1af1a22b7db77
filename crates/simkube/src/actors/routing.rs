//! From writes to work: which actors care about a write.

use std::sync::Arc;

use serde_json::Value;

use super::Task;
use crate::cluster::Cluster;
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::store::{Change, Entry, Key, in_namespace, key};
use crate::value::{
    Object, at, condition_true, controller_ref, items, namespace, object, terminating, text,
    text_or_empty, uid,
};

impl Cluster {
    /// Hands every write that the actors have not seen to those who care.
    pub(crate) fn route(&mut self) {
        while let Some(entry) = self.server.store.journal().get(self.routed) {
            let entry = entry.clone();
            self.routed += 1;
            self.index_owners(&entry);
            match entry.resource {
                Resource::Pods => self.route_pod(&entry),
                Resource::PersistentVolumeClaims => self.route_claim(&entry),
                Resource::PersistentVolumes => self.route_volume(&entry),
                Resource::Nodes => self.route_node(&entry),
                Resource::StorageClasses => self.look_at_claims(),
                Resource::PodDisruptionBudgets => self.after_budget(entry.key.clone()),
                Resource::Services | Resource::EndpointSlices => self.route_service(&entry),
                Resource::Jobs => self.after(self.config.delays.job_ms, Task::Job(entry.key)),
                Resource::Namespaces if terminating(&entry.object) => {
                    self.after(self.config.delays.namespace_ms, Task::Namespace(entry.key));
                }
                Resource::Custom(_) => self.route_custom(&entry),
                _ => {}
            }
        }
    }

    fn index_owners(&mut self, entry: &Entry) {
        let owners = |o: &Object| items(o, "metadata.ownerReferences").to_vec();
        let before = entry.previous.as_ref().map(owners).unwrap_or_default();
        let gone = entry.change == Change::Deleted;
        let after = if gone {
            Vec::new()
        } else {
            owners(&entry.object)
        };
        if before != after {
            self.reindex(entry, &before, &after);
        }
        if gone {
            self.collect_dependents(uid(&entry.object));
        } else if !before.is_empty() || !after.is_empty() || collector_cares(&entry.object) {
            let unchanged = before == after && !collector_cares(&entry.object);
            if !unchanged {
                let task = Task::Collect(entry.resource, entry.key.clone());
                self.after(self.config.delays.collect_ms, task);
            }
        }
    }

    fn reindex(&mut self, entry: &Entry, before: &[Value], after: &[Value]) {
        let me = (entry.resource, entry.key.clone());
        for owner in before {
            if let Some(set) = self.dependents.get_mut(text_or_empty(owner, "uid")) {
                set.remove(&me);
            }
        }
        for owner in after {
            let owner_uid: Arc<str> = Arc::from(text_or_empty(owner, "uid"));
            self.dependents
                .entry(owner_uid)
                .or_default()
                .insert(me.clone());
        }
        // An owner that waits for its dependents wants to know that one has gone.
        for owner in before {
            self.look_at_owner(entry, owner);
        }
    }

    fn look_at_owner(&mut self, entry: &Entry, owner: &Value) {
        let (group, _) = text_or_empty(owner, "apiVersion")
            .split_once('/')
            .unwrap_or(("", ""));
        let Some(resource) = self.resource_of(group, text_or_empty(owner, "kind")) else {
            return;
        };
        let namespaced = self.server.info(resource).is_ok_and(|i| i.namespaced);
        let namespace = if namespaced {
            namespace(&entry.object)
        } else {
            ""
        };
        let owner_key = key(namespace, text_or_empty(owner, "name"));
        let waits = self
            .server
            .store
            .get(resource, &owner_key)
            .is_some_and(|o| terminating(o));
        if waits {
            self.after(
                self.config.delays.collect_ms,
                Task::Collect(resource, owner_key),
            );
        }
    }

    fn collect_dependents(&mut self, owner_uid: &str) {
        let Some(dependents) = self.dependents.get(owner_uid) else {
            return;
        };
        let delay = self.config.delays.collect_ms;
        for (resource, key) in dependents.clone() {
            self.after(delay, Task::Collect(resource, key));
        }
    }

    fn route_pod(&mut self, entry: &Entry) {
        let pod = &entry.object;
        let gone = entry.change == Change::Deleted;
        let node = text_or_empty(pod, "spec.nodeName");
        if node.is_empty() {
            if gone {
                self.unschedulable.remove(&entry.key);
            } else if terminating(pod) {
                self.after(self.config.delays.pod_gc_ms, Task::PodGc(entry.key.clone()));
            } else {
                self.after(
                    self.config.delays.schedule_ms,
                    Task::Schedule(entry.key.clone()),
                );
            }
        } else {
            self.route_scheduled_pod(entry, node, gone);
        }
        if serves_differently(entry) {
            self.budgets_in(namespace(pod));
            self.services_of(entry);
        }
        if let Some(owner) = controller_ref(pod).filter(|o| text_or_empty(o, "kind") == "Job") {
            let job = key(namespace(pod), text_or_empty(owner, "name"));
            self.after(self.config.delays.job_ms, Task::Job(job));
        }
    }

    fn route_scheduled_pod(&mut self, entry: &Entry, node: &str, gone: bool) {
        let pod = &entry.object;
        let (node, pod_uid): (Arc<str>, Arc<str>) = (Arc::from(node), Arc::from(uid(pod)));
        // A kubelet need not be told what it has just written itself.
        if entry.origin.client != self.actors.kubelet {
            self.after(
                self.config.delays.kubelet_ms,
                Task::Kubelet(node.clone(), pod_uid),
            );
        }
        let bound_now = entry
            .previous
            .as_ref()
            .is_none_or(|p| text(p, "spec.nodeName").is_none());
        let finished = matches!(text(pod, "status.phase"), Some("Succeeded" | "Failed"));
        if gone || finished {
            self.retry_unschedulable();
        }
        if gone || finished || bound_now {
            self.volumes_of_pod(pod);
        }
        if !gone {
            let tainted = self
                .server
                .store
                .get(Resource::Nodes, &node)
                .is_none_or(|n| has_no_execute(n));
            if tainted {
                self.after(0, Task::Taint(entry.key.clone()));
                self.after(self.config.delays.pod_gc_ms, Task::PodGc(entry.key.clone()));
            }
        }
    }

    /// Claims of a pod, and the volumes behind them.
    fn volumes_of_pod(&mut self, pod: &Object) {
        for claim in claims_of(pod) {
            if let Some(claim) = self
                .server
                .store
                .get(Resource::PersistentVolumeClaims, &claim)
            {
                let volume = text_or_empty(claim, "spec.volumeName").to_owned();
                if !volume.is_empty() {
                    self.after(0, Task::Attach(Arc::from(volume)));
                }
            }
            self.after(self.config.delays.bind_ms, Task::Claim(claim));
        }
    }

    fn route_claim(&mut self, entry: &Entry) {
        let volume = text_or_empty(&entry.object, "spec.volumeName");
        if !volume.is_empty() {
            self.after(self.config.delays.bind_ms, Task::Volume(Arc::from(volume)));
        }
        if entry.change != Change::Deleted {
            self.after(self.config.delays.bind_ms, Task::Claim(entry.key.clone()));
        }
        self.look_at_pods_using(&entry.key);
    }

    /// Pods that use a claim: unscheduled ones are tried again, others looked at.
    pub(crate) fn look_at_pods_using(&mut self, claim: &Key) {
        let ns = crate::store::split_key(claim).0;
        let mut tasks = Vec::new();
        for (pod_key, pod) in self.server.store.within(Resource::Pods, ns) {
            if !uses_claim(pod, claim) {
                continue;
            }
            match text(pod, "spec.nodeName") {
                Some(node) => tasks.push(Task::Kubelet(Arc::from(node), Arc::from(uid(pod)))),
                None => tasks.push(Task::Schedule(pod_key.clone())),
            }
        }
        for task in tasks {
            let delay = match task {
                Task::Schedule(_) => self.config.delays.schedule_ms,
                _ => self.config.delays.kubelet_ms,
            };
            self.after(delay, task);
        }
    }

    fn route_volume(&mut self, entry: &Entry) {
        let delay = self.config.delays.bind_ms;
        if entry.change != Change::Deleted {
            self.after(delay, Task::Volume(entry.key.clone()));
        }
        self.after(0, Task::Attach(entry.key.clone()));
        if let Some(claim) = text(&entry.object, "spec.claimRef.name") {
            let claim = key(
                text_or_empty(&entry.object, "spec.claimRef.namespace"),
                claim,
            );
            self.after(delay, Task::Claim(claim));
        } else {
            self.look_at_claims();
        }
    }

    fn look_at_claims(&mut self) {
        let pending: Vec<Key> = self
            .server
            .store
            .all(Resource::PersistentVolumeClaims)
            .filter(|(_, c)| text(c, "status.phase") == Some("Pending"))
            .map(|(k, _)| k.clone())
            .collect();
        for claim in pending {
            self.after(self.config.delays.bind_ms, Task::Claim(claim));
        }
    }

    fn route_node(&mut self, entry: &Entry) {
        self.after(0, Task::Node(entry.key.clone()));
        self.retry_unschedulable();
        let taints = |o: &Object| at(o, "spec.taints").cloned();
        let before = entry.previous.as_ref().and_then(taints);
        if entry.change == Change::Modified && before == taints(&entry.object) {
            return;
        }
        let pods: Vec<Key> = self
            .server
            .store
            .all(Resource::Pods)
            .filter(|(_, p)| text(p, "spec.nodeName") == Some(&*entry.key))
            .map(|(k, _)| k.clone())
            .collect();
        for pod in pods {
            self.after(0, Task::Taint(pod.clone()));
            self.after(self.config.delays.pod_gc_ms, Task::PodGc(pod));
        }
        let held: Vec<Key> = self.attachments.keys().cloned().collect();
        for volume in held {
            self.after(0, Task::Attach(volume));
        }
    }

    fn retry_unschedulable(&mut self) {
        if self.unschedulable.is_empty() {
            return;
        }
        for pod in std::mem::take(&mut self.unschedulable) {
            self.after(self.config.delays.schedule_ms, Task::Schedule(pod));
        }
    }

    fn after_budget(&mut self, budget: Key) {
        self.after(self.config.delays.budget_ms, Task::Budget(budget));
    }

    fn budgets_in(&mut self, ns: &str) {
        if self.server.store.count(Resource::PodDisruptionBudgets) == 0 {
            return;
        }
        let budgets: Vec<Key> = self
            .server
            .store
            .within(Resource::PodDisruptionBudgets, ns)
            .map(|(k, _)| k.clone())
            .collect();
        for budget in budgets {
            self.after_budget(budget);
        }
    }

    fn services_of(&mut self, entry: &Entry) {
        if self.server.store.count(Resource::Services) == 0 {
            return;
        }
        let selected = |service: &Object| {
            let Some(selector) = object(service, "spec.selector").map(LabelSelector::from_map)
            else {
                return false;
            };
            selector.matches(&entry.object)
                || entry.previous.as_ref().is_some_and(|p| selector.matches(p))
        };
        let services: Vec<Key> = self
            .server
            .store
            .all(Resource::Services)
            .filter(|(k, s)| in_namespace(k, namespace(&entry.object)) && selected(s))
            .map(|(k, _)| k.clone())
            .collect();
        for service in services {
            self.after(self.config.delays.endpoints_ms, Task::Endpoints(service));
        }
    }

    fn route_service(&mut self, entry: &Entry) {
        let service = match entry.resource {
            Resource::Services => entry.key.clone(),
            _ => {
                let label = at(&entry.object, "metadata.labels")
                    .and_then(|l| l.get("kubernetes.io/service-name"))
                    .and_then(Value::as_str);
                let Some(name) = label else { return };
                key(namespace(&entry.object), name)
            }
        };
        self.after(self.config.delays.endpoints_ms, Task::Endpoints(service));
    }

    /// A change of scale may change what a budget allows.
    fn route_custom(&mut self, entry: &Entry) {
        let Some(crd) = self.server.crd(entry.resource) else {
            return;
        };
        let Some(paths) = &crd.scale else { return };
        let replicas = |o: &Object| at(o, &paths.spec).cloned();
        let before = entry.previous.as_ref().and_then(replicas);
        if before != replicas(&entry.object) || entry.change == Change::Deleted {
            self.budgets_in(namespace(&entry.object));
        }
    }

    /// Looks at everything once, as a restarted control plane does.
    pub(crate) fn look_at_everything(&mut self) {
        let mut tasks = Vec::new();
        let store = &self.server.store;
        for (key, pod) in store.all(Resource::Pods) {
            match text(pod, "spec.nodeName") {
                None => tasks.push(Task::Schedule(key.clone())),
                Some(_) => tasks.push(Task::Taint(key.clone())),
            }
            tasks.push(Task::PodGc(key.clone()));
        }
        let all = |resource| store.all(resource).map(|(k, _)| k.clone());
        tasks.extend(all(Resource::PersistentVolumeClaims).map(Task::Claim));
        tasks.extend(all(Resource::PersistentVolumes).map(Task::Volume));
        tasks.extend(all(Resource::PersistentVolumes).map(Task::Attach));
        tasks.extend(all(Resource::PodDisruptionBudgets).map(Task::Budget));
        tasks.extend(all(Resource::Services).map(Task::Endpoints));
        tasks.extend(all(Resource::Nodes).map(Task::Node));
        tasks.extend(all(Resource::Jobs).map(Task::Job));
        tasks.extend(all(Resource::Namespaces).map(Task::Namespace));
        for dependents in self.dependents.values() {
            tasks.extend(dependents.iter().map(|(r, k)| Task::Collect(*r, k.clone())));
        }
        for task in tasks {
            self.after(0, task);
        }
    }
}

/// Whether a write to a pod matters to budgets and services.
fn serves_differently(entry: &Entry) -> bool {
    let Some(before) = entry
        .previous
        .as_ref()
        .filter(|_| entry.change == Change::Modified)
    else {
        return true;
    };
    let after = &entry.object;
    let same = |path: &str| at(before, path) == at(after, path);
    condition_true(before, "Ready") != condition_true(after, "Ready")
        || terminating(before) != terminating(after)
        || !same("status.podIP")
        || !same("status.phase")
        || !same("metadata.labels")
}

/// Whether the collector has to act on an object that is on its way out.
fn collector_cares(object: &Object) -> bool {
    terminating(object)
        && items(object, "metadata.finalizers")
            .iter()
            .any(|f| f == "foregroundDeletion" || f == "orphan")
}

/// Whether a node has a taint that drives pods away.
pub(super) fn has_no_execute(node: &Value) -> bool {
    items(node, "spec.taints")
        .iter()
        .any(|t| text(t, "effect") == Some("NoExecute"))
}

/// Keys of the claims that a pod uses.
pub(crate) fn claims_of(pod: &Value) -> impl Iterator<Item = Key> {
    let ns = namespace(pod);
    items(pod, "spec.volumes")
        .iter()
        .filter_map(move |v| text(v, "persistentVolumeClaim.claimName").map(|n| key(ns, n)))
}

pub(crate) fn uses_claim(pod: &Value, claim: &str) -> bool {
    let (ns, name) = crate::store::split_key(claim);
    namespace(pod) == ns
        && items(pod, "spec.volumes")
            .iter()
            .any(|v| text(v, "persistentVolumeClaim.claimName") == Some(name))
}
