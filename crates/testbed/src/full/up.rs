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
use crate::wait::eventually;

/// How long nodes may take until they are ready; on an idle machine it is two seconds.
const NODES_READY: Duration = Duration::from_secs(90);

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
    let Err(error) = raise(timers, &node_parts).await else {
        return Ok(());
    };
    say(&format!("it did not come up: {error:#}"));
    say("clearing it away, to try once more");
    down::clear()?;
    raise(timers, &node_parts).await
}

/// Starts everything, from nothing.
async fn raise(timers: NodeTimers, parts: &NodeParts) -> Result<()> {
    let plane = prepare(timers)?;
    timed_async("start the control plane", start_control_plane(&plane)).await?;
    timed_async("start the services", start_services(&plane, parts)).await?;
    timed_async("start the nodes", start_nodes(&plane, parts)).await
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
        Ok(client) => client::nodes_ready_now(&client, nodes().len())
            .await
            .is_ok(),
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
    let outcome = eventually("all nodes are ready", NODES_READY, async || {
        // A kubelet may also end after it has begun to serve, while it sets up its cgroups.
        nodes()
            .into_iter()
            .try_for_each(|node| start_ended(node, plane, parts))?;
        client::nodes_ready_now(&client, nodes().len())
            .await
            .map(Some)
    });
    outcome.await.with_context(|| log_tails(plane))
}

/// What the programs of all nodes said last.
fn log_tails(plane: &Plane) -> String {
    let programs = nodes()
        .into_iter()
        .flat_map(|node| node::PROGRAMS.map(|one| node.program(one)));
    let tail = |name: String| format!("the log of {name} ends:\n{}\n", log_tail(&plane.dir, &name));
    programs.map(tail).collect()
}

/// Starts those of a node's programs that do not run.
fn start_ended(node: Node, plane: &Plane, parts: &NodeParts) -> Result<()> {
    for program in node::PROGRAMS {
        let name = node.program(program);
        let known = Process::recorded(&plane.dir, &name);
        if known.as_ref().is_some_and(Process::alive) {
            continue;
        }
        if known.is_some() {
            let tail = log_tail(&plane.dir, &name);
            say(&format!(
                "{name} ended and is started again; its log ends:\n{tail}"
            ));
        }
        start(&node::spec(node, program, plane, parts)?)?;
    }
    Ok(())
}

/// Starts what does not run of a node's programs, and waits until its kubelet is at work.
///
/// A kubelet ends when the container runtime is not ready for it yet; on a real node the system
/// would start it again, here we do.
pub fn start_node(node: Node, plane: &Plane, parts: &NodeParts) -> Result<()> {
    let begin = Instant::now();
    loop {
        start_ended(node, plane, parts)?;
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
