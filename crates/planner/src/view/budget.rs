//! Disruption budgets, and whom they select.

use super::{Kept, Meta, Unreadable, View, at, list, strings, text};
use crate::kinds::Kind;
use crate::snapshot::Snapshot;
use serde_json::Value;
use std::collections::BTreeMap;

/// A disruption budget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BudgetView {
    /// Metadata.
    pub meta: Meta,
    /// Its `minAvailable`, if an integer.
    pub min_available: Option<i64>,
    /// Whom it selects: None is nobody.
    pub selector: Option<Selector>,
    /// How many pods may be evicted now, as Kubernetes counts.
    pub allowed: i64,
    /// By name: pods whose eviction Kubernetes still waits to see the end of, and since when.
    pub evicted: BTreeMap<String, String>,
}

impl View for BudgetView {
    const KIND: Kind = Kind::Budget;

    fn read(budget: &Value) -> Result<Self, Unreadable> {
        Ok(Self {
            meta: Meta::read(budget),
            min_available: at(budget, "/spec/minAvailable").and_then(Value::as_i64),
            selector: at(budget, "/spec/selector").map(Selector::read),
            allowed: at(budget, "/status/disruptionsAllowed")
                .and_then(Value::as_i64)
                .unwrap_or(0),
            evicted: strings(at(budget, "/status/disruptedPods"), |_| true),
        })
    }
}

impl Kept for BudgetView {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shelf(snap: &mut Snapshot) -> &mut BTreeMap<String, Self> {
        &mut snap.budgets
    }
}

/// A label selector; an empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: BTreeMap<String, String>,
    expressions: Vec<(String, String, Vec<String>)>,
}

impl Selector {
    fn read(selector: &Value) -> Self {
        let expressions = list(selector, "/matchExpressions").map(|e| {
            let values = list(e, "/values").filter_map(|v| v.as_str().map(str::to_owned));
            (text(e, "/key"), text(e, "/operator"), values.collect())
        });
        Self {
            labels: strings(selector.get("matchLabels"), |_| true),
            expressions: expressions.collect(),
        }
    }

    /// Whether it selects an object of these labels.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let by_label = self.labels.iter().all(|(k, v)| labels.get(k) == Some(v));
        by_label
            && self.expressions.iter().all(|(key, operator, values)| {
                let found = labels.get(key);
                match operator.as_str() {
                    "In" => found.is_some_and(|v| values.contains(v)),
                    "NotIn" => found.is_none_or(|v| !values.contains(v)),
                    "Exists" => found.is_some(),
                    "DoesNotExist" => found.is_none(),
                    // An operator newer than we are: better to assume that it selects us.
                    _ => true,
                }
            })
    }
}
