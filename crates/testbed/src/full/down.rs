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
    timed("take the testbed down", clear)
}

/// Ends and removes everything of a testbed; for the caller who holds the lock.
pub fn clear() -> Result<()> {
    let dir = dir()?;
    kill_all(&dir)?;
    for node in nodes() {
        kill_pods(node)?;
    }
    network::remove()?;
    mounts::remove()?;
    cgroups::remove()?;
    remove_tree(&dir)
}

/// Ends everything that runs on a node but was not started by us directly: the containers and
/// their shims.
///
/// They are known by where they run: a shim stays in the mount namespace of its node, and a
/// container is a descendant of its shim.
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

/// All processes in the mount namespace of a node, and their descendants.
pub fn processes_of(node: Node) -> Result<Vec<i32>> {
    let Ok(namespace) = fs::metadata(node.mounts()?) else {
        return Ok(Vec::new());
    };
    let processes = list_processes()?;
    let mut found: Vec<i32> = Vec::new();
    for (pid, _) in &processes {
        let own = fs::metadata(format!("/proc/{pid}/ns/mnt"));
        if own.is_ok_and(|own| own.ino() == namespace.ino() && own.dev() == namespace.dev()) {
            found.push(*pid);
        }
    }
    // Parents may come after their children in the list, so look until nothing is added.
    loop {
        let children: Vec<i32> = processes
            .iter()
            .filter(|(pid, parent)| found.contains(parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if children.is_empty() {
            return Ok(found);
        }
        found.extend(children);
    }
}

/// Every living process and its parent.
fn list_processes() -> Result<Vec<(i32, i32)>> {
    let entries = fs::read_dir("/proc").context("failed to list the processes")?;
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect())
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if state == "Z" {
        None
    } else {
        fields.next()?.parse().ok()
    }
}
