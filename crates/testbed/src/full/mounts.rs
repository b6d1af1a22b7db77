//! A mount namespace for each node, with a `/run` of its own.
//!
//! Volumes, container root file systems and pods' network namespaces are mounts. Inside a
//! namespace of the node they vanish with its last process, so nothing is left to clean up, and
//! two nodes cannot mix up files that their programs expect at fixed paths.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::layout::{Node, dir, nodes};
use crate::command::output;

/// Makes the mount namespaces.
pub fn create() -> Result<()> {
    let holder = dir()?.join("mounts");
    fs::create_dir_all(&holder)?;
    let holder = holder.display().to_string();
    // A namespace can only be held by a file on a mount that does not propagate.
    output("mount", &["--bind", &holder, &holder])?;
    output("mount", &["--make-private", &holder])?;
    for node in nodes() {
        create_for(node)?;
    }
    Ok(())
}

fn create_for(node: Node) -> Result<()> {
    let file = node.mounts()?;
    fs::write(&file, "").with_context(|| format!("failed to create {}", file.display()))?;
    let cni = node.dir()?.join("cni-cache");
    fs::create_dir_all(&cni)?;
    fs::create_dir_all("/var/lib/cni").context("failed to create /var/lib/cni")?;
    let script = format!(
        "mount -t tmpfs tmpfs /run && mkdir -p /run/netns && mount --bind {} /var/lib/cni",
        cni.display()
    );
    let hold = format!("--mount={}", file.display());
    output(
        "unshare",
        &[&hold, "--propagation", "private", "sh", "-c", &script],
    )?;
    Ok(())
}

/// Gives a node that lost its power an empty `/run`, as after a boot.
pub fn renew(node: Node) -> Result<()> {
    unmount_if_mounted(&node.mounts()?)?;
    create_for(node)
}

/// Lets go of the mount namespaces.
pub fn remove() -> Result<()> {
    let holder = dir()?.join("mounts");
    for node in nodes() {
        unmount_if_mounted(&node.mounts()?)?;
    }
    unmount_if_mounted(&holder)
}

/// Unmounts whatever is mounted on a directory or file; the processes that used it are gone.
pub fn unmount_if_mounted(path: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("failed to read the mounts")?;
    let shown = path.display().to_string();
    let mounted = table
        .lines()
        .filter(|line| line.split(' ').nth(4) == Some(&shown))
        .count();
    for _ in 0..mounted {
        output("umount", &["--lazy", &shown])?;
    }
    Ok(())
}
