//! The CustomResourceDefinitions, as they are applied.

use crate::{Ensemble, EnsembleRequest};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::Value;

/// Both definitions.
pub fn all() -> [CustomResourceDefinition; 2] {
    [Ensemble::crd(), EnsembleRequest::crd()].map(open_status)
}

/// Status is written by controllers alone. Were its words a closed list, a newer controller's status
/// would be refused as long as the definitions are the older one's.
fn open_status(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        let fields = schema
            .and_then(|s| s.open_api_v3_schema.as_mut()?.properties.as_mut())
            .and_then(|fields| fields.get_mut("status"));
        if let Some(status) = fields {
            without_choices(status);
        }
    }
    crd
}

fn without_choices(schema: &mut JSONSchemaProps) {
    schema.enum_ = None;
    let fields = schema.properties.iter_mut().flat_map(|f| f.values_mut());
    fields.for_each(without_choices);
    if let Some(JSONSchemaPropsOrArray::Schema(each)) = schema.items.as_mut() {
        without_choices(each);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(each)) = schema.additional_properties.as_mut() {
        without_choices(each);
    }
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
    fn a_word_that_only_a_newer_controller_knows_is_not_refused_in_status() {
        fn choices(schema: &Value, path: &str, found: &mut Vec<String>) {
            if schema["enum"].is_array() {
                found.push(path.to_owned());
            }
            for (key, value) in schema.as_object().into_iter().flatten() {
                choices(value, &format!("{path}.{key}"), found);
            }
        }
        for crd in all_json() {
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let mut found = Vec::new();
            choices(&schema["properties"]["status"], "status", &mut found);
            assert_eq!(found, [""; 0]);
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
