//! What differs between two specs, field by field.

use serde_json::Value;

/// Lists are compared by the names of their items where all have one, else by position.
fn keyed(list: &[Value]) -> Option<Vec<(&str, &Value)>> {
    list.iter()
        .map(|item| Some((item.get("name")?.as_str()?, item)))
        .collect()
}

/// `path  old -> new`, in the order of the fields.
pub fn between(old: &Value, new: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    walk("spec", old, new, &mut lines);
    lines
}

fn walk(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let (x, y) = (a.get(key), b.get(key));
                walk(
                    &format!("{path}.{key}"),
                    x.unwrap_or(&Value::Null),
                    y.unwrap_or(&Value::Null),
                    lines,
                );
            }
        }
        (Value::Array(a), Value::Array(b)) => lists(path, a, b, lines),
        _ => lines.push(format!("{path}  {} -> {}", short(old), short(new))),
    }
}

fn lists(path: &str, old: &[Value], new: &[Value], lines: &mut Vec<String>) {
    let (Some(a), Some(b)) = (keyed(old), keyed(new)) else {
        let length = old.len().max(new.len());
        for at in 0..length {
            let item = |list: &[Value]| list.get(at).cloned().unwrap_or(Value::Null);
            walk(&format!("{path}[{at}]"), &item(old), &item(new), lines);
        }
        return;
    };
    let find = |list: &[(&str, &Value)], name: &str| {
        let found = list.iter().find(|(n, _)| *n == name);
        found.map_or(Value::Null, |(_, v)| (*v).clone())
    };
    let mut names: Vec<&str> = a.iter().chain(&b).map(|(n, _)| *n).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        walk(
            &format!("{path}[{name}]"),
            &find(&a, name),
            &find(&b, name),
            lines,
        );
    }
}

/// A value in at most 60 letters.
fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= 60 {
        return text;
    }
    let cut: String = text.chars().take(57).collect();
    format!("{cut}...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_changed_image_is_named_by_its_container() {
        let spec = |image: &str, replicas: u32| {
            json!({"replicas": replicas, "containers": [
                {"name": "exporter", "image": "e:1"}, {"name": "db", "image": image}]})
        };
        let lines = between(&spec("db:1", 3), &spec("db:2", 5));
        assert_eq!(
            lines,
            [
                "spec.containers[db].image  db:1 -> db:2",
                "spec.replicas  3 -> 5"
            ]
        );
        assert!(between(&spec("a", 1), &spec("a", 1)).is_empty());
    }

    #[test]
    fn what_comes_and_goes_is_told_and_long_values_are_cut() {
        let lines = between(&json!({"a": 1}), &json!({"b": "x".repeat(99)}));
        assert_eq!(lines[0], "spec.a  1 -> (none)");
        assert!(lines[1].starts_with("spec.b  (none) -> xxx") && lines[1].len() < 90);
    }
}
