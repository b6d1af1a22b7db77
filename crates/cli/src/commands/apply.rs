//! Objects brought into the cluster as the user: created if missing, else patched at the version read.

use crate::cluster::FIELD_MANAGER;
use crate::failure::Failure;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::Value;

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was missing.
    Created,
    /// It was different.
    Changed,
    /// It was there already.
    Unchanged,
}

impl Applied {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }
}

/// `Deployment ensemble-system/ensemble-controller`.
pub fn title(object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Where an object of ours is kept, and its name.
pub fn place(client: &Client, object: &Value) -> (Api<DynamicObject>, String) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: api_version.into(),
        kind: kind.into(),
        plural: plural(kind),
    };
    let metadata = &object["metadata"];
    let api = match metadata["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    (
        api,
        metadata["name"].as_str().unwrap_or_default().to_owned(),
    )
}

/// True of every kind that we make.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

/// Creates what is missing and changes what differs.
pub async fn apply(client: &Client, object: &Value) -> Result<Applied, Failure> {
    let title = title(object);
    let failed = |error| Failure::of_call(&format!("cannot apply {title}"), error);
    let (api, name) = place(client, object);
    let Some(old) = api.get_opt(&name).await.map_err(failed)? else {
        let params = PostParams {
            dry_run: false,
            field_manager: Some(FIELD_MANAGER.into()),
        };
        let new: DynamicObject = serde_json::from_value(object.clone())
            .map_err(|error| Failure::error(format!("{title} is malformed: {error}")))?;
        api.create(&params, &new).await.map_err(failed)?;
        return Ok(Applied::Created);
    };
    // A namespace that exists is somebody's: its labels may mean something.
    if object["kind"] == "Namespace" {
        return Ok(Applied::Unchanged);
    }
    let mut patch = object.clone();
    patch["metadata"]["resourceVersion"] = old.metadata.resource_version.clone().into();
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let new = api
        .patch(&name, &params, &Patch::Merge(&patch))
        .await
        .map_err(failed)?;
    let same = new.metadata.resource_version == old.metadata.resource_version;
    Ok(if same {
        Applied::Unchanged
    } else {
        Applied::Changed
    })
}

/// Deletes an object; false if it was gone already.
pub async fn remove(client: &Client, object: &Value) -> Result<bool, Failure> {
    let (api, name) = place(client, object);
    match api.delete(&name, &DeleteParams::background()).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(Failure::of_call(
            &format!("cannot delete {}", title(object)),
            error,
        )),
    }
}
