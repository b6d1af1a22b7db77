//! The string and number formats that the API server checks.

use serde_json::Value;

use crate::time::SimTime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    DateTime,
    Date,
    Duration,
    Byte,
    Int32,
    Int64,
    Uuid,
}

impl Format {
    /// Formats without a check, such as `password`, are `None`.
    pub fn parse(name: &str) -> Option<Format> {
        Some(match name {
            "date-time" => Format::DateTime,
            "date" => Format::Date,
            "duration" => Format::Duration,
            "byte" => Format::Byte,
            "int32" => Format::Int32,
            "int64" => Format::Int64,
            "uuid" => Format::Uuid,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::DateTime => "date-time",
            Format::Date => "date",
            Format::Duration => "duration",
            Format::Byte => "byte",
            Format::Int32 => "int32",
            Format::Int64 => "int64",
            Format::Uuid => "uuid",
        }
    }

    pub fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Format::DateTime, Value::String(s)) => SimTime::parse(s).is_some(),
            (Format::Date, Value::String(s)) => SimTime::parse(&format!("{s}T00:00:00Z")).is_some(),
            (Format::Duration, Value::String(s)) => go_duration_nanos(s).is_some(),
            (Format::Byte, Value::String(s)) => is_base64(s),
            (Format::Uuid, Value::String(s)) => is_uuid(s),
            (Format::Int32, Value::Number(n)) => {
                n.as_i64().is_none_or(|n| i32::try_from(n).is_ok())
            }
            (Format::Int64, Value::Number(n)) => n.is_i64() || n.is_f64(),
            _ => true,
        }
    }
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/'))
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|p| p.len()).eq([8, 4, 4, 4, 12])
        && parts
            .iter()
            .all(|p| p.bytes().all(|c| c.is_ascii_hexdigit()))
}

/// `1h30m`, `1.5s`, `100ms`: as Go reads durations.
pub(super) fn go_duration_nanos(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .filter(|n| *n > 0)?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units = [
            ("ns", 1.0),
            ("us", 1e3),
            ("µs", 1e3),
            ("ms", 1e6),
            ("s", 1e9),
            ("m", 6e10),
            ("h", 3.6e12),
        ];
        let (unit, nanos) = units.iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        total += number * nanos;
    }
    if total == 0.0 && !text.contains('0') {
        return None;
    }
    Some(if negative {
        -(total as i64)
    } else {
        total as i64
    })
}
