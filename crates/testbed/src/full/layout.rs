//! Names, addresses and directories of the full testbed. There is one on a machine.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Result;

use crate::cache;

/// The network namespace of the control plane.
pub const CONTROL: &str = "ensemble-control";
/// The address of the control plane: API server, cluster DNS, image registry.
pub const CONTROL_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 20, 0, 1);
/// Where the API server listens.
pub const API_PORT: u16 = 6443;
/// Where the image registry listens.
pub const REGISTRY_PORT: u16 = 5000;
/// The name by which pods name images of the registry.
pub const REGISTRY: &str = "registry.testbed";
/// The addresses of all pods.
pub const POD_RANGE: &str = "10.10.0.0/16";

const ZONES: [&str; 3] = ["a", "b", "c"];

/// One node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Counted from 1.
    number: u8,
}

/// All nodes, one in each zone.
pub fn nodes() -> [Node; 3] {
    [1, 2, 3].map(|number| Node { number })
}

impl Node {
    /// The node of that name.
    pub fn named(name: &str) -> Option<Node> {
        nodes().into_iter().find(|node| node.name() == name)
    }

    /// Its name in Kubernetes.
    pub fn name(self) -> String {
        format!("node{}", self.number)
    }

    /// Its zone.
    pub fn zone(self) -> &'static str {
        ZONES[usize::from(self.number - 1) % ZONES.len()]
    }

    /// Its network namespace.
    pub fn namespace(self) -> String {
        format!("ensemble-{}", self.name())
    }

    /// Its address.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 20, 0, 10 + self.number)
    }

    /// The addresses of its pods.
    pub fn pod_range(self) -> String {
        format!("10.10.{}.0/24", self.number)
    }

    /// Its files.
    pub fn dir(self) -> Result<PathBuf> {
        Ok(dir()?.join(self.name()))
    }

    /// The file that holds its mount namespace.
    pub fn mounts(self) -> Result<PathBuf> {
        Ok(dir()?.join("mounts").join(self.name()))
    }

    /// The socket of its container runtime.
    pub fn socket(self) -> Result<PathBuf> {
        Ok(self.dir()?.join("containerd.sock"))
    }

    /// The name of one of its programs in logs and records.
    pub fn program(self, program: &str) -> String {
        format!("{program}-{}", self.name())
    }
}

/// The files of the full testbed.
pub fn dir() -> Result<PathBuf> {
    Ok(cache::root()?.join("run/full"))
}

/// What is in volumes: always on disk. In memory it would count against the memory limits of the
/// pods that write it.
pub fn volumes_dir() -> Result<PathBuf> {
    Ok(cache::root()?.join("run/full-volumes"))
}
