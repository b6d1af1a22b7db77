//! Network namespaces: one for the control plane with a bridge, one for each node.
//!
//! Nothing of this touches the machine's own network, and nothing routes out of it.

use anyhow::Result;

use super::layout::{CONTROL, CONTROL_ADDRESS, Node, nodes};
use crate::command::output;
use crate::plane::SERVICE_RANGE;

const BRIDGE: &str = "br0";

/// Makes all namespaces and connects them.
pub fn create() -> Result<()> {
    ip(&["netns", "add", CONTROL])?;
    in_namespace(CONTROL, "link set lo up")?;
    in_namespace(CONTROL, &format!("link add {BRIDGE} type bridge"))?;
    in_namespace(
        CONTROL,
        &format!("addr add {CONTROL_ADDRESS}/24 dev {BRIDGE}"),
    )?;
    in_namespace(CONTROL, &format!("link set {BRIDGE} up"))?;
    for node in nodes() {
        connect(node)?;
    }
    // The control plane reaches Services through the first node's kube-proxy.
    let gateway = nodes()[0].address();
    in_namespace(CONTROL, &format!("route add {SERVICE_RANGE} via {gateway}"))
}

/// Removes the namespaces that exist; all links and routes go with them.
pub fn remove() -> Result<()> {
    let existing = output("ip", &["netns", "list"]).unwrap_or_default();
    let names: Vec<&str> = existing
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let own = nodes().map(Node::namespace);
    for name in own.iter().map(String::as_str).chain([CONTROL]) {
        if names.contains(&name) {
            ip(&["netns", "delete", name])?;
        }
    }
    Ok(())
}

fn connect(node: Node) -> Result<()> {
    let (own, link, address) = (node.namespace(), node.name(), node.address());
    ip(&["netns", "add", &own])?;
    in_namespace(
        CONTROL,
        &format!("link add {link} type veth peer name eth0 netns {own}"),
    )?;
    in_namespace(CONTROL, &format!("link set {link} master {BRIDGE} up"))?;
    in_namespace(
        CONTROL,
        &format!("route add {} via {address}", node.pod_range()),
    )?;
    in_namespace(&own, "link set lo up")?;
    in_namespace(&own, &format!("addr add {address}/24 dev eth0"))?;
    in_namespace(&own, "link set eth0 up")?;
    in_namespace(&own, &format!("route add default via {CONTROL_ADDRESS}"))?;
    // A pod that is gone answers "unreachable" at once, instead of silence.
    in_namespace(&own, &format!("route add unreachable {}", node.pod_range()))?;
    for peer in nodes().into_iter().filter(|peer| *peer != node) {
        let route = format!("route add {} via {}", peer.pod_range(), peer.address());
        in_namespace(&own, &route)?;
    }
    let enter = format!("--net=/run/netns/{own}");
    let settings = [
        "net.ipv4.ip_forward=1",
        "net.ipv4.conf.all.rp_filter=0",
        "net.ipv4.conf.default.rp_filter=0",
    ];
    output(
        "nsenter",
        &[&[&enter, "sysctl", "-qw"], &settings[..]].concat(),
    )?;
    Ok(())
}

/// Runs `ip` inside a namespace.
pub fn in_namespace(namespace: &str, words: &str) -> Result<()> {
    let words: Vec<&str> = words.split_whitespace().collect();
    ip(&[&["-n", namespace], &words[..]].concat())
}

fn ip(arguments: &[&str]) -> Result<()> {
    output("ip", arguments)?;
    Ok(())
}
