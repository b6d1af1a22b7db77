//! Where each kind lives in the API.

use ensemble_conductor::Kind;
use kube::api::{ApiResource, GroupVersionKind};

/// Group, version, kind and plural.
fn parts(kind: Kind) -> (&'static str, &'static str, &'static str, &'static str) {
    match kind {
        Kind::Ensemble => (
            ensemble_api::GROUP,
            ensemble_api::VERSION,
            "Ensemble",
            "ensembles",
        ),
        Kind::Request => (
            ensemble_api::GROUP,
            ensemble_api::VERSION,
            "EnsembleRequest",
            "ensemblerequests",
        ),
        Kind::Pod => ("", "v1", "Pod", "pods"),
        Kind::Claim => ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        Kind::Revision => ("apps", "v1", "ControllerRevision", "controllerrevisions"),
        Kind::Service => ("", "v1", "Service", "services"),
        Kind::Budget => (
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
        ),
        Kind::Node => ("", "v1", "Node", "nodes"),
    }
}

/// For kube's dynamic API.
pub fn api_resource(kind: Kind) -> ApiResource {
    let (group, version, kind, plural) = parts(kind);
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// The path of a collection in a namespace.
pub fn collection(kind: Kind, namespace: &str) -> String {
    let (group, version, _, plural) = parts(kind);
    let root = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    format!("{root}/namespaces/{namespace}/{plural}")
}

/// The word for a kind in metrics and logs.
pub fn plural(kind: Kind) -> &'static str {
    parts(kind).3
}
