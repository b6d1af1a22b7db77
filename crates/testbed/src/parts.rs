//! Which programs a profile needs, and how each is built.

use std::path::PathBuf;

use anyhow::Result;

use crate::golang::Program;
use crate::versions::{COREDNS, ETCD, ETCD_OLDEST, KUBERNETES, KUBERNETES_OLDEST, library_version};

/// A Kubernetes version that the testbed can run.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum Version {
    /// The version that the testbed is made for.
    #[default]
    Current,
    /// The oldest version that Ensemble supports.
    Oldest,
}

impl Version {
    /// The version number, such as `1.36.4`.
    pub fn number(self) -> &'static str {
        match self {
            Version::Current => KUBERNETES,
            Version::Oldest => KUBERNETES_OLDEST,
        }
    }
}

/// The executables of a control plane.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ControlPlaneParts {
    /// etcd
    pub etcd: PathBuf,
    /// kube-apiserver
    pub apiserver: PathBuf,
    /// kube-controller-manager
    pub controller_manager: PathBuf,
    /// kube-scheduler
    pub scheduler: PathBuf,
}

/// Builds what is missing of a control plane.
pub fn control_plane(version: Version) -> Result<ControlPlaneParts> {
    Ok(ControlPlaneParts {
        etcd: etcd(version).ensure()?,
        apiserver: kubernetes(version, "kube-apiserver").ensure()?,
        controller_manager: kubernetes(version, "kube-controller-manager").ensure()?,
        scheduler: kubernetes(version, "kube-scheduler").ensure()?,
    })
}

/// The executables that the nodes and the cluster DNS need besides the control plane.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct NodeParts {
    /// kubelet
    pub kubelet: PathBuf,
    /// kube-proxy
    pub proxy: PathBuf,
    /// kubectl, for people
    pub kubectl: PathBuf,
    /// CoreDNS
    pub coredns: PathBuf,
}

/// Builds what is missing of the nodes.
pub fn nodes() -> Result<NodeParts> {
    Ok(NodeParts {
        kubelet: kubernetes(Version::Current, "kubelet").ensure()?,
        proxy: kubernetes(Version::Current, "kube-proxy").ensure()?,
        kubectl: kubernetes(Version::Current, "kubectl").ensure()?,
        coredns: coredns().ensure()?,
    })
}

/// The etcd server that goes with a Kubernetes version.
pub fn etcd(version: Version) -> Program {
    etcd_program(version, "etcd", "go.etcd.io/etcd/server/v3")
}

/// The etcd client of the same version.
pub fn etcdctl(version: Version) -> Program {
    etcd_program(version, "etcdctl", "go.etcd.io/etcd/etcdctl/v3")
}

fn etcd_program(version: Version, name: &'static str, package: &'static str) -> Program {
    // Kubernetes has the current etcd in its module graph: built there, it shares most packages
    // with the API server, which halves its build time.
    let (number, kubernetes) = match version {
        Version::Current => (ETCD, Some(KUBERNETES)),
        Version::Oldest => (ETCD_OLDEST, None),
    };
    Program {
        name,
        version: number.to_owned(),
        package,
        requires: vec![(package, number.to_owned())],
        kubernetes,
        main: None,
    }
}

fn kubernetes(version: Version, name: &'static str) -> Program {
    let package = match name {
        "kube-apiserver" => "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager" => "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler" => "k8s.io/kubernetes/cmd/kube-scheduler",
        "kube-proxy" => "k8s.io/kubernetes/cmd/kube-proxy",
        "kubelet" => "k8s.io/kubernetes/cmd/kubelet",
        _ => "k8s.io/kubernetes/cmd/kubectl",
    };
    Program {
        name,
        version: version.number().to_owned(),
        package,
        requires: Vec::new(),
        kubernetes: Some(version.number()),
        main: None,
    }
}

fn coredns() -> Program {
    let library = library_version(KUBERNETES);
    // The client libraries of our Kubernetes instead of older ones: already built for it.
    let requires = vec![
        ("github.com/coredns/coredns", COREDNS.to_owned()),
        ("k8s.io/api", library.clone()),
        ("k8s.io/apimachinery", library.clone()),
        ("k8s.io/client-go", library),
    ];
    Program {
        name: "coredns",
        version: COREDNS.to_owned(),
        package: ".",
        requires,
        kubernetes: None,
        main: Some(COREDNS_MAIN),
    }
}

/// CoreDNS with only the plugins of the testbed's Corefile: its own binary builds far longer.
const COREDNS_MAIN: &str = r#"package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }
"#;
