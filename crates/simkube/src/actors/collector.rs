//! The garbage collector: dependents follow their owners.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::request::{Propagation, Request};
use crate::resource::Resource;
use crate::store::{Key, key, split_key};
use crate::value::{Object, flag, items, namespace, terminating, text, text_or_empty, uid};

/// What an owner reference points at.
enum Owner {
    /// It exists.
    Solid,
    /// It is going, and waits for its dependents to go first.
    Waiting,
    /// It does not exist, or under another uid.
    Absent,
}

impl Cluster {
    pub(crate) fn collect(&mut self, resource: Resource, object_key: &Key) {
        let Some(object) = self.server.store.get(resource, object_key).cloned() else {
            return;
        };
        if terminating(&object) {
            self.finish_owner(resource, object_key, &object);
            return;
        }
        let owners = items(&object, "metadata.ownerReferences");
        if owners.is_empty() {
            return;
        }
        let states: Vec<Owner> = owners
            .iter()
            .map(|o| self.owner_state(&object, o))
            .collect();
        let solid = states.iter().any(|s| matches!(s, Owner::Solid));
        if solid {
            self.drop_dangling(resource, object_key, &states);
            return;
        }
        let waiting = states.iter().any(|s| matches!(s, Owner::Waiting));
        let policy = if waiting && self.has_dependents(uid(&object)) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let (ns, name) = split_key(object_key);
        let mut request = Request::delete(resource, ns, name)
            .client(self.actors.collector.clone())
            .uid(uid(&object))
            .resource_version(text_or_empty(&object, "metadata.resourceVersion"));
        if !has_finalizer(&object, "orphan") && !has_finalizer(&object, "foregroundDeletion") {
            request = request.propagation(policy);
        }
        // A conflict means that it changed, and every change brings it back here.
        let _changed = self.server.call(&request);
    }

    fn has_dependents(&self, owner_uid: &str) -> bool {
        self.dependents
            .get(owner_uid)
            .is_some_and(|d| !d.is_empty())
    }

    fn owner_state(&self, dependent: &Object, owner: &Value) -> Owner {
        let Some(found) = self.find_owner(dependent, owner) else {
            return Owner::Absent;
        };
        if uid(&found) != text_or_empty(owner, "uid") {
            return Owner::Absent;
        }
        let waiting = terminating(&found) && has_finalizer(&found, "foregroundDeletion");
        if waiting {
            Owner::Waiting
        } else {
            Owner::Solid
        }
    }

    /// Looks an owner up by kind and name; a namespaced one in the dependent's namespace.
    fn find_owner(&self, dependent: &Object, owner: &Value) -> Option<Object> {
        let (group, _) = text_or_empty(owner, "apiVersion")
            .split_once('/')
            .unwrap_or(("", ""));
        let resource = self.resource_of(group, text_or_empty(owner, "kind"))?;
        let namespaced = self.server.info(resource).ok()?.namespaced;
        let ns = if namespaced { namespace(dependent) } else { "" };
        self.server
            .store
            .get(resource, &key(ns, text_or_empty(owner, "name")))
            .cloned()
    }

    /// Somebody still owns it: references to owners that are gone are removed.
    fn drop_dangling(&mut self, resource: Resource, object_key: &Key, states: &[Owner]) {
        if states.iter().all(|s| matches!(s, Owner::Solid)) {
            return;
        }
        let client = self.actors.collector.clone();
        let _gone = self
            .server
            .modify(&client, resource, None, object_key, |object| {
                if let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences")
                {
                    let mut states = states.iter();
                    owners.retain(|_| matches!(states.next(), Some(Owner::Solid)));
                }
            });
    }

    /// An owner under foreground deletion goes when nobody blocks it any more;
    /// one that orphans first lets its dependents go.
    fn finish_owner(&mut self, resource: Resource, object_key: &Key, object: &Object) {
        let dependents: Vec<(Resource, Key)> = self
            .dependents
            .get(uid(object))
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        if has_finalizer(object, "orphan") {
            for (dependent, dependent_key) in &dependents {
                self.disown(*dependent, dependent_key, uid(object));
            }
            self.drop_gc_finalizer(resource, object_key, "orphan");
        } else if has_finalizer(object, "foregroundDeletion") {
            let blocked = dependents
                .iter()
                .any(|(r, k)| self.blocks(*r, k, uid(object)));
            for (dependent, dependent_key) in dependents {
                self.after(0, super::Task::Collect(dependent, dependent_key));
            }
            if !blocked {
                self.drop_gc_finalizer(resource, object_key, "foregroundDeletion");
            }
        }
    }

    fn blocks(&self, resource: Resource, dependent: &str, owner_uid: &str) -> bool {
        self.server.store.get(resource, dependent).is_some_and(|o| {
            items(o, "metadata.ownerReferences")
                .iter()
                .any(|r| text(r, "uid") == Some(owner_uid) && flag(r, "blockOwnerDeletion"))
        })
    }

    fn disown(&mut self, resource: Resource, dependent: &str, owner_uid: &str) {
        let client = self.actors.collector.clone();
        let _gone = self
            .server
            .modify(&client, resource, None, dependent, |object| {
                if let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences")
                {
                    owners.retain(|o| text(o, "uid") != Some(owner_uid));
                }
            });
    }

    fn drop_gc_finalizer(&mut self, resource: Resource, object_key: &str, finalizer: &str) {
        let client = self.actors.collector.clone();
        let _gone = self
            .server
            .modify(&client, resource, None, object_key, |object| {
                if let Some(Value::Array(list)) = object.pointer_mut("/metadata/finalizers") {
                    list.retain(|f| f != finalizer);
                }
            });
    }
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    items(object, "metadata.finalizers")
        .iter()
        .any(|f| f == finalizer)
}
