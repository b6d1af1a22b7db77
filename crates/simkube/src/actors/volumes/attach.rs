//! Which volume hangs on which node.

use std::sync::Arc;

use crate::actors::Task;
use crate::actors::kubelet::Link;
use crate::actors::routing::uses_claim;
use crate::cluster::Cluster;
use crate::resource::Resource;
use crate::store::Key;
use crate::time::SimTime;
use crate::value::{condition_true, items, text, text_or_empty};

/// A volume on its way to, on, or on its way from a node.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    pub node: Arc<str>,
    pub state: State,
    /// Overrides how long detaching takes.
    pub detach_ms: Option<u64>,
    /// Since when nobody needs it on its node.
    unwanted_since: Option<SimTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Attaching(SimTime),
    Attached,
    Detaching(SimTime),
}

impl Attachment {
    /// Whether the node can read and write the volume.
    pub fn holds(&self) -> bool {
        matches!(self.state, State::Attached | State::Detaching(_))
    }
}

impl Cluster {
    pub(crate) fn sync_attachment(&mut self, volume: &Key) {
        let now = self.now();
        if !self.is_attachable(volume) {
            return;
        }
        let wanted = self.nodes_wanting(volume);
        let Some(attachment) = self.attachments.get(volume).cloned() else {
            if let Some(node) = wanted.first() {
                self.begin_attach(volume, node.clone());
            }
            return;
        };
        match attachment.state {
            State::Attaching(at) | State::Detaching(at) if at > now => {
                self.queue.add(Task::Attach(volume.clone()), at);
            }
            State::Attaching(_) => {
                self.set_attachment(volume, State::Attached);
                self.look_at_users(volume);
                self.after(0, Task::Attach(volume.clone()));
            }
            State::Detaching(_) => {
                self.attachments.remove(volume);
                self.after(0, Task::Volume(volume.clone()));
                self.after(0, Task::Attach(volume.clone()));
            }
            State::Attached if wanted.contains(&attachment.node) => {
                if let Some(a) = self.attachments.get_mut(volume) {
                    a.unwanted_since = None;
                }
            }
            State::Attached => self.consider_detach(volume, &attachment),
        }
    }

    fn is_attachable(&self, volume: &str) -> bool {
        let Some(object) = self.server.store.get(Resource::PersistentVolumes, volume) else {
            return self.attachments.contains_key(volume);
        };
        let class = text_or_empty(object, "spec.storageClassName");
        let class = self.server.store.get(Resource::StorageClasses, class);
        let provisioner = text(object, "spec.csi.driver")
            .or_else(|| class.and_then(|c| text(c, "provisioner")))
            .unwrap_or("");
        text(object, "spec.csi.driver").is_some() && self.driver(provisioner).attach
    }

    fn begin_attach(&mut self, volume: &Key, node: Arc<str>) {
        let at = self.now().plus_ms(self.volume_driver(volume).attach_ms);
        let state = State::Attaching(at);
        let attachment = Attachment {
            node,
            state,
            detach_ms: None,
            unwanted_since: None,
        };
        self.attachments.insert(volume.clone(), attachment);
        self.queue.add(Task::Attach(volume.clone()), at);
    }

    fn volume_driver(&self, volume: &str) -> crate::config::VolumeDriver {
        let object = self.server.store.get(Resource::PersistentVolumes, volume);
        self.driver(
            object
                .and_then(|v| text(v, "spec.csi.driver"))
                .unwrap_or(""),
        )
    }

    fn set_attachment(&mut self, volume: &Key, state: State) {
        if let Some(attachment) = self.attachments.get_mut(volume) {
            attachment.state = state;
        }
    }

    /// Nodes with a scheduled, unfinished pod that uses the volume; terminating pods count.
    fn nodes_wanting(&self, volume: &str) -> Vec<Arc<str>> {
        let Some(object) = self.server.store.get(Resource::PersistentVolumes, volume) else {
            return Vec::new();
        };
        let Some(claim) = text(object, "spec.claimRef.name") else {
            return Vec::new();
        };
        let claim = crate::store::key(text_or_empty(object, "spec.claimRef.namespace"), claim);
        let mut nodes: Vec<Arc<str>> = Vec::new();
        for (_, pod) in self.server.store.all(Resource::Pods) {
            let finished = matches!(text(pod, "status.phase"), Some("Succeeded" | "Failed"));
            if let Some(node) = text(pod, "spec.nodeName").filter(|_| !finished)
                && uses_claim(pod, &claim)
            {
                nodes.push(Arc::from(node));
            }
        }
        nodes
    }

    /// Detaches once the node no longer uses the volume; from an unhealthy node
    /// only after a long wait or with the operator's word that it is out of service.
    fn consider_detach(&mut self, volume: &Key, attachment: &Attachment) {
        let now = self.now();
        let since = attachment.unwanted_since.unwrap_or(now);
        if let Some(a) = self.attachments.get_mut(volume) {
            a.unwanted_since = Some(since);
        }
        let node = &attachment.node;
        let unmounted = self
            .nodes
            .get(node)
            .is_none_or(|n| n.link == Link::Up && !n.pods.values().any(|p| p.mounts(volume)));
        let forced_at = since.plus_ms(self.config.delays.force_detach_ms);
        let healthy = self
            .server
            .store
            .get(Resource::Nodes, node)
            .is_some_and(|n| condition_true(n, "Ready"));
        let forced = !healthy && now >= forced_at;
        if unmounted || forced || self.is_out_of_service(node) {
            let ms = attachment
                .detach_ms
                .unwrap_or(self.volume_driver(volume).detach_ms);
            let at = now.plus_ms(ms);
            self.set_attachment(volume, State::Detaching(at));
            self.queue.add(Task::Attach(volume.clone()), at);
        } else if !healthy {
            // A healthy node's kubelet will unmount, and say so.
            self.queue.add(Task::Attach(volume.clone()), forced_at);
        }
    }

    pub(crate) fn is_out_of_service(&self, node: &str) -> bool {
        self.server
            .store
            .get(Resource::Nodes, node)
            .is_some_and(|n| {
                items(n, "spec.taints").iter().any(|t| {
                    text(t, "key") == Some("node.kubernetes.io/out-of-service")
                        && text(t, "effect") == Some("NoExecute")
                }) && !condition_true(n, "Ready")
            })
    }

    fn look_at_users(&mut self, volume: &str) {
        let Some(object) = self.server.store.get(Resource::PersistentVolumes, volume) else {
            return;
        };
        let Some(claim) = text(object, "spec.claimRef.name") else {
            return;
        };
        let claim = crate::store::key(text_or_empty(object, "spec.claimRef.namespace"), claim);
        self.look_at_pods_using(&claim);
    }

    /// Whether a volume can be used on a node right now.
    pub(crate) fn is_usable_on(&self, volume: &str, node: &str) -> bool {
        if !self.is_attachable(volume) {
            return true;
        }
        self.attachments
            .get(volume)
            .is_some_and(|a| a.state == State::Attached && *a.node == *node)
    }
}
