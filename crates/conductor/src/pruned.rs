//! What the API server drops of a status that it takes: the definition in the cluster is older than we
//! are. It is said, and not sent again and again.

use crate::conductor::Conductor;
use crate::{Kind, Time};
use ensemble_api::Reason;
use ensemble_api::status::EnsembleStatus;
use ensemble_planner::memory::{Failure, Key};
use serde_json::Value;
use std::collections::BTreeSet;

/// Where in a status a field is; all items of a list are one.
type Path = Vec<String>;

/// Fields that were sent and did not come back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pruned(BTreeSet<Path>);

/// How many of them are named.
const NAMED: usize = 4;

/// No Ensemble has such a name.
fn key() -> Key {
    (Kind::Ensemble, "status fields".to_owned())
}

impl Pruned {
    fn between(sent: &Value, stored: &Value) -> Self {
        let mut lost = BTreeSet::new();
        collect(sent, stored, &mut Path::new(), &mut lost);
        Self(lost)
    }

    /// Whether two statuses are the same once stored.
    fn same(&self, one: &EnsembleStatus, other: &EnsembleStatus) -> bool {
        self.kept(one) == self.kept(other)
    }

    fn kept(&self, status: &EnsembleStatus) -> Value {
        let mut status = serde_json::to_value(status).unwrap_or_default();
        for path in &self.0 {
            remove(&mut status, path);
        }
        status
    }

    fn names(&self) -> String {
        let names = self.0.iter().map(|path| path.join("."));
        let mut names: Vec<String> = names.take(NAMED).collect();
        if self.0.len() > NAMED {
            names.push("...".into());
        }
        names.join(", ")
    }
}

fn collect(sent: &Value, stored: &Value, path: &mut Path, lost: &mut BTreeSet<Path>) {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            for (name, value) in sent {
                path.push(name.clone());
                match stored.get(name) {
                    Some(stored) => collect(value, stored, path, lost),
                    None => drop(lost.insert(path.clone())),
                }
                path.pop();
            }
        }
        (Value::Array(sent), Value::Array(stored)) => {
            path.push("*".into());
            for (sent, stored) in sent.iter().zip(stored) {
                collect(sent, stored, path, lost);
            }
            path.pop();
        }
        _ => {}
    }
}

fn remove(value: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    match value {
        Value::Array(items) if first == "*" => items.iter_mut().for_each(|v| remove(v, rest)),
        Value::Object(fields) if rest.is_empty() => drop(fields.remove(first)),
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(first) {
                remove(field, rest);
            }
        }
        _ => {}
    }
}

impl Conductor {
    /// A status was taken: what of it was stored?
    pub(crate) fn note_pruned(&mut self, now: Time, new: &EnsembleStatus, answer: &Value) {
        let sent = serde_json::to_value(new).unwrap_or_default();
        let stored = answer.get("status").unwrap_or(&Value::Null);
        self.pruned = Pruned::between(&sent, stored);
        if self.pruned.0.is_empty() {
            self.memory().failures.remove(&key());
            return;
        }
        let message = format!(
            "the API server does not store {} of the status: the definition of the kind Ensemble is \
             older than this controller; `ensemble install` updates it",
            self.pruned.names()
        );
        let before = self.world.snap.memory.failures.get(&key());
        let failure = Failure {
            reason: Reason::StatusPruned,
            message,
            since: before.map_or(now, |f| f.since),
            // Said at once: it does not pass by itself.
            tries: 3,
            retry_at: now,
        };
        self.memory().failures.insert(key(), failure);
    }

    /// Whether a status, once stored, would be the one that is stored.
    pub(crate) fn is_stored(&self, new: &EnsembleStatus) -> bool {
        let stored = &self.world.snap.ensemble.status;
        let new = EnsembleStatus {
            epoch: stored.epoch,
            ..new.clone()
        };
        !self.pruned.0.is_empty() && self.pruned.same(&new, stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_dropped_is_found_in_objects_and_lists_and_what_is_changed_is_not() {
        let sent = json!({"a": 1, "b": {"c": 2, "d": 3}, "l": [{"x": 1, "y": 2}, {"x": 3}]});
        let stored = json!({"a": 7, "b": {"c": 2}, "l": [{"x": 1}, {"x": 3}], "more": true});
        let pruned = Pruned::between(&sent, &stored);
        assert_eq!(pruned.names(), "b.d, l.*.y");
        let mut kept = sent.clone();
        for path in &pruned.0 {
            remove(&mut kept, path);
        }
        assert_eq!(
            kept,
            json!({"a": 1, "b": {"c": 2}, "l": [{"x": 1}, {"x": 3}]})
        );
        assert!(Pruned::between(&sent, &sent).0.is_empty());
    }
}
