//! Objects that may concern several ensembles of a namespace: disruption budgets.
//!
//! Somebody else's budget carries no label of ours and may select any member in its namespace, so all
//! are kept. One that selects by our label concerns that ensemble alone: with hundreds of ensembles in
//! a namespace, each with budgets of its own whose status changes with every pod, telling everybody of
//! everything would cost more than all the rest.

use crate::queue::EnsembleKey;
use crate::stage::text;
use ensemble_api::labels;
use ensemble_conductor::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whom such an object concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The members of one ensemble.
    One(EnsembleKey),
    /// Everybody in a namespace, for all that can be told without looking at pods.
    Namespace(String),
}

impl Audience {
    pub fn of(object: &Value) -> Self {
        let namespace = text(object, "/metadata/namespace").to_owned();
        let ensemble = object
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

type Place = (Kind, String, String);

fn place(kind: Kind, object: &Value) -> Place {
    let field = |path| text(object, path).to_owned();
    (kind, field("/metadata/namespace"), field("/metadata/name"))
}

/// All of them, for conductors that come later.
#[derive(Default)]
pub struct Shared(BTreeMap<Place, Arc<Value>>);

impl Shared {
    /// Takes one in, and gives back the one that it replaces.
    pub fn insert(&mut self, kind: Kind, object: Arc<Value>) -> Option<Arc<Value>> {
        self.0.insert(place(kind, &object), object)
    }

    pub fn remove(&mut self, kind: Kind, object: &Value) {
        self.0.remove(&place(kind, object));
    }

    pub fn replace(&mut self, kind: Kind, objects: Vec<Arc<Value>>) {
        self.0.retain(|place, _| place.0 != kind);
        let placed = objects.into_iter().map(|o| (place(kind, &o), o));
        self.0.extend(placed);
    }

    /// Those of a kind that concern an ensemble.
    pub fn of(&self, kind: Kind, key: &EnsembleKey) -> Vec<Arc<Value>> {
        let from = (kind, key.0.clone(), String::new());
        let here = self
            .0
            .range(from..)
            .take_while(|(place, _)| place.0 == kind && place.1 == key.0);
        let concerning = here
            .map(|(_, object)| object)
            .filter(|object| Audience::of(object).includes(key));
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

    fn names(budgets: &Shared, ensemble: &str) -> Vec<String> {
        let key = ("shop".to_owned(), ensemble.to_owned());
        let of = budgets.of(Kind::Budget, &key);
        let names = of.iter().map(|b| text(b, "/metadata/name").to_owned());
        names.collect()
    }

    #[test]
    fn a_budget_by_our_label_concerns_its_ensemble_and_any_other_everybody_in_the_namespace() {
        let mut budgets = Shared::default();
        budgets.insert(
            Kind::Budget,
            budget("orders", &json!({labels::ENSEMBLE: "orders"})),
        );
        budgets.insert(
            Kind::Budget,
            budget("stock", &json!({labels::ENSEMBLE: "stock"})),
        );
        budgets.insert(Kind::Budget, budget("theirs", &json!({"app": "db"})));
        assert_eq!(names(&budgets, "orders"), ["orders", "theirs"]);
        assert_eq!(names(&budgets, "stock"), ["stock", "theirs"]);
        assert!(
            budgets
                .of(Kind::Pod, &("shop".to_owned(), "orders".to_owned()))
                .is_empty()
        );
        let elsewhere = ("home".to_owned(), "orders".to_owned());
        assert!(budgets.of(Kind::Budget, &elsewhere).is_empty());
    }
    #[test]
    fn a_new_list_replaces_those_of_its_kind_alone() {
        let mut shared = Shared::default();
        shared.insert(Kind::Budget, budget("old", &json!({"app": "db"})));
        shared.insert(Kind::Service, budget("other", &json!({"app": "db"})));
        shared.replace(Kind::Budget, vec![budget("new", &json!({"app": "db"}))]);
        assert_eq!(names(&shared, "orders"), ["new"]);
        let key = ("shop".to_owned(), "orders".to_owned());
        assert_eq!(shared.of(Kind::Service, &key).len(), 1);
    }
}
