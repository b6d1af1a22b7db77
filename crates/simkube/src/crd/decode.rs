//! From what was sent to what is kept: prune, drop nulls, default.

use serde_json::{Map, Value};

use super::schema::Node;

/// Reads an object: prunes it, drops nulls, fills in defaults. Parts that equal
/// those of `old` are left as they are. Returns the paths of unknown fields.
pub(super) fn read(root: &Node, value: &mut Value, old: Option<&Value>) -> Vec<String> {
    let mut unknown = Vec::new();
    let Value::Object(map) = value else {
        return unknown;
    };
    map.retain(|key, v| {
        if is_object_header(key) || old.is_some_and(|o| o.get(key) == Some(v)) {
            return true;
        }
        match child_of(root, key) {
            Some(child) => {
                prune_node(child, v, child.embedded, Path::Top(key), &mut unknown);
                drop_nulls(child, v);
                true
            }
            None if root.keeps_unknown() => true,
            None => {
                unknown.push(key.clone());
                false
            }
        }
    });
    drop_null_fields(root, map);
    default_fields(root, map);
    for (key, v) in map.iter_mut() {
        let seen = old.is_some_and(|o| o.get(key) == Some(v));
        if let Some(child) = child_of(root, key).filter(|_| !seen) {
            apply_defaults(child, v);
        }
    }
    unknown
}

fn is_object_header(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// Where a field is. Written out only for those that nobody knows.
#[derive(Clone, Copy)]
enum Path<'a> {
    Top(&'a str),
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Path::Top(key) => f.write_str(key),
            Path::Field(above, key) => write!(f, "{above}.{key}"),
            Path::Item(list, index) => write!(f, "{list}[{index}]"),
        }
    }
}

fn prune_node(
    node: &Node,
    value: &mut Value,
    header: bool,
    path: Path<'_>,
    unknown: &mut Vec<String>,
) {
    match value {
        Value::Object(map) => prune_map(node, map, header, path, unknown),
        Value::Array(list) => {
            let Some(items) = &node.items else { return };
            for (i, item) in list.iter_mut().enumerate() {
                prune_node(items, item, items.embedded, Path::Item(&path, i), unknown);
            }
        }
        _ => {}
    }
}

fn prune_map(
    node: &Node,
    map: &mut Map<String, Value>,
    header: bool,
    path: Path<'_>,
    unknown: &mut Vec<String>,
) {
    map.retain(|key, value| {
        let path = Path::Field(&path, key);
        if header && is_object_header(key) {
            return true;
        }
        if let Some(child) = node.properties.get(key) {
            prune_node(child, value, child.embedded, path, unknown);
            return true;
        }
        if let Some(child) = &node.additional {
            prune_node(child, value, child.embedded, path, unknown);
            return true;
        }
        let keep = node.keeps_unknown();
        if !keep {
            unknown.push(path.to_string());
        }
        keep
    });
}

/// Removes nulls where the schema allows none and offers no default.
fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            drop_null_fields(node, map);
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

fn drop_null_fields(node: &Node, map: &mut Map<String, Value>) {
    map.retain(|key, v| match child_of(node, key) {
        Some(child) => !v.is_null() || child.nullable || child.default.is_some(),
        None => true,
    });
}

/// Fills in defaults from the top down, so that those of a defaulted map apply too.
fn apply_defaults(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            default_fields(node, map);
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

fn default_fields(node: &Node, map: &mut Map<String, Value>) {
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
}

fn child_of<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.properties.get(key).or(node.additional.as_deref())
}
