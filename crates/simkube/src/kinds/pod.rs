//! Pods: defaults and validation of new ones.

use serde_json::{Value, json};

use crate::api::{Server, admission};
use crate::field::FieldError;
use crate::quantity::{self, Quantity};
use crate::resource::Resource;
use crate::status::Status;
use crate::store::key;
use crate::value::{
    as_map, at, items, name, namespace, object, set, set_default, slot, text, text_or_empty,
};

/// Fills in what the API server fills in.
pub(crate) fn default(pod: &mut Value) {
    if !pod.get("spec").is_some_and(Value::is_object) {
        return;
    }
    default_spec(&mut pod["spec"]);
}

pub(crate) fn default_spec(spec: &mut Value) {
    let plain: [(&str, Value); 6] = [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
        ("enableServiceLinks", json!(true)),
    ];
    for (field, value) in plain {
        set_default(spec, field, value);
    }
    for list in ["containers", "initContainers"] {
        if let Some(Value::Array(containers)) = spec.get_mut(list) {
            containers
                .iter_mut()
                .filter(|c| c.is_object())
                .for_each(default_container);
        }
    }
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        volumes
            .iter_mut()
            .filter(|v| v.is_object())
            .for_each(default_volume);
    }
}

fn default_container(container: &mut Value) {
    set_default(container, "terminationMessagePath", "/dev/termination-log");
    set_default(container, "terminationMessagePolicy", "File");
    set_default(container, "resources", json!({}));
    let image = text_or_empty(container, "image").to_owned();
    set_default(container, "imagePullPolicy", pull_policy(&image));
    if let Some(Value::Array(ports)) = container.get_mut("ports") {
        for port in ports {
            set_default(port, "protocol", "TCP");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|p| p.is_object()) {
            default_probe(probe);
        }
    }
    default_resources(container);
}

fn default_probe(probe: &mut Value) {
    for (field, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        set_default(probe, field, value);
    }
    if let Some(get) = probe.get_mut("httpGet").filter(|g| g.is_object()) {
        set_default(get, "path", "/");
        set_default(get, "scheme", "HTTP");
    }
}

/// Quantities get their one spelling; a limit without a request is its own request.
fn default_resources(container: &mut Value) {
    let resources = &mut container["resources"];
    for part in ["limits", "requests"] {
        if let Some(Value::Object(amounts)) = resources.get_mut(part) {
            for amount in amounts.values_mut() {
                if let Some(quantity) = quantity::of(amount) {
                    *amount = quantity.canonical().into();
                }
            }
        }
    }
    let Some(limits) = object(resources, "limits").cloned() else {
        return;
    };
    for (resource, limit) in limits {
        let requests = as_map(slot(resources, "requests"));
        requests.entry(resource).or_insert(limit);
    }
}

fn default_volume(volume: &mut Value) {
    let map = as_map(volume);
    if map.len() == 1 && map.contains_key("name") {
        map.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(source) = map.get_mut(source).filter(|s| s.is_object()) {
            set_default(source, "defaultMode", 420);
        }
    }
}

fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    let tagged =
        image.contains('@') || name.split_once(':').is_some_and(|(_, tag)| tag != "latest");
    if tagged { "IfNotPresent" } else { "Always" }
}

/// Mutating admission: priority, default tolerations, service account.
pub(super) fn admit(server: &Server, pod: &mut Value) -> Result<(), Status> {
    admission::rewrite_new(&server.settings.admission, pod);
    let spec = slot(pod, "spec");
    set_default(spec, "priority", 0);
    set_default(spec, "preemptionPolicy", "PreemptLowerPriority");
    default_tolerations(spec);
    if !server.settings.service_accounts {
        return Ok(());
    }
    set_default(spec, "serviceAccountName", "default");
    let account = text_or_empty(spec, "serviceAccountName").to_owned();
    set(spec, "serviceAccount", account.as_str());
    let namespace = namespace(pod).to_owned();
    if server
        .store
        .get(Resource::ServiceAccounts, &key(&namespace, &account))
        .is_none()
    {
        let why = format!(
            "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
        );
        return Err(Status::forbidden(
            server.info(Resource::Pods)?,
            name(pod),
            &why,
        ));
    }
    Ok(())
}

/// Mutating admission of a change: priority stays, default tolerations come back.
pub(super) fn admit_update(server: &Server, new: &mut Value, old: &Value) {
    admission::rewrite_changed(&server.settings.admission, new, old);
    let spec = slot(new, "spec");
    for field in ["priority", "preemptionPolicy"] {
        if let Some(value) = old.pointer(&format!("/spec/{field}")) {
            set(spec, field, value.clone());
        }
    }
    default_tolerations(spec);
}

/// Every pod tolerates a silent node for a while, also after an update that forgot to say so.
pub(super) fn default_tolerations(spec: &mut Value) {
    for taint in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = items(spec, "tolerations").iter().any(|t| {
            let key = text_or_empty(t, "key");
            let effect = text_or_empty(t, "effect");
            (key == taint || key.is_empty()) && matches!(effect, "" | "NoExecute")
        });
        if !tolerated {
            let toleration = json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            });
            match slot(spec, "tolerations") {
                Value::Array(list) => list.push(toleration),
                empty => *empty = json!([toleration]),
            }
        }
    }
}

pub(super) fn prepare_create(pod: &mut Value) {
    let class = qos_class(pod);
    set(
        pod,
        "status",
        json!({"phase": "Pending", "qosClass": class}),
    );
}

/// Guaranteed, Burstable or BestEffort, from cpu and memory of all containers.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let containers = || {
        items(pod, "spec.containers")
            .iter()
            .chain(items(pod, "spec.initContainers"))
    };
    let amount = |c: &Value, path: &str| at(c, path).and_then(quantity::of);
    let mut guaranteed = true;
    let mut anything = false;
    for container in containers() {
        for resource in ["cpu", "memory"] {
            let limit = amount(container, &format!("resources.limits.{resource}"));
            let request = amount(container, &format!("resources.requests.{resource}"));
            anything |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && limit == request;
        }
    }
    match (anything, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

pub(super) fn validate(pod: &Value) -> Vec<FieldError> {
    validate_spec(pod.get("spec").unwrap_or(&Value::Null), "spec")
}

pub(super) fn validate_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let volumes = volume_names(spec, path, &mut errors);
    let containers = items(spec, "containers");
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names: Vec<&str> = Vec::new();
    for list in ["initContainers", "containers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            let at = format!("{path}.{list}[{i}]");
            validate_container(container, &at, &volumes, &mut names, &mut errors);
        }
    }
    let policy = text_or_empty(spec, "restartPolicy");
    if !matches!(policy, "Always" | "OnFailure" | "Never") {
        let known = ["Always", "Never", "OnFailure"];
        errors.push(FieldError::not_supported(
            format!("{path}.restartPolicy"),
            policy,
            known,
        ));
    }
    if crate::value::int(spec, "terminationGracePeriodSeconds").is_some_and(|s| s < 0) {
        let value = spec["terminationGracePeriodSeconds"].clone();
        let at = format!("{path}.terminationGracePeriodSeconds");
        errors.push(FieldError::invalid(
            at,
            value,
            "must be greater than or equal to 0",
        ));
    }
    errors
}

fn volume_names<'a>(spec: &'a Value, path: &str, errors: &mut Vec<FieldError>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let name = text_or_empty(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(
                format!("{path}.volumes[{i}].name"),
                "",
            ));
        } else if names.contains(&name) {
            errors.push(FieldError::duplicate(
                format!("{path}.volumes[{i}].name"),
                name,
            ));
        }
        names.push(name);
    }
    names
}

fn validate_container<'a>(
    container: &'a Value,
    path: &str,
    volumes: &[&str],
    names: &mut Vec<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    let name = text_or_empty(container, "name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else if names.contains(&name) {
        errors.push(FieldError::duplicate(format!("{path}.name"), name));
    }
    names.push(name);
    if text(container, "image").is_none_or(str::is_empty) {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    }
    for (i, mount) in items(container, "volumeMounts").iter().enumerate() {
        let volume = text_or_empty(mount, "name");
        if !volumes.contains(&volume) {
            errors.push(FieldError::of(
                crate::field::FieldErrorKind::NotFound,
                format!("{path}.volumeMounts[{i}].name"),
                Some(volume.into()),
                "",
            ));
        }
        if text_or_empty(mount, "mountPath").is_empty() {
            errors.push(FieldError::required(
                format!("{path}.volumeMounts[{i}].mountPath"),
                "",
            ));
        }
    }
    validate_resources(container, path, errors);
}

pub(super) fn validate_resources(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for part in ["limits", "requests"] {
        for (resource, amount) in object(container, &format!("resources.{part}"))
            .into_iter()
            .flatten()
        {
            let at = format!("{path}.resources.{part}[{resource}]");
            match quantity::of(amount) {
                None => errors.push(FieldError::invalid(at, amount.clone(), "not a quantity")),
                Some(q) if q < Quantity::ZERO => {
                    let detail = "must be greater than or equal to 0";
                    errors.push(FieldError::invalid(at, amount.clone(), detail));
                }
                Some(_) => {}
            }
        }
    }
    for (resource, request) in object(container, "resources.requests")
        .into_iter()
        .flatten()
    {
        let limit = at(container, "resources.limits").and_then(|l| l.get(resource));
        if let (Some(limit), Some(request_size)) =
            (limit.and_then(quantity::of), quantity::of(request))
            && request_size > limit
        {
            let detail = format!(
                "must be less than or equal to {resource} limit of {}",
                limit.canonical()
            );
            let at = format!("{path}.resources.requests");
            errors.push(FieldError::invalid(at, request.clone(), detail));
        }
    }
}
