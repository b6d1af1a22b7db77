//! The programs of one node: container runtime, kubelet, kube-proxy.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::cgroups;
use super::layout::{CONTROL_ADDRESS, Node, POD_RANGE, REGISTRY, REGISTRY_PORT};
use crate::command::run;
use crate::image::PAUSE;
use crate::parts::NodeParts;
use crate::plane::Plane;
use crate::process::{Spec, enter_words};

/// The programs of a node, in the order in which they are started.
pub const PROGRAMS: [&str; 3] = ["containerd", "kubelet", "kube-proxy"];

/// Writes the configuration of all programs of a node.
pub fn configure(node: Node, plane: &Plane) -> Result<()> {
    let dir = node.dir()?;
    fs::create_dir_all(dir.join("cni"))?;
    write(dir.join("containerd.toml"), containerd(node)?)?;
    write(
        dir.join("cni/10-testbed.conflist"),
        network(node)?.to_string(),
    )?;
    write(dir.join("kubelet.json"), kubelet(node, plane)?.to_string())?;
    let hosts = dir.join("registries").join(REGISTRY);
    fs::create_dir_all(&hosts)?;
    let server = format!("http://{CONTROL_ADDRESS}:{REGISTRY_PORT}");
    let text = format!(
        "server = \"{server}\"\n[host.\"{server}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
    );
    write(hosts.join("hosts.toml"), text)
}

/// The command line of one of the programs.
pub fn spec(node: Node, program: &str, plane: &Plane, parts: &NodeParts) -> Result<Spec> {
    let dir = node.dir()?;
    let (executable, arguments) = match program {
        "containerd" => {
            let config = dir.join("containerd.toml");
            (
                PathBuf::from("containerd"),
                vec![format!("--config={}", config.display())],
            )
        }
        "kubelet" => (parts.kubelet.clone(), kubelet_arguments(node, plane)?),
        _ => (parts.proxy.clone(), proxy_arguments(node, plane)),
    };
    Ok(Spec {
        name: node.program(program),
        program: executable,
        arguments,
        namespace: Some(node.namespace()),
        mounts: Some(node.mounts()?),
    })
}

/// Whether the kubelet got so far that it serves.
pub fn kubelet_listens(node: Node) -> Result<bool> {
    let words = enter_words(Some(&node.namespace()), None);
    let mut list = Command::new(&words[0]);
    list.args(&words[1..]).args([
        "ss",
        "--no-header",
        "--listening",
        "--tcp",
        "sport",
        "=",
        ":10250",
    ]);
    Ok(!run(&mut list)?.trim().is_empty())
}

fn containerd(node: Node) -> Result<String> {
    let dir = node.dir()?.display().to_string();
    // Some machines forbid lowering a process's out-of-memory score, and no pod would start.
    Ok(format!(
        r#"version = 2
root = "{dir}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{dir}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{dir}/registries"
"#,
        socket = node.socket()?.display(),
    ))
}

/// Every packet of a pod is routed, none bridged: Services then work between pods of one node
/// without the kernel module that filters bridged packets.
fn network(node: Node) -> Result<serde_json::Value> {
    Ok(
        json!({"cniVersion": "0.4.0", "name": node.namespace(), "plugins": [{
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "dataDir": node.dir()?.join("addresses"),
                "ranges": [[{"subnet": node.pod_range()}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }]}),
    )
}

fn kubelet(node: Node, plane: &Plane) -> Result<serde_json::Value> {
    let beat = plane.timers.heartbeat_seconds();
    Ok(json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        // All nodes share the machine's cgroups, so each gets a subtree of its own.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups::root_of(node),
        "cgroupsPerQOS": true,
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": false,
        "serializeImagePulls": false,
        "containerRuntimeEndpoint": format!("unix://{}", node.socket()?.display()),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": plane.pki().join("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [CONTROL_ADDRESS.to_string()],
        "clusterDomain": "cluster.local",
        // Else the machine's own resolver would leak into pods that cannot reach it.
        "resolvConf": "",
        "podLogsDir": node.dir()?.join("pod-logs"),
        "nodeLeaseDurationSeconds": beat * 4,
        "nodeStatusUpdateFrequency": format!("{beat}s"),
        "nodeStatusReportFrequency": "60s",
    }))
}

fn kubelet_arguments(node: Node, plane: &Plane) -> Result<Vec<String>> {
    let dir = node.dir()?;
    Ok(vec![
        format!("--config={}", dir.join("kubelet.json").display()),
        format!(
            "--kubeconfig={}",
            plane.client_kubeconfig(&node.name()).display()
        ),
        format!("--root-dir={}", dir.join("kubelet").display()),
        format!("--cert-dir={}", dir.join("kubelet-pki").display()),
        format!("--hostname-override={}", node.name()),
        format!("--node-ip={}", node.address()),
        format!("--node-labels=topology.kubernetes.io/zone={}", node.zone()),
    ])
}

fn proxy_arguments(node: Node, plane: &Plane) -> Vec<String> {
    vec![
        format!(
            "--kubeconfig={}",
            plane.client_kubeconfig("kube-proxy").display()
        ),
        format!("--hostname-override={}", node.name()),
        "--proxy-mode=nftables".to_owned(),
        format!("--cluster-cidr={POD_RANGE}"),
        // These kernel settings cannot be written from inside a network namespace.
        "--conntrack-max-per-core=0".to_owned(),
        "--conntrack-tcp-timeout-established=0s".to_owned(),
        "--conntrack-tcp-timeout-close-wait=0s".to_owned(),
        "--metrics-bind-address=127.0.0.1:10249".to_owned(),
        "--healthz-bind-address=127.0.0.1:10256".to_owned(),
    ]
}

fn write(path: PathBuf, text: String) -> Result<()> {
    fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))
}
