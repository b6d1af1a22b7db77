//! The storage classes of the testbed and how they differ.

use anyhow::{Context, Result};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

/// Marks volumes that the testbed made and must delete.
pub const PROVISIONER: &str = "testbed.ensemble.dev/volumes";

/// A kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// The name of the StorageClass.
    pub name: &'static str,
    /// Bound to the node that first uses it, like a disk in a machine.
    pub node_bound: bool,
    /// Whether a volume can grow.
    pub expandable: bool,
    default: bool,
}

/// All classes: the default one follows its pod to any node and can grow.
pub const CLASSES: [Class; 3] = [
    Class {
        name: "shared",
        node_bound: false,
        expandable: true,
        default: true,
    },
    Class {
        name: "fixed",
        node_bound: false,
        expandable: false,
        default: false,
    },
    Class {
        name: "local",
        node_bound: true,
        expandable: false,
        default: false,
    },
];

impl Class {
    /// The class of that name, if it is one of the testbed's.
    pub fn named(name: &str) -> Option<Class> {
        CLASSES.into_iter().find(|class| class.name == name)
    }
}

/// Creates the StorageClass objects.
pub async fn install(client: &Client) -> Result<()> {
    let api: Api<StorageClass> = Api::all(client.clone());
    for class in CLASSES {
        let mode = if class.node_bound {
            "WaitForFirstConsumer"
        } else {
            "Immediate"
        };
        let object = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": class.name, "annotations": {
                "storageclass.kubernetes.io/is-default-class": class.default.to_string(),
            }},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": mode,
            "allowVolumeExpansion": class.expandable,
        });
        api.patch(
            class.name,
            &PatchParams::apply("testbed").force(),
            &Patch::Apply(&object),
        )
        .await
        .with_context(|| format!("failed to create storage class {}", class.name))?;
    }
    Ok(())
}
