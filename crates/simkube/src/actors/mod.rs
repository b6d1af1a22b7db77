//! The rest of the cluster: actors that watch the store and write to it
//! through the same API as everybody else. Each works on one key at a time,
//! from the live state, at a moment that the queue holds; so a run is a
//! sequence of small steps in an order that depends on nothing but the seed.

mod collector;
mod disruption;
mod endpoints;
mod jobs;
pub(crate) mod kubelet;
mod namespaces;
mod nodes;
mod routing;
mod scheduler;
mod scheduler_filters;
pub(crate) mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::resource::Resource;
use crate::store::Key;
use crate::time::SimTime;

/// One piece of work. The order of variants is the order at equal times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    /// Give a pod a node.
    Schedule(Key),
    /// Bind, provision, expand or release a claim.
    Claim(Key),
    /// Keep the phase of a volume, and reclaim it.
    Volume(Key),
    /// Attach or detach a volume.
    Attach(Key),
    /// One pod on one node: node name and pod uid.
    Kubelet(Arc<str>, Arc<str>),
    /// Whether an object's owners still exist.
    Collect(Resource, Key),
    /// Numbers of a disruption budget.
    Budget(Key),
    /// Slices of a service.
    Endpoints(Key),
    /// Health and taints of a node.
    Node(Key),
    /// Whether a pod must leave its tainted node.
    Taint(Key),
    /// Whether a pod has been left behind.
    PodGc(Key),
    /// Pods of a job.
    Job(Key),
    /// Contents of a namespace that goes away.
    Namespace(Key),
    /// The attached process model asked to be woken.
    Workload,
}

/// What is to be done when: one time per task, the earliest asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    by_time: BTreeSet<(SimTime, Task)>,
    by_task: BTreeMap<Task, SimTime>,
}

impl Queue {
    pub fn add(&mut self, task: Task, at: SimTime) {
        match self.by_task.get_mut(&task) {
            Some(existing) if *existing <= at => {}
            Some(existing) => {
                self.by_time.remove(&(*existing, task.clone()));
                *existing = at;
                self.by_time.insert((at, task));
            }
            None => {
                self.by_task.insert(task.clone(), at);
                self.by_time.insert((at, task));
            }
        }
    }

    pub fn next_at(&self) -> Option<SimTime> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub fn pop_due(&mut self, now: SimTime) -> Option<(SimTime, Task)> {
        if self.next_at()? > now {
            return None;
        }
        let (at, task) = self.by_time.pop_first()?;
        self.by_task.remove(&task);
        Some((at, task))
    }
}

/// Names under which actors appear in the log.
#[derive(Clone, Debug)]
pub(crate) struct Actors {
    pub scheduler: Arc<str>,
    pub kubelet: Arc<str>,
    pub volumes: Arc<str>,
    pub collector: Arc<str>,
    pub disruption: Arc<str>,
    pub endpoints: Arc<str>,
    pub nodes: Arc<str>,
    pub pod_gc: Arc<str>,
    pub jobs: Arc<str>,
    pub namespaces: Arc<str>,
}

impl Actors {
    pub fn new() -> Actors {
        let name = |s: &str| Arc::from(s);
        Actors {
            scheduler: name("scheduler"),
            kubelet: name("kubelet"),
            volumes: name("volume-controller"),
            collector: name("garbage-collector"),
            disruption: name("disruption-controller"),
            endpoints: name("endpointslice-controller"),
            nodes: name("node-controller"),
            pod_gc: name("pod-garbage-collector"),
            jobs: name("job-controller"),
            namespaces: name("namespace-controller"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_done_once_at_the_earliest_time_asked_for() {
        let mut queue = Queue::default();
        let task = || Task::Budget(Arc::from("ns/a"));
        queue.add(task(), SimTime(20));
        queue.add(task(), SimTime(10));
        queue.add(task(), SimTime(30));
        assert_eq!(queue.next_at(), Some(SimTime(10)));
        assert_eq!(queue.pop_due(SimTime(5)), None);
        assert_eq!(queue.pop_due(SimTime(10)), Some((SimTime(10), task())));
        assert_eq!(queue.next_at(), None);
    }
}
