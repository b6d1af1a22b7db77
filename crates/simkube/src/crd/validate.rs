//! Schema validation with ratcheting: what did not change is not judged again.

use serde_json::Value;

use super::schema::{ListType, Node, Type};
use crate::field::{FieldError, FieldErrorKind};

/// Checks a value; `old` is its correlated previous value, if there is one.
pub(super) fn schema(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if old == Some(value) {
        return;
    }
    if value.is_null() && node.nullable {
        return;
    }
    if !fits_type(node, value) {
        errors.push(type_error(node, value, path));
        return;
    }
    check_bounds(node, value, path, errors);
    check_values(node, value, path, errors);
    check_logic(node, value, path, errors);
    match value {
        Value::Object(map) => {
            for name in node.required.iter().filter(|name| !map.contains_key(*name)) {
                errors.push(FieldError::required(join(path, name), ""));
            }
            for (key, v) in map {
                if path.is_empty() && matches!(key.as_str(), "metadata" | "apiVersion" | "kind") {
                    continue;
                }
                let before = old.and_then(|o| o.get(key));
                if before == Some(v) {
                    continue;
                }
                if let Some(child) = node.properties.get(key) {
                    schema(child, v, before, &join(path, key), errors);
                } else if let Some(child) = &node.additional {
                    schema(child, v, before, &join(path, key), errors);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = &node.items else { return };
            for (i, item) in list.iter().enumerate() {
                let before = correlated(node, item, old);
                schema(items, item, before, &format!("{path}[{i}]"), errors);
            }
        }
        _ => {}
    }
}

/// The previous value of a list's item: only items of map lists have one.
pub(super) fn correlated<'a>(
    list: &Node,
    item: &Value,
    old: Option<&'a Value>,
) -> Option<&'a Value> {
    let ListType::Map(keys) = &list.list_type else {
        return None;
    };
    let before = old?.as_array()?;
    before.iter().find(|o| {
        keys.iter()
            .all(|k| map_key(list, o, k) == map_key(list, item, k))
    })
}

fn map_key<'a>(list: &'a Node, item: &'a Value, key: &str) -> Option<&'a Value> {
    let default = || list.items.as_ref()?.properties.get(key)?.default.as_ref();
    item.get(key).or_else(default)
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn fits_type(node: &Node, value: &Value) -> bool {
    if node.int_or_string {
        return value.is_string() || is_integer(value);
    }
    match node.kind {
        None => true,
        Some(Type::Object) => value.is_object(),
        Some(Type::Array) => value.is_array(),
        Some(Type::String) => value.is_string(),
        Some(Type::Integer) => is_integer(value),
        Some(Type::Number) => value.is_number(),
        Some(Type::Boolean) => value.is_boolean(),
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0)
}

fn type_error(node: &Node, value: &Value, path: &str) -> FieldError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let wanted = match node.kind {
        _ if node.int_or_string => "integer,string",
        Some(Type::Object) | None => "object",
        Some(Type::Array) => "array",
        Some(Type::String) => "string",
        Some(Type::Integer) => "integer",
        Some(Type::Number) => "number",
        Some(Type::Boolean) => "boolean",
    };
    let detail = format!("{path} in body must be of type {wanted}: \"{found}\"");
    FieldError::of(
        FieldErrorKind::TypeInvalid,
        path,
        Some(found.into()),
        detail,
    )
}

fn check_values(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(values) = &node.values
        && !values.contains(value)
    {
        let known: Vec<String> = values
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .collect();
        let known = known.iter().map(String::as_str);
        errors.push(FieldError::not_supported(path, value.clone(), known));
    }
    if let Some(format) = node.format
        && !format.accepts(value)
    {
        let shown = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let detail = format!(
            "{path} in body must be of type {}: \"{shown}\"",
            format.name()
        );
        errors.push(FieldError::of(
            FieldErrorKind::TypeInvalid,
            path,
            Some(value.clone()),
            detail,
        ));
    }
}

fn check_bounds(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Number(_) => check_number(node, value, path, errors),
        Value::String(s) => errors.extend(check_string(node, s, path)),
        Value::Array(list) => {
            let size = (
                list.len(),
                node.bounds.min_items,
                node.bounds.max_items,
                "items",
            );
            check_size(size, path, errors);
        }
        Value::Object(map) => {
            let bounds = &node.bounds;
            let size = (
                map.len(),
                bounds.min_properties,
                bounds.max_properties,
                "properties",
            );
            check_size(size, path, errors);
        }
        _ => {}
    }
}

/// Only the first thing that is wrong with a string is said.
fn check_string(node: &Node, text: &str, path: &str) -> Option<FieldError> {
    let length = text.chars().count();
    if let Some(max) = node.bounds.max_length.filter(|max| length > *max) {
        let detail = format!("may not be more than {max} bytes");
        return Some(FieldError::of(FieldErrorKind::TooLong, path, None, detail));
    }
    if let Some(min) = node.bounds.min_length.filter(|min| length < *min) {
        let detail = format!("{path} in body should be at least {min} chars long");
        return Some(FieldError::invalid(path, text, detail));
    }
    let (source, pattern) = node.pattern.as_ref()?;
    if pattern.is_match(text) {
        return None;
    }
    let detail = format!("{path} in body should match '{source}'");
    Some(FieldError::invalid(path, text, detail))
}

fn check_size(
    (size, min, max, what): (usize, Option<usize>, Option<usize>, &str),
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if let Some(max) = max.filter(|max| size > *max) {
        let detail = format!("must have at most {max} items");
        errors.push(FieldError::of(
            FieldErrorKind::TooMany,
            path,
            Some(size.into()),
            detail,
        ));
    }
    if let Some(min) = min.filter(|min| size < *min) {
        let detail = format!("{path} in body should have at least {min} {what}");
        errors.push(FieldError::invalid(path, size, detail));
    }
}

fn check_number(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let bounds = &node.bounds;
    let Some(number) = value.as_f64() else { return };
    let mut refuse = |detail: String| {
        errors.push(FieldError::invalid(
            path,
            value.clone(),
            format!("{path} in body {detail}"),
        ));
    };
    if let Some(min) = bounds.minimum {
        if bounds.exclusive_minimum && number <= min {
            refuse(format!("should be greater than {min}"));
        } else if !bounds.exclusive_minimum && number < min {
            refuse(format!("should be greater than or equal to {min}"));
        }
    }
    if let Some(max) = bounds.maximum {
        if bounds.exclusive_maximum && number >= max {
            refuse(format!("should be less than {max}"));
        } else if !bounds.exclusive_maximum && number > max {
            refuse(format!("should be less than or equal to {max}"));
        }
    }
    if let Some(of) = bounds
        .multiple_of
        .filter(|of| *of != 0.0 && number % of != 0.0)
    {
        refuse(format!("should be a multiple of {of}"));
    }
}

/// allOf, anyOf, oneOf and not.
fn check_logic(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for branch in &node.all_of {
        schema(branch, value, None, path, errors);
    }
    let holds = |branch: &Node| {
        let mut inner = Vec::new();
        schema(branch, value, None, path, &mut inner);
        inner.is_empty()
    };
    let mut refuse = |detail: &str| {
        let error = FieldError::of(
            FieldErrorKind::Invalid,
            path,
            None,
            format!("{path} {detail}"),
        );
        errors.push(error);
    };
    if !node.any_of.is_empty() && !node.any_of.iter().any(holds) {
        refuse("in body must validate at least one schema (anyOf)");
    }
    if !node.one_of.is_empty() {
        match node.one_of.iter().filter(|b| holds(b)).count() {
            1 => {}
            0 => refuse("in body must validate one and only one schema (oneOf). Found none valid"),
            n => refuse(&format!(
                "in body must validate one and only one schema (oneOf). Found {n} valid alternatives"
            )),
        }
    }
    if node.not.as_ref().is_some_and(|n| holds(n)) {
        refuse("in body must not validate the schema (not)");
    }
}

/// Items of sets and maps must differ, unless the old object broke that already.
pub(super) fn list_types(
    root: &Node,
    value: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    // What did not change is as the old object had it.
    let changed = |(key, v): &(&String, &Value)| old.and_then(|o| o.get(*key)) != Some(*v);
    let mut changed = value.as_object().into_iter().flatten().filter(changed);
    let again = |(key, v): (&String, &Value)| {
        let child = root.properties.get(key).or(root.additional.as_deref());
        child.is_some_and(|child| has_duplicates(child, v))
    };
    // Hardly ever are there any: paths are only made for those.
    if changed.any(again) && !old.is_some_and(|old| has_duplicates(root, old)) {
        duplicates(root, value, "", errors);
    }
}

fn has_duplicates(node: &Node, value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, v)| {
            let child = node.properties.get(key).or(node.additional.as_deref());
            child.is_some_and(|child| has_duplicates(child, v))
        }),
        Value::Array(list) => {
            let again = |i: usize| list[..i].iter().any(|b| is_same(node, b, &list[i]));
            let below = |items: &Node| list.iter().any(|item| has_duplicates(items, item));
            (1..list.len()).any(again) || node.items.as_deref().is_some_and(below)
        }
        _ => false,
    }
}

/// Whether a list may not have both of two items.
fn is_same(list: &Node, a: &Value, b: &Value) -> bool {
    match &list.list_type {
        ListType::Atomic => false,
        ListType::Set => a == b,
        ListType::Map(keys) => keys
            .iter()
            .all(|k| map_key(list, a, k) == map_key(list, b, k)),
    }
}

fn duplicates(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, v) in map {
                if let Some(child) = node.properties.get(key).or(node.additional.as_deref()) {
                    duplicates(child, v, &join(path, key), errors);
                }
            }
        }
        Value::Array(list) => {
            check_unique(node, list, path, errors);
            let Some(items) = &node.items else { return };
            for (i, item) in list.iter().enumerate() {
                duplicates(items, item, &format!("{path}[{i}]"), errors);
            }
        }
        _ => {}
    }
}

fn check_unique(node: &Node, list: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    for (i, item) in list.iter().enumerate() {
        if list[..i].iter().any(|before| is_same(node, before, item)) {
            let shown = match &node.list_type {
                ListType::Map(keys) => {
                    let pairs = keys
                        .iter()
                        .filter_map(|k| Some((k.clone(), map_key(node, item, k)?.clone())));
                    Value::Object(pairs.collect())
                }
                _ => item.clone(),
            };
            errors.push(FieldError::duplicate(format!("{path}[{i}]"), shown));
        }
    }
}
