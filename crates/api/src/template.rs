//! The parts of a spec that stay opaque: the pod template and a claim's spec.
//!
//! A typed struct would drop every pod field newer than our library, and a full schema is 354 KB a
//! copy. So the schema names what validation and merging need and keeps the rest as it came.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A `PodTemplateSpec`, kept as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(pub Map<String, Value>);

impl Template {
    /// The pod spec inside, empty if absent.
    pub fn pod_spec(&self) -> Map<String, Value> {
        self.0
            .get("spec")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    }

    /// Labels or annotations of the template's metadata.
    pub fn metadata(&self, field: &str) -> Map<String, Value> {
        let found = self
            .0
            .get("metadata")
            .and_then(|m| m.get(field))
            .and_then(Value::as_object);
        found.cloned().unwrap_or_default()
    }

    /// The name of the first container.
    pub fn first_container(&self) -> Option<String> {
        let containers = self.0.get("spec")?.get("containers")?.as_array()?;
        Some(containers.first()?.get("name")?.as_str()?.to_owned())
    }

    /// The images of all containers that a kubelet has to pull.
    pub fn images(&self) -> Vec<String> {
        images(&self.0).into_iter().map(str::to_owned).collect()
    }
}

/// The images of all containers of a template that a kubelet has to pull, in order.
pub fn images(template: &Map<String, Value>) -> Vec<&str> {
    let lists = ["initContainers", "containers"];
    let containers = lists
        .iter()
        .filter_map(|l| template.get("spec")?.get(l)?.as_array());
    let images = containers
        .flatten()
        .filter_map(|c| c.get("image")?.as_str());
    let mut images: Vec<&str> = images.collect();
    images.sort_unstable();
    images.dedup();
    images
}

fn container(what: &str) -> Value {
    serde_json::json!({
        "description": what,
        "type": "array",
        "maxItems": 64,
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 63},
                "image": {"type": "string", "maxLength": 1024},
            },
            "x-kubernetes-preserve-unknown-fields": true,
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    })
}

impl JsonSchema for Template {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let labels = serde_json::json!({
            "type": "object",
            "maxProperties": 128,
            "additionalProperties": {"type": "string", "maxLength": 4096},
        });
        let mut containers = container("The containers of each member, as in a pod.");
        containers["minItems"] = 1.into();
        json_schema!({
            "type": "object",
            "required": ["spec"],
            "properties": {
                "metadata": {
                    "description": "Labels and annotations of each member's pod.",
                    "type": "object",
                    "properties": {"labels": labels, "annotations": labels},
                },
                "spec": {
                    "description": "A PodSpec. Every field of a pod is accepted; unknown ones are \
                        refused by the API server when Ensemble tries the template, before any \
                        member is touched.",
                    "type": "object",
                    "required": ["containers"],
                    "properties": {
                        "containers": containers,
                        "initContainers": container("Containers that run before the others."),
                        "volumes": {
                            "description": "Volumes beside the claims.",
                            "type": "array",
                            "maxItems": 64,
                            "items": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {"name": {"type": "string", "maxLength": 63}},
                                "x-kubernetes-preserve-unknown-fields": true,
                            },
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"],
                        },
                        "restartPolicy": {"type": "string", "maxLength": 32},
                        "hostname": {"type": "string", "maxLength": 63},
                        "subdomain": {"type": "string", "maxLength": 63},
                        "nodeName": {"type": "string", "maxLength": 253},
                    },
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
        })
    }
}

/// A `PersistentVolumeClaimSpec`, kept as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimSpec(pub Map<String, Value>);

impl JsonSchema for ClaimSpec {
    fn schema_name() -> Cow<'static, str> {
        "ClaimSpec".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "required": ["resources"],
            "properties": {
                "accessModes": {
                    "type": "array",
                    "maxItems": 4,
                    "items": {"type": "string", "maxLength": 32},
                },
                "storageClassName": {"type": "string", "maxLength": 253},
                "volumeMode": {"type": "string", "maxLength": 32},
                "resources": {
                    "type": "object",
                    "required": ["requests"],
                    "properties": {
                        "requests": {
                            "type": "object",
                            "required": ["storage"],
                            "properties": {
                                "storage": {
                                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                                    "x-kubernetes-int-or-string": true,
                                },
                            },
                        },
                    },
                },
            },
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_listed_once_and_in_order() {
        let template: Template = serde_json::from_value(serde_json::json!({
            "spec": {
                "initContainers": [{"name": "i", "image": "b"}],
                "containers": [{"name": "x", "image": "a"}, {"name": "y", "image": "b"}, {"name": "z"}],
            }
        }))
        .unwrap();
        assert_eq!(template.images(), ["a", "b"]);
    }
}
