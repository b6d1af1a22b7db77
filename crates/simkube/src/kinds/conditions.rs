//! Conditions, as pods and disruption budgets carry them.

use serde_json::{Map, Value, json};

use crate::time::SimTime;
use crate::value::{int, slot, text_or_empty};

/// A condition to be set.
#[derive(Clone, Debug)]
pub(crate) struct Condition<'a> {
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
    /// Pods show `lastProbeTime: null`.
    pub probe_time: bool,
    pub observed_generation: Option<i64>,
}

impl<'a> Condition<'a> {
    pub fn pod(kind: &'a str, status: bool) -> Condition<'a> {
        let status = if status { "True" } else { "False" };
        Condition {
            kind,
            status,
            reason: "",
            message: "",
            probe_time: true,
            observed_generation: None,
        }
    }

    pub fn because(mut self, reason: &'a str, message: &'a str) -> Condition<'a> {
        self.reason = reason;
        self.message = message;
        self
    }

    pub fn at_generation(mut self, generation: Option<i64>) -> Condition<'a> {
        self.observed_generation = generation;
        self
    }

    fn write(&self, into: &mut Map<String, Value>, now: SimTime) {
        let changed = into.get("status").and_then(Value::as_str) != Some(self.status);
        into.insert("type".into(), self.kind.into());
        into.insert("status".into(), self.status.into());
        if changed {
            into.insert("lastTransitionTime".into(), now.rfc3339().into());
        }
        if self.probe_time {
            into.entry("lastProbeTime").or_insert(Value::Null);
        }
        for (field, text) in [("reason", self.reason), ("message", self.message)] {
            if text.is_empty() {
                into.remove(field);
            } else {
                into.insert(field.into(), text.into());
            }
        }
        if let Some(generation) = self.observed_generation {
            into.insert("observedGeneration".into(), generation.into());
        }
    }
}

/// Sets a condition in `status.conditions`, keeping its transition time if the status stays.
pub(crate) fn set(object: &mut Value, now: SimTime, condition: &Condition<'_>) {
    set_in(slot(object, "status.conditions"), now, condition);
}

/// Sets a condition in a list of conditions.
pub(crate) fn set_in(list: &mut Value, now: SimTime, condition: &Condition<'_>) {
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Value::Array(list) = list else { return };
    let found = list
        .iter_mut()
        .find(|c| text_or_empty(c, "type") == condition.kind);
    match found {
        Some(Value::Object(existing)) => condition.write(existing, now),
        _ => {
            let mut fresh = Map::new();
            condition.write(&mut fresh, now);
            list.push(Value::Object(fresh));
        }
    }
}

/// Removes a condition.
pub(crate) fn remove(object: &mut Value, kind: &str) {
    if let Some(Value::Array(list)) = object.pointer_mut("/status/conditions") {
        list.retain(|c| text_or_empty(c, "type") != kind);
    }
}

/// Sets DisruptionAllowed of a budget from its numbers.
pub(crate) fn budget(object: &mut Value, now: SimTime) {
    let allowed = int(object, "status.disruptionsAllowed").unwrap_or(0) > 0;
    let condition = Condition {
        kind: "DisruptionAllowed",
        status: if allowed { "True" } else { "False" },
        reason: if allowed {
            "SufficientPods"
        } else {
            "InsufficientPods"
        },
        message: "",
        probe_time: false,
        observed_generation: int(object, "status.observedGeneration"),
    };
    set(object, now, &condition);
    keep_message(object, "DisruptionAllowed");
}

/// metav1.Condition always shows its message, also an empty one.
pub(crate) fn keep_message(object: &mut Value, kind: &str) {
    if let Some(Value::Array(list)) = object.pointer_mut("/status/conditions") {
        for condition in list.iter_mut().filter(|c| text_or_empty(c, "type") == kind) {
            if condition.get("message").is_none() {
                condition["message"] = json!("");
            }
        }
    }
}
