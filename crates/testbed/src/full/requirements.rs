//! What the machine must have, installed if it may be, named with its remedy if not.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{exists, output, run_logged};
use crate::phase::timed;

/// A program or file and the Debian package that has it.
const NEEDED: [(&str, &str); 11] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("/usr/lib/cni/ptp", "containernetworking-plugins"),
    ("nft", "nftables"),
    ("conntrack", "conntrack"),
    ("docker-registry", "docker-registry"),
    ("debootstrap", "debootstrap"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("gcc", "gcc"),
    ("/bin/busybox", "busybox-static"),
];

/// Keeps packages from starting services of their own: the testbed starts what it needs.
const NO_SERVICES: &str = "/usr/sbin/policy-rc.d";

/// Checks the machine and installs missing packages.
pub fn ensure_met() -> Result<()> {
    let user = output("id", &["-u"])?;
    ensure!(
        user.trim() == "0",
        "the full testbed makes network and mount namespaces, which needs root: run it as root, \
         or use --profile fake-nodes, which does not"
    );
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(what, _)| !present(what))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !exists("apt-get") {
        bail!("these are missing and can only be installed by themselves on Debian: {missing:?}");
    }
    timed(&format!("install {}", missing.join(" ")), || {
        install(&missing)
    })
}

fn present(what: &str) -> bool {
    if what.starts_with('/') {
        Path::new(what).exists()
    } else {
        exists(what)
    }
}

fn install(packages: &[&str]) -> Result<()> {
    let own_policy = !Path::new(NO_SERVICES).exists();
    if own_policy {
        std::fs::write(NO_SERVICES, "#!/bin/sh\nexit 101\n")
            .with_context(|| format!("failed to write {NO_SERVICES}"))?;
        output("chmod", &["755", NO_SERVICES])?;
    }
    let outcome = apt(&["update"])
        .and_then(|()| apt(&[&["install", "-y", "--no-install-recommends"], packages].concat()));
    if own_policy {
        std::fs::remove_file(NO_SERVICES)
            .with_context(|| format!("failed to remove {NO_SERVICES}"))?;
    }
    outcome
}

fn apt(arguments: &[&str]) -> Result<()> {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-q"])
        .args(arguments);
    let log = crate::cache::root()?.join("apt.log");
    if let Some(dir) = log.parent() {
        std::fs::create_dir_all(dir)?;
    }
    run_logged(&mut apt, &log)
}
