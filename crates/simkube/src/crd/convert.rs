//! JSON values as CEL sees them.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value;

use super::schema::Node;

/// Words that CEL keeps for itself; fields of these names are spelled `__word__`.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A whole value.
pub(super) fn to_cel(node: Option<&Node>, value: &Value) -> Cel {
    match value {
        Value::Object(map) => {
            let fields = map.iter().map(|(k, v)| field(node, k, v)).collect();
            Cel::Map(Map {
                map: Arc::new(fields),
            })
        }
        other => leaf_or_list(node, other),
    }
}

/// A map with only the fields that a rule reads: the rest, which may be large, is left out.
pub(super) fn to_cel_with(node: &Node, value: &Value, fields: &[String]) -> Cel {
    let Value::Object(map) = value else {
        return to_cel(Some(node), value);
    };
    let read = map
        .iter()
        .filter(|(k, _)| fields.iter().any(|f| *f == escape(k)));
    let read: HashMap<Key, Cel> = read.map(|(k, v)| field(Some(node), k, v)).collect();
    Cel::Map(Map {
        map: Arc::new(read),
    })
}

fn field(node: Option<&Node>, key: &str, value: &Value) -> (Key, Cel) {
    let declared = node.and_then(|n| n.properties.get(key));
    let child = declared.or_else(|| node.and_then(|n| n.additional.as_deref()));
    // Keys of maps are data, not field names, and are not escaped.
    let is_map = node.is_some_and(|n| n.additional.is_some() || n.any_additional);
    let name = if is_map { key.to_owned() } else { escape(key) };
    (Key::String(Arc::new(name)), to_cel(child, value))
}

fn leaf_or_list(node: Option<&Node>, value: &Value) -> Cel {
    match value {
        Value::Null | Value::Object(_) => Cel::Null,
        Value::Bool(b) => Cel::Bool(*b),
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => Cel::Int(i),
            (None, Some(u)) => Cel::UInt(u),
            (None, None) => Cel::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(s) => Cel::String(Arc::new(s.clone())),
        Value::Array(list) => {
            let items = node.and_then(|n| n.items.as_deref());
            Cel::List(Arc::new(
                list.iter().map(|item| to_cel(items, item)).collect(),
            ))
        }
    }
}

/// A field name as a rule has to spell it.
pub(super) fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn field_names_are_spelled_as_rules_expect() {
        assert_eq!(escape("replicas"), "replicas");
        assert_eq!(escape("namespace"), "__namespace__");
        assert_eq!(escape("foo-bar"), "foo__dash__bar");
        assert_eq!(escape("a_b"), "a_b");
        assert_eq!(escape("a__b"), "a__underscores__b");
    }
}
