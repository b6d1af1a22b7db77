//! Growing a claim: first the volume, then the file system on its node.

use std::sync::Arc;

use serde_json::Value;

use crate::actors::Task;
use crate::actors::routing::uses_claim;
use crate::cluster::Cluster;
use crate::kinds::conditions::{self, Condition};
use crate::quantity;
use crate::resource::Resource;
use crate::store::Key;
use crate::value::{Object, at, condition, namespace, set, text, text_or_empty, uid};

impl Cluster {
    pub(super) fn sync_expansion(&mut self, claim_key: &Key, claim: &Object) {
        let size = |path: &str| at(claim, path).and_then(quantity::of);
        let wanted = size("spec.resources.requests.storage");
        if wanted <= size("status.capacity.storage") {
            return;
        }
        let volume = text_or_empty(claim, "spec.volumeName").to_owned();
        let grown = self
            .server
            .store
            .get(Resource::PersistentVolumes, &volume)
            .and_then(|v| at(v, "spec.capacity.storage").and_then(quantity::of));
        if grown < wanted {
            self.grow_volume(claim_key, claim, &volume);
        } else if self.file_system_can_grow(claim_key, claim) {
            self.finish_expansion(claim_key);
        }
    }

    fn grow_volume(&mut self, claim_key: &Key, claim: &Object, volume: &str) {
        let driver = self.driver_of(claim);
        let now = self.now();
        let claim_uid: Arc<str> = Arc::from(uid(claim));
        let due = *self
            .expanding
            .entry(claim_uid.clone())
            .or_insert(now.plus_ms(driver.expand_ms));
        if due > now {
            if condition(claim, "Resizing").is_none() {
                self.claim_status(claim_key, |c| {
                    conditions::set(c, now, &Condition::pod("Resizing", true));
                });
            }
            self.queue.add(Task::Claim(claim_key.clone()), due);
            return;
        }
        self.expanding.remove(&claim_uid);
        let size = at(claim, "spec.resources.requests.storage")
            .cloned()
            .unwrap_or(Value::Null);
        let client = self.actors.volumes.clone();
        let grown = self
            .server
            .modify(&client, Resource::PersistentVolumes, None, volume, |v| {
                set(v, "spec.capacity.storage", size);
            });
        if grown.is_err() {
            return;
        }
        self.claim_status(claim_key, |c| {
            conditions::remove(c, "Resizing");
            let message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
            let pending = Condition::pod("FileSystemResizePending", true).because("", message);
            conditions::set(c, now, &pending);
        });
    }

    pub(super) fn driver_of(&self, claim: &Value) -> crate::config::VolumeDriver {
        let class = text_or_empty(claim, "spec.storageClassName");
        let class = self.server.store.get(Resource::StorageClasses, class);
        self.driver(class.map_or("", |c| text_or_empty(c, "provisioner")))
    }

    /// A mounted file system grows if the driver can do it online and a node has it mounted.
    fn file_system_can_grow(&self, claim_key: &Key, claim: &Object) -> bool {
        self.driver_of(claim).online_expansion
            && self
                .server
                .store
                .within(Resource::Pods, namespace(claim))
                .any(|(_, p)| {
                    uses_claim(p, claim_key)
                        && text(p, "status.phase") == Some("Running")
                        && text(p, "spec.nodeName").is_some_and(|n| self.is_reachable(n))
                })
    }

    /// The node's part is done: the claim has its new size.
    pub(crate) fn finish_expansion(&mut self, claim_key: &str) {
        self.claim_status(claim_key, |c| {
            let size = at(c, "spec.resources.requests.storage")
                .cloned()
                .unwrap_or(Value::Null);
            set(c, "status.capacity.storage", size);
            conditions::remove(c, "Resizing");
            conditions::remove(c, "FileSystemResizePending");
        });
    }

    /// A pod is about to mount its claims: what waited for that grows now.
    pub(crate) fn expand_on_mount(&mut self, claim_key: &str) {
        let pending = self
            .server
            .store
            .get(Resource::PersistentVolumeClaims, claim_key)
            .is_some_and(|c| condition(c, "FileSystemResizePending").is_some());
        if pending {
            self.finish_expansion(claim_key);
        }
    }
}
