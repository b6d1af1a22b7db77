//! Where each kind lives in the API.

use ensemble_conductor::Kind;
use kube::api::{ApiResource, GroupVersionKind};

/// For kube's dynamic API.
pub fn api_resource(kind: Kind) -> ApiResource {
    let info = kind.info();
    let kind = GroupVersionKind::gvk(info.group, info.version, info.name);
    ApiResource::from_gvk_with_plural(&kind, info.plural)
}

/// The path of a collection in a namespace.
pub fn collection(kind: Kind, namespace: &str) -> String {
    let info = kind.info();
    let root = if info.group.is_empty() {
        format!("/api/{}", info.version)
    } else {
        format!("/apis/{}/{}", info.group, info.version)
    };
    format!("{root}/namespaces/{namespace}/{}", info.plural)
}

/// The word for a kind in metrics and logs.
pub fn plural(kind: Kind) -> &'static str {
    kind.info().plural
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_and_the_groups_have_their_own_roots() {
        assert_eq!(
            collection(Kind::Pod, "shop"),
            "/api/v1/namespaces/shop/pods"
        );
        let budgets = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";
        assert_eq!(collection(Kind::Budget, "shop"), budgets);
        let ensembles = "/apis/ensemble.dev/v1alpha1/namespaces/shop/ensembles";
        assert_eq!(collection(Kind::Ensemble, "shop"), ensembles);
    }
}
