//! A real control plane for API tests: no root, free ports, several side by side.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Client;
use rustix::process::Signal;

use crate::cache;
use crate::client;
use crate::fake::FakeNodes;
use crate::parts::{self, Version};
use crate::phase::timed_async;
use crate::plane::{Component, NodeTimers, Plane};
use crate::ports::Port;
use crate::process::{self, Lifetime, Process};
use crate::volumes::{Backing, Volumes};

/// What the control plane shall be like.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which Kubernetes.
    pub version: Version,
    /// How many API servers on the one etcd.
    pub api_servers: usize,
    /// How many simulated nodes; with any, the scheduler and the volume provisioner run too.
    pub fake_nodes: usize,
    /// How soon nodes count as lost.
    pub timers: NodeTimers,
    /// API server and etcd alone: no controller does anything by itself.
    pub bare: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            version: Version::Current,
            api_servers: 1,
            fake_nodes: 0,
            timers: NodeTimers::SHORT,
            bare: false,
        }
    }
}

/// A running control plane. Dropping it stops everything and removes its files; so does the end
/// of the process that started it, however it comes.
pub struct ControlPlane {
    plane: Plane,
    lifetime: Lifetime,
    fake_nodes: Option<FakeNodes>,
    volumes: Option<Volumes>,
    _ports: Vec<Port>,
}

impl ControlPlane {
    /// Starts a control plane that lives as long as the returned handle.
    pub async fn start(options: Options) -> Result<ControlPlane> {
        let dir = scratch_dir()?;
        let mut started = Self::launch(&dir, &options, Lifetime::Owned).await?;
        if options.fake_nodes > 0 {
            let beat = options.timers.heartbeat_seconds();
            started.simulate_nodes(options.fake_nodes, beat).await?;
        }
        Ok(started)
    }

    /// Starts the programs of a control plane in `dir` and waits until they serve.
    pub async fn launch(dir: &Path, options: &Options, lifetime: Lifetime) -> Result<ControlPlane> {
        let version = options.version;
        let parts = tokio::task::spawn_blocking(move || parts::control_plane(version))
            .await
            .context("the build of the parts was cut off")??;
        let count = options.api_servers.max(1) + 2;
        let ports = (0..count)
            .map(|_| Port::reserve())
            .collect::<Result<Vec<_>>>()?;
        let numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        let plane = Plane {
            dir: dir.to_owned(),
            parts,
            address: IpAddr::from([127, 0, 0, 1]),
            api_ports: numbers[2..].to_vec(),
            published_ports: numbers[2..].to_vec(),
            etcd_ports: (numbers[0], numbers[1]),
            namespace: None,
            timers: options.timers,
            bare: options.bare,
        };
        let control_plane = ControlPlane {
            plane,
            lifetime,
            fake_nodes: None,
            volumes: None,
            _ports: ports,
        };
        let what = format!("start Kubernetes {}", version.number());
        timed_async(&what, control_plane.boot(options.fake_nodes > 0)).await?;
        Ok(control_plane)
    }

    async fn boot(&self, with_scheduler: bool) -> Result<()> {
        self.plane.prepare()?;
        self.plane.save()?;
        self.start_component(Component::Etcd)?;
        for index in 0..self.plane.api_ports.len() {
            self.start_component(Component::ApiServer(index))?;
        }
        for index in 0..self.plane.api_ports.len() {
            self.wait_for_api_server(index).await?;
        }
        if self.plane.bare {
            return Ok(());
        }
        self.start_component(Component::ControllerManager)?;
        if with_scheduler {
            self.start_component(Component::Scheduler)?;
        }
        client::default_service_account(&self.client().await?).await
    }

    /// The administrator's kubeconfig file, for the first API server.
    pub fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig(0)
    }

    /// The administrator's kubeconfig file for one of the API servers, counted from 0.
    pub fn kubeconfig_of(&self, api_server: usize) -> PathBuf {
        self.plane.kubeconfig(api_server)
    }

    /// A client of the first API server.
    pub async fn client(&self) -> Result<Client> {
        self.client_of(0).await
    }

    /// A client of one of the API servers, counted from 0.
    pub async fn client_of(&self, api_server: usize) -> Result<Client> {
        client::from_kubeconfig(&self.kubeconfig_of(api_server)).await
    }

    /// The simulated nodes, if there are any.
    pub fn fake_nodes(&self) -> Option<&FakeNodes> {
        self.fake_nodes.as_ref()
    }

    /// Where logs, keys and data are.
    pub fn dir(&self) -> &Path {
        &self.plane.dir
    }

    /// Starts a component that was stopped, and waits until an API server serves again.
    pub async fn start_again(&self, component: Component) -> Result<()> {
        self.start_component(component)?;
        match component {
            Component::ApiServer(index) => self.wait_for_api_server(index).await,
            Component::Etcd => self.wait_for_api_server(0).await,
            _ => Ok(()),
        }
    }

    /// Stops a component as an administrator would.
    pub fn stop(&self, component: Component) -> Result<()> {
        process::stop_recorded(self.dir(), &component.name(), Duration::from_secs(3))
    }

    /// Ends a component without warning.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.process(component)?.kill()
    }

    /// Makes a component hang: it keeps its connections but does nothing.
    pub fn freeze(&self, component: Component) -> Result<()> {
        self.process(component)?.signal(Signal::STOP);
        Ok(())
    }

    /// Lets a frozen component go on.
    pub fn thaw(&self, component: Component) -> Result<()> {
        self.process(component)?.signal(Signal::CONT);
        Ok(())
    }

    /// Stops a component and starts it again.
    pub async fn restart(&self, component: Component) -> Result<()> {
        self.stop(component)?;
        self.start_again(component).await
    }

    /// Copies all that etcd holds, which is stopped for a moment.
    pub async fn back_up(&self, to: &Path) -> Result<()> {
        self.stop(Component::Etcd)?;
        copy_tree(&self.etcd_data(), to)?;
        self.start_again(Component::Etcd).await
    }

    /// Puts a copy back: everything since never happened. Whoever watches is started anew, since a
    /// watch from the future shows nothing.
    pub async fn restore(&mut self, from: &Path) -> Result<()> {
        let nodes = self.fake_nodes.take().map(|nodes| nodes.names().len());
        self.volumes = None;
        let servers = 0..self.plane.api_ports.len();
        let with_scheduler = Process::recorded(self.dir(), &Component::Scheduler.name()).is_some();
        for index in servers.clone() {
            self.stop(Component::ApiServer(index))?;
        }
        self.stop(Component::ControllerManager)?;
        self.stop(Component::Etcd)?;
        cache::remove_tree(&self.etcd_data())?;
        copy_tree(from, &self.etcd_data())?;
        self.start_component(Component::Etcd)?;
        for index in servers {
            self.start_again(Component::ApiServer(index)).await?;
        }
        self.start_component(Component::ControllerManager)?;
        if with_scheduler {
            self.restart(Component::Scheduler).await?;
        }
        if let Some(count) = nodes {
            let beat = self.plane.timers.heartbeat_seconds();
            self.simulate_nodes(count, beat).await?;
        }
        Ok(())
    }

    async fn simulate_nodes(&mut self, count: usize, beat_seconds: u32) -> Result<()> {
        let kubeconfig = self.kubeconfig();
        self.volumes = Some(Volumes::start(&kubeconfig, Backing::Nothing)?);
        let nodes = FakeNodes::start(&kubeconfig, count, beat_seconds)?;
        client::nodes_ready(&self.client().await?, count).await?;
        self.fake_nodes = Some(nodes);
        Ok(())
    }

    fn etcd_data(&self) -> PathBuf {
        self.dir().join("etcd")
    }

    fn process(&self, component: Component) -> Result<Process> {
        let name = component.name();
        Process::recorded(self.dir(), &name).with_context(|| format!("{name} does not run"))
    }

    fn start_component(&self, component: Component) -> Result<()> {
        Process::start(self.dir(), &self.plane.spec(component), self.lifetime)?;
        Ok(())
    }

    async fn wait_for_api_server(&self, index: usize) -> Result<()> {
        wait_for_api_server(&self.plane, index).await
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::Detached {
            return;
        }
        self.fake_nodes = None;
        self.volumes = None;
        // A drop cannot report; what would fail here is also ended by the parent-death signal.
        let _ = kill_all(self.dir());
        let _ = cache::remove_tree(self.dir());
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    crate::command::run(std::process::Command::new("cp").arg("-a").arg(from).arg(to)).map(drop)
}

/// Waits until an API server says that it is ready; fails early if it has ended.
pub async fn wait_for_api_server(plane: &Plane, index: usize) -> Result<()> {
    let name = Component::ApiServer(index).name();
    let client = client::from_kubeconfig(&plane.kubeconfig(index)).await?;
    let begin = std::time::Instant::now();
    while !client::is_ready(&client).await {
        let alive = Process::recorded(&plane.dir, &name).is_some_and(|process| process.alive());
        if !alive || begin.elapsed() > Duration::from_secs(60) {
            let tail = process::log_tail(&plane.dir, &name);
            bail!("{name} did not become ready; its log ends:\n{tail}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Ends every program recorded in `dir`, at once.
pub fn kill_all(dir: &Path) -> Result<()> {
    let names = Process::recorded_names(dir);
    for name in &names {
        if let Some(process) = Process::recorded(dir, name) {
            process.signal(Signal::KILL);
        }
    }
    for name in &names {
        process::stop_recorded(dir, name, Duration::from_secs(1))?;
    }
    Ok(())
}

/// A directory of this process's own, after removing those of processes that are gone.
fn scratch_dir() -> Result<PathBuf> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let run = cache::root()?.join("run");
    remove_abandoned(&run);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let dir = run.join(format!("test-{}-{number}", std::process::id()));
    cache::remove_tree(&dir)?;
    std::fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
    Ok(dir)
}

/// Another test process may be removing the same ones: what fails here is left to it.
fn remove_abandoned(run: &Path) {
    let Ok(entries) = std::fs::read_dir(run) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(owner) = name
            .strip_prefix("test-")
            .and_then(|rest| rest.split('-').next())
        else {
            continue;
        };
        if !Path::new("/proc").join(owner).exists() {
            let _ = kill_all(&entry.path());
            let _ = cache::remove_tree(&entry.path());
        }
    }
}
