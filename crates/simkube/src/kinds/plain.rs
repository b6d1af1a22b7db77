//! Kinds with few rules of their own.

use serde_json::{Value, json};

use crate::field::FieldError;
use crate::value::{as_map, at, flag, name, set, set_default, slot, take};

pub(super) fn prepare_namespace(namespace: &mut Value) {
    let own_name = name(namespace).to_owned();
    as_map(slot(namespace, "metadata.labels"))
        .insert("kubernetes.io/metadata.name".to_owned(), own_name.into());
    set(namespace, "spec", json!({"finalizers": ["kubernetes"]}));
    set(namespace, "status", json!({"phase": "Active"}));
}

/// A budget that nobody has computed yet allows nothing.
pub(super) fn prepare_budget(budget: &mut Value) {
    let nothing = json!({
        "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
    });
    set(budget, "status", nothing);
}

/// `stringData` is written into `data`, encoded, and forgotten.
pub(super) fn default_secret(secret: &mut Value) {
    set_default(secret, "type", "Opaque");
    let Some(Value::Object(plain)) = take(secret, "stringData") else {
        return;
    };
    let data = as_map(slot(secret, "data"));
    for (key, text) in plain {
        data.insert(key, base64(text.as_str().unwrap_or("").as_bytes()).into());
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0_u8; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(char::from(LETTERS[(bits >> (18 - 6 * i) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

pub(super) fn validate_budget(budget: &Value) -> Vec<FieldError> {
    let both =
        at(budget, "spec.minAvailable").is_some() && at(budget, "spec.maxUnavailable").is_some();
    if !both {
        return Vec::new();
    }
    let value = budget.get("spec").cloned().unwrap_or(Value::Null);
    let detail = "minAvailable and maxUnavailable cannot be both set";
    vec![FieldError::invalid("spec", value, detail)]
}

pub(super) fn validate_immutable(new: &Value, old: &Value) -> Vec<FieldError> {
    if !flag(old, "immutable") {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if !flag(new, "immutable") {
        let detail = "field is immutable when `immutable` is set";
        errors.push(FieldError::forbidden("immutable", detail));
    }
    for field in ["data", "binaryData"] {
        if new.get(field) != old.get(field) {
            let detail = "field is immutable when `immutable` is set";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    errors
}

pub(super) fn validate_revision(new: &Value, old: &Value) -> Vec<FieldError> {
    if new.get("data") == old.get("data") {
        return Vec::new();
    }
    let value = new.get("data").cloned().unwrap_or(Value::Null);
    vec![FieldError::invalid("data", value, "field is immutable")]
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_pads_as_it_should() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }
}
