//! What differs from kind to kind: defaults, what a status write may touch,
//! what may change at all.

pub(crate) mod conditions;
mod job;
mod plain;
pub(crate) mod pod;
mod pod_update;
mod service;
mod shape;
mod volume;

use serde_json::{Value, json};

use crate::api::{Server, meta};
use crate::field::{FieldError, FieldErrorKind};
use crate::request::{FieldValidation, Subresource};
use crate::resource::{Info, Resource};
use crate::status::Status;
use crate::value::{copy_key, take, terminating};

/// How an object that a client sent is to be read.
pub(crate) struct Reading<'a> {
    pub validation: FieldValidation,
    /// It is the result of a patch.
    pub patched: bool,
    /// The object it is going to replace.
    pub old: Option<&'a Value>,
}

impl Reading<'_> {
    /// A patch that brings unknown fields is invalid, a whole object unreadable.
    pub fn refuse_unknown(&self, info: &Info, value: &Value, unknown: &[String]) -> Status {
        let list: Vec<String> = unknown
            .iter()
            .map(|p| format!("unknown field \"{p}\""))
            .collect();
        let why = format!("strict decoding error: {}", list.join(", "));
        if !self.patched {
            return unreadable(info, &why);
        }
        // Said before it is known of what kind the result is.
        let nothing = Info {
            group: "".into(),
            kind: "".into(),
            ..info.clone()
        };
        let shown = Some(Value::String(value.to_string()));
        let error = FieldError::of(FieldErrorKind::Invalid, "patch", shown, why);
        let mut status = Status::invalid(&nothing, "", &[error]);
        if let Some(details) = &mut status.details {
            details.name.clear();
        }
        status
    }
}

fn unreadable(info: &Info, why: &str) -> Status {
    let (kind, version) = (&info.kind, &info.version);
    let message = format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}");
    Status::bad_request(message)
}

/// Reads what a client sent: drops (or refuses) unknown fields, fills in defaults.
pub(crate) fn decode(
    server: &Server,
    resource: Resource,
    value: &mut Value,
    reading: &Reading<'_>,
) -> Result<(), Status> {
    if let Some(crd) = server.crd(resource) {
        return crd.decode(value, reading);
    }
    read_shape(server, resource, value, reading)?;
    let same_spec = reading
        .old
        .is_some_and(|o| o.get("spec") == value.get("spec"));
    if same_spec && value.get("spec").is_some() {
        return Ok(());
    }
    match resource {
        Resource::Pods => pod::default(value),
        Resource::PersistentVolumeClaims => volume::default_claim(value),
        Resource::PersistentVolumes => volume::default_volume(value),
        Resource::StorageClasses => volume::default_class(value),
        Resource::Services => service::default(value),
        Resource::Secrets => plain::default_secret(value),
        Resource::Jobs => job::default(value),
        _ => {}
    }
    Ok(())
}

fn read_shape(
    server: &Server,
    resource: Resource,
    value: &mut Value,
    reading: &Reading<'_>,
) -> Result<(), Status> {
    // events.k8s.io/v1 spells some fields differently, in the same store.
    if resource == Resource::Events {
        return Ok(());
    }
    let info = server.info(resource)?;
    let findings = shape::normalise(&info.kind, value, reading.old);
    if let Some(wrong) = &findings.wrong {
        return Err(unreadable(info, wrong));
    }
    if !findings.unknown.is_empty() && reading.validation == FieldValidation::Strict {
        return Err(reading.refuse_unknown(info, value, &findings.unknown));
    }
    Ok(())
}

/// An object into which nothing was read, with what Go shows of it even so.
pub(crate) fn empty(resource: Resource, info: &Info) -> Value {
    let mut object = match resource {
        Resource::Pods => json!({"spec": {"containers": null}, "status": {}}),
        Resource::PersistentVolumeClaims => json!({"spec": {"resources": {}}, "status": {}}),
        Resource::PersistentVolumes => json!({"spec": {}, "status": {}}),
        Resource::Services => json!({"spec": {}, "status": {"loadBalancer": {}}}),
        Resource::Leases => json!({"spec": {}}),
        Resource::ControllerRevisions => json!({"data": null, "revision": 0}),
        Resource::PodDisruptionBudgets => json!({"spec": {}, "status": {
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        }}),
        _ => json!({}),
    };
    object["apiVersion"] = info.api_version().into();
    object["kind"] = (*info.kind).into();
    // A custom resource is a map, of which nothing is always there.
    if !resource.is_custom() {
        object["metadata"] = json!({});
    }
    object
}

/// Mutating admission of a new object.
pub(crate) fn admit_create(
    server: &Server,
    resource: Resource,
    value: &mut Value,
) -> Result<(), Status> {
    match resource {
        Resource::Pods => pod::admit(server, value),
        Resource::PersistentVolumeClaims => {
            volume::admit_claim(server, value);
            Ok(())
        }
        Resource::PersistentVolumes => {
            volume::admit_volume(value);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What the server itself sets on a new object.
pub(crate) fn prepare_create(
    server: &mut Server,
    resource: Resource,
    value: &mut Value,
) -> Result<(), Status> {
    let has_status = server.info(resource)?.status;
    if has_status {
        take(value, "status");
    }
    match resource {
        Resource::Pods => pod::prepare_create(value),
        Resource::PersistentVolumeClaims | Resource::PersistentVolumes => {
            crate::value::set(value, "status.phase", "Pending");
        }
        Resource::Services => service::prepare_create(server, value),
        Resource::Namespaces => plain::prepare_namespace(value),
        Resource::Jobs => job::prepare_create(value),
        Resource::PodDisruptionBudgets => plain::prepare_budget(value),
        _ => {}
    }
    Ok(())
}

/// What is wrong with a new object.
pub(crate) fn validate_create(
    server: &Server,
    resource: Resource,
    value: &Value,
) -> Vec<FieldError> {
    if let Some(crd) = server.crd(resource) {
        return crd.validate(value, None);
    }
    match resource {
        Resource::Pods => pod::validate(value),
        Resource::PersistentVolumeClaims => volume::validate_claim(value),
        Resource::PodDisruptionBudgets => plain::validate_budget(value),
        Resource::Services => service::validate(value),
        Resource::Jobs => job::validate(value),
        _ => Vec::new(),
    }
}

/// Puts back what this endpoint may not change, and raises the generation.
pub(crate) fn prepare_update(
    server: &Server,
    resource: Resource,
    part: Option<Subresource>,
    new: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    let info = server.info(resource)?;
    match part {
        Some(Subresource::Status) => keep_all_but_status(resource, new, old),
        Some(Subresource::Resize) => {
            pod_update::keep_all_but_resources(info, new, old)?;
        }
        _ if info.status => copy_key(old, new, "status"),
        _ => {}
    }
    match resource {
        Resource::Services => service::prepare_update(new, old),
        Resource::Pods if part.is_none() && new.get("spec") != old.get("spec") => {
            pod::admit_update(server, new, old);
        }
        _ => {}
    }
    if info.generation && part != Some(Subresource::Status) && means_change(info.status, new, old) {
        meta::next_generation(new);
    }
    Ok(())
}

fn keep_all_but_status(resource: Resource, new: &mut Value, old: &Value) {
    if resource.is_custom() {
        let status = take(new, "status");
        *new = old.clone();
        match status {
            Some(status) => new["status"] = status,
            None => {
                take(new, "status");
            }
        }
        return;
    }
    copy_key(old, new, "spec");
    if resource == Resource::Pods {
        // Its own strategy forgets this one before anybody could refuse it.
        if !terminating(old) {
            take(new, "metadata.deletionTimestamp");
        }
        let owners = old.pointer("/metadata/ownerReferences").cloned();
        match owners {
            Some(owners) => new["metadata"]["ownerReferences"] = owners,
            None => {
                take(new, "metadata.ownerReferences");
            }
        }
    }
}

/// Whether anything but metadata (and status, where that is separate) differs.
fn means_change(status_apart: bool, new: &Value, old: &Value) -> bool {
    let skip = |key: &str| key == "metadata" || status_apart && key == "status";
    let fields = |v: &Value| {
        v.as_object()
            .map_or(0, |m| m.keys().filter(|k| !skip(k)).count())
    };
    let Some(map) = new.as_object() else {
        return true;
    };
    fields(new) != fields(old) || map.iter().any(|(k, v)| !skip(k) && old.get(k) != Some(v))
}

/// What is wrong with a change.
pub(crate) fn validate_update(
    server: &Server,
    resource: Resource,
    part: Option<Subresource>,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    if let Some(crd) = server.crd(resource) {
        return crd.validate(new, Some(old));
    }
    match (resource, part) {
        (Resource::Pods, None) => pod_update::validate(new, old),
        (Resource::Pods, Some(Subresource::Status)) => pod_update::validate_status(new, old),
        (Resource::Pods, Some(Subresource::Resize)) => pod_update::validate_resize(new, old),
        (Resource::PersistentVolumeClaims, None) => volume::validate_claim_update(new, old),
        (Resource::PersistentVolumes, None) => volume::validate_volume_update(new, old),
        (Resource::Services, None) => service::validate_update(new, old),
        (Resource::PodDisruptionBudgets, None) => plain::validate_budget(new),
        (Resource::ConfigMaps | Resource::Secrets, None) => plain::validate_immutable(new, old),
        (Resource::ControllerRevisions, None) => plain::validate_revision(new, old),
        (Resource::Jobs, None) => job::validate_update(new, old),
        _ => Vec::new(),
    }
}

/// Validating admission of a change.
pub(crate) fn admit_update(
    server: &Server,
    resource: Resource,
    part: Option<Subresource>,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    match (resource, part) {
        (Resource::PersistentVolumeClaims, None) => volume::admit_growth(server, new, old),
        (Resource::Pods, Some(Subresource::Resize)) => pod_update::admit_resize(server, new),
        _ => Ok(()),
    }
}
