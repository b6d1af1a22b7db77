//! Breaking things, and the truth about what really runs.

use std::sync::Arc;

use crate::actors::Task;
use crate::actors::kubelet::Link;
use crate::cluster::Cluster;
use crate::workload::Process;

/// A part of the control plane that can be held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The scheduler.
    Scheduler,
    /// Binding, provisioning, expansion, attachment.
    Volumes,
    /// The garbage collector.
    Collector,
    /// The disruption controller.
    Disruption,
    /// The endpoint slice controller.
    Endpoints,
    /// Node lifecycle, taint eviction and pod garbage collection.
    Nodes,
    /// The job controller.
    Jobs,
    /// The namespace controller.
    Namespaces,
}

impl Part {
    fn of(task: &Task) -> Option<Part> {
        Some(match task {
            Task::Schedule(_) => Part::Scheduler,
            Task::Claim(_) | Task::Volume(_) | Task::Attach(_) => Part::Volumes,
            Task::Collect(..) => Part::Collector,
            Task::Budget(_) => Part::Disruption,
            Task::Endpoints(_) => Part::Endpoints,
            Task::Node(_) | Task::Taint(_) | Task::PodGc(_) => Part::Nodes,
            Task::Job(_) => Part::Jobs,
            Task::Namespace(_) => Part::Namespaces,
            Task::Kubelet(..) | Task::Workload => return None,
        })
    }
}

impl Cluster {
    pub(crate) fn is_paused(&self, task: &Task) -> bool {
        !self.paused.is_empty() && Part::of(task).is_some_and(|p| self.paused.contains(&p))
    }

    /// Holds up a part of the control plane. What it would have done meanwhile
    /// is done when it resumes.
    pub fn pause(&mut self, part: Part) {
        self.paused.insert(part);
    }

    /// Lets a part of the control plane go on.
    pub fn resume(&mut self, part: Part) {
        if self.paused.remove(&part) {
            self.look_at_everything();
        }
    }

    /// Cuts a node off: its kubelet can neither read nor write, its containers run on.
    pub fn partition_node(&mut self, node: &str) {
        self.set_link(node, Link::Partitioned);
    }

    /// A node loses power: its containers are gone, and nobody is told.
    pub fn kill_node(&mut self, node: &str) {
        self.set_link(node, Link::Dead);
    }

    /// A partitioned node is connected again; a dead one boots, and starts what it should run.
    pub fn heal_node(&mut self, node: &str) {
        self.set_link(node, Link::Up);
    }

    /// A node loses power and comes back at once: every container starts anew.
    pub fn reboot_node(&mut self, node: &str) {
        self.set_link(node, Link::Dead);
        self.set_link(node, Link::Up);
    }

    /// Somebody kills a container's process; its kubelet starts it again as it starts whatever ends.
    /// One that does not run just then is left alone.
    pub fn crash_container(&mut self, namespace: &str, pod: &str, container: &str) {
        let now = self.now();
        let mut hit = Vec::new();
        for node in self.nodes.values_mut() {
            let uids = node.crash(namespace, pod, container, now);
            hit.extend(uids.into_iter().map(|uid| (node.name.clone(), uid)));
        }
        for (node, uid) in hit {
            self.after(0, Task::Kubelet(node, uid));
        }
    }

    /// Whether a node is up and connected.
    #[must_use]
    pub fn is_reachable(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|n| n.link == Link::Up)
    }

    /// Every container that really runs, whatever the API says: also on
    /// partitioned nodes, also of pods whose objects are gone.
    #[must_use]
    pub fn running_processes(&self) -> Vec<Process> {
        let mut processes = Vec::new();
        for node in self.nodes.values().filter(|n| n.link != Link::Dead) {
            for pod in node.pods.values() {
                processes.extend(pod.processes(&node.name));
            }
        }
        processes
    }

    /// Where each attachable volume is attached: volume name and node.
    #[must_use]
    pub fn attachments(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let held = self.attachments.iter().filter(|(_, a)| a.holds());
        held.map(|(volume, a)| (volume.clone(), a.node.clone()))
            .collect()
    }

    /// Makes the detachment of a volume take `ms` from now on; a very large
    /// number stands for "never".
    pub fn slow_detach(&mut self, volume: &str, ms: u64) {
        if let Some(attachment) = self.attachments.get_mut(volume) {
            attachment.detach_ms = Some(ms);
        }
    }
}
