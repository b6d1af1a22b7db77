//! What of a pod shows that its engine has something new to say. Nothing is decided by it: engines are
//! only asked sooner. No I/O.

use ensemble_api::EnsembleSpec;
use serde_json::Value;

/// A word that is another one when it is worth asking; None where nobody can be asked.
///
/// Patroni writes through the API server: the label with its role, and an annotation with what it sees
/// of its PostgreSQL. Of that only what seldom changes counts: positions move with every round. With
/// them counts whether the pod is Ready.
pub fn sign(spec: &EnsembleSpec, pod: &Value) -> Option<String> {
    let patroni = spec.engine.as_ref()?.patroni.as_ref()?;
    let meta = &pod["metadata"];
    let label = &meta["labels"][patroni.role_label.as_str()];
    let said = meta["annotations"]["status"].as_str();
    let said: Value = said
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions.is_some_and(|all| {
        let is_ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
        all.iter().any(is_ready)
    });
    let seldom =
        ["state", "role", "timeline", "replication_state"].map(|key| said[key].to_string());
    Some(format!("{label} {} {ready}", seldom.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(engine: &Value) -> EnsembleSpec {
        let spec = json!({"replicas": 3, "template": {}, "engine": engine});
        serde_json::from_value(spec).unwrap()
    }

    fn pod(label: &str, said: &str, ready: &str) -> Value {
        json!({
            "metadata": {"labels": {"role": label}, "annotations": {"status": said}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    #[test]
    fn a_new_role_state_or_readiness_is_worth_asking_and_a_new_position_is_not() {
        let spec = spec(&json!({"patroni": {}}));
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
        let spec = spec(&json!({"patroni": {}}));
        assert!(sign(&spec, &pod("replica", "{", "True")).is_some());
        assert!(sign(&spec, &json!({})).is_some());
    }

    #[test]
    fn where_nobody_can_be_asked_there_is_no_sign() {
        let labels = spec(&json!({"labels": {"key": "role"}}));
        assert_eq!(sign(&labels, &pod("replica", "{}", "True")), None);
        assert_eq!(sign(&spec(&json!(null)), &json!({})), None);
    }
}
