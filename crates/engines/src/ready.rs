//! Whether a pod is Ready.

use serde_json::Value;

/// By its condition.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let is_ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(is_ready))
}
