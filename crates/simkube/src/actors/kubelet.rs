//! The kubelets: what really runs, on which node, and what is said about it.

mod container;
mod drive;
mod node;
mod resize;
mod status;

pub use node::NodeSpec;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Task;
use super::routing::claims_of;
use crate::cluster::Cluster;
use crate::request::{Request, Response};
use crate::resource::Resource;
use crate::store::Key;
use crate::time::SimTime;
use crate::value::{Object, int, items, name, namespace, terminating, text, text_or_empty, uid};
use crate::workload::{Process, ProcessEvent};

use container::ContainerSim;

/// How a node is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Up and connected.
    Up,
    /// Running, but nobody hears it and it hears nobody.
    Partitioned,
    /// Without power.
    Dead,
}

/// A node as it really is.
#[derive(Clone, Debug)]
pub(crate) struct NodeSim {
    pub name: Arc<str>,
    pub link: Link,
    /// When it was last heard, while it is not connected.
    pub silent_since: Option<SimTime>,
    pub address: String,
    pub images: BTreeSet<String>,
    pub pods: BTreeMap<Arc<str>, LocalPod>,
    /// How often it booted.
    pub boots: u32,
    /// What it says of itself when it registers.
    spec: NodeSpec,
}

impl NodeSim {
    /// Somebody kills that container's process; the uids of the pods that had one.
    pub fn crash(
        &mut self,
        namespaced: &str,
        pod: &str,
        container: &str,
        now: SimTime,
    ) -> Vec<Arc<str>> {
        let of = |l: &&mut LocalPod| name(&l.pod) == pod && namespace(&l.pod) == namespaced;
        let mut hit = Vec::new();
        for local in self.pods.values_mut().filter(of) {
            let containers = local.containers.iter_mut();
            for one in containers.filter(|c| c.name == container) {
                one.crash(now);
                hit.push(local.uid.clone());
            }
        }
        hit
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Volumes,
    Sandbox(SimTime),
    Init,
    Main,
}

/// A pod as its kubelet knows it.
#[derive(Clone, Debug)]
pub(crate) struct LocalPod {
    key: Key,
    uid: Arc<str>,
    /// The object as last seen; a cut-off kubelet goes on by it.
    pod: Object,
    /// The object has been removed, or belongs to another pod now.
    gone: bool,
    started_at: SimTime,
    stage: Stage,
    address: Option<String>,
    inits: Vec<ContainerSim>,
    containers: Vec<ContainerSim>,
    mounted: Vec<Key>,
    kill_at: Option<SimTime>,
    /// The phase in which it ended.
    finished: Option<&'static str>,
    /// Why its kubelet never began with it.
    rejected: Option<String>,
    resize: resize::ResizeState,
    /// What was last found to be said already.
    said: Option<Arc<Said>>,
}

/// All that a pod's status is made of, and the object that has it.
#[derive(Debug)]
struct Said {
    pod: Object,
    stage: Stage,
    address: Option<String>,
    finished: Option<&'static str>,
    resize: resize::ResizeState,
    inits: Vec<ContainerSim>,
    containers: Vec<ContainerSim>,
    /// Of all containers: whether they are ready, and whether they have started.
    probes: Vec<(bool, bool)>,
}

/// Shortest time between SIGTERM and SIGKILL.
const MIN_GRACE_S: i64 = 2;

impl LocalPod {
    fn new(key: Key, pod: Object, now: SimTime) -> LocalPod {
        let containers = |list: &str| -> Vec<ContainerSim> {
            items(&pod, list).iter().map(ContainerSim::new).collect()
        };
        LocalPod {
            key,
            uid: Arc::from(uid(&pod)),
            gone: false,
            started_at: now,
            stage: Stage::Volumes,
            address: None,
            inits: containers("spec.initContainers"),
            containers: containers("spec.containers"),
            mounted: Vec::new(),
            kill_at: None,
            finished: None,
            rejected: None,
            resize: resize::ResizeState::default(),
            said: None,
            pod,
        }
    }

    fn all(&self) -> impl Iterator<Item = &ContainerSim> {
        self.inits.iter().chain(&self.containers)
    }

    fn probes(&self, now: SimTime) -> impl Iterator<Item = (bool, bool)> {
        self.all()
            .map(move |c| (c.is_ready(now), c.shown().is_started(now)))
    }

    /// Whether nothing has happened since the object said all there is to say.
    fn is_said(&self, now: SimTime) -> bool {
        self.said.as_ref().is_some_and(|said| {
            Arc::ptr_eq(&said.pod, &self.pod)
                && said.stage == self.stage
                && said.address == self.address
                && said.finished == self.finished
                && said.resize == self.resize
                && said.inits == self.inits
                && said.containers == self.containers
                && self.probes(now).eq(said.probes.iter().copied())
        })
    }

    fn note_said(&mut self, now: SimTime) {
        self.said = Some(Arc::new(Said {
            pod: self.pod.clone(),
            stage: self.stage,
            address: self.address.clone(),
            finished: self.finished,
            resize: self.resize.clone(),
            inits: self.inits.clone(),
            containers: self.containers.clone(),
            probes: self.probes(now).collect(),
        }));
    }

    fn process(&self, node: &Arc<str>, container: &ContainerSim) -> Process {
        Process {
            node: node.clone(),
            namespace: namespace(&self.pod).to_owned(),
            pod: name(&self.pod).to_owned(),
            pod_uid: self.uid.clone(),
            container: container.name.clone(),
            image: container.image.clone(),
            id: container.id.clone().unwrap_or_default(),
        }
    }

    /// The containers of this pod that run.
    pub fn processes<'a>(&'a self, node: &'a Arc<str>) -> impl Iterator<Item = Process> + 'a {
        self.all()
            .filter(|c| c.is_running())
            .map(|c| self.process(node, c))
    }

    /// Whether a volume is mounted for this pod.
    pub fn mounts(&self, volume: &str) -> bool {
        self.mounted.iter().any(|v| **v == *volume)
    }

    fn must_stop(&self) -> bool {
        self.gone || terminating(&self.pod)
    }

    fn is_stopped(&self) -> bool {
        self.kill_at.is_some() && self.all().all(ContainerSim::has_ended)
    }

    /// How long containers have from now on, in milliseconds.
    fn grace_ms(&self) -> u64 {
        let own = int(&self.pod, "spec.terminationGracePeriodSeconds").unwrap_or(30);
        let asked = if self.gone {
            None
        } else {
            int(&self.pod, "metadata.deletionGracePeriodSeconds")
        };
        let seconds = asked.unwrap_or(own).max(MIN_GRACE_S);
        seconds.unsigned_abs() * 1000
    }
}

impl Cluster {
    pub(crate) fn sync_pod(&mut self, node: &Arc<str>, pod_uid: &Arc<str>) {
        let Some(link) = self.nodes.get(node).map(|n| n.link) else {
            return;
        };
        if link == Link::Dead {
            return;
        }
        let known = self
            .nodes
            .get_mut(node)
            .and_then(|n| n.pods.remove(pod_uid));
        let local = if link == Link::Up {
            self.refresh(node, pod_uid, known)
        } else {
            known
        };
        let Some(mut local) = local else { return };
        if local.stage == Stage::Volumes && local.finished.is_none() {
            self.reject_if_full(node, &mut local);
        }
        let wake = self.drive(node, &mut local);
        let keep = link != Link::Up || self.report(node, &mut local);
        let task = Task::Kubelet(node.clone(), pod_uid.clone());
        if let Some(at) = wake.filter(|_| keep) {
            let at = at.max(self.now());
            self.queue.add(task, at);
        }
        if keep && let Some(sim) = self.nodes.get_mut(node) {
            sim.pods.insert(pod_uid.clone(), local);
        }
    }

    /// What the API says about a pod, if it is still this pod's turn on this node.
    fn refresh(&self, node: &str, pod_uid: &str, known: Option<LocalPod>) -> Option<LocalPod> {
        let store = &self.server.store;
        let found = match &known {
            Some(local) => {
                let object = store.get(Resource::Pods, &local.key);
                object
                    .filter(|o| uid(o) == pod_uid)
                    .map(|o| (local.key.clone(), o))
            }
            None => {
                let mut all = store.all(Resource::Pods);
                all.find(|(_, o)| uid(o) == pod_uid)
                    .map(|(k, o)| (k.clone(), o))
            }
        };
        match (found, known) {
            (Some((_, object)), Some(mut local)) => {
                local.pod = object.clone();
                Some(local)
            }
            (Some((key, object)), None) => {
                let here = text(object, "spec.nodeName") == Some(node);
                let finished = matches!(text(object, "status.phase"), Some("Succeeded" | "Failed"));
                (here && !finished).then(|| LocalPod::new(key, object.clone(), self.now()))
            }
            (None, Some(mut local)) => {
                local.gone = true;
                Some(local)
            }
            (None, None) => None,
        }
    }

    /// Moves a pod's containers on to the present; says when to look again.
    fn drive(&mut self, node: &Arc<str>, local: &mut LocalPod) -> Option<SimTime> {
        if local.finished.is_some() {
            return None;
        }
        if local.must_stop() {
            self.stop(node, local)
        } else {
            self.start(node, local)
        }
    }

    fn stop(&mut self, node: &Arc<str>, local: &mut LocalPod) -> Option<SimTime> {
        let now = self.now();
        let deadline = now.plus_ms(local.grace_ms());
        let kill_at = local.kill_at.map_or(deadline, |k| k.min(deadline));
        let first = local.kill_at.is_none();
        local.kill_at = Some(kill_at);
        let pre_stop = |pod: &Value, name: &str| pre_stop_ms(pod, name);
        let mut told = Vec::new();
        for container in local.inits.iter_mut().chain(local.containers.iter_mut()) {
            let behaviour = self.config.images.of(&container.image);
            let delay = pre_stop(&local.pod, &container.name);
            if container.stop(now, kill_at, behaviour.stop_after_ms.map(|ms| ms + delay)) && first {
                told.push((container.name.clone(), ProcessEvent::Stopping { kill_at }));
            }
        }
        self.tell(node, local, told);
        let mut wake = None;
        let mut ended = Vec::new();
        for container in local.inits.iter_mut().chain(local.containers.iter_mut()) {
            if let Some(code) = container.finish_stop(now) {
                ended.push((container.name.clone(), ProcessEvent::Stopped { code }));
            }
            wake = earliest(wake, container.deadline(now));
        }
        self.tell(node, local, ended);
        if local.is_stopped() {
            let ok = local.containers.iter().all(|c| c.exit_code() == Some(0));
            local.finished = Some(if ok { "Succeeded" } else { "Failed" });
            self.unmount(local);
        }
        wake
    }

    /// Mounts all claims of a pod, if they are bound and their volumes are here.
    fn mount(&mut self, node: &str, local: &mut LocalPod) -> bool {
        let claims: Vec<Key> = claims_of(&local.pod).collect();
        let mut volumes = Vec::new();
        for claim in &claims {
            let Some(object) = self
                .server
                .store
                .get(Resource::PersistentVolumeClaims, claim)
            else {
                return false;
            };
            let volume = text_or_empty(object, "spec.volumeName");
            let bound = text(object, "status.phase") == Some("Bound") && !terminating(object);
            if !bound || !self.is_usable_on(volume, node) {
                return false;
            }
            volumes.push(Arc::from(volume));
        }
        for claim in &claims {
            self.expand_on_mount(claim);
        }
        local.mounted = volumes;
        true
    }

    fn unmount(&mut self, local: &mut LocalPod) {
        for volume in std::mem::take(&mut local.mounted) {
            self.after(0, Task::Attach(volume));
        }
    }

    fn say(&mut self, node: &Arc<str>, local: &mut LocalPod, client: &Arc<str>) {
        let status = self.status_of(node, local);
        if local.pod.get("status") == Some(&status) {
            return local.note_said(self.now());
        }
        let written = self
            .server
            .write_status(client, Resource::Pods, &local.key, status);
        if let Some(object) = written.ok().and_then(Response::into_object) {
            local.pod = object;
        }
    }

    /// Writes the status and, once all is over, removes the pod. Returns
    /// whether the kubelet still has to do with it.
    fn report(&mut self, node: &Arc<str>, local: &mut LocalPod) -> bool {
        if local.gone {
            return local.finished.is_none();
        }
        let client = self.actors.kubelet.clone();
        if !local.is_said(self.now()) {
            self.say(node, local, &client);
        }
        if local.finished.is_none() || !terminating(&local.pod) {
            return true;
        }
        let (ns, name) = crate::store::split_key(&local.key);
        let request = Request::delete(Resource::Pods, ns, name)
            .uid(&local.uid)
            .grace(0);
        let _gone = self.server.call(&request.client(client));
        // A finalizer may keep the object; there is nothing left to run for it.
        false
    }
}

fn pre_stop_ms(pod: &Value, container: &str) -> u64 {
    let found = items(pod, "spec.containers")
        .iter()
        .find(|c| text(c, "name") == Some(container));
    let seconds = found
        .and_then(|c| int(c, "lifecycle.preStop.sleep.seconds"))
        .unwrap_or(0);
    seconds.max(0).unsigned_abs() * 1000
}

fn earliest(a: Option<SimTime>, b: Option<SimTime>) -> Option<SimTime> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
