//! Limits on the number of members, and members that are taken out: what the definitions refuse is refused in memory as by a real API
//! server, so that `simulate` says it without a cluster.

use ensemble_rehearsal::forecast::Stage;
use serde_json::{Value, json};

fn orders(replicas: u32, scaling: Value) -> Value {
    json!({
        "apiVersion": "ensemble.dev/v1alpha1",
        "kind": "Ensemble",
        "metadata": {"name": "orders", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "scaling": scaling,
            "template": {"spec": {"containers": [{"name": "db", "image": "db:1"}]}},
        },
    })
}

/// What is said to the Ensemble on a cluster in memory, after another one if one is given.
fn put(before: Option<Value>, wanted: Value) -> Result<(), String> {
    let mut stage = Stage::blank("default", "orders", 3, &[]);
    if let Some(before) = before {
        stage.put(&before).map_err(|status| status.message)?;
    }
    stage.put(&wanted).map_err(|status| status.message)
}

#[test]
fn a_number_outside_of_the_limits_is_refused_with_what_would_do() {
    let limits = json!({"min": 3, "max": 7, "oddOnly": true});
    for (replicas, words) in [
        (1, "below spec.scaling.min; ask for at least"),
        (9, "above spec.scaling.max; ask for at most"),
        (4, "even, and spec.scaling.oddOnly is true; ask for an odd"),
    ] {
        let message = put(None, orders(replicas, limits.clone())).unwrap_err();
        assert!(message.contains(words), "{message}");
        let five = Some(orders(5, limits.clone()));
        let message = put(five, orders(replicas, limits.clone())).unwrap_err();
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(put(None, orders(5, limits)), Ok(()));
}

#[test]
fn limits_that_exclude_each_other_are_refused() {
    let message = put(None, orders(3, json!({"min": 5, "max": 3}))).unwrap_err();
    assert!(message.contains("min is above max"), "{message}");
}

#[test]
fn without_limits_any_number_will_do() {
    for replicas in [0, 2, 4] {
        assert_eq!(put(None, orders(replicas, json!({}))), Ok(()));
        assert_eq!(put(None, orders(replicas, json!(null))), Ok(()));
    }
}

fn without(offline: Value) -> Result<(), String> {
    let mut orders = orders(3, json!(null));
    orders["spec"]["offline"] = offline;
    put(None, orders)
}

#[test]
fn an_entry_of_offline_that_is_no_ordinal_and_no_range_is_refused_with_its_field() {
    for (offline, words) in [
        (
            json!(["5-3"]),
            ["spec.offline[0]", "write the lower ordinal first"],
        ),
        (json!([10_000]), ["spec.offline[0]", "9999"]),
        (json!([2, -1]), ["spec.offline[1]", "0"]),
        (json!(["one"]), ["spec.offline[0]", "[0-9]"]),
        (json!([1, 1]), ["spec.offline[1]", "Duplicate"]),
    ] {
        let message = without(offline).unwrap_err();
        for word in words {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
    }
    assert_eq!(without(json!([1, "3-5", "7", "10-10"])), Ok(()));
}
