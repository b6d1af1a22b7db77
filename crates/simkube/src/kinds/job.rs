//! Jobs: defaults and rules.

use serde_json::{Value, json};

use super::pod;
use crate::field::FieldError;
use crate::value::{as_map, at, name, set, set_default, slot, text_or_empty, uid};

pub(super) fn default(job: &mut Value) {
    if !job.get("spec").is_some_and(Value::is_object) {
        return;
    }
    let spec = &mut job["spec"];
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        set(spec, "completions", 1);
    }
    set_default(spec, "parallelism", 1);
    set_default(spec, "backoffLimit", 6);
    set_default(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    set_default(spec, "manualSelector", false);
    set_default(spec, "podReplacementPolicy", "TerminatingOrFailed");
    if spec.pointer("/template/spec").is_some_and(Value::is_object) {
        pod::default_spec(&mut spec["template"]["spec"]);
    }
}

/// A job selects its pods by its own uid.
pub(super) fn prepare_create(job: &mut Value) {
    set(job, "status", json!({}));
    let (own_uid, own_name) = (uid(job).to_owned(), name(job).to_owned());
    let labels = as_map(slot(job, "spec.template.metadata.labels"));
    for (label, value) in [
        ("batch.kubernetes.io/controller-uid", &own_uid),
        ("batch.kubernetes.io/job-name", &own_name),
        ("controller-uid", &own_uid),
        ("job-name", &own_name),
    ] {
        labels.insert(label.to_owned(), value.as_str().into());
    }
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": own_uid}});
    set_default(job, "spec.selector", selector);
}

pub(super) fn validate(job: &Value) -> Vec<FieldError> {
    let spec = at(job, "spec.template.spec").unwrap_or(&Value::Null);
    let mut errors = pod::validate_spec(spec, "spec.template.spec");
    let policy = text_or_empty(spec, "restartPolicy");
    if policy == "Always" {
        let known = ["OnFailure", "Never"];
        errors.push(FieldError::not_supported(
            "spec.template.spec.restartPolicy",
            policy,
            known,
        ));
    }
    errors
}

pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["completions", "selector", "template", "completionMode"] {
        let path = format!("spec.{field}");
        if at(new, &path) != at(old, &path) {
            let value = at(new, &path).cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(path, value, "field is immutable"));
        }
    }
    errors
}
