//! Services: addresses and what may not change.

use serde_json::{Value, json};

use crate::api::Server;
use crate::field::FieldError;
use crate::value::{at, items, set, set_default, text, text_or_empty};

pub(super) fn default(service: &mut Value) {
    if !service.get("spec").is_some_and(Value::is_object) {
        return;
    }
    let spec = &mut service["spec"];
    set_default(spec, "type", "ClusterIP");
    set_default(spec, "sessionAffinity", "None");
    if text_or_empty(spec, "type") != "ExternalName" {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if let Some(Value::Array(ports)) = spec.get_mut("ports") {
        for port in ports {
            set_default(port, "protocol", "TCP");
            let number = port.get("port").cloned().unwrap_or(Value::Null);
            set_default(port, "targetPort", number);
        }
    }
}

pub(super) fn prepare_create(server: &mut Server, service: &mut Value) {
    set(service, "status", json!({"loadBalancer": {}}));
    if text_or_empty(service, "spec.type") == "ExternalName" {
        return;
    }
    if text_or_empty(service, "spec.clusterIP").is_empty() {
        let random = server.ids.random();
        let address = format!("10.96.{}.{}", random >> 8 & 255, random & 255);
        set(service, "spec.clusterIP", address);
    }
    let address = text_or_empty(service, "spec.clusterIP").to_owned();
    set_default(service, "spec.clusterIPs", json!([address]));
    // Without a selector nobody knows which families the endpoints will have.
    let headless = text_or_empty(service, "spec.clusterIP") == "None";
    let open = headless && at(service, "spec.selector").is_none();
    let families = if open {
        json!(["IPv4", "IPv6"])
    } else {
        json!(["IPv4"])
    };
    let policy = if open {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    set_default(service, "spec.ipFamilies", families);
    set_default(service, "spec.ipFamilyPolicy", policy);
}

/// A PUT that leaves out the allocated addresses keeps them.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let path = format!("spec.{field}");
        if let Some(value) = at(old, &path) {
            set_default(new, &path, value.clone());
        }
    }
}

pub(super) fn validate(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let ports = items(service, "spec.ports");
    let headless = text(service, "spec.clusterIP") == Some("None");
    let external = text(service, "spec.type") == Some("ExternalName");
    if ports.is_empty() && !headless && !external {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (i, port) in ports.iter().enumerate() {
        if ports.len() > 1 && text_or_empty(port, "name").is_empty() {
            errors.push(FieldError::required(format!("spec.ports[{i}].name"), ""));
        }
        let number = crate::value::int(port, "port").unwrap_or(0);
        if !(1..=65535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(
                format!("spec.ports[{i}].port"),
                number,
                detail,
            ));
        }
    }
    errors
}

pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate(new);
    let (now, was) = (at(new, "spec.clusterIP"), at(old, "spec.clusterIP"));
    if was.is_some() && now != was && text(new, "spec.type") != Some("ExternalName") {
        let value = at(new, "spec.clusterIPs").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            value,
            "may not change once set",
        ));
    }
    errors
}
