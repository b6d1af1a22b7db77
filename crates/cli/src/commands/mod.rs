//! One file a command; those that need no cluster and few lines are here.

pub mod apply;
pub mod ask;
pub mod controller;
pub mod demo;
pub mod explain;
pub mod explore;
pub mod history;
pub mod install;
pub mod pause;
pub mod plan;
pub mod removal;
pub mod simulate;
pub mod status;
pub mod undo;
pub mod uninstall;
pub mod until;
pub mod waive;
pub mod watch;
pub mod why;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Format};
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// `crd`: there is no table of it, so YAML stands in.
pub fn crd(format: Format) -> Result<Exit, Failure> {
    print_manifests(format, ensemble_api::crd::all_json())
}

/// Kubernetes objects as `kubectl apply -f -` reads them.
pub fn print_manifests(format: Format, objects: Vec<Value>) -> Result<Exit, Failure> {
    match format {
        Format::Json => output::print(&format!("{:#}\n", output::list(objects)))?,
        Format::Table | Format::Yaml => output::print(&output::yaml_stream(&objects)?)?,
    }
    Ok(Exit::Converged)
}

/// `version`.
pub fn version(format: Format) -> Result<Exit, Failure> {
    let api = format!("{}/{}", ensemble_api::GROUP, ensemble_api::VERSION);
    let version = env!("CARGO_PKG_VERSION");
    let value = json!({"version": version, "api": api, "kubernetes": ">=1.34"});
    let text = || format!("ensemble {version} (API {api}, for Kubernetes 1.34 and newer)\n");
    output::print(&output::render(format, &value, text)?)?;
    Ok(Exit::Converged)
}

/// An object as JSON, without the noise of managed fields.
pub fn plain(object: &DynamicObject) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(object)
        .map_err(|error| Failure::error(format!("cannot write the object: {error}")))?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(value)
}

/// Who keeps the object in Git, if its managed fields show a known tool.
pub fn git_warning(object: &DynamicObject) -> String {
    let managers = object.metadata.managed_fields.iter().flatten();
    let known = [
        "argocd",
        "kustomize-controller",
        "helm-controller",
        "flux",
        "fleet",
    ];
    let mut managers = managers.filter_map(|field| field.manager.as_deref());
    match managers.find(|manager| known.iter().any(|k| manager.contains(k))) {
        Some(manager) => format!(
            "'{manager}' keeps this Ensemble in Git: make the same change there, or it is undone at its next sync"
        ),
        None => {
            "if this Ensemble is kept in Git, make the same change there: Git will win".to_owned()
        }
    }
}
