//! What is slow to make is made once and kept outside the checkout, under a key of name and recipe.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

use crate::phase::say;

/// Where everything is kept: `$ENSEMBLE_CACHE`, or `.cache/ensemble` in the home directory.
pub fn root() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("ENSEMBLE_CACHE") {
        return Ok(PathBuf::from(dir));
    }
    let home = std::env::var_os("HOME").context("neither ENSEMBLE_CACHE nor HOME is set")?;
    Ok(Path::new(&home).join(".cache/ensemble"))
}

/// A lock shared by all testbed processes of this user; released when dropped.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock, saying so if another process holds it.
    pub fn wait(name: &str) -> Result<Lock> {
        let dir = root()?.join("locks");
        fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
        let path = dir.join(name);
        let file =
            File::create(&path).with_context(|| format!("failed to open {}", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            say(&format!(
                "waiting for another testbed process that holds {}",
                path.display()
            ));
            flock(&file, FlockOperation::LockExclusive)
                .with_context(|| format!("failed to lock {}", path.display()))?;
        }
        Ok(Lock { _file: file })
    }
}

/// The entry `name` made by `recipe`; if absent, `build` makes it in an empty directory.
///
/// The directory gets its final name only when complete, so an interrupted build leaves nothing
/// that could be taken for a result, and two builders of the same entry wait for each other.
pub fn ensure(
    kind: &str,
    name: &str,
    recipe: &str,
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let entry = path_of(kind, name, recipe)?;
    if entry.exists() {
        return Ok(entry);
    }
    let _lock = Lock::wait(&format!("{kind}-{name}"))?;
    if entry.exists() {
        return Ok(entry);
    }
    let scratch = entry.with_extension("partial");
    remove_tree(&scratch)?;
    fs::create_dir_all(&scratch)
        .with_context(|| format!("failed to create {}", scratch.display()))?;
    build(&scratch)?;
    fs::rename(&scratch, &entry)
        .with_context(|| format!("failed to publish {}", entry.display()))?;
    Ok(entry)
}

/// Where [`ensure`] puts the entry.
pub fn path_of(kind: &str, name: &str, recipe: &str) -> Result<PathBuf> {
    let key: String = sha256_hex(recipe.as_bytes()).chars().take(12).collect();
    Ok(root()?.join(kind).join(format!("{name}-{key}")))
}

/// Removes a directory tree that may not exist.
pub fn remove_tree(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// SHA-256 in the hexadecimal form that registries use.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
