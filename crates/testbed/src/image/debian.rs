//! Layers made of Debian packages, without Docker: a base system, and packages on top of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::layer::Layer;
use crate::cache;
use crate::command::run_logged;
use crate::phase::timed;
use crate::versions::DEBIAN;

/// Makes the smallest Debian system; the packages on top of it come later, because debootstrap
/// fails to configure some of them.
const BASE_SCRIPT: &str = r#"set -eu
debootstrap --variant=minbase --include=ca-certificates "$SUITE" "$DIR/root"
cat > "$DIR/root/etc/dpkg/dpkg.cfg.d/small" <<END
path-exclude /usr/share/doc/*
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
END
printf '#!/bin/sh\nexit 101\n' > "$DIR/root/usr/sbin/policy-rc.d"
chmod 755 "$DIR/root/usr/sbin/policy-rc.d"
cd "$DIR/root"
rm -rf usr/share/doc usr/share/man usr/share/info usr/share/locale
rm -rf var/cache/apt/*.bin var/cache/apt/archives/*.deb var/lib/apt/lists/* var/log/*
"#;

/// Installs packages into an overlay on the base: the upper directory is the new layer. All
/// mounts are made in a mount namespace of the script, so none can be left behind.
const PACKAGES_SCRIPT: &str = r#"set -eu
mkdir "$DIR/upper" "$DIR/work" "$DIR/root"
mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$DIR/upper,workdir=$DIR/work" "$DIR/root"
mount -t proc proc "$DIR/root/proc"
mount --bind /dev "$DIR/root/dev"
mount -t tmpfs tmpfs "$DIR/root/run"
mount -t tmpfs tmpfs "$DIR/root/tmp"
cat /etc/resolv.conf > "$DIR/root/etc/resolv.conf"
chroot "$DIR/root" sh -c "$PREPARE"
export DEBIAN_FRONTEND=noninteractive
chroot "$DIR/root" apt-get update
chroot "$DIR/root" apt-get install -y --no-install-recommends $PACKAGES
chroot "$DIR/root" apt-get clean
chroot "$DIR/root" sh -c "$FINISH"
rm -rf "$DIR"/root/var/lib/apt/lists/* "$DIR"/root/var/cache/apt/*.bin "$DIR"/root/var/log/*
rm -f "$DIR/root/etc/resolv.conf"
umount "$DIR/root/tmp" "$DIR/root/run" "$DIR/root/dev" "$DIR/root/proc" "$DIR/root"
# What the overlay marks as deleted, a layer marks with a file of a special name.
find "$DIR/upper" -type c | while read -r gone; do
    rm "$gone"
    touch "$(dirname "$gone")/.wh.$(basename "$gone")"
done
"#;

/// Packages on top of the base system.
pub struct Packages {
    /// Names the layer.
    pub name: &'static str,
    /// Debian packages.
    pub packages: &'static str,
    /// Shell commands run inside before the installation.
    pub prepare: &'static str,
    /// Shell commands run inside after the installation.
    pub finish: &'static str,
}

/// The layer of the base system.
pub fn base_layer() -> Result<Layer> {
    Layer::from_file(&base()?.join("layer.tar"))
}

fn base() -> Result<PathBuf> {
    let recipe = format!("{DEBIAN} {} {BASE_SCRIPT}", std::env::consts::ARCH);
    cache::ensure("images", "debian", &recipe, |dir| {
        timed("make the Debian base of the images", || {
            let mut script = script(BASE_SCRIPT, dir);
            script.env("SUITE", DEBIAN);
            run_logged(&mut script, &dir.join("build.log"))?;
            Layer::pack(&dir.join("root"), &dir.join("layer.tar"))?;
            Ok(())
        })
    })
}

impl Packages {
    /// The layer that these packages add to the base system.
    pub fn layer(&self) -> Result<Layer> {
        let base = base()?;
        let recipe = format!(
            "{} {} {} {} {PACKAGES_SCRIPT}",
            base.display(),
            self.packages,
            self.prepare,
            self.finish
        );
        let dir = cache::ensure("images", self.name, &recipe, |dir| {
            timed(&format!("install the packages of {}", self.name), || {
                self.build(&base, dir)
            })
        })?;
        Layer::from_file(&dir.join("layer.tar"))
    }

    fn build(&self, base: &Path, dir: &Path) -> Result<()> {
        let mut script = script(PACKAGES_SCRIPT, dir);
        script
            .env("BASE", base.join("root"))
            .env("PACKAGES", self.packages)
            .env("PREPARE", self.prepare)
            .env("FINISH", self.finish);
        run_logged(&mut script, &dir.join("build.log"))?;
        Layer::pack(&dir.join("upper"), &dir.join("layer.tar"))?;
        cache::remove_tree(&dir.join("upper"))?;
        cache::remove_tree(&dir.join("work"))
    }
}

fn script(text: &str, dir: &Path) -> Command {
    let mut command = Command::new("nice");
    command
        .args([
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            text,
        ])
        .env("DIR", dir)
        .env("LC_ALL", "C");
    command
}
