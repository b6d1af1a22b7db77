//! Answers without what differs from run to run.

use serde_json::{Map, Value};

use crate::time::SimTime;

/// Replaces uids and versions by numbers in the order in which they appear.
#[derive(Default)]
pub(crate) struct Normaliser {
    uids: Vec<String>,
    versions: Vec<String>,
}

impl Normaliser {
    pub fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) => Value::Object(self.map(map)),
            Value::Array(list) => list.iter().map(|v| self.value(v)).collect(),
            Value::String(s) if is_time(s) => "T".into(),
            Value::String(s) => self.text(s).into(),
            other => other.clone(),
        }
    }

    fn map(&mut self, map: &Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        for (key, value) in map {
            let normal = match (key.as_str(), value) {
                ("managedFields" | "continue", _) => continue,
                // Errors of one object come in the order of a Go map: any.
                ("causes", Value::Array(causes)) => {
                    let mut causes: Vec<Value> = causes.iter().map(|c| self.value(c)).collect();
                    causes.sort_by_key(Value::to_string);
                    Value::Array(causes)
                }
                ("message", Value::String(s)) if s.contains("is invalid: [") => {
                    let start = s.split_once("is invalid: [").map_or(s.as_str(), |(a, _)| a);
                    format!("{start}is invalid: [...]").into()
                }
                ("name", Value::String(s)) if is_generated(map, s) => {
                    format!("{}-----", &s[..s.len() - SUFFIX_LENGTH]).into()
                }
                ("resourceVersion", Value::String(s)) => number("R", &mut self.versions, s).into(),
                _ => self.value(value),
            };
            out.insert(key.clone(), normal);
        }
        out
    }

    /// A sentence without what differs: uids, versions, and Go's own way to
    /// show structures and their differences.
    pub fn text(&mut self, text: &str) -> String {
        let text = text.split("\n@@").next().unwrap_or(text);
        let text = &without_times(&without_structures(text));
        let versions =
            text.to_lowercase().contains("resource version") || text.contains("ResourceVersion");
        let plain = |part: &str| {
            if versions {
                without_numbers(part)
            } else {
                part.to_owned()
            }
        };
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some(at) = find_uid(rest) {
            out.push_str(&plain(&rest[..at]));
            out.push_str(&number("U", &mut self.uids, &rest[at..at + UID_LENGTH]));
            rest = &rest[at + UID_LENGTH..];
        }
        out.push_str(&plain(rest));
        out
    }
}

/// Values that are maps or lists are shown as `{}`, whatever is in them.
fn without_structures(text: &str) -> String {
    const VALUE: &str = "Invalid value: ";
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(VALUE) {
        let (before, value) = rest.split_at(at + VALUE.len());
        out.push_str(before);
        rest = value;
        let end = if value.starts_with("\"{") {
            value.find("}\": ").map(|e| e + 2)
        } else if value.starts_with(['{', '[']) {
            value
                .find("}: ")
                .or_else(|| value.find("]: "))
                .map(|e| e + 1)
        } else {
            None
        };
        if let Some(end) = end {
            out.push_str("{}");
            rest = &value[end..];
        }
    }
    out.push_str(rest);
    out
}

/// Times in sentences, to the second.
fn without_times(text: &str) -> String {
    const LENGTH: usize = "2026-01-01T00:00:00Z".len();
    let mut out = String::new();
    let mut rest = text;
    while let Some(end) = rest.find('Z').map(|z| z + 1) {
        let (before, after) = rest.split_at(end);
        let start = end
            .checked_sub(LENGTH)
            .filter(|s| before.is_char_boundary(*s));
        match start.filter(|s| is_time(&before[*s..])) {
            Some(start) => {
                out.push_str(&before[..start]);
                out.push('T');
            }
            None => out.push_str(before),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Versions in sentences have no order that could be kept.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            other => out.push(other),
        }
    }
    out
}

const UID_LENGTH: usize = 36;
/// How much of a generated name is random.
const SUFFIX_LENGTH: usize = 5;

/// Whether a name was made of `generateName`, which is cut if it is long.
fn is_generated(metadata: &Map<String, Value>, name: &str) -> bool {
    let base = metadata.get("generateName").and_then(Value::as_str);
    let start = name.len().checked_sub(SUFFIX_LENGTH);
    let start = start.and_then(|at| name.get(..at));
    base.zip(start)
        .is_some_and(|(base, start)| base.starts_with(start))
}

fn number(letter: &str, seen: &mut Vec<String>, what: &str) -> String {
    let index = seen.iter().position(|s| s == what).unwrap_or_else(|| {
        seen.push(what.to_owned());
        seen.len() - 1
    });
    format!("{letter}{}", index + 1)
}

fn find_uid(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..=bytes.len().checked_sub(UID_LENGTH)?).find(|start| {
        bytes[*start..*start + UID_LENGTH]
            .iter()
            .enumerate()
            .all(|(i, c)| match i {
                8 | 13 | 18 | 23 => *c == b'-',
                _ => c.is_ascii_hexdigit(),
            })
    })
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && SimTime::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        let mut normaliser = Normaliser::default();
        let normal = normaliser.value(&json!({"metadata": {
            "uid": "00000000-0000-4000-8000-00000000000a", "resourceVersion": "17",
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [],
        }}));
        assert_eq!(
            normal,
            json!({"metadata": {"uid": "U1", "resourceVersion": "R1", "creationTimestamp": "T"}})
        );
        assert_eq!(
            normaliser.text("not (00000000-0000-4000-8000-00000000000a) but it"),
            "not (U1) but it"
        );
        assert_eq!(
            normaliser.text("Zürich at \"2026-01-01T00:00:00Z\": Zoo"),
            "Zürich at \"T\": Zoo"
        );
    }
}
