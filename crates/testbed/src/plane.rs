//! The programs of a control plane and their command lines.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::parts::ControlPlaneParts;
use crate::pki::{Authority, write_kubeconfig};
use crate::process::Spec;

/// The addresses of Services in every profile.
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
const FIRST_SERVICE_ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 96, 0, 1));

/// One program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// etcd
    Etcd,
    /// One of the API servers, counted from 0.
    ApiServer(usize),
    /// kube-controller-manager
    ControllerManager,
    /// kube-scheduler
    Scheduler,
}

impl Component {
    /// The name of its log and pid files.
    pub fn name(self) -> String {
        match self {
            Component::Etcd => "etcd".to_owned(),
            Component::ApiServer(index) => format!("kube-apiserver-{index}"),
            Component::ControllerManager => "kube-controller-manager".to_owned(),
            Component::Scheduler => "kube-scheduler".to_owned(),
        }
    }
}

/// How soon the control plane gives up on a node.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct NodeTimers {
    /// Seconds without a sign of life until a node counts as unreachable.
    pub unreachable_after_seconds: u32,
    /// Seconds until the pods of an unreachable node are evicted, unless they say otherwise.
    pub evict_after_seconds: u32,
}

impl NodeTimers {
    /// What Kubernetes does by itself.
    pub const KUBERNETES_DEFAULT: NodeTimers = NodeTimers {
        unreachable_after_seconds: 50,
        evict_after_seconds: 300,
    };
    /// Short, so that tests of node failures take seconds.
    pub const SHORT: NodeTimers = NodeTimers {
        unreachable_after_seconds: 8,
        evict_after_seconds: 10,
    };

    /// How often a node must give a sign of life to be safe from these timers.
    pub fn heartbeat_seconds(self) -> u32 {
        (self.unreachable_after_seconds / 5).max(1)
    }
}

/// A control plane: where it lives, what it is made of, how it is reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plane {
    /// Its files: keys, logs, pids, data.
    pub dir: PathBuf,
    /// Its executables.
    pub parts: ControlPlaneParts,
    /// Where the API servers listen.
    pub address: IpAddr,
    /// One port for each API server.
    pub api_ports: Vec<u16>,
    /// The ports on loopback by which this machine reaches the API servers.
    pub published_ports: Vec<u16>,
    /// The two ports of etcd on loopback: for clients and for peers.
    pub etcd_ports: (u16, u16),
    /// The network namespace it runs in, if not that of the machine.
    pub namespace: Option<String>,
    /// How soon it gives up on nodes.
    pub timers: NodeTimers,
    /// Nothing but API server and etcd: nobody makes service accounts, so none are asked for.
    #[serde(default)]
    pub bare: bool,
}

impl Plane {
    /// Makes keys, certificates and kubeconfig files.
    pub fn prepare(&self) -> Result<Authority> {
        let pki = self.pki();
        let authority = Authority::create(&pki)?;
        let names = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        let loopback = IpAddr::from([127, 0, 0, 1]);
        authority.server(
            "apiserver",
            &names,
            &[loopback, FIRST_SERVICE_ADDRESS, self.address],
        )?;
        authority.client("admin", "admin", Some("system:masters"))?;
        for component in ["kube-controller-manager", "kube-scheduler"] {
            authority.client(component, &format!("system:{component}"), None)?;
            self.write_kubeconfig(component, 0)?;
        }
        for (index, port) in self.published_ports.iter().enumerate() {
            let server = format!("https://127.0.0.1:{port}");
            write_kubeconfig(&pki, "admin", &server, &self.kubeconfig(index))?;
        }
        Ok(authority)
    }

    /// Writes the kubeconfig file of a client certificate, for one of the API servers.
    pub fn write_kubeconfig(&self, client: &str, server: usize) -> Result<()> {
        let port = self.api_ports.get(server).context("no such API server")?;
        let url = format!("https://{}:{port}", self.address);
        write_kubeconfig(&self.pki(), client, &url, &self.client_kubeconfig(client))
    }

    /// The administrator's kubeconfig file for one of the API servers.
    pub fn kubeconfig(&self, server: usize) -> PathBuf {
        self.dir.join(format!("kubeconfig-{server}"))
    }

    /// The kubeconfig file that [`Plane::write_kubeconfig`] writes.
    pub fn client_kubeconfig(&self, client: &str) -> PathBuf {
        self.pki().join(format!("{client}.kubeconfig"))
    }

    /// Where keys and certificates are.
    pub fn pki(&self) -> PathBuf {
        self.dir.join("pki")
    }

    /// Remembers the control plane for later commands.
    pub fn save(&self) -> Result<()> {
        let path = self.dir.join("plane.json");
        fs::write(&path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("failed to write {}", path.display()))
    }

    /// The control plane that lives in `dir`, if one was saved there.
    pub fn load(dir: &Path) -> Result<Plane> {
        let path = dir.join("plane.json");
        let text = fs::read(&path).with_context(|| {
            format!(
                "no testbed is up here: there is no {}; `testbed up` starts one",
                path.display()
            )
        })?;
        serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// The command line of a component.
    pub fn spec(&self, component: Component) -> Spec {
        let (program, arguments) = match component {
            Component::Etcd => (&self.parts.etcd, self.etcd()),
            Component::ApiServer(index) => (&self.parts.apiserver, self.apiserver(index)),
            Component::ControllerManager => {
                (&self.parts.controller_manager, self.controller_manager())
            }
            Component::Scheduler => (&self.parts.scheduler, self.scheduler()),
        };
        Spec {
            name: component.name(),
            program: program.clone(),
            arguments,
            namespace: self.namespace.clone(),
            mounts: None,
        }
    }

    fn etcd(&self) -> Vec<String> {
        let (client, peer) = self.etcd_ports;
        vec![
            format!("--data-dir={}", self.dir.join("etcd").display()),
            format!("--listen-client-urls=http://127.0.0.1:{client}"),
            format!("--advertise-client-urls=http://127.0.0.1:{client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
            // A testbed need not survive a power cut; waiting for the disk is most of its time.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
            "--quota-backend-bytes=4294967296".to_owned(),
        ]
    }

    fn apiserver(&self, index: usize) -> Vec<String> {
        let pki = |name: &str| self.pki().join(name).display().to_string();
        let evict_after = self.timers.evict_after_seconds;
        let mut arguments = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_ports.0),
            format!("--service-cluster-ip-range={SERVICE_RANGE}"),
            format!("--bind-address={}", self.address),
            format!(
                "--secure-port={}",
                self.api_ports.get(index).copied().unwrap_or_default()
            ),
            format!("--tls-cert-file={}", pki("apiserver.crt")),
            format!("--tls-private-key-file={}", pki("apiserver.key")),
            format!("--client-ca-file={}", pki("ca.crt")),
            format!("--service-account-key-file={}", pki("service-accounts.pub")),
            format!(
                "--service-account-signing-key-file={}",
                pki("service-accounts.key")
            ),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            format!("--kubelet-client-certificate={}", pki("admin.crt")),
            format!("--kubelet-client-key={}", pki("admin.key")),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!("--default-not-ready-toleration-seconds={evict_after}"),
            format!("--default-unreachable-toleration-seconds={evict_after}"),
            "--allow-privileged=true".to_owned(),
        ];
        if self.bare {
            arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        if self.address.is_loopback() {
            // No pod ever runs that could reach this API server through its Service, and a
            // loopback address is not allowed there: one that is nobody's stands in.
            arguments.push("--endpoint-reconciler-type=none".to_owned());
            arguments.push("--advertise-address=192.0.2.1".to_owned());
        } else {
            arguments.push(format!("--advertise-address={}", self.address));
        }
        arguments
    }

    fn controller_manager(&self) -> Vec<String> {
        let pki = |name: &str| self.pki().join(name).display().to_string();
        let unreachable_after = self.timers.unreachable_after_seconds;
        vec![
            format!("--kubeconfig={}", pki("kube-controller-manager.kubeconfig")),
            format!(
                "--service-account-private-key-file={}",
                pki("service-accounts.key")
            ),
            format!("--root-ca-file={}", pki("ca.crt")),
            "--use-service-account-credentials".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--node-monitor-grace-period={unreachable_after}s"),
            format!("--node-monitor-period={}s", self.timers.heartbeat_seconds()),
            format!("--node-startup-grace-period={}s", unreachable_after.max(20)),
            // The default of one node in ten seconds would make tests wait for their turn.
            "--node-eviction-rate=10".to_owned(),
            "--secondary-node-eviction-rate=10".to_owned(),
            "--unhealthy-zone-threshold=1".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ]
    }

    fn scheduler(&self) -> Vec<String> {
        let kubeconfig = self.client_kubeconfig("kube-scheduler");
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            // A scheduler that hears of a bound claim before its own cache does finds the pod
            // unschedulable once more, and then looks again only after five minutes.
            "--pod-max-in-unschedulable-pods-duration=10s".to_owned(),
        ]
    }
}
