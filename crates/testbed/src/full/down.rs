//! Taking the full testbed down, however far it came up, and leaving nothing behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::layout::{Node, dir, nodes};
use super::{cgroups, mounts, network};
use crate::cache::{Lock, remove_tree};
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
        nodes().into_iter().try_for_each(kill_pods)
    })?;
    timed("remove namespaces and cgroups", || {
        network::remove()?;
        mounts::remove()?;
        cgroups::remove()
    })?;
    timed("remove the files", || remove_tree(&dir))
}

/// Ends everything that runs on a node, also what was not started by us directly: the containers
/// and their shims.
pub fn kill_pods(node: Node) -> Result<()> {
    let begin = Instant::now();
    loop {
        let pids = processes_of(node)?;
        if pids.is_empty() {
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(20) {
            bail!("processes of {} do not end: {pids:?}", node.name());
        }
        for pid in pids {
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended meanwhile, with its parent.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All processes of a node, known by where they run: its programs and the containers' shims in
/// the node's mount namespace, the containers in the node's cgroups.
pub fn processes_of(node: Node) -> Result<Vec<i32>> {
    let mut found = cgroups::processes_of(node)?;
    let Ok(namespace) = fs::metadata(node.mounts()?) else {
        return Ok(found);
    };
    let entries = fs::read_dir("/proc").context("failed to list the processes")?;
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in pids {
        // Not readable for one that has ended meanwhile.
        let own = fs::metadata(format!("/proc/{pid}/ns/mnt"));
        if own.is_ok_and(|own| own.ino() == namespace.ino() && own.dev() == namespace.dev()) {
            found.push(pid);
        }
    }
    Ok(found)
}
