//! Bringing the full testbed up.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::layout::{API_PORT, CONTROL, CONTROL_ADDRESS, Node, dir, nodes};
use super::services::{self, registry_storage};
use super::{cgroups, down, mounts, network, node, requirements, storage};
use crate::cache::Lock;
use crate::client;
use crate::control_plane::wait_for_api_server;
use crate::image;
use crate::parts::{self, NodeParts, Version};
use crate::phase::{say, timed, timed_async};
use crate::plane::{Component, NodeTimers, Plane};
use crate::ports::Port;
use crate::process::{Lifetime, Process, Spec, log_tail};

/// Builds everything that `up` needs.
pub fn build() -> Result<()> {
    requirements::ensure_met()?;
    parts::control_plane(Version::Current)?;
    parts::nodes()?;
    image::all()?;
    Ok(())
}

/// Brings the testbed up; does nothing if it is up and well, and starts anew if it is not well.
pub async fn up(timers: NodeTimers) -> Result<()> {
    requirements::ensure_met()?;
    let _lock = Lock::wait("full")?;
    if is_well().await {
        say("already up");
        return Ok(());
    }
    if dir()?.exists() {
        say("clearing away what an earlier testbed left");
        down::clear()?;
    }
    let node_parts = tokio::task::spawn_blocking(|| {
        build()?;
        parts::nodes()
    })
    .await
    .context("the build was cut off")??;
    let plane = prepare(timers)?;
    timed_async("start the control plane", start_control_plane(&plane)).await?;
    timed_async("start the services", start_services(&plane, &node_parts)).await?;
    timed_async("start the nodes", start_nodes(&plane, &node_parts)).await
}

/// Whether every program that was started still runs and the nodes are ready.
pub async fn is_well() -> bool {
    let Ok(dir) = dir() else { return false };
    let Ok(plane) = Plane::load(&dir) else {
        return false;
    };
    let names = Process::recorded_names(&dir);
    let alive = |name: &String| Process::recorded(&dir, name).is_some_and(|one| one.alive());
    let programs = 4 + 3 + 3 * node::PROGRAMS.len();
    if names.len() < programs || !names.iter().all(alive) {
        return false;
    }
    match client::from_kubeconfig(&plane.kubeconfig(0)).await {
        Ok(client) => client::is_ready(&client).await,
        Err(_) => false,
    }
}

fn prepare(timers: NodeTimers) -> Result<Plane> {
    let dir = dir()?;
    storage::create()?;
    timed("make namespaces and cgroups", || {
        network::create()?;
        mounts::create()?;
        cgroups::create()
    })?;
    timed("publish the images", || {
        image::publish_all(&registry_storage()?)
    })?;
    let published = Port::reserve()?;
    let plane = Plane {
        dir,
        parts: parts::control_plane(Version::Current)?,
        address: IpAddr::V4(CONTROL_ADDRESS),
        api_ports: vec![API_PORT],
        published_ports: vec![published.number()],
        etcd_ports: (2379, 2380),
        namespace: Some(CONTROL.to_owned()),
        timers,
        bare: false,
    };
    let authority = plane.prepare()?;
    for name in ["coredns", "volumes"] {
        authority.client(name, name, Some("system:masters"))?;
        plane.write_kubeconfig(name, 0)?;
    }
    authority.client("kube-proxy", "system:kube-proxy", None)?;
    plane.write_kubeconfig("kube-proxy", 0)?;
    for node in nodes() {
        let name = node.name();
        authority.client(&name, &format!("system:node:{name}"), Some("system:nodes"))?;
        plane.write_kubeconfig(&name, 0)?;
        node::configure(node, &plane)?;
    }
    plane.save()?;
    Ok(plane)
}

async fn start_control_plane(plane: &Plane) -> Result<()> {
    start(&plane.spec(Component::Etcd))?;
    start(&plane.spec(Component::ApiServer(0)))?;
    start(&services::door(plane)?)?;
    wait_for_api_server(plane, 0).await?;
    start(&plane.spec(Component::ControllerManager))?;
    start(&plane.spec(Component::Scheduler))
}

async fn start_services(plane: &Plane, parts: &NodeParts) -> Result<()> {
    start(&services::registry()?)?;
    start(&services::dns(plane, parts)?)?;
    start(&services::volumes(plane)?)?;
    let client = client::from_kubeconfig(&plane.kubeconfig(0)).await?;
    services::allow_kube_proxy(&client).await?;
    client::default_service_account(&client).await
}

async fn start_nodes(plane: &Plane, parts: &NodeParts) -> Result<()> {
    std::thread::scope(|scope| {
        let starts = nodes().map(|node| scope.spawn(move || start_node(node, plane, parts)));
        starts.into_iter().try_for_each(|start| {
            start
                .join()
                .unwrap_or_else(|_| bail!("the start of a node panicked"))
        })
    })?;
    let client = client::from_kubeconfig(&plane.kubeconfig(0)).await?;
    client::nodes_ready(&client, nodes().len()).await
}

/// Starts what does not run of a node's programs, and waits until its kubelet is at work.
///
/// A kubelet ends when the container runtime is not ready for it yet; on a real node the system
/// would start it again, here we do.
pub fn start_node(node: Node, plane: &Plane, parts: &NodeParts) -> Result<()> {
    let begin = Instant::now();
    loop {
        for program in node::PROGRAMS {
            let known = Process::recorded(&plane.dir, &node.program(program));
            if !known.is_some_and(|process| process.alive()) {
                start(&node::spec(node, program, plane, parts)?)?;
            }
        }
        if node::kubelet_listens(node)? {
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(60) {
            let tail = log_tail(&plane.dir, &node.program("kubelet"));
            bail!(
                "the kubelet of {} does not start; its log ends:\n{tail}",
                node.name()
            );
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Starts a program that outlives this one.
pub fn start(spec: &Spec) -> Result<()> {
    Process::start(&dir()?, spec, Lifetime::Detached)?;
    Ok(())
}
