//! Claims, volumes and storage classes.

use serde_json::{Value, json};

use crate::api::Server;
use crate::field::FieldError;
use crate::quantity::{self, Quantity};
use crate::resource::Resource;
use crate::status::Status;
use crate::value::{at, copy_key, items, name, set, set_default, slot, text, text_or_empty};

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const SIZE: &str = "spec.resources.requests.storage";

pub(super) fn default_claim(claim: &mut Value) {
    if claim.get("spec").is_some_and(Value::is_object) {
        set_default(claim, "spec.volumeMode", "Filesystem");
        if let Some(size) = at(claim, SIZE).and_then(quantity::of) {
            set(claim, SIZE, size.canonical());
        }
    }
}

pub(super) fn default_volume(volume: &mut Value) {
    if volume.get("spec").is_some_and(Value::is_object) {
        set_default(volume, "spec.volumeMode", "Filesystem");
        set_default(volume, "spec.persistentVolumeReclaimPolicy", "Retain");
    }
}

pub(super) fn default_class(class: &mut Value) {
    set_default(class, "reclaimPolicy", "Delete");
    set_default(class, "volumeBindingMode", "Immediate");
}

/// A claim without a class gets the default one; every claim is protected.
pub(super) fn admit_claim(server: &Server, claim: &mut Value) {
    add_finalizer(claim, CLAIM_PROTECTION);
    if at(claim, "spec.storageClassName").is_some() {
        return;
    }
    let default = server
        .store
        .all(Resource::StorageClasses)
        .find(|(_, class)| {
            let annotation = at(class, "metadata.annotations").and_then(|a| a.get(DEFAULT_CLASS));
            annotation.and_then(Value::as_str) == Some("true")
        });
    if let Some((_, class)) = default {
        set(claim, "spec.storageClassName", name(class));
    }
}

pub(super) fn admit_volume(volume: &mut Value) {
    add_finalizer(volume, VOLUME_PROTECTION);
}

fn add_finalizer(value: &mut Value, finalizer: &str) {
    match slot(value, "metadata.finalizers") {
        Value::Array(list) if list.iter().any(|f| f == finalizer) => {}
        Value::Array(list) => list.push(finalizer.into()),
        empty => *empty = json!([finalizer]),
    }
}

pub(super) fn validate_claim(claim: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if items(claim, "spec.accessModes").is_empty() {
        let detail = "at least 1 access mode is required";
        errors.push(FieldError::required("spec.accessModes", detail));
    }
    match at(claim, SIZE) {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(size) if quantity::of(size).is_none_or(|q| q <= Quantity::ZERO) => {
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid(
                "spec.resources[storage]",
                size.clone(),
                detail,
            ));
        }
        Some(_) => {}
    }
    errors
}

const CLAIM_FIXED: &str = "spec is immutable after creation except resources.requests and \
    volumeAttributesClassName for bound claims";

pub(super) fn validate_claim_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_claim(new);
    let Some(spec) = new.get("spec") else {
        return errors;
    };
    let before = old.get("spec").unwrap_or(&Value::Null);
    let mut reverted = spec.clone();
    if text_or_empty(old, "spec.volumeName").is_empty() {
        copy_key(before, &mut reverted, "volumeName");
    }
    let unclassed = text(old, "spec.storageClassName").is_none();
    if unclassed && text_or_empty(old, "spec.volumeName").is_empty() {
        copy_key(before, &mut reverted, "storageClassName");
    }
    let bound = text(old, "status.phase") == Some("Bound");
    if bound {
        copy_key(before, &mut reverted, "volumeAttributesClassName");
        if let Some(size) = at(old, SIZE) {
            set(&mut reverted, "resources.requests.storage", size.clone());
        }
    }
    if reverted != *before {
        errors.push(FieldError::forbidden("spec", CLAIM_FIXED));
        return errors;
    }
    let (now, was) = (
        at(new, SIZE).and_then(quantity::of),
        at(old, SIZE).and_then(quantity::of),
    );
    if bound && now < was {
        let capacity = at(old, "status.capacity.storage").and_then(quantity::of);
        if capacity.is_none_or(|c| now <= Some(c)) {
            let detail = "field can not be less than status.capacity";
            errors.push(FieldError::forbidden(SIZE, detail));
        }
    }
    errors
}

/// A claim grows only if its class lets it.
pub(super) fn admit_growth(server: &Server, new: &Value, old: &Value) -> Result<(), Status> {
    let size = |claim: &Value| at(claim, SIZE).and_then(quantity::of);
    if size(new) <= size(old) {
        return Ok(());
    }
    let class = text(old, "spec.storageClassName").unwrap_or("");
    let class = server.store.get(Resource::StorageClasses, class);
    if class.is_some_and(|c| crate::value::flag(c, "allowVolumeExpansion")) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that \
        provisions the pvc must support resize";
    Err(Status::forbidden(
        server.info(Resource::PersistentVolumeClaims)?,
        name(old),
        why,
    ))
}

const SOURCES: [&str; 6] = ["csi", "local", "hostPath", "nfs", "iscsi", "fc"];

pub(super) fn validate_volume_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let of = |v: &Value, field: &str| at(v, &format!("spec.{field}")).cloned();
    if SOURCES.iter().any(|s| of(new, s) != of(old, s)) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", detail));
    }
    let fixed = [
        ("volumeMode", true),
        ("nodeAffinity", of(old, "nodeAffinity").is_some()),
    ];
    for (field, fixed) in fixed {
        if fixed && of(new, field) != of(old, field) {
            let value = of(new, field).unwrap_or(Value::Null);
            errors.push(FieldError::invalid(
                format!("spec.{field}"),
                value,
                "field is immutable",
            ));
        }
    }
    errors
}
