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
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(k, v)| format!("{}:{}", Value::from(k.as_str()), canonical(v)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

/// The name of the revision that holds this template: `orders-6f1c9b2d4e`.
pub fn name(ensemble: &str, template: &Map<String, Value>) -> String {
    let text = canonical(&Value::Object(template.clone()));
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
        let target = name(snap.name(), &snap.ensemble.spec.template.0);
        let stored = snap.revisions.get(&target).cloned();
        let highest = snap.revisions.values().map(|r| r.number).max().unwrap_or(0);
        let number = match &stored {
            Some(r) if r.number == highest => r.number,
            // Going back to an old one makes it the newest.
            _ => highest + 1,
        };
        let base = &snap.ensemble.status.current_revision;
        let base = (*base != target && snap.revisions.contains_key(base)).then(|| base.clone());
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
