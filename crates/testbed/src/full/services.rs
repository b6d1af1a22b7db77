//! What the cluster needs besides Kubernetes itself: names, images, volumes, a door.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::layout::{API_PORT, CONTROL, CONTROL_ADDRESS, REGISTRY_PORT, dir, volumes_dir};
use crate::parts::NodeParts;
use crate::plane::Plane;
use crate::process::Spec;

/// CoreDNS as a program of the control plane: it needs neither an image nor a Service.
pub fn dns(plane: &Plane, parts: &NodeParts) -> Result<Spec> {
    let file = dir()?.join("Corefile");
    let text = format!(
        ".:53 {{\n  bind {CONTROL_ADDRESS}\n  errors\n  kubernetes cluster.local in-addr.arpa {{\n    \
         kubeconfig {}\n    ttl 1\n  }}\n}}\n",
        plane.client_kubeconfig("coredns").display()
    );
    fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
    let arguments = vec!["-conf".to_owned(), file.display().to_string()];
    Ok(inside("coredns", parts.coredns.clone(), arguments))
}

/// The image registry, serving what is in [`registry_storage`].
pub fn registry() -> Result<Spec> {
    let file = dir()?.join("registry.json");
    let config = json!({
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": registry_storage()?},
            "maintenance": {"readonly": {"enabled": true}}},
        "http": {"addr": format!("{CONTROL_ADDRESS}:{REGISTRY_PORT}")},
    });
    fs::write(&file, config.to_string())
        .with_context(|| format!("failed to write {}", file.display()))?;
    let arguments = vec!["serve".to_owned(), file.display().to_string()];
    Ok(inside(
        "registry",
        PathBuf::from("docker-registry"),
        arguments,
    ))
}

/// The files of the image registry.
pub fn registry_storage() -> Result<PathBuf> {
    Ok(dir()?.join("registry"))
}

/// The provisioner of volumes: this program again, in the background.
pub fn volumes(plane: &Plane) -> Result<Spec> {
    let arguments = vec![
        "serve-volumes".to_owned(),
        format!(
            "--kubeconfig={}",
            plane.client_kubeconfig("volumes").display()
        ),
        format!("--directory={}", volumes_dir()?.display()),
    ];
    Ok(inside("volumes", this_program()?, arguments))
}

/// The door from the machine's loopback to the API server: this program again.
pub fn door(plane: &Plane) -> Result<Spec> {
    let port = plane.published_ports.first().context("no published port")?;
    let arguments = vec![
        "forward".to_owned(),
        format!("--listen=127.0.0.1:{port}"),
        format!("--namespace={CONTROL}"),
        format!("--target={CONTROL_ADDRESS}:{API_PORT}"),
    ];
    Ok(Spec {
        name: "door".to_owned(),
        program: this_program()?,
        arguments,
        namespace: None,
        mounts: None,
    })
}

/// What kubeadm would set up: kube-proxy may read what it needs.
pub async fn allow_kube_proxy(client: &Client) -> Result<()> {
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "testbed:kube-proxy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "system:node-proxier"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
            "name": "system:kube-proxy"}],
    });
    let parameters = PatchParams::apply("testbed").force();
    bindings
        .patch("testbed:kube-proxy", &parameters, &Patch::Apply(&binding))
        .await
        .context("failed to give kube-proxy its role")?;
    Ok(())
}

fn inside(name: &str, program: PathBuf, arguments: Vec<String>) -> Spec {
    Spec {
        name: name.to_owned(),
        program,
        arguments,
        namespace: Some(CONTROL.to_owned()),
        mounts: None,
    }
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("failed to find this program's own file")
}
