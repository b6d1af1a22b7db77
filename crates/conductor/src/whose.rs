//! Which ensemble an object concerns.

use crate::{Belongs, Kind};
use ensemble_api::labels;
use serde_json::Value;

fn text<'v>(object: &'v Value, path: [&str; 2]) -> Option<&'v str> {
    object.get(path[0])?.get(path[1])?.as_str()
}

/// The name of the Ensemble that controls an object, by its owner.
pub fn owner_of(object: &Value) -> Option<&str> {
    let owners = object.get("metadata")?.get("ownerReferences")?.as_array()?;
    let mut ours = owners.iter().filter(|owner| {
        let is = |field: &str, what: &str| owner.get(field).and_then(Value::as_str) == Some(what);
        let group = owner.get("apiVersion").and_then(Value::as_str);
        let group = group
            .and_then(|v| v.split_once('/'))
            .map(|(group, _)| group);
        owner.get("controller").and_then(Value::as_bool) == Some(true)
            && is("kind", "Ensemble")
            && group == Some(ensemble_api::GROUP)
    });
    ours.next()?.get("name")?.as_str()
}

/// The name of the ensemble that an object concerns; None if it does not concern one alone. Anybody can
/// edit a label: an object that an Ensemble controls is that one's, whatever its label says, so that it
/// is seen as it is and put right.
pub fn ensemble_of(kind: Kind, object: &Value) -> Option<&str> {
    let name = match kind.info().belongs {
        Belongs::Itself => text(object, ["metadata", "name"]),
        Belongs::BySpec => text(object, ["spec", "ensemble"]),
        Belongs::ByLabel => owner_of(object).or_else(|| {
            let labels = object.get("metadata")?.get("labels")?;
            labels.get(labels::ENSEMBLE)?.as_str()
        }),
        Belongs::InNamespace | Belongs::InCluster => None,
    };
    name.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(label: &str, owner: Option<&Value>) -> Value {
        let owners: Vec<&Value> = owner.into_iter().collect();
        json!({"metadata": {"name": "orders-2", "labels": {"ensemble.dev/ensemble": label},
                            "ownerReferences": owners}})
    }

    #[test]
    fn an_edited_label_does_not_give_a_pod_to_another_ensemble() {
        let ours = json!({"apiVersion": "ensemble.dev/v1alpha1", "kind": "Ensemble", "name": "orders",
                          "uid": "u", "controller": true});
        let edited = pod("other", Some(&ours));
        assert_eq!(ensemble_of(Kind::Pod, &edited), Some("orders"));
        let mut lent = ours.clone();
        lent["controller"] = false.into();
        assert_eq!(
            ensemble_of(Kind::Pod, &pod("other", Some(&lent))),
            Some("other")
        );
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "orders",
                         "uid": "u", "controller": true});
        assert_eq!(
            ensemble_of(Kind::Pod, &pod("other", Some(&set))),
            Some("other")
        );
        assert_eq!(ensemble_of(Kind::Claim, &pod("other", None)), Some("other"));
    }
}
