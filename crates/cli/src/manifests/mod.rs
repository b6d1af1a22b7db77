//! All that a controller needs in a cluster, as plain objects.

mod admission;
mod deployment;
mod rbac;

use crate::args::{HOME, Install};
use serde_json::{Map, Value, json};

/// The name of all objects of the controller.
pub const NAME: &str = "ensemble-controller";

/// Where and how the controller is to live.
#[derive(Clone, Debug)]
pub struct Place {
    /// The namespace of the controller.
    pub home: String,
    /// The one namespace that it looks after; None: all.
    pub watched: Option<String>,
}

impl Place {
    /// As the flags say: with `--watch-namespace` it lives where it watches, unless told otherwise.
    pub fn of(namespace: Option<&str>, watched: Option<&str>) -> Self {
        let home = namespace.or(watched).unwrap_or(HOME).to_owned();
        Self {
            home,
            watched: watched.map(str::to_owned),
        }
    }
}

/// Everything, in the order in which it has to be created.
pub fn all(place: &Place, args: &Install) -> Vec<Value> {
    let mut objects = Vec::new();
    // Somebody who may only work in one namespace already has it.
    if place.watched.as_ref() != Some(&place.home) {
        objects.push(object("v1", "Namespace", &place.home, None));
    }
    if !args.skip_crds {
        objects.extend(ensemble_api::crd::all_json().into_iter().map(labelled));
        // Whoever brings the kinds in brings in who may waive: both concern the whole cluster.
        objects.extend(admission::all());
    }
    objects.extend(rbac::all(place));
    objects.push(deployment::service(place));
    objects.push(deployment::deployment(place, args));
    objects
}

/// What `uninstall` takes away, the workload first. The Namespace may hold other things and stays.
pub fn to_remove(place: &Place) -> Vec<Value> {
    let mut objects = vec![object("v1", "Service", NAME, Some(&place.home))];
    objects.extend(rbac::all(place).into_iter().rev());
    objects
}

/// What goes with the definitions, before them: as long as a request can be made, it is guarded.
pub fn with_definitions() -> Vec<Value> {
    let mut objects = ensemble_api::crd::all_json();
    objects.extend(admission::all().into_iter().rev());
    objects
}

/// The labels that all our objects carry.
fn labels() -> Value {
    json!({
        "app.kubernetes.io/name": "ensemble",
        "app.kubernetes.io/instance": NAME,
        "app.kubernetes.io/component": "controller",
        "app.kubernetes.io/part-of": "ensemble",
        "app.kubernetes.io/managed-by": "ensemble-cli",
        "app.kubernetes.io/version": env!("CARGO_PKG_VERSION"),
    })
}

/// What selects the controller's pods; never changes.
fn selector() -> Value {
    json!({"app.kubernetes.io/name": "ensemble", "app.kubernetes.io/component": "controller"})
}

fn object(api_version: &str, kind: &str, name: &str, namespace: Option<&str>) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".into(), name.into());
    if let Some(namespace) = namespace {
        metadata.insert("namespace".into(), namespace.into());
    }
    metadata.insert("labels".into(), labels());
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
}

fn labelled(mut crd: Value) -> Value {
    crd["metadata"]["labels"] = labels();
    crd
}

#[cfg(test)]
mod tests;
