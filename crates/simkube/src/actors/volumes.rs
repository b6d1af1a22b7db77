//! Claims and volumes: binding, provisioning, protection, reclaiming.

mod attach;
mod expand;

pub(crate) use attach::Attachment;

use std::sync::Arc;

use serde_json::{Value, json};

use super::Task;
use super::routing::uses_claim;
use super::scheduler::{forget_selected_node, selected_node};
use super::scheduler_filters::{label, matches_node_terms};
use crate::cluster::Cluster;
use crate::config::{Reach, VolumeDriver};
use crate::quantity::{self, Quantity};
use crate::request::{Request, Subresource};
use crate::resource::Resource;
use crate::store::Key;
use crate::value::{
    Object, as_map, at, items, name, namespace, set, slot, take, terminating, text, text_or_empty,
    uid,
};

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const ZONE: &str = "topology.kubernetes.io/zone";

impl Cluster {
    pub(crate) fn sync_claim(&mut self, claim_key: &Key) {
        let store = &self.server.store;
        let Some(claim) = store
            .get(Resource::PersistentVolumeClaims, claim_key)
            .cloned()
        else {
            return;
        };
        if terminating(&claim) {
            self.release_protection(claim_key, &claim);
            return;
        }
        match text_or_empty(&claim, "status.phase") {
            "Bound" => self.check_bound(claim_key, &claim),
            "Lost" => {}
            _ => self.bind_or_provision(claim_key, &claim),
        }
    }

    /// A claim goes once no scheduled pod names it; unscheduled pods do not count.
    fn release_protection(&mut self, claim_key: &Key, claim: &Object) {
        let protected = items(claim, "metadata.finalizers")
            .iter()
            .any(|f| f == CLAIM_PROTECTION);
        let used = self
            .server
            .store
            .within(Resource::Pods, namespace(claim))
            .any(|(_, p)| text(p, "spec.nodeName").is_some() && uses_claim(p, claim_key));
        if protected && !used {
            self.drop_finalizer(
                Resource::PersistentVolumeClaims,
                claim_key,
                CLAIM_PROTECTION,
            );
        }
    }

    fn drop_finalizer(&mut self, resource: Resource, key: &str, finalizer: &str) {
        let client = self.actors.volumes.clone();
        // The object may have gone already, which is what is wanted.
        let _gone = self.server.modify(&client, resource, None, key, |object| {
            if let Some(Value::Array(list)) = object.pointer_mut("/metadata/finalizers") {
                list.retain(|f| f != finalizer);
            }
        });
    }

    fn check_bound(&mut self, claim_key: &Key, claim: &Object) {
        let volume = text_or_empty(claim, "spec.volumeName");
        if self
            .server
            .store
            .get(Resource::PersistentVolumes, volume)
            .is_none()
        {
            self.claim_status(claim_key, |claim| set(claim, "status.phase", "Lost"));
            return;
        }
        self.sync_expansion(claim_key, claim);
    }

    fn claim_status(&mut self, claim_key: &str, change: impl FnOnce(&mut Value)) {
        let client = self.actors.volumes.clone();
        let part = Some(Subresource::Status);
        let resource = Resource::PersistentVolumeClaims;
        // A claim that went away meanwhile needs no status.
        let _gone = self
            .server
            .modify(&client, resource, part, claim_key, change);
    }

    fn bind_or_provision(&mut self, claim_key: &Key, claim: &Object) {
        let chosen = selected_node(claim).map(str::to_owned);
        let late = self.binds_late(claim);
        let prebound = text(claim, "spec.volumeName").is_some();
        if late && chosen.is_none() && !prebound {
            return;
        }
        if let Some(volume) = self.matching_volume(claim, chosen.as_deref()) {
            self.bind_claim(claim_key, claim, &volume);
            return;
        }
        if !prebound {
            self.provision(claim_key, claim, chosen.as_deref());
        }
    }

    /// The smallest free volume that suits a claim, or the one that is reserved for it.
    fn matching_volume(&self, claim: &Object, node: Option<&str>) -> Option<Object> {
        let wanted = at(claim, "spec.resources.requests.storage").and_then(quantity::of)?;
        let prebound = text(claim, "spec.volumeName");
        let class = text_or_empty(claim, "spec.storageClassName");
        let node = node.and_then(|n| self.server.store.get(Resource::Nodes, n));
        let suits = |volume: &Object| {
            let reserved = reserved_for(volume, claim);
            if let Some(prebound) = prebound {
                return name(volume) == prebound && reserved != Some(false);
            }
            let modes = items(volume, "spec.accessModes");
            let affinity = at(volume, "spec.nodeAffinity.required");
            let near = node
                .zip(affinity)
                .is_none_or(|(n, terms)| matches_node_terms(terms, n));
            reserved != Some(false)
                && !terminating(volume)
                && text_or_empty(volume, "spec.storageClassName") == class
                && text(volume, "spec.volumeMode") == text(claim, "spec.volumeMode")
                && items(claim, "spec.accessModes")
                    .iter()
                    .all(|m| modes.contains(m))
                && capacity(volume).is_some_and(|c| c >= wanted)
                && near
        };
        let volumes = self
            .server
            .store
            .all(Resource::PersistentVolumes)
            .map(|(_, v)| v);
        volumes
            .filter(|v| suits(v))
            .min_by_key(|v| (reserved_for(v, claim) != Some(true), capacity(v)))
            .cloned()
    }

    /// Two steps, as on a real cluster: the volume learns its claim, then the claim its volume.
    fn bind_claim(&mut self, claim_key: &Key, claim: &Object, volume: &Object) {
        let client = self.actors.volumes.clone();
        let reference = claim_reference(claim);
        let bound = self.server.modify(
            &client,
            Resource::PersistentVolumes,
            None,
            name(volume),
            |v| set(v, "spec.claimRef", reference),
        );
        if bound.is_err() {
            self.after(self.config.delays.bind_ms, Task::Claim(claim_key.clone()));
            return;
        }
        let volume_name = name(volume).to_owned();
        let _gone = self.server.modify(
            &client,
            Resource::PersistentVolumeClaims,
            None,
            claim_key,
            |c| {
                set(c, "spec.volumeName", volume_name);
                let annotations = as_map(slot(c, "metadata.annotations"));
                annotations.insert("pv.kubernetes.io/bind-completed".into(), "yes".into());
                annotations.insert("pv.kubernetes.io/bound-by-controller".into(), "yes".into());
            },
        );
        let size = at(volume, "spec.capacity.storage")
            .cloned()
            .unwrap_or(Value::Null);
        let modes = at(volume, "spec.accessModes")
            .cloned()
            .unwrap_or(Value::Null);
        self.claim_status(claim_key, |c| {
            set(c, "status.phase", "Bound");
            set(c, "status.accessModes", modes);
            set(c, "status.capacity.storage", size);
        });
    }

    fn provision(&mut self, claim_key: &Key, claim: &Object, node: Option<&str>) {
        let class = text_or_empty(claim, "spec.storageClassName");
        let Some(class) = self
            .server
            .store
            .get(Resource::StorageClasses, class)
            .cloned()
        else {
            return;
        };
        let provisioner = text_or_empty(&class, "provisioner");
        if provisioner == NO_PROVISIONER {
            return;
        }
        let driver = self.driver(provisioner);
        let claim_uid: Arc<str> = Arc::from(uid(claim));
        let now = self.now();
        let due = *self
            .provisioning
            .entry(claim_uid.clone())
            .or_insert(now.plus_ms(driver.provision_ms));
        if due > now {
            self.queue.add(Task::Claim(claim_key.clone()), due);
            return;
        }
        self.provisioning.remove(&claim_uid);
        let node_gone = node.is_some_and(|n| self.server.store.get(Resource::Nodes, n).is_none());
        if driver.provision_fails || node_gone {
            self.fail_provisioning(claim_key, claim);
            return;
        }
        self.create_volume(claim, &class, driver, node);
    }

    /// A failed attempt gives the choice of the node back to the scheduler.
    fn fail_provisioning(&mut self, claim_key: &Key, claim: &Object) {
        if selected_node(claim).is_some() {
            let client = self.actors.volumes.clone();
            let resource = Resource::PersistentVolumeClaims;
            let _gone =
                self.server
                    .modify(&client, resource, None, claim_key, forget_selected_node);
        } else {
            self.after(10_000, Task::Claim(claim_key.clone()));
        }
    }

    pub(crate) fn driver(&self, provisioner: &str) -> VolumeDriver {
        self.config
            .drivers
            .get(provisioner)
            .copied()
            .unwrap_or_default()
    }

    fn create_volume(
        &mut self,
        claim: &Object,
        class: &Object,
        driver: VolumeDriver,
        node: Option<&str>,
    ) {
        let provisioner = text_or_empty(class, "provisioner");
        let mut volume = json!({
            "metadata": {
                "name": format!("pvc-{}", uid(claim)),
                "annotations": {"pv.kubernetes.io/provisioned-by": provisioner},
            },
            "spec": {
                "capacity": {"storage": at(claim, "spec.resources.requests.storage")},
                "accessModes": at(claim, "spec.accessModes"),
                "volumeMode": at(claim, "spec.volumeMode"),
                "storageClassName": name(class),
                "persistentVolumeReclaimPolicy": text(class, "reclaimPolicy").unwrap_or("Delete"),
                "claimRef": claim_reference(claim),
                "csi": {"driver": provisioner, "volumeHandle": uid(claim)},
            },
        });
        if let Some(affinity) = self.affinity(driver.reach, node) {
            volume["spec"]["nodeAffinity"] = affinity;
        }
        let request = Request::create(Resource::PersistentVolumes, "", volume);
        // It may exist from an earlier attempt; binding then finds it.
        let _exists = self
            .server
            .call(&request.client(self.actors.volumes.clone()));
    }

    fn affinity(&self, reach: Reach, node: Option<&str>) -> Option<Value> {
        let node = self.server.store.get(Resource::Nodes, node?)?;
        let (key, value) = match reach {
            Reach::Cluster => return None,
            Reach::Zone => (ZONE, label(node, ZONE)?),
            Reach::Node => (
                "kubernetes.io/hostname",
                label(node, "kubernetes.io/hostname")?,
            ),
        };
        let expression = json!({"key": key, "operator": "In", "values": [value]});
        Some(json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}))
    }

    /// Keeps a volume's phase, and reclaims it when its claim is gone for good.
    pub(crate) fn sync_volume(&mut self, volume_key: &Key) {
        let Some(volume) = self
            .server
            .store
            .get(Resource::PersistentVolumes, volume_key)
            .cloned()
        else {
            return;
        };
        let phase = self.volume_phase(&volume);
        if text(&volume, "status.phase") != Some(phase) {
            let client = self.actors.volumes.clone();
            let part = Some(Subresource::Status);
            let _gone = self.server.modify(
                &client,
                Resource::PersistentVolumes,
                part,
                volume_key,
                |v| {
                    set(v, "status.phase", phase);
                },
            );
        }
        let reclaim = text(&volume, "spec.persistentVolumeReclaimPolicy") == Some("Delete");
        let held = self.attachments.contains_key(volume_key);
        if phase == "Released" && reclaim && !held && !terminating(&volume) {
            let request = Request::delete(Resource::PersistentVolumes, "", name(&volume));
            let _gone = self
                .server
                .call(&request.client(self.actors.volumes.clone()));
        }
        let leaving = self
            .server
            .store
            .get(Resource::PersistentVolumes, volume_key);
        if phase != "Bound" && leaving.is_some_and(|v| terminating(v)) {
            self.drop_finalizer(Resource::PersistentVolumes, volume_key, VOLUME_PROTECTION);
        }
    }

    fn volume_phase(&self, volume: &Object) -> &'static str {
        let Some(reference) = at(volume, "spec.claimRef").filter(|r| !r.is_null()) else {
            return "Available";
        };
        let claim_uid = text_or_empty(reference, "uid");
        let key = crate::store::key(
            text_or_empty(reference, "namespace"),
            text_or_empty(reference, "name"),
        );
        match self
            .server
            .store
            .get(Resource::PersistentVolumeClaims, &key)
        {
            Some(claim) if uid(claim) == claim_uid => "Bound",
            _ if claim_uid.is_empty() => "Available",
            _ => "Released",
        }
    }
}

fn capacity(volume: &Value) -> Option<Quantity> {
    at(volume, "spec.capacity.storage").and_then(quantity::of)
}

/// Whether a volume names this very claim (`Some(true)`), another one, or none (`None`).
fn reserved_for(volume: &Value, claim: &Value) -> Option<bool> {
    let reference = at(volume, "spec.claimRef").filter(|r| !r.is_null())?;
    let same_name = text(reference, "name") == Some(name(claim))
        && text_or_empty(reference, "namespace") == namespace(claim);
    let by_uid = text(reference, "uid").filter(|u| !u.is_empty());
    Some(same_name && by_uid.is_none_or(|u| u == uid(claim)))
}

fn claim_reference(claim: &Value) -> Value {
    let mut reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": namespace(claim), "name": name(claim), "uid": uid(claim),
    });
    if namespace(claim).is_empty() {
        take(&mut reference, "namespace");
    }
    reference
}
