//! Attaching a model of what runs inside containers.

use std::sync::Arc;

use crate::api::Answer;
use crate::cluster::Cluster;
use crate::request::Request;
use crate::time::SimTime;
use crate::value::Object;

/// A container on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The node it runs on.
    pub node: Arc<str>,
    /// The namespace of its pod.
    pub namespace: String,
    /// The name of its pod.
    pub pod: String,
    /// The uid of its pod.
    pub pod_uid: Arc<str>,
    /// The container's name.
    pub container: String,
    /// The image it runs.
    pub image: String,
    /// The container id, new with every start.
    pub id: String,
}

/// What happens to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// It was started (again).
    Started {
        /// How often it was started before in this pod.
        restarts: u32,
    },
    /// It was told to stop and has until `kill_at`.
    Stopping {
        /// When it will be killed.
        kill_at: SimTime,
    },
    /// It has ended.
    Stopped {
        /// Its exit code; 137 if it was killed.
        code: i32,
    },
}

/// What a model says about a container's readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// As the image's behaviour says.
    Default,
    /// The probe passes.
    Ready,
    /// The probe fails.
    NotReady,
}

/// The API as a process model sees it: from a node, which may be cut off.
pub struct WorkloadApi<'a> {
    pub(crate) cluster: &'a mut Cluster,
}

impl WorkloadApi<'_> {
    /// The present.
    #[must_use]
    pub fn now(&self) -> SimTime {
        self.cluster.now()
    }

    /// A call from a container on `node`; `None` if the node is cut off.
    pub fn call(&mut self, node: &str, request: &Request) -> Option<Answer> {
        if !self.cluster.is_reachable(node) {
            return None;
        }
        Some(self.cluster.call(request))
    }

    /// Whether a node is up and connected.
    #[must_use]
    pub fn reachable(&self, node: &str) -> bool {
        self.cluster.is_reachable(node)
    }

    /// Whether two nodes can talk to each other.
    #[must_use]
    pub fn connected(&self, a: &str, b: &str) -> bool {
        a == b || self.cluster.is_reachable(a) && self.cluster.is_reachable(b)
    }
}

/// A model of the processes inside containers, for example of a replicated
/// database. All methods but `clone_box` have a default that does nothing.
pub trait Workload: Send + std::any::Any {
    /// Something happened to a container. `pod` is the pod as its kubelet knows it.
    fn event(&mut self, now: SimTime, process: &Process, pod: &Object, event: &ProcessEvent) {
        let _ = (now, process, pod, event);
    }

    /// Whether a container's readiness probe passes now. Asked on every look
    /// at the pod, and a second after each, while its container has a probe.
    fn readiness(&self, now: SimTime, process: &Process) -> Readiness {
        let _ = (now, process);
        Readiness::Default
    }

    /// When the model wants [`Workload::wake`] to be called next.
    fn next_wake(&self) -> Option<SimTime> {
        None
    }

    /// Time has come to `next_wake`; the model may call the API.
    fn wake(&mut self, api: &mut WorkloadApi<'_>) {
        let _ = api;
    }

    /// Another copy of the model, for a clone of the cluster.
    fn clone_box(&self) -> Box<dyn Workload>;

    /// Lets a driver reach its own type again.
    fn as_any(&mut self) -> &mut dyn std::any::Any;
}

impl Clone for Box<dyn Workload> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

impl Cluster {
    /// Attaches a process model. There is one per cluster.
    pub fn attach_workload(&mut self, workload: Box<dyn Workload>) {
        self.workload = Some(workload);
        self.plan_workload_wake();
    }

    /// The attached process model.
    pub fn workload_mut(&mut self) -> Option<&mut (dyn Workload + 'static)> {
        self.workload.as_deref_mut()
    }

    /// The attached process model, to look at, if it is of that type.
    #[must_use]
    pub fn workload_as<T: Workload>(&self) -> Option<&T> {
        let workload = self.workload.as_deref()? as &dyn std::any::Any;
        workload.downcast_ref()
    }

    /// Looks again at when the model wants to be woken; call it after changing
    /// the model from outside.
    pub fn plan_workload_wake(&mut self) {
        let wake = self.workload.as_ref().and_then(|w| w.next_wake());
        if let Some(at) = wake {
            let at = at.max(self.now());
            self.queue.add(crate::actors::Task::Workload, at);
        }
    }

    pub(crate) fn wake_workload(&mut self) {
        let Some(mut workload) = self.workload.take() else {
            return;
        };
        if workload.next_wake().is_some_and(|at| at <= self.now()) {
            workload.wake(&mut WorkloadApi { cluster: self });
        }
        self.workload = Some(workload);
        self.plan_workload_wake();
    }

    pub(crate) fn tell_workload(&mut self, process: &Process, pod: &Object, event: &ProcessEvent) {
        let now = self.now();
        if let Some(workload) = &mut self.workload {
            workload.event(now, process, pod, event);
        }
        self.plan_workload_wake();
    }
}
