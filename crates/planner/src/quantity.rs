//! Amounts of CPU and memory in a template.

pub use kube_quantity::Quantity;

use serde_json::Value;

/// Reads `500m`, `1.5Gi`, `2e3` or a plain number.
pub fn read(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}
