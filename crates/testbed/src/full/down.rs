//! Taking the full testbed down, however far it came up, and leaving nothing behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::layout::{CONTROL, Node, dir, nodes};
use super::{cgroups, mounts, network, storage};
use crate::cache::Lock;
use crate::control_plane::kill_all;
use crate::phase::timed;

/// Takes the testbed down.
pub fn down() -> Result<()> {
    let _lock = Lock::wait("full")?;
    clear()
}

/// Ends and removes everything of a testbed; for the caller who holds the lock.
pub fn clear() -> Result<()> {
    let dir = dir()?;
    timed("end all programs and containers", || {
        kill_all(&dir)?;
        kill_strays()?;
        nodes().into_iter().try_for_each(kill_pods)
    })?;
    timed("remove namespaces and cgroups", || {
        network::remove()?;
        mounts::remove()?;
        cgroups::remove()
    })?;
    timed("remove the files", storage::remove)
}

/// Ends everything that runs on a node, also what was not started by us directly: the containers
/// and their shims.
pub fn kill_pods(node: Node) -> Result<()> {
    kill_until_gone(&node.name(), || processes_of(node))
}

/// Ends programs of the control plane that have no record, because an `up` was interrupted
/// between starting one and writing its pid down.
fn kill_strays() -> Result<()> {
    let namespace = Path::new("/run/netns").join(CONTROL);
    kill_until_gone("the control plane", || processes_in(&namespace, "net"))
}

fn kill_until_gone(whose: &str, list: impl Fn() -> Result<Vec<i32>>) -> Result<()> {
    let begin = Instant::now();
    loop {
        let pids = list()?;
        if pids.is_empty() {
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(20) {
            bail!("processes of {whose} do not end: {pids:?}");
        }
        for pid in pids.into_iter().filter_map(Pid::from_raw) {
            // It may have ended meanwhile, with its parent.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until nothing runs on a node any more, or until `limit`.
pub fn wait_until_gone(node: Node, limit: Duration) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < limit && !processes_of(node)?.is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// All processes of a node, known by where they run: its programs and the containers' shims in
/// the node's mount namespace, the containers in the node's cgroups.
pub fn processes_of(node: Node) -> Result<Vec<i32>> {
    let mut found = cgroups::processes_of(node)?;
    found.extend(processes_in(&node.mounts()?, "mnt")?);
    Ok(found)
}

/// The processes in the namespace that a file holds; none if there is no such file.
fn processes_in(namespace: &Path, kind: &str) -> Result<Vec<i32>> {
    let Ok(wanted) = fs::metadata(namespace) else {
        return Ok(Vec::new());
    };
    let entries = fs::read_dir("/proc").context("failed to list the processes")?;
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let inside = |pid: &i32| {
        // Not readable for one that has ended meanwhile.
        let own = fs::metadata(format!("/proc/{pid}/ns/{kind}"));
        own.is_ok_and(|own| own.ino() == wanted.ino() && own.dev() == wanted.dev())
    };
    Ok(pids.filter(inside).collect())
}
