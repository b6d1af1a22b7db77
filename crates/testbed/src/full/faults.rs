//! Breaking the testbed on purpose, and mending it.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::layout::{CONTROL_ADDRESS, Node, dir, nodes};
use super::{down, mounts, network, node, up};
use crate::client;
use crate::command::{output, run};
use crate::control_plane::wait_for_api_server;
use crate::parts;
use crate::plane::{Component, Plane};
use crate::process::{self, Process};

/// The nftables table that holds a partition.
const TABLE: &str = "testbed_partition";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// From whom a node is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// The API server, the cluster DNS and the image registry.
    ControlPlane,
    /// The other nodes and their pods.
    Peers,
    /// Both.
    Everything,
}

/// The running full testbed.
pub struct Testbed {
    plane: Plane,
}

impl Testbed {
    /// The testbed that is up; fails if none is.
    pub fn connect() -> Result<Testbed> {
        Ok(Testbed {
            plane: Plane::load(&dir()?)?,
        })
    }

    /// A client of its API server.
    pub async fn client(&self) -> Result<Client> {
        client::from_kubeconfig(&self.plane.kubeconfig(0)).await
    }

    /// Shuts a node down in order: its programs and containers may end by themselves.
    pub fn stop_node(&self, name: &str) -> Result<()> {
        let node = node_named(name)?;
        for program in node::PROGRAMS.iter().rev() {
            process::stop_recorded(&dir()?, &node.program(program), Duration::from_secs(5))?;
        }
        for pid in down::processes_of(node)?
            .into_iter()
            .filter_map(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        down::wait_until_gone(node, Duration::from_secs(5))?;
        self.kill_node(name)
    }

    /// Takes a node's power: everything on it ends at once.
    pub fn kill_node(&self, name: &str) -> Result<()> {
        let node = node_named(name)?;
        down::kill_pods(node)?;
        for program in node::PROGRAMS {
            process::forget(&dir()?, &node.program(program))?;
        }
        mounts::renew(node)
    }

    /// Starts a node that was stopped or killed.
    pub fn start_node(&self, name: &str) -> Result<()> {
        let node = node_named(name)?;
        up::start_node(node, &self.plane, &parts::nodes()?)
    }

    /// Cuts a node off; its pods run on.
    pub fn partition(&self, name: &str, from: Side) -> Result<()> {
        let node = node_named(name)?;
        let peers = nodes().into_iter().filter(|peer| *peer != node);
        let peers = peers.flat_map(|peer| [peer.address().to_string(), peer.pod_range()]);
        let mut others: Vec<String> = Vec::new();
        if from != Side::Peers {
            others.push(CONTROL_ADDRESS.to_string());
        }
        if from != Side::ControlPlane {
            others.extend(peers);
        }
        self.heal(name)?;
        let others = others.join(", ");
        // Last before a packet leaves and first when one arrives: Service addresses are already,
        // or still, those of the real peer there.
        let rules = format!(
            "table inet {TABLE} {{\n\
             chain arriving {{ type filter hook prerouting priority -300; ip saddr {{ {others} }} drop; }}\n\
             chain leaving {{ type filter hook postrouting priority 300; ip daddr {{ {others} }} drop; }}\n\
             }}\n"
        );
        let file = node.dir()?.join("partition.nft");
        std::fs::write(&file, rules)?;
        inside(node, &["nft", "-f", &file.display().to_string()])
    }

    /// Ends a partition.
    pub fn heal(&self, name: &str) -> Result<()> {
        let node = node_named(name)?;
        // To add it first makes the deletion work whether it was there or not.
        inside(node, &["nft", "add", "table", "inet", TABLE])?;
        inside(node, &["nft", "delete", "table", "inet", TABLE])
    }

    /// Lets a node send only so many kilobits a second: what it sends more waits in a queue, and
    /// is lost after two seconds. A plain delay would need the kernel's network emulator, which
    /// many machines lack.
    pub fn slow_link(&self, name: &str, kilobits: u32) -> Result<()> {
        let rate = format!("{kilobits}kbit");
        let limit = ["rate", &rate, "burst", "4kb", "latency", "2s"];
        let device = ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf"];
        inside(node_named(name)?, &[&device[..], &limit[..]].concat())
    }

    /// Makes a slow link quick again.
    pub fn quick_link(&self, name: &str) -> Result<()> {
        // There may be nothing to take away.
        let _ = inside(
            node_named(name)?,
            &["tc", "qdisc", "delete", "dev", "eth0", "root"],
        );
        Ok(())
    }

    /// Takes a node's link away altogether, or gives it back.
    pub fn link(&self, name: &str, up: bool) -> Result<()> {
        let state = if up { "up" } else { "down" };
        let node = node_named(name)?;
        network::in_namespace(
            super::layout::CONTROL,
            &format!("link set {} {state}", node.name()),
        )
    }

    /// Sends a signal to the processes of a container: to its first one, or to all of that name.
    pub fn signal_in_pod(&self, pod: &Pod, target: &Target<'_>, signal: Signal) -> Result<()> {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node_named(node.context("the pod is on no node")?)?;
        let id = container_id(pod, target.container)?;
        let pids = container_pids(node, &id)?;
        let chosen: Vec<i32> = match target.process {
            None => pids.into_iter().take(1).collect(),
            Some(name) => pids
                .into_iter()
                .filter(|pid| program_name(*pid) == name)
                .collect(),
        };
        ensure!(!chosen.is_empty(), "no such process in container {id}");
        for pid in chosen.into_iter().filter_map(Pid::from_raw) {
            kill_process(pid, signal).with_context(|| format!("failed to signal {pid:?}"))?;
        }
        Ok(())
    }

    /// Stops a component of the control plane.
    pub fn stop(&self, component: Component) -> Result<()> {
        process::stop_recorded(&dir()?, &component.name(), Duration::from_secs(3))
    }

    /// Starts a stopped component, and waits until the API server serves.
    pub async fn start(&self, component: Component) -> Result<()> {
        up::start(&self.plane.spec(component))?;
        wait_for_api_server(&self.plane, 0).await
    }

    /// Makes a component hang, or lets it go on.
    pub fn freeze(&self, component: Component, frozen: bool) -> Result<()> {
        let name = component.name();
        let process = Process::recorded(&dir()?, &name);
        let process = process.with_context(|| format!("{name} does not run"))?;
        process.signal(if frozen { Signal::STOP } else { Signal::CONT });
        Ok(())
    }

    /// Deletes the Node object. A kubelet that still runs does not register again by itself.
    pub async fn delete_node_object(&self, name: &str) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(self.client().await?);
        nodes
            .delete(name, &DeleteParams::default())
            .await
            .with_context(|| format!("failed to delete node {name}"))?;
        Ok(())
    }

    /// Declares a node to be out of service for good: its pods and volumes may be taken over.
    pub async fn set_out_of_service(&self, name: &str, out: bool) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(self.client().await?);
        let node = nodes
            .get(name)
            .await
            .with_context(|| format!("failed to read node {name}"))?;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let mut taints: Vec<_> = taints
            .into_iter()
            .filter(|taint| taint.key != OUT_OF_SERVICE)
            .collect();
        if out {
            taints.push(serde_json::from_value(json!({
                "key": OUT_OF_SERVICE, "value": "testbed", "effect": "NoExecute",
            }))?);
        }
        let patch = json!({"spec": {"taints": taints},
            "metadata": {"resourceVersion": node.metadata.resource_version}});
        nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("failed to taint node {name}"))?;
        Ok(())
    }
}

/// Which processes of a pod are meant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target<'a> {
    /// The container; the first one if not said.
    pub container: Option<&'a str>,
    /// The program's name; the container's first process if not said.
    pub process: Option<&'a str>,
}

fn node_named(name: &str) -> Result<Node> {
    let known = nodes().map(Node::name).join(", ");
    Node::named(name).with_context(|| format!("no node {name}; there are {known}"))
}

fn inside(node: Node, words: &[&str]) -> Result<()> {
    let enter = process::enter_words(Some(&node.namespace()), None);
    run(std::process::Command::new(&enter[0])
        .args(&enter[1..])
        .args(words))?;
    Ok(())
}

fn container_id(pod: &Pod, container: Option<&str>) -> Result<String> {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let mut chosen = statuses.filter(|status| container.is_none_or(|name| status.name == name));
    let id = chosen
        .next()
        .and_then(|status| status.container_id.as_deref());
    let id = id.context("the container has not been started")?;
    Ok(id.trim_start_matches("containerd://").to_owned())
}

/// The processes of a container, its first one first.
fn container_pids(node: Node, id: &str) -> Result<Vec<i32>> {
    let socket = node.socket()?.display().to_string();
    let table = output("ctr", &["-a", &socket, "-n", "k8s.io", "task", "ps", id])?;
    let mut pids: Vec<i32> = table
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect();
    if pids.is_empty() {
        bail!("container {id} has no process");
    }
    // The table is in no order.
    pids.sort_by_key(|pid| process::start_time(*pid).unwrap_or(u64::MAX));
    Ok(pids)
}

fn program_name(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .unwrap_or_default()
        .trim()
        .to_owned()
}
