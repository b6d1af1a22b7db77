//! Control planes that stay up between commands: for people, and for benchmarks.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::{self, Lock};
use crate::client;
use crate::control_plane::{ControlPlane, Options, kill_all};
use crate::phase::{say, timed};
use crate::plane::Plane;
use crate::process::{Lifetime, Process, Spec};

/// Starts a control plane in `dir`; harmless if it is up, anew if it is not well.
pub async fn up(dir: PathBuf, options: Options) -> Result<()> {
    let _lock = lock(&dir)?;
    if is_well(&dir).await {
        say("already up");
        return Ok(());
    }
    clear(&dir)?;
    std::fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
    let plane = ControlPlane::launch(&dir, &options, Lifetime::Detached).await?;
    if options.fake_nodes == 0 {
        return Ok(());
    }
    let kubeconfig = format!("--kubeconfig={}", plane.kubeconfig().display());
    start_own(
        &dir,
        "volumes",
        vec!["serve-volumes".to_owned(), kubeconfig.clone()],
    )?;
    let arguments = vec![
        "simulate-nodes".to_owned(),
        kubeconfig,
        format!("--count={}", options.fake_nodes),
        format!("--beat-seconds={}", options.timers.heartbeat_seconds()),
    ];
    start_own(&dir, "fake-nodes", arguments)?;
    client::nodes_ready(&plane.client().await?, options.fake_nodes).await
}

/// Stops the control plane in `dir` and removes its files.
pub fn down(dir: &Path) -> Result<()> {
    let _lock = lock(dir)?;
    timed("take the control plane down", || clear(dir))
}

/// Says which programs of the testbed in `dir` run.
pub async fn status(dir: &Path) -> Result<()> {
    let plane = Plane::load(dir)?;
    let mut out = std::io::stdout();
    for name in Process::recorded_names(dir) {
        let state = match Process::recorded(dir, &name) {
            Some(process) if process.alive() => format!("running, pid {}", process.pid()),
            _ => format!(
                "NOT running, see {}",
                dir.join(format!("logs/{name}.log")).display()
            ),
        };
        writeln!(out, "{name:28} {state}")?;
    }
    let client = client::from_kubeconfig(&plane.kubeconfig(0)).await?;
    let api = if client::is_ready(&client).await {
        "ready"
    } else {
        "NOT ready"
    };
    writeln!(out, "{:28} {api}, {}", "API", plane.kubeconfig(0).display())?;
    Ok(())
}

async fn is_well(dir: &Path) -> bool {
    let names = Process::recorded_names(dir);
    let alive = |name: &String| Process::recorded(dir, name).is_some_and(|one| one.alive());
    let (Ok(plane), false) = (Plane::load(dir), names.is_empty()) else {
        return false;
    };
    if !names.iter().all(alive) {
        return false;
    }
    match client::from_kubeconfig(&plane.kubeconfig(0)).await {
        Ok(client) => client::is_ready(&client).await,
        Err(_) => false,
    }
}

fn clear(dir: &Path) -> Result<()> {
    kill_all(dir)?;
    cache::remove_tree(dir)
}

fn lock(dir: &Path) -> Result<Lock> {
    let name = dir.file_name().context("a testbed without a name")?;
    Lock::wait(&name.to_string_lossy())
}

fn start_own(dir: &Path, name: &str, arguments: Vec<String>) -> Result<()> {
    let program = std::env::current_exe().context("failed to find this program's own file")?;
    let spec = Spec {
        name: name.to_owned(),
        program,
        arguments,
        namespace: None,
        mounts: None,
    };
    Process::start(dir, &spec, Lifetime::Detached)?;
    Ok(())
}
