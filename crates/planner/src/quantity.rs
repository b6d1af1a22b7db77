//! Amounts of CPU and memory, as Kubernetes writes them.

use serde_json::Value;

/// An amount, in billionths, so that every one that Kubernetes takes can be told from its neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

const UNITS: &[(&str, i128)] = &[
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

const BILLION: i128 = 1_000_000_000;

impl Quantity {
    /// Reads `500m`, `1.5Gi`, `2e3` or a plain number.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// Reads `500m`, `1.5Gi` or `2e3`.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-'));
        let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
        let scale = match unit {
            "" => BILLION,
            "m" => BILLION / 1_000,
            "u" => BILLION / 1_000_000,
            "n" => 1,
            _ => match UNITS.iter().find(|(name, _)| *name == unit) {
                Some((_, factor)) => factor * BILLION,
                None => exponent(unit)?,
            },
        };
        decimal(digits, scale).map(Self)
    }

    /// The sum of two.
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// At least that many thousandths: what a kernel rounds up to.
    pub fn at_least_milli(self, milli: i128) -> Self {
        Self(self.0.max(milli * BILLION / 1_000))
    }

    /// Whether it is nothing at all.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// `e3` and `E3`, as billionths of the unit.
fn exponent(unit: &str) -> Option<i128> {
    let power: i32 = unit.strip_prefix(['e', 'E'])?.parse().ok()?;
    match power {
        0..=18 => Some(BILLION * 10_i128.pow(power.unsigned_abs())),
        -9..0 => Some(BILLION / 10_i128.pow(power.unsigned_abs())),
        _ => None,
    }
}

fn decimal(digits: &str, scale: i128) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let negative = whole.starts_with('-');
    let whole: i128 = match whole {
        "" | "-" | "+" if !fraction.is_empty() => 0,
        whole => whole.parse().ok()?,
    };
    let mut amount = whole.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.chars() {
        place /= 10;
        let part = i128::from(digit.to_digit(10)?) * place;
        amount += if negative { -part } else { part };
    }
    Some(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn the_same_amount_may_be_written_in_many_ways() {
        let same = [
            ("1", "1000m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1Gi", "1024Mi"),
            ("1.5Gi", "1536Mi"),
            ("1G", "1e9"),
            ("2E3", "2k"),
            ("100000u", "100m"),
            ("1048576", "1Mi"),
        ];
        for (one, other) in same {
            assert_eq!(read(one), read(other), "{one} {other}");
        }
        assert_eq!(Quantity::read(&serde_json::json!(2)), Some(read("2")));
        assert!(read("999m") < read("1") && read("1Gi") > read("1G"));
    }

    #[test]
    fn what_is_no_amount_is_none() {
        for text in ["", "x", "1x", "1 Gi", "e", "--1", "1.2.3"] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }
}
