//! The files of the full testbed: in memory if there is plenty, else on disk.
//!
//! Every node unpacks its images, so a testbed that has run databases holds gigabytes in tens of
//! thousands of files. In memory they are written faster and are gone at once; on disk removing
//! them can take a minute.

use anyhow::{Context, Result};

use super::layout::{dir, volumes_dir};
use super::mounts::unmount_if_mounted;
use crate::cache::remove_tree;
use crate::command::output;
use crate::phase::say;

/// Memory that must be free for the files to live there.
const PLENTY_KIBIBYTES: u64 = 10 * 1024 * 1024;

/// Makes the directory of the testbed.
pub fn create() -> Result<()> {
    let dir = dir()?;
    std::fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
    if available_kibibytes() < PLENTY_KIBIBYTES {
        say("memory is short: the testbed's files are on disk, which makes it slower");
        return Ok(());
    }
    let options = "mode=755,size=8g";
    output(
        "mount",
        &[
            "-t",
            "tmpfs",
            "-o",
            options,
            "testbed",
            &dir.display().to_string(),
        ],
    )?;
    Ok(())
}

/// Removes the directory of the testbed with everything in it.
pub fn remove() -> Result<()> {
    unmount_if_mounted(&dir()?)?;
    remove_tree(&volumes_dir()?)?;
    remove_tree(&dir()?)
}

fn available_kibibytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
