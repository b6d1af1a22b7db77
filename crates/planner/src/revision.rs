//! Revisions: what the user wrote about a member, stored under a name made of its content.

use crate::snapshot::Snapshot;
use crate::view::RevisionView;
use ensemble_api::labels;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// FNV-1a, 64 bits: stable for ever, and good enough to name a handful of revisions.
pub fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// JSON with its keys in order: the same content has the same text.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Object(map) => write_map(text, map),
        Value::Array(items) => {
            text.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                write_value(text, item);
            }
            text.push(']');
        }
        Value::String(words) => write_words(text, words),
        other => text.push_str(&other.to_string()),
    }
}

fn write_map(text: &mut String, map: &Map<String, Value>) {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    text.push('{');
    for (n, (key, value)) in entries.into_iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        write_words(text, key);
        text.push(':');
        write_value(text, value);
    }
    text.push('}');
}

/// Plain words stand as they are: a plan is made often, and few need to be escaped.
fn write_words(text: &mut String, words: &str) {
    let plain = |b: u8| b >= 0x20 && b != b'"' && b != b'\\';
    if words.bytes().all(plain) {
        text.push('"');
        text.push_str(words);
        text.push('"');
    } else {
        text.push_str(&Value::from(words).to_string());
    }
}

/// The name of the revision that holds this template: `orders-6f1c9b2d4e`.
pub fn name(ensemble: &str, template: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_map(&mut text, template);
    format!(
        "{ensemble}-{:010x}",
        fnv64(text.as_bytes()) & 0xff_ffff_ffff
    )
}

/// Where the revisions of an ensemble stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Revisions {
    /// The name of the one that the spec asks for.
    pub target: String,
    /// It, once it is stored.
    pub stored: Option<RevisionView>,
    /// The number it has or is to have.
    pub number: i64,
    /// The name of the one that last reached everybody, if it is stored and another one.
    pub base: Option<String>,
    /// Names of all of which the API server makes the same pod as of the target.
    pub same: BTreeSet<String>,
}

impl Revisions {
    /// Looks at what is asked for and what is stored.
    pub fn of(snap: &Snapshot) -> Self {
        let target = snap.from_spec().revision.clone();
        let stored = snap.revisions.get(&target).cloned();
        let highest = snap.revisions.values().map(|r| r.number).max().unwrap_or(0);
        let number = match &stored {
            Some(r) if r.number == highest => r.number,
            // Going back to an old one makes it the newest.
            _ => highest + 1,
        };
        let base = snap.ensemble.status.current_revision();
        let base = (base != target && snap.revisions.contains_key(base)).then(|| base.to_owned());
        let same = same_as(snap, &target);
        Self {
            target,
            stored,
            number,
            base,
            same,
        }
    }

    /// Whether the target is stored under the highest number.
    pub fn settled(&self) -> bool {
        self.stored
            .as_ref()
            .is_some_and(|r| r.number == self.number)
    }

    /// Whether a pod of that revision is what the spec asks for: the same, or one of which the API
    /// server makes the same pod.
    pub fn is_current(&self, revision: &str) -> bool {
        self.same.contains(revision)
    }
}

fn same_as(snap: &Snapshot, target: &str) -> BTreeSet<String> {
    let mut same = BTreeSet::from([target.to_owned()]);
    let mut next = Some(target.to_owned());
    while let Some(name) = next {
        let stored = snap.revisions.get(&name);
        let link = stored
            .and_then(|r| r.meta.annotations.get(labels::SAME_AS))
            .cloned();
        next = link.filter(|l| same.insert(l.clone()));
    }
    same
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_same_text_is_made_as_by_serde_whatever_has_to_be_escaped() {
        let value = json!({"a\"b": ["\u{1}", "\\", "\n", "\u{7f}", "ü", 1.5, null, true]});
        assert_eq!(canonical(&value), value.to_string());
    }

    #[test]
    fn the_order_of_keys_does_not_make_a_revision() {
        let a = json!({"spec": {"a": 1, "b": [1, {"x": "y", "z": null}]}});
        let b = json!({"spec": {"b": [1, {"z": null, "x": "y"}], "a": 1}});
        let name = |v: &Value| name("orders", v.as_object().unwrap());
        assert_eq!(name(&a), name(&b));
        assert_ne!(
            name(&a),
            name(&json!({"spec": {"a": 1, "b": [{"x": "y", "z": null}, 1]}}))
        );
    }
}
