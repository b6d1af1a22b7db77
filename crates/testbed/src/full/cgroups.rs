//! A subtree of cgroups for each node, in whichever version of cgroups the machine has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::layout::{Node, nodes};

/// The name of a node's subtree.
pub fn root_of(node: Node) -> String {
    format!("/{}", node.namespace())
}

/// Makes the subtrees.
pub fn create() -> Result<()> {
    for path in all()? {
        fs::create_dir_all(&path).with_context(|| format!("failed to make {}", path.display()))?;
        inherit_cpus(&path)?;
    }
    Ok(())
}

/// Removes the subtrees, once their processes are gone.
pub fn remove() -> Result<()> {
    for path in all()? {
        remove_empty(&path)?;
    }
    Ok(())
}

/// The processes in a node's subtree: those of its containers.
pub fn processes_of(node: Node) -> Result<Vec<i32>> {
    let mut found = Vec::new();
    for path in all()?
        .iter()
        .filter(|path| path.ends_with(node.namespace()))
    {
        collect_processes(path, &mut found);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn collect_processes(path: &Path, found: &mut Vec<i32>) {
    let list = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    found.extend(list.lines().filter_map(|line| line.parse::<i32>().ok()));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            collect_processes(&entry.path(), found);
        }
    }
}

fn all() -> Result<Vec<PathBuf>> {
    let base = Path::new("/sys/fs/cgroup");
    if base.join("cgroup.controllers").exists() {
        return Ok(nodes().map(|node| base.join(node.namespace())).to_vec());
    }
    let hierarchies = fs::read_dir(base).context("failed to list the cgroup hierarchies")?;
    let hierarchies = hierarchies
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    let subtrees = hierarchies.flat_map(|path| nodes().map(|node| path.join(node.namespace())));
    Ok(subtrees.collect())
}

/// In version 1 a new cpuset has no processors until it is given some.
fn inherit_cpus(path: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (own, parent) = (path.join(file), path.join("..").join(file));
        if !path.join("cpuset.cpu_exclusive").exists() {
            return Ok(());
        }
        let value = fs::read_to_string(&parent)
            .with_context(|| format!("failed to read {}", parent.display()))?;
        fs::write(&own, value).with_context(|| format!("failed to write {}", own.display()))?;
    }
    Ok(())
}

fn remove_empty(path: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(path) else {
        return Ok(());
    };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        remove_empty(&entry.path())?;
    }
    fs::remove_dir(path).with_context(|| format!("failed to remove cgroup {}", path.display()))
}
