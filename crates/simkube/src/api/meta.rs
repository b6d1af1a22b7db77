//! Metadata: what clients may say, what only the server says.

use serde_json::{Map, Value};

use super::names::{
    LABEL_RULE, LABEL_VALUE_RULE, QUALIFIED_RULE, SUBDOMAIN_RULE, is_label, is_qualified,
    is_subdomain, is_word,
};
use crate::field::FieldError;
use crate::resource::{Info, Resource};
use crate::value::{as_map, at, flag, items, object, slot, take, terminating, text, text_or_empty};

const KNOWN: [&str; 13] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];

const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

/// Brings metadata into the form it is stored in: known fields only, nothing
/// empty, each owner once. managedFields are not modelled and dropped.
pub(crate) fn canonical(value: &mut Value) {
    let meta = as_map(slot(value, "metadata"));
    meta.retain(|k, v| KNOWN.contains(&k.as_str()) && !is_empty(v));
    if let Some(Value::Array(owners)) = meta.get_mut("ownerReferences") {
        let mut seen: Vec<String> = Vec::new();
        owners.retain(|o| {
            let uid = text_or_empty(o, "uid").to_owned();
            let new = uid.is_empty() || !seen.contains(&uid);
            seen.push(uid);
            new
        });
        for owner in owners {
            as_map(owner).retain(|_, v| !v.is_null());
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Takes away what only the server may set on a new object.
pub(crate) fn wipe_for_create(value: &mut Value) {
    let meta = as_map(slot(value, "metadata"));
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "selfLink",
        "resourceVersion",
    ] {
        meta.remove(field);
    }
}

/// Puts back what an update may not change.
pub(crate) fn keep_for_update(new: &mut Value, old: &Value) {
    let old_meta = object(old, "metadata");
    let was = |field: &str| old_meta.and_then(|m| m.get(field));
    let meta = as_map(slot(new, "metadata"));
    restore(meta, "generation", was("generation"));
    restore(meta, "creationTimestamp", was("creationTimestamp"));
    if !meta.contains_key("uid") {
        restore(meta, "uid", was("uid"));
    }
    if was("deletionTimestamp").is_some() {
        restore(meta, "deletionTimestamp", was("deletionTimestamp"));
    }
    if !meta.contains_key("deletionGracePeriodSeconds") {
        restore(
            meta,
            "deletionGracePeriodSeconds",
            was("deletionGracePeriodSeconds"),
        );
    }
}

fn restore(meta: &mut Map<String, Value>, field: &str, old: Option<&Value>) {
    match old {
        Some(v) => {
            meta.insert(field.to_owned(), v.clone());
        }
        None => {
            meta.remove(field);
        }
    }
}

/// Rules that hold for the metadata of every object.
pub(crate) fn validate(resource: Resource, info: &Info, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_name(resource, value, &mut errors);
    if info.namespaced && text_or_empty(value, "metadata.namespace").is_empty() {
        errors.push(FieldError::required("metadata.namespace", ""));
    }
    validate_labels(value, &mut errors);
    validate_annotations(value, &mut errors);
    validate_owners(value, &mut errors);
    validate_finalizers(value, &mut errors);
    errors
}

fn validate_name(resource: Resource, value: &Value, errors: &mut Vec<FieldError>) {
    let name = text_or_empty(value, "metadata.name");
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
        return;
    }
    let label = matches!(resource, Resource::Services | Resource::Namespaces);
    let (fits, rule) = if label {
        (is_label(name), LABEL_RULE)
    } else {
        (is_subdomain(name), SUBDOMAIN_RULE)
    };
    if !fits {
        errors.push(FieldError::invalid("metadata.name", name, rule));
    }
}

fn validate_labels(value: &Value, errors: &mut Vec<FieldError>) {
    for (key, v) in object(value, "metadata.labels").into_iter().flatten() {
        if !is_qualified(key) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                key.as_str(),
                QUALIFIED_RULE,
            ));
        }
        let word = v.as_str().unwrap_or("");
        if word.len() > 63 {
            errors.push(FieldError::invalid(
                "metadata.labels",
                word,
                "must be no more than 63 bytes",
            ));
        } else if !is_word(word) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                word,
                LABEL_VALUE_RULE,
            ));
        }
    }
}

fn validate_annotations(value: &Value, errors: &mut Vec<FieldError>) {
    let mut total = 0;
    for (key, v) in object(value, "metadata.annotations").into_iter().flatten() {
        if !is_qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid(
                "metadata.annotations",
                key.as_str(),
                QUALIFIED_RULE,
            ));
        }
        total += key.len() + v.as_str().map_or(0, str::len);
    }
    if total > ANNOTATIONS_MAX_BYTES {
        let detail = format!("may not be more than {ANNOTATIONS_MAX_BYTES} bytes");
        errors.push(FieldError::of(
            crate::field::FieldErrorKind::TooLong,
            "metadata.annotations",
            None,
            detail,
        ));
    }
}

fn validate_owners(value: &Value, errors: &mut Vec<FieldError>) {
    let mut controller: Option<&Value> = None;
    for owner in items(value, "metadata.ownerReferences") {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text_or_empty(owner, field).is_empty() {
                // The API server does not say which of them.
                let path = format!("metadata.ownerReferences.{field}");
                let detail = match field {
                    "apiVersion" => "version must not be empty",
                    _ => "must not be empty",
                };
                errors.push(FieldError::invalid(path, "", detail));
            }
        }
        if flag(owner, "controller") {
            match controller {
                None => controller = Some(owner),
                Some(first) => errors.push(second_controller(value, first, owner)),
            }
        }
    }
}

fn second_controller(value: &Value, first: &Value, second: &Value) -> FieldError {
    let owners = at(value, "metadata.ownerReferences")
        .cloned()
        .unwrap_or(Value::Null);
    let who = |o: &Value| format!("{}/{}", text_or_empty(o, "kind"), text_or_empty(o, "name"));
    let detail = format!(
        "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
        who(first),
        who(second)
    );
    FieldError::invalid("metadata.ownerReferences", owners, detail)
}

fn validate_finalizers(value: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = items(value, "metadata.finalizers");
    for (i, finalizer) in finalizers.iter().filter_map(Value::as_str).enumerate() {
        if !is_qualified(finalizer) {
            let path = format!("metadata.finalizers[{i}]");
            errors.push(FieldError::invalid(path, finalizer, QUALIFIED_RULE));
        }
    }
    let has = |name: &str| finalizers.iter().any(|f| f.as_str() == Some(name));
    if has("orphan") && has("foregroundDeletion") {
        let all = Value::Array(finalizers.to_vec());
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", all, detail));
    }
}

/// Rules for a change of metadata.
pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    const IMMUTABLE: &str = "field is immutable";
    let mut errors = Vec::new();
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let path = format!("metadata.{field}");
        let (now, before) = (at(new, &path), at(old, &path));
        if now != before {
            let value = now.cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(path, value, IMMUTABLE));
        }
    }
    if terminating(old) {
        let before = items(old, "metadata.finalizers");
        let added: Vec<&str> = items(new, "metadata.finalizers")
            .iter()
            .filter(|f| !before.contains(f))
            .filter_map(Value::as_str)
            .collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|f| format!("\"{f}\"")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    errors
}

/// Raises `metadata.generation` by one.
pub(crate) fn next_generation(value: &mut Value) {
    let generation = slot(value, "metadata.generation");
    *generation = (generation.as_i64().unwrap_or(0) + 1).into();
}

/// The namespace to use for an object sent to `namespace`; an error if both disagree.
pub(crate) fn namespace_mismatch(value: &Value, namespace: &str) -> bool {
    text(value, "metadata.namespace").is_some_and(|n| !n.is_empty() && n != namespace)
}

/// Removes `metadata.resourceVersion`, as dry-run creation does.
pub(crate) fn without_revision(mut value: Value) -> Value {
    take(&mut value, "metadata.resourceVersion");
    value
}
