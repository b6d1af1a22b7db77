//! Layers of images: tar files known by the digest of their content.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::hex;
use crate::command::output;

/// One layer, kept uncompressed: it never travels further than this machine.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The tar file.
    pub path: PathBuf,
    /// `sha256:` and the digest of the file.
    pub digest: String,
    /// The size of the file in bytes.
    pub size: u64,
}

impl Layer {
    /// Packs a directory into `archive`. Times and order are fixed, so that the same content has
    /// the same digest.
    pub fn pack(dir: &Path, archive: &Path) -> Result<Layer> {
        let (source, target) = (dir.display().to_string(), archive.display().to_string());
        output(
            "tar",
            &[
                "--numeric-owner",
                "--sort=name",
                "--mtime=@0",
                "-C",
                &source,
                "-cf",
                &target,
                ".",
            ],
        )?;
        Layer::from_file(archive)
    }

    /// The layer in an existing tar file.
    pub fn from_file(path: &Path) -> Result<Layer> {
        let failed = || format!("failed to read {}", path.display());
        let mut file = File::open(path).with_context(failed)?;
        let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
        let mut buffer = vec![0; 1 << 20];
        let mut size = 0;
        loop {
            let count = file.read(&mut buffer).with_context(failed)?;
            if count == 0 {
                break;
            }
            digest.update(&buffer[..count]);
            size += count as u64;
        }
        let digest = format!("sha256:{}", hex(digest.finish().as_ref()));
        Ok(Layer {
            path: path.to_owned(),
            digest,
            size,
        })
    }
}
