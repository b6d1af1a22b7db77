//! From what was sent to what is kept: prune, drop nulls, default.

use serde_json::{Map, Value};

use super::schema::Node;

/// Removes fields that the schema does not know; returns their paths.
pub(super) fn prune(root: &Node, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_node(root, value, true, "", &mut unknown);
    unknown
}

fn is_object_header(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn prune_node(node: &Node, value: &mut Value, header: bool, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => prune_map(node, map, header, path, unknown),
        Value::Array(list) => {
            let Some(items) = &node.items else { return };
            for (i, item) in list.iter_mut().enumerate() {
                prune_node(
                    items,
                    item,
                    items.embedded,
                    &format!("{path}[{i}]"),
                    unknown,
                );
            }
        }
        _ => {}
    }
}

fn prune_map(
    node: &Node,
    map: &mut Map<String, Value>,
    header: bool,
    path: &str,
    unknown: &mut Vec<String>,
) {
    map.retain(|key, value| {
        if header && is_object_header(key) {
            return true;
        }
        if let Some(child) = node.properties.get(key) {
            prune_node(child, value, child.embedded, &join(path, key), unknown);
            return true;
        }
        if let Some(child) = &node.additional {
            prune_node(child, value, child.embedded, &join(path, key), unknown);
            return true;
        }
        let keep = node.keeps_unknown();
        if !keep {
            unknown.push(join(path, key));
        }
        keep
    });
}

/// Removes nulls where the schema allows none and offers no default.
pub(super) fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, v| match child_of(node, key) {
                Some(child) => !v.is_null() || child.nullable || child.default.is_some(),
                None => true,
            });
            for (key, v) in map.iter_mut() {
                if let Some(child) = child_of(node, key) {
                    drop_nulls(child, v);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                list.iter_mut().for_each(|item| drop_nulls(items, item));
            }
        }
        _ => {}
    }
}

/// Fills in defaults from the top down, so that those of a defaulted map apply too.
pub(super) fn apply_defaults(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in &node.properties {
                let Some(default) = &child.default else {
                    continue;
                };
                let missing = match map.get(key) {
                    None => true,
                    Some(v) => v.is_null() && !child.nullable,
                };
                if missing {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, v) in map.iter_mut() {
                if let Some(child) = child_of(node, key) {
                    apply_defaults(child, v);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                list.iter_mut().for_each(|item| apply_defaults(items, item));
            }
        }
        _ => {}
    }
}

fn child_of<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.properties.get(key).or(node.additional.as_deref())
}
