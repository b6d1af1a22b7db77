//! Amounts in objects.

pub(crate) use kube_quantity::Quantity;

use serde_json::Value;

/// Reads an amount that may be written as a string or as a bare number.
pub(crate) fn of(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}
