//! What of a pod shows that Patroni has something new to say.

use crate::ready::is_ready;
use ensemble_api::engine::Engine;
use serde_json::Value;

/// Patroni writes through the API server: the label with its role, and an annotation with what it sees
/// of its PostgreSQL. Of that only what seldom changes counts: positions move with every round. With
/// them counts whether the pod is Ready.
pub(super) fn sign(engine: &Engine, pod: &Value) -> Option<String> {
    let patroni = engine.patroni.as_ref()?;
    let meta = &pod["metadata"];
    let label = &meta["labels"][patroni.role_label.as_str()];
    let said = meta["annotations"]["status"].as_str();
    let said: Value = said
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let ready = is_ready(pod);
    let seldom =
        ["state", "role", "timeline", "replication_state"].map(|key| said[key].to_string());
    Some(format!("{label} {} {ready}", seldom.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patroni() -> Engine {
        serde_json::from_value(json!({"patroni": {}})).unwrap()
    }

    fn pod(label: &str, said: &str, ready: &str) -> Value {
        json!({
            "metadata": {"labels": {"role": label}, "annotations": {"status": said}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    #[test]
    fn a_new_role_state_or_readiness_is_worth_asking_and_a_new_position_is_not() {
        let spec = patroni();
        let said = |state: &str, timeline: u32, position: u32| {
            json!({"state": state, "role": "replica", "timeline": timeline, "xlog_location": position})
                .to_string()
        };
        let of = |label, said: &str, ready| sign(&spec, &pod(label, said, ready));
        let before = of("replica", &said("running", 3, 17), "True");
        assert!(before.is_some());
        assert_eq!(of("replica", &said("running", 3, 18), "True"), before);
        for other in [
            of("master", &said("running", 3, 17), "True"),
            of("replica", &said("stopped", 3, 17), "True"),
            of("replica", &said("running", 4, 17), "True"),
            of("replica", &said("running", 3, 17), "False"),
        ] {
            assert_ne!(other, before);
        }
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_no_error() {
        let spec = patroni();
        assert!(sign(&spec, &pod("replica", "{", "True")).is_some());
        assert!(sign(&spec, &json!({})).is_some());
    }
}
