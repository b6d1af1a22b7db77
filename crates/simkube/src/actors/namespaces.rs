//! The namespace controller: empties a namespace that goes away, pods first.

use serde_json::json;

use super::Task;
use crate::cluster::Cluster;
use crate::request::Request;
use crate::resource::Resource;
use crate::store::{Key, split_key};
use crate::value::{items, set, terminating};

const LOOK_AGAIN_MS: u64 = 1000;

impl Cluster {
    pub(crate) fn sync_namespace(&mut self, namespace: &Key) {
        let Some(object) = self
            .server
            .store
            .get(Resource::Namespaces, namespace)
            .cloned()
        else {
            return;
        };
        if !terminating(&object) {
            return;
        }
        if self.empty(namespace, &[Resource::Pods])
            && self.empty(namespace, &self.other_resources())
        {
            self.release(namespace, !items(&object, "metadata.finalizers").is_empty());
        } else {
            self.after(LOOK_AGAIN_MS, Task::Namespace(namespace.clone()));
        }
    }

    fn other_resources(&self) -> Vec<Resource> {
        let custom = (0..self.server.crds.len()).filter_map(|n| u16::try_from(n).ok());
        Resource::BUILT_INS
            .into_iter()
            .chain(custom.map(Resource::Custom))
            .filter(|r| *r != Resource::Pods && self.server.info(*r).is_ok_and(|i| i.namespaced))
            .collect()
    }

    /// Deletes all objects of some resources in a namespace; says whether none is left.
    fn empty(&mut self, namespace: &str, resources: &[Resource]) -> bool {
        let client = self.actors.namespaces.clone();
        for resource in resources {
            let keys: Vec<Key> = self
                .server
                .store
                .within(*resource, namespace)
                .filter(|(_, o)| !terminating(o))
                .map(|(k, _)| k.clone())
                .collect();
            for key in keys {
                let (ns, name) = split_key(&key);
                let request = Request::delete(*resource, ns, name).client(client.clone());
                let _gone = self.server.call(&request);
            }
        }
        resources
            .iter()
            .all(|r| self.server.store.within(*r, namespace).next().is_none())
    }

    fn release(&mut self, namespace: &Key, held: bool) {
        let client = self.actors.namespaces.clone();
        self.server
            .act_as(&client, crate::request::Verb::Update, None);
        if !held {
            self.server.remove(Resource::Namespaces, namespace);
            return;
        }
        let _gone = self
            .server
            .modify(&client, Resource::Namespaces, None, namespace, |n| {
                set(n, "spec.finalizers", json!([]));
            });
    }
}
