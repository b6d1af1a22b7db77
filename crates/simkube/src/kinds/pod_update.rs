//! What may change in a pod: images, a few numbers, and resources by their own door.

use serde_json::Value;

use super::pod::{qos_class, validate_resources};
use crate::api::Server;
use crate::field::FieldError;
use crate::quantity::{self, Quantity};
use crate::resource::{Info, Resource};
use crate::status::Status;
use crate::value::{at, copy_key, int, items, name, object, text, text_or_empty};

const ONLY_THESE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate(new: &Value, old: &Value) -> Vec<FieldError> {
    let (Some(new_spec), Some(old_spec)) = (new.get("spec"), old.get("spec")) else {
        return vec![FieldError::required("spec", "")];
    };
    if new_spec == old_spec {
        return Vec::new();
    }
    let mut errors = Vec::new();
    for list in ["containers", "initContainers"] {
        if items(new_spec, list).len() != items(old_spec, list).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{list}"), detail));
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    for (i, container) in items(new_spec, "containers").iter().enumerate() {
        if text_or_empty(container, "image").is_empty() {
            errors.push(FieldError::required(
                format!("spec.containers[{i}].image"),
                "",
            ));
        }
    }
    validate_deadline(new_spec, old_spec, &mut errors);
    validate_tolerations(new_spec, old_spec, &mut errors);
    validate_gates(new_spec, old_spec, &mut errors);
    if errors.is_empty() && reverted(new_spec, old_spec) != *old_spec {
        errors.push(FieldError::forbidden("spec", ONLY_THESE));
    }
    errors
}

/// The new spec with everything that may change put back: what still differs may not.
fn reverted(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    for list in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else {
            continue;
        };
        for (container, before) in containers.iter_mut().zip(items(old, list)) {
            copy_key(before, container, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        copy_key(old, &mut spec, field);
    }
    let negative = int(old, "terminationGracePeriodSeconds").is_some_and(|s| s < 0);
    if negative && int(new, "terminationGracePeriodSeconds") == Some(1) {
        copy_key(old, &mut spec, "terminationGracePeriodSeconds");
    }
    if !items(old, "schedulingGates").is_empty() {
        let kept = object(old, "nodeSelector")
            .into_iter()
            .flatten()
            .all(|(k, v)| at(new, "nodeSelector").and_then(|s| s.get(k)) == Some(v));
        if kept {
            copy_key(old, &mut spec, "nodeSelector");
        }
        if at(old, "affinity.nodeAffinity").is_none() {
            copy_key(old, &mut spec, "affinity");
        }
    }
    spec
}

fn validate_deadline(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.activeDeadlineSeconds";
    match (
        int(new, "activeDeadlineSeconds"),
        int(old, "activeDeadlineSeconds"),
    ) {
        (Some(now), Some(before)) if now > before => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid(PATH, now, detail));
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(PATH, Value::Null, detail));
        }
        _ => {}
    }
}

fn validate_tolerations(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let same_but_seconds = |a: &Value, b: &Value| {
        ["key", "operator", "value", "effect"]
            .iter()
            .all(|f| text(a, f) == text(b, f))
    };
    let kept = items(old, "tolerations").iter().all(|before| {
        items(new, "tolerations")
            .iter()
            .any(|t| same_but_seconds(t, before))
    });
    if !kept {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", detail));
    }
}

fn validate_gates(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let before = items(old, "schedulingGates");
    for gate in items(new, "schedulingGates")
        .iter()
        .filter(|g| !before.contains(g))
    {
        let detail = format!(
            "only deletion is allowed, but found new scheduling gate '{}'",
            text_or_empty(gate, "name")
        );
        errors.push(FieldError::forbidden("spec.schedulingGates", detail));
    }
}

/// A terminated container of a pod that does not restart stays terminated.
pub(super) fn validate_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let class = |p: &Value| text(p, "status.qosClass").map(str::to_owned);
    if class(old).is_some() && class(new) != class(old) {
        let value = at(new, "status.qosClass").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(
            "status.qosClass",
            value,
            "field is immutable",
        ));
    }
    if text_or_empty(old, "spec.restartPolicy") == "Always" {
        return errors;
    }
    for (i, before) in items(old, "status.containerStatuses").iter().enumerate() {
        let Some(exit) = int(before, "state.terminated.exitCode") else {
            continue;
        };
        if exit != 0 && text_or_empty(old, "spec.restartPolicy") == "OnFailure" {
            continue;
        }
        let container = text_or_empty(before, "name");
        let now = items(new, "status.containerStatuses");
        let now = now.iter().find(|c| text_or_empty(c, "name") == container);
        if now.is_some_and(|c| at(c, "state.terminated").is_none()) {
            let path = format!("status.containerStatuses[{i}].state");
            let detail = "may not be transitioned to non-terminated state";
            errors.push(FieldError::forbidden(path, detail));
        }
    }
    errors
}

/// `pods/resize` changes cpu and memory of containers, and nothing else.
pub(super) fn keep_all_but_resources(
    info: &Info,
    new: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    let mut kept = old.clone();
    for list in ["containers", "initContainers"] {
        let path = format!("spec.{list}");
        let (asked, before) = (items(new, &path), items(old, &path));
        let names = |list: &[Value]| -> Vec<String> {
            list.iter()
                .map(|c| text_or_empty(c, "name").to_owned())
                .collect()
        };
        if names(asked) != names(before) {
            let detail = "containers may not be added, removed or reordered on resize";
            let error = FieldError::forbidden(path, detail);
            return Err(Status::invalid(info, name(old), &[error]));
        }
        if let Some(Value::Array(containers)) = kept.pointer_mut(&format!("/spec/{list}")) {
            for (container, asked) in containers.iter_mut().zip(asked) {
                copy_key(asked, container, "resources");
                copy_key(asked, container, "resizePolicy");
            }
        }
    }
    *new = kept;
    Ok(())
}

pub(super) fn validate_resize(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let pairs = items(new, "spec.containers")
        .iter()
        .zip(items(old, "spec.containers"));
    // Said of the whole, which a real server compares.
    if pairs.clone().any(|(new, old)| changes_others(new, old)) {
        let detail = "only cpu and memory resources are mutable";
        errors.push(FieldError::forbidden("spec", detail));
    }
    for (i, (container, before)) in pairs.enumerate() {
        let path = format!("spec.containers[{i}]");
        validate_resources(container, &path, &mut errors);
        for part in ["requests", "limits"] {
            check_kept(container, before, &path, part, &mut errors);
        }
    }
    if qos_class(new) != qos_class(old) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", qos_class(old), detail));
    }
    errors
}

fn check_kept(new: &Value, old: &Value, path: &str, part: &str, errors: &mut Vec<FieldError>) {
    let field = format!("resources.{part}");
    for resource in object(old, &field).into_iter().flatten().map(|(r, _)| r) {
        if at(new, &field).and_then(|r| r.get(resource)).is_none() {
            let detail = format!("resource {part} cannot be removed");
            errors.push(FieldError::forbidden(format!("{path}.{field}"), detail));
        }
    }
}

/// Whether a container asks for another amount of anything but CPU and memory.
fn changes_others(new: &Value, old: &Value) -> bool {
    let others = |container: &Value, part: &str| -> Vec<(String, Value)> {
        let all = object(container, &format!("resources.{part}"));
        let all = all.into_iter().flatten();
        all.filter(|(name, _)| !matches!(name.as_str(), "cpu" | "memory"))
            .map(|(name, amount)| (name.clone(), amount.clone()))
            .collect()
    };
    ["requests", "limits"]
        .iter()
        .any(|part| others(new, part) != others(old, part))
}

/// The requests of a pod must fit what its node could ever give.
pub(super) fn admit_resize(server: &Server, pod: &Value) -> Result<(), Status> {
    let node_name = text_or_empty(pod, "spec.nodeName");
    let Some(node) = server.store.get(Resource::Nodes, node_name) else {
        return Ok(());
    };
    for resource in ["cpu", "memory"] {
        let path = format!("resources.requests.{resource}");
        let requested = items(pod, "spec.containers")
            .iter()
            .filter_map(|c| at(c, &path).and_then(quantity::of))
            .fold(Quantity::ZERO, Quantity::plus);
        let allocatable =
            at(node, &format!("status.allocatable.{resource}")).and_then(quantity::of);
        if allocatable.is_some_and(|a| requested > a) {
            let why = format!("node didn't have enough allocatable resources: {resource}");
            return Err(Status::forbidden(
                server.info(Resource::Pods)?,
                name(pod),
                &why,
            ));
        }
    }
    Ok(())
}
