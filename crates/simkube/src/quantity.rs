//! Kubernetes quantities: `100m`, `1.5`, `2Gi`, `1e3`.

use serde_json::Value;

/// An amount, kept in billionths so that nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity {
    nanos: i128,
    binary: bool,
}

const NANO: i128 = 1_000_000_000;
const BINARY: [(&str, i128); 6] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
];
/// Suffix and its size in billionths, largest first.
const DECIMAL: [(&str, i128); 10] = [
    ("E", NANO * 1_000_000_000_000_000_000),
    ("P", NANO * 1_000_000_000_000_000),
    ("T", NANO * 1_000_000_000_000),
    ("G", NANO * 1_000_000_000),
    ("M", NANO * 1_000_000),
    ("k", NANO * 1000),
    ("", NANO),
    ("m", 1_000_000),
    ("u", 1000),
    ("n", 1),
];

impl Quantity {
    pub const ZERO: Quantity = Quantity {
        nanos: 0,
        binary: false,
    };

    pub fn parse(text: &str) -> Option<Quantity> {
        let end = text
            .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        if let Some((_, size)) = BINARY.iter().find(|(s, _)| *s == suffix) {
            return Some(Quantity {
                nanos: scaled(number, size * NANO)?,
                binary: true,
            });
        }
        if let Some((_, size)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
            return Some(Quantity {
                nanos: scaled(number, *size)?,
                binary: false,
            });
        }
        let exponent: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        let size = 10_i128.checked_pow(exponent)?.checked_mul(NANO)?;
        Some(Quantity {
            nanos: scaled(number, size)?,
            binary: false,
        })
    }

    /// Reads a quantity that may be written as a string or as a bare number.
    pub fn of(value: &Value) -> Option<Quantity> {
        match value {
            Value::String(s) => Quantity::parse(s),
            Value::Number(n) => Quantity::parse(&n.to_string()),
            _ => None,
        }
    }

    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity {
            nanos: self.nanos + other.nanos,
            binary: self.binary || other.binary,
        }
    }

    /// The one spelling that the API server stores.
    pub fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let whole = self.nanos % NANO == 0;
        if self.binary && whole && (self.nanos / NANO).abs() >= 1024 {
            let n = self.nanos / NANO;
            return match BINARY.iter().rev().find(|(_, size)| n % size == 0) {
                Some((suffix, size)) => format!("{}{suffix}", n / size),
                None => n.to_string(),
            };
        }
        let found = DECIMAL.iter().find(|(_, size)| self.nanos % size == 0);
        found.map_or_else(String::new, |(suffix, size)| {
            format!("{}{suffix}", self.nanos / size)
        })
    }
}

fn scaled(number: &str, size: i128) -> Option<i128> {
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let parse = |s: &str| {
        if s.is_empty() {
            Some(0)
        } else {
            s.parse::<i128>().ok()
        }
    };
    let mut total = parse(whole)?.checked_mul(size)?;
    if !fraction.is_empty() {
        let unit = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let part = parse(fraction)?.checked_mul(size)?;
        // Amounts below a billionth are rounded up, away from zero.
        total += (part + unit - 1) / unit;
    }
    Some(if negative { -total } else { total })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_spelling() {
        for (given, kept) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("0.5Gi", "512Mi"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1e3", "1k"),
            ("0", "0"),
            ("100Mi", "100Mi"),
            ("1.5Gi", "1536Mi"),
        ] {
            assert_eq!(Quantity::parse(given).unwrap().canonical(), kept, "{given}");
        }
        assert_eq!(Quantity::parse("much"), None);
        assert!(Quantity::parse("1Gi").unwrap() > Quantity::parse("1000M").unwrap());
    }
}
