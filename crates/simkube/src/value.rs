//! Small helpers over JSON values. Paths are dotted (`spec.nodeName`); keys
//! that contain dots, as labels do, are looked up one step at a time.

use std::sync::Arc;

use serde_json::{Map, Value};

/// A Kubernetes object, shared and never changed in place.
pub type Object = Arc<Value>;

/// The value at a dotted path.
pub fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let (mut value, mut rest) = (value, path);
    // Paths are short: a plain loop beats a search routine.
    while let Some(dot) = rest.bytes().position(|b| b == b'.') {
        value = value.as_object()?.get(&rest[..dot])?;
        rest = &rest[dot + 1..];
    }
    value.as_object()?.get(rest)
}

/// The string at a dotted path.
pub fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// The string at a dotted path, or the empty string.
pub fn text_or_empty<'a>(value: &'a Value, path: &str) -> &'a str {
    text(value, path).unwrap_or("")
}

/// The integer at a dotted path.
pub fn int(value: &Value, path: &str) -> Option<i64> {
    at(value, path)?.as_i64()
}

/// Whether the path holds `true`.
pub fn flag(value: &Value, path: &str) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The elements of the list at a dotted path; none if it is absent.
pub fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The map at a dotted path.
pub fn object<'a>(value: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    at(value, path)?.as_object()
}

/// Makes `value` a map if it is not one, and returns it.
pub fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("just made a map"),
    }
}

/// The slot at a dotted path, created with the maps above it.
pub fn slot<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(value, |v, key| {
        let map = as_map(v);
        if !map.contains_key(key) {
            map.insert(key.to_owned(), Value::Null);
        }
        &mut map[key]
    })
}

/// Writes `new` at a dotted path, creating maps on the way.
pub fn set(value: &mut Value, path: &str, new: impl Into<Value>) {
    *slot(value, path) = new.into();
}

/// Writes `new` at a dotted path if nothing, or null, is there.
pub fn set_default(value: &mut Value, path: &str, new: impl Into<Value>) {
    let slot = slot(value, path);
    if slot.is_null() {
        *slot = new.into();
    }
}

/// Removes what is at a dotted path; returns it.
pub fn take(value: &mut Value, path: &str) -> Option<Value> {
    match path.rsplit_once('.') {
        Some((parent, key)) => {
            let mut v = value;
            for step in parent.split('.') {
                v = v.get_mut(step)?;
            }
            v.as_object_mut()?.remove(key)
        }
        None => value.as_object_mut()?.remove(path),
    }
}

/// Copies what `from` has at a top-level key into `to`, or removes it there.
pub fn copy_key(from: &Value, to: &mut Value, key: &str) {
    match from.get(key) {
        same if same == to.get(key) => {}
        Some(v) => {
            as_map(to).insert(key.to_owned(), v.clone());
        }
        None => {
            as_map(to).remove(key);
        }
    }
}

/// The condition of the given type in `status.conditions`.
pub fn condition<'a>(value: &'a Value, kind: &str) -> Option<&'a Value> {
    items(value, "status.conditions")
        .iter()
        .find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
}

/// Whether the condition of the given type is `True`.
pub fn condition_true(value: &Value, kind: &str) -> bool {
    condition(value, kind).is_some_and(|c| text_or_empty(c, "status") == "True")
}

/// `metadata.name`.
pub fn name(value: &Value) -> &str {
    text_or_empty(value, "metadata.name")
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub fn namespace(value: &Value) -> &str {
    text_or_empty(value, "metadata.namespace")
}

/// `metadata.uid`.
pub fn uid(value: &Value) -> &str {
    text_or_empty(value, "metadata.uid")
}

/// `metadata.resourceVersion` as a number; zero if it is absent.
pub fn revision(value: &Value) -> u64 {
    text(value, "metadata.resourceVersion")
        .and_then(|rv| rv.parse().ok())
        .unwrap_or(0)
}

/// Whether `metadata.deletionTimestamp` is set.
pub fn terminating(value: &Value) -> bool {
    at(value, "metadata.deletionTimestamp").is_some_and(|t| !t.is_null())
}

/// The ownerReference with `controller: true`.
pub fn controller_ref(value: &Value) -> Option<&Value> {
    items(value, "metadata.ownerReferences")
        .iter()
        .find(|r| flag(r, "controller"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn setting_a_path_creates_the_maps_above_it() {
        let mut v = json!({"a": 1});
        set(&mut v, "b.c.d", "x");
        assert_eq!(v, json!({"a": 1, "b": {"c": {"d": "x"}}}));
        assert_eq!(take(&mut v, "b.c.d"), Some(json!("x")));
        assert_eq!(v, json!({"a": 1, "b": {"c": {}}}));
        assert_eq!(take(&mut v, "nope.x"), None);
    }
}
