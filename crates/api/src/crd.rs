//! The CustomResourceDefinitions, as they are applied.

use crate::{Ensemble, EnsembleRequest};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

/// Both definitions.
pub fn all() -> [CustomResourceDefinition; 2] {
    [Ensemble::crd(), EnsembleRequest::crd()]
}

/// Both definitions as JSON.
pub fn all_json() -> Vec<Value> {
    let crds = all();
    crds.iter()
        .map(|crd| serde_json::to_value(crd).expect("a CRD is plain data"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Client-side `kubectl apply` stores the whole object in an annotation of at most 256 KiB.
    #[test]
    fn the_definitions_are_small_enough_for_client_side_apply() {
        for crd in all_json() {
            let size = serde_json::to_string(&crd).unwrap().len();
            assert!(size < 60_000, "{} bytes", size);
        }
    }

    #[test]
    fn every_field_of_the_spec_teaches_what_it_is() {
        for crd in all_json() {
            let spec =
                &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            for (name, field) in spec["properties"].as_object().unwrap() {
                let text = field["description"].as_str().unwrap_or("");
                assert!(text.len() > 20, "{name}: {text:?}");
            }
        }
    }

    #[test]
    fn scale_and_status_are_subresources() {
        let crd = &all_json()[0];
        let sub = &crd["spec"]["versions"][0]["subresources"];
        assert_eq!(sub["scale"]["specReplicasPath"], ".spec.replicas");
        assert_eq!(sub["scale"]["labelSelectorPath"], ".status.selector");
        assert!(sub["status"].is_object());
    }
}
