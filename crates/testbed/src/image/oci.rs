//! Images in the two forms that the testbed needs: in a registry's storage and as an archive.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::layer::Layer;
use crate::cache::{remove_tree, sha256_hex};
use crate::command::output;

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";

/// An image: layers, and how to run them.
pub struct Image {
    /// Name in the registry.
    pub repository: String,
    /// Tag in the registry.
    pub tag: String,
    /// From the lowest to the topmost.
    pub layers: Vec<Layer>,
    /// What to run by default.
    pub entrypoint: Vec<String>,
    /// `uid:gid`; empty for root.
    pub user: String,
}

struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn of(value: &Value) -> Result<Blob> {
        let bytes = serde_json::to_vec(value)?;
        Ok(Blob {
            digest: format!("sha256:{}", sha256_hex(&bytes)),
            bytes,
        })
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.bytes.len()})
    }
}

impl Image {
    fn config(&self) -> Result<Blob> {
        let digests: Vec<&str> = self
            .layers
            .iter()
            .map(|layer| layer.digest.as_str())
            .collect();
        Blob::of(&json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "User": self.user,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/15/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": digests},
        }))
    }

    fn manifest(&self, config: &Blob) -> Result<Blob> {
        let layers: Vec<Value> = self
            .layers
            .iter()
            .map(|layer| json!({"mediaType": LAYER_TYPE, "digest": layer.digest, "size": layer.size}))
            .collect();
        Blob::of(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": config.descriptor(CONFIG_TYPE),
            "layers": layers,
        }))
    }

    /// Puts the image into the storage of a registry, which serves it from then on.
    pub fn publish(&self, registry: &Path) -> Result<()> {
        let (config, layers) = (self.config()?, &self.layers);
        let manifest = self.manifest(&config)?;
        let storage = Storage::new(registry, &self.repository);
        for layer in layers {
            storage.refer_to_blob(&layer.digest, &layer.path)?;
            storage.mark(
                &format!("_layers/{}", slashed(&layer.digest)),
                &layer.digest,
            )?;
        }
        storage.write_blob(&config)?;
        storage.mark(
            &format!("_layers/{}", slashed(&config.digest)),
            &config.digest,
        )?;
        storage.write_blob(&manifest)?;
        storage.publish_manifest(&self.tag, &manifest.digest)
    }

    /// Writes an OCI archive, for other tools.
    pub fn write_archive(&self, archive: &Path) -> Result<()> {
        let config = self.config()?;
        let manifest = self.manifest(&config)?;
        let layout = archive.with_extension("layout");
        remove_tree(&layout)?;
        let blobs = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs)?;
        for blob in [&config, &manifest] {
            fs::write(blobs.join(hex_of(&blob.digest)), &blob.bytes)?;
        }
        for layer in &self.layers {
            link_or_copy(&layer.path, &blobs.join(hex_of(&layer.digest)))?;
        }
        let mut entry = manifest.descriptor(MANIFEST_TYPE);
        let name = format!("{}:{}", self.repository, self.tag);
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        let index = json!({"schemaVersion": 2, "manifests": [entry]});
        fs::write(layout.join("index.json"), serde_json::to_vec(&index)?)?;
        fs::write(
            layout.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )?;
        let (source, target) = (layout.display().to_string(), archive.display().to_string());
        output(
            "tar",
            &[
                "--sort=name",
                "--mtime=@0",
                "-C",
                &source,
                "-cf",
                &target,
                ".",
            ],
        )?;
        remove_tree(&layout)
    }
}

/// Puts the images of an OCI archive into the storage of a registry; returns their names.
pub fn publish_archive(archive: &Path, registry: &Path) -> Result<Vec<String>> {
    let layout = registry.join("incoming");
    remove_tree(&layout)?;
    fs::create_dir_all(&layout)?;
    let (source, target) = (archive.display().to_string(), layout.display().to_string());
    output("tar", &["-C", &target, "-xf", &source])?;
    let index = read_json(&layout.join("index.json"))?;
    let mut names = Vec::new();
    for entry in index["manifests"].as_array().into_iter().flatten() {
        names.push(publish_layout_entry(&layout, entry, registry)?);
    }
    remove_tree(&layout)?;
    Ok(names)
}

fn publish_layout_entry(layout: &Path, entry: &Value, registry: &Path) -> Result<String> {
    let name = entry["annotations"]["org.opencontainers.image.ref.name"].as_str();
    let name = name.context("an image without a name in the archive")?;
    let (repository, tag) = name
        .rsplit_once(':')
        .context("an image name without a tag")?;
    let blob = |digest: &str| layout.join("blobs/sha256").join(hex_of(digest));
    let digest = entry["digest"]
        .as_str()
        .context("an image without a digest")?;
    let manifest = read_json(&blob(digest))?;
    let storage = Storage::new(registry, repository);
    let parts = manifest["layers"]
        .as_array()
        .into_iter()
        .flatten()
        .chain([&manifest["config"]]);
    for part in parts {
        let digest = part["digest"]
            .as_str()
            .context("a layer without a digest")?;
        storage.link_blob(digest, &blob(digest))?;
        storage.mark(&format!("_layers/{}", slashed(digest)), digest)?;
    }
    storage.link_blob(digest, &blob(digest))?;
    storage.publish_manifest(tag, digest)?;
    Ok(name.to_owned())
}

/// The storage of Debian's registry: files by digest, and small files that link to them.
struct Storage {
    blobs: PathBuf,
    repository: PathBuf,
}

impl Storage {
    fn new(registry: &Path, repository: &str) -> Storage {
        let root = registry.join("docker/registry/v2");
        Storage {
            blobs: root.join("blobs/sha256"),
            repository: root.join("repositories").join(repository),
        }
    }

    fn blob(&self, digest: &str) -> Result<PathBuf> {
        let hex = hex_of(digest);
        let dir = self.blobs.join(&hex[..2]).join(hex);
        fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
        Ok(dir.join("data"))
    }

    /// Serves a file of the cache, which lives longer than any registry.
    fn refer_to_blob(&self, digest: &str, file: &Path) -> Result<()> {
        let blob = self.blob(digest)?;
        if blob.exists() {
            return Ok(());
        }
        std::os::unix::fs::symlink(file, &blob)
            .with_context(|| format!("failed to make {}", blob.display()))
    }

    fn link_blob(&self, digest: &str, file: &Path) -> Result<()> {
        link_or_copy(file, &self.blob(digest)?)
    }

    fn write_blob(&self, blob: &Blob) -> Result<()> {
        Ok(fs::write(self.blob(&blob.digest)?, &blob.bytes)?)
    }

    fn mark(&self, place: &str, digest: &str) -> Result<()> {
        let dir = self.repository.join(place);
        fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
        Ok(fs::write(dir.join("link"), digest)?)
    }

    fn publish_manifest(&self, tag: &str, digest: &str) -> Result<()> {
        self.mark(&format!("_manifests/revisions/{}", slashed(digest)), digest)?;
        self.mark(
            &format!("_manifests/tags/{tag}/index/{}", slashed(digest)),
            digest,
        )?;
        self.mark(&format!("_manifests/tags/{tag}/current"), digest)
    }
}

fn hex_of(digest: &str) -> &str {
    digest.trim_start_matches("sha256:")
}

fn slashed(digest: &str) -> String {
    digest.replace(':', "/")
}

fn link_or_copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() || fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).with_context(|| format!("failed to copy {}", from.display()))?;
    Ok(())
}

fn read_json(path: &Path) -> Result<Value> {
    let bytes = fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not JSON", path.display()))
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    }
}
