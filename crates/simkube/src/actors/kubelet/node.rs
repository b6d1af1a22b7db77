//! Nodes come, go and lose their connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Link, LocalPod, NodeSim, Stage};
use crate::actors::Task;
use crate::cluster::Cluster;
use crate::request::{Request, Subresource};
use crate::resource::Resource;
use crate::status::Status;
use crate::value::{text, uid};

/// A node to be added.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    name: String,
    labels: Map<String, Value>,
    cpu: String,
    memory: String,
    pods: u32,
    /// Major and minor version of its kubelet.
    kubelet: (u32, u32),
}

impl NodeSpec {
    /// A node with 8 CPUs, 32 GiB and room for 110 pods.
    #[must_use]
    pub fn new(name: &str) -> NodeSpec {
        let mut labels = Map::new();
        labels.insert("kubernetes.io/hostname".into(), name.into());
        NodeSpec {
            name: name.to_owned(),
            labels,
            cpu: "8".to_owned(),
            memory: "32Gi".to_owned(),
            pods: 110,
            kubelet: (1, 36),
        }
    }

    /// Sets the version of its kubelet.
    #[must_use]
    pub fn kubelet(mut self, major: u32, minor: u32) -> NodeSpec {
        self.kubelet = (major, minor);
        self
    }

    /// Whether its kubelet says up to which generation it has looked at a pod: since 1.34.
    pub(super) fn tells_generations(&self) -> bool {
        self.kubelet >= (1, 34)
    }

    /// Puts it into a zone.
    #[must_use]
    pub fn zone(self, zone: &str) -> NodeSpec {
        self.label("topology.kubernetes.io/zone", zone)
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> NodeSpec {
        self.labels.insert(key.to_owned(), value.into());
        self
    }

    /// Sets what it has.
    #[must_use]
    pub fn capacity(mut self, cpu: &str, memory: &str, pods: u32) -> NodeSpec {
        self.cpu = cpu.to_owned();
        self.memory = memory.to_owned();
        self.pods = pods;
        self
    }
}

impl Cluster {
    /// Adds a node that is up, Ready and empty.
    ///
    /// # Errors
    /// The Status with which the API server refuses the node object.
    pub fn add_node(&mut self, spec: NodeSpec) -> Result<(), Status> {
        let number = self.nodes.len() + 1;
        let address = format!("192.168.{}.{}", number >> 8, number & 255);
        let name: Arc<str> = Arc::from(spec.name.as_str());
        self.nodes.insert(
            name.clone(),
            NodeSim {
                name: name.clone(),
                link: Link::Up,
                silent_since: None,
                address: address.clone(),
                images: BTreeSet::new(),
                pods: BTreeMap::new(),
                boots: 1,
                spec: spec.clone(),
            },
        );
        self.register_node(&name, &spec, &address)
    }

    fn register_node(&mut self, name: &str, spec: &NodeSpec, address: &str) -> Result<(), Status> {
        let client = self.actors.kubelet.clone();
        let body = json!({"metadata": {"name": name, "labels": spec.labels}, "spec": {}});
        self.call(&Request::create(Resource::Nodes, "", body).client(client.clone()))?;
        let amounts =
            json!({"cpu": spec.cpu, "memory": spec.memory, "pods": spec.pods.to_string()});
        let (major, minor) = spec.kubelet;
        let version = format!("v{major}.{minor}.0");
        let now = self.now().rfc3339();
        let pressure = |kind: &str, reason: &str, message: &str| {
            json!({"type": kind, "status": "False", "reason": reason, "message": message,
                   "lastHeartbeatTime": now, "lastTransitionTime": now})
        };
        let status = json!({
            "capacity": amounts, "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "conditions": [
                pressure("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                pressure("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                pressure("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                {"type": "Ready", "status": "True", "reason": "KubeletReady",
                 "message": "kubelet is posting ready status",
                 "lastHeartbeatTime": now, "lastTransitionTime": now},
            ],
            "nodeInfo": {"bootID": format!("{name}-1"), "kubeletVersion": version},
        });
        self.server.modify(
            &client,
            Resource::Nodes,
            Some(Subresource::Status),
            name,
            |node| {
                node["status"] = status;
            },
        )?;
        self.route();
        Ok(())
    }

    /// A kubelet takes no more pods than it has room for, whoever has bound them to it.
    pub(super) fn reject_if_full(&mut self, node: &str, local: &mut LocalPod) {
        let Some(sim) = self.nodes.get(node) else {
            return;
        };
        let earlier = |other: &&LocalPod| {
            other.finished.is_none()
                && (other.started_at, &other.uid) < (local.started_at, &local.uid)
        };
        let used = sim.pods.values().filter(earlier).count();
        let most = sim.spec.pods as usize;
        if used >= most {
            local.rejected = Some(format!(
                "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: {used}, capacity: {most}"
            ));
            local.finished = Some("Failed");
        }
    }

    /// A kubelet that finds no node object on its return makes a new one.
    fn register_again(&mut self, node: &str) {
        if self.server.store.get(Resource::Nodes, node).is_some() {
            return;
        }
        if let Some((spec, address)) = self
            .nodes
            .get(node)
            .map(|n| (n.spec.clone(), n.address.clone()))
        {
            let registered = self.register_node(node, &spec, &address);
            debug_assert!(registered.is_ok(), "{node} cannot register: {registered:?}");
        }
    }

    /// From now on a node's kubelet is of that version, as after a change of it.
    pub fn set_kubelet(&mut self, node: &str, major: u32, minor: u32) {
        if let Some(sim) = self.nodes.get_mut(node) {
            sim.spec.kubelet = (major, minor);
        }
        let version = format!("v{major}.{minor}.0");
        let client = self.actors.kubelet.clone();
        let part = Some(Subresource::Status);
        let _unregistered = self
            .server
            .modify(&client, Resource::Nodes, part, node, |n| {
                crate::value::set(n, "status.nodeInfo.kubeletVersion", version);
            });
        self.route();
        self.look_at_node(node);
    }

    /// From now on a node has room for so many pods. Those that are there stay.
    pub fn set_room(&mut self, node: &str, pods: u32) {
        if let Some(sim) = self.nodes.get_mut(node) {
            sim.spec.pods = pods;
        }
        let client = self.actors.kubelet.clone();
        let part = Some(Subresource::Status);
        let _unregistered = self
            .server
            .modify(&client, Resource::Nodes, part, node, |n| {
                for amounts in ["capacity", "allocatable"] {
                    n["status"][amounts]["pods"] = pods.to_string().into();
                }
            });
        self.route();
    }

    pub(crate) fn set_link(&mut self, node: &str, link: Link) {
        let now = self.now();
        let Some(sim) = self.nodes.get_mut(node) else {
            return;
        };
        if sim.link == link {
            return;
        }
        let before = sim.link;
        sim.link = link;
        match link {
            Link::Up => sim.silent_since = None,
            _ => sim.silent_since = sim.silent_since.or(Some(now)),
        }
        match (before, link) {
            (_, Link::Dead) => self.lose_power(node),
            (Link::Dead, Link::Up | Link::Partitioned) => self.boot(node),
            _ => {}
        }
        if link == Link::Up {
            self.register_again(node);
            self.look_at_node(node);
        }
        self.after(0, Task::Node(Arc::from(node)));
    }

    /// Whatever ran on the node is gone; what it should run, it will start on boot.
    fn lose_power(&mut self, node: &str) {
        let now = self.now();
        let mut told = Vec::new();
        let Some(sim) = self.nodes.get_mut(node) else {
            return;
        };
        let name = sim.name.clone();
        for local in sim.pods.values_mut() {
            for process in local.processes(&name).collect::<Vec<_>>() {
                told.push((process, local.pod.clone()));
            }
            for container in local.inits.iter_mut().chain(local.containers.iter_mut()) {
                container.lose_power(now);
            }
            if local.stage != Stage::Volumes && local.finished.is_none() {
                local.stage = Stage::Sandbox(now);
                local.address = None;
            }
            local.kill_at = None;
        }
        for (process, pod) in told {
            self.tell_workload(
                &process,
                &pod,
                &crate::workload::ProcessEvent::Stopped { code: 137 },
            );
        }
    }

    fn boot(&mut self, node: &str) {
        let Some(sim) = self.nodes.get_mut(node) else {
            return;
        };
        sim.boots += 1;
        let boot = format!("{node}-{}", sim.boots);
        let client = self.actors.kubelet.clone();
        let part = Some(Subresource::Status);
        // Without a node object there is nothing to report to.
        let _unregistered = self
            .server
            .modify(&client, Resource::Nodes, part, node, |n| {
                crate::value::set(n, "status.nodeInfo.bootID", boot);
            });
        self.route();
    }

    /// A kubelet that is connected again looks at all its pods, known and new.
    fn look_at_node(&mut self, node: &str) {
        let name: Arc<str> = Arc::from(node);
        let mut uids: BTreeSet<Arc<str>> = BTreeSet::new();
        if let Some(sim) = self.nodes.get(node) {
            uids.extend(sim.pods.keys().cloned());
        }
        let assigned = self.server.store.all(Resource::Pods).map(|(_, p)| p);
        uids.extend(
            assigned
                .filter(|p| text(p, "spec.nodeName") == Some(node))
                .map(|p| Arc::from(uid(p))),
        );
        for pod_uid in uids {
            self.after(
                self.config.delays.kubelet_ms,
                Task::Kubelet(name.clone(), pod_uid),
            );
        }
    }
}
