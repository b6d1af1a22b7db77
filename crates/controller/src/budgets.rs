//! Which disruption budgets concern which ensembles.
//!
//! Somebody else's budget carries no label of ours and may select any member in its namespace, so all
//! are kept. One that selects by our label concerns that ensemble alone: with hundreds of ensembles in
//! a namespace, each with budgets of its own whose status changes with every pod, telling everybody of
//! everything would cost more than all the rest.

use crate::queue::EnsembleKey;
use crate::stage::text;
use ensemble_api::labels;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whom a budget concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The members of one ensemble.
    One(EnsembleKey),
    /// Everybody in a namespace, for all that can be told without looking at pods.
    Namespace(String),
}

impl Audience {
    pub fn of(budget: &Value) -> Self {
        let namespace = text(budget, "/metadata/namespace").to_owned();
        let ensemble = budget
            .pointer("/spec/selector/matchLabels")
            .and_then(|labels| labels.get(labels::ENSEMBLE)?.as_str());
        match ensemble {
            Some(name) => Self::One((namespace, name.to_owned())),
            None => Self::Namespace(namespace),
        }
    }

    pub fn includes(&self, key: &EnsembleKey) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Namespace(namespace) => *namespace == key.0,
        }
    }
}

fn place(budget: &Value) -> (String, String) {
    let field = |path| text(budget, path).to_owned();
    (field("/metadata/namespace"), field("/metadata/name"))
}

/// All budgets, for conductors that come later.
#[derive(Default)]
pub struct Budgets(BTreeMap<(String, String), Arc<Value>>);

impl Budgets {
    /// Takes one in, and gives back the one that it replaces.
    pub fn insert(&mut self, budget: Arc<Value>) -> Option<Arc<Value>> {
        self.0.insert(place(&budget), budget)
    }

    pub fn remove(&mut self, budget: &Value) {
        self.0.remove(&place(budget));
    }

    pub fn replace(&mut self, budgets: Vec<Arc<Value>>) {
        self.0 = budgets.into_iter().map(|b| (place(&b), b)).collect();
    }

    /// Those that concern an ensemble.
    pub fn of(&self, key: &EnsembleKey) -> Vec<Arc<Value>> {
        let from = (key.0.clone(), String::new());
        let here = self.0.range(from..).take_while(|(p, _)| p.0 == key.0);
        let budgets = here.map(|(_, budget)| budget);
        let concerning = budgets.filter(|b| Audience::of(b).includes(key));
        concerning.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn budget(name: &str, labels: &Value) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"selector": {"matchLabels": labels}},
        }))
    }

    fn names(budgets: &Budgets, ensemble: &str) -> Vec<String> {
        let key = ("shop".to_owned(), ensemble.to_owned());
        let of = budgets.of(&key);
        let names = of.iter().map(|b| text(b, "/metadata/name").to_owned());
        names.collect()
    }

    #[test]
    fn a_budget_by_our_label_concerns_its_ensemble_and_any_other_everybody_in_the_namespace() {
        let mut budgets = Budgets::default();
        budgets.insert(budget("orders", &json!({labels::ENSEMBLE: "orders"})));
        budgets.insert(budget("stock", &json!({labels::ENSEMBLE: "stock"})));
        budgets.insert(budget("theirs", &json!({"app": "db"})));
        assert_eq!(names(&budgets, "orders"), ["orders", "theirs"]);
        assert_eq!(names(&budgets, "stock"), ["stock", "theirs"]);
        let elsewhere = ("home".to_owned(), "orders".to_owned());
        assert!(budgets.of(&elsewhere).is_empty());
    }
}
