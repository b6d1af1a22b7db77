//! RFC 7386.

use serde_json::Value;

use crate::value::as_map;

/// Applies a JSON merge patch: maps merge, null removes, everything else replaces.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    let map = as_map(target);
    for (key, value) in patch {
        match value {
            Value::Null => {
                map.remove(key);
            }
            Value::Object(_) => merge(map.entry(key.clone()).or_insert(Value::Null), value),
            other => {
                map.insert(key.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_merges_maps_removes_nulls_and_replaces_lists() {
        let mut v = json!({"a": {"b": 1, "c": 2}, "l": [1, 2], "s": "x"});
        merge(
            &mut v,
            &json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3], "s": {"t": 1}}),
        );
        assert_eq!(
            v,
            json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3], "s": {"t": 1}})
        );
    }
}
