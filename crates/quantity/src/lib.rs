//! Amounts as Kubernetes writes them: `500m`, `1.5`, `2Gi`, `1e3`. Exact, without floating point.

use std::cmp::Ordering;

/// An amount, kept in billionths, which is as fine as Kubernetes has it: what is finer is rounded
/// up, away from zero. What is too large for Kubernetes is the largest that it has.
///
/// The same amount is the same, however it was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    billionths: i128,
    /// Whether it was written with a power of two, and is to be again.
    binary: bool,
}

const BILLION: i128 = 1_000_000_000;
const LARGEST: i128 = i64::MAX as i128 * BILLION;

const BINARY: [(&str, i128); 6] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
];

/// Suffixes and their power of ten in billionths, largest first.
const DECIMAL: [(&str, u32); 10] = [
    ("E", 27),
    ("P", 24),
    ("T", 21),
    ("G", 18),
    ("M", 15),
    ("k", 12),
    ("", 9),
    ("m", 6),
    ("u", 3),
    ("n", 0),
];

impl Quantity {
    /// Nothing at all.
    pub const ZERO: Quantity = Quantity {
        billionths: 0,
        binary: false,
    };

    /// Reads `500m`, `1.5Gi` or `2e3`.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-'));
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let number = Number::read(number)?;
        if let Some((_, size)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Some(Self {
                billionths: number.times(*size, 9),
                binary: true,
            });
        }
        let known = DECIMAL.iter().find(|(name, _)| *name == suffix);
        let power = match known {
            Some((_, power)) => i64::from(*power),
            None => 9 + i64::from(exponent(suffix)?),
        };
        Some(Self {
            billionths: number.times(1, power),
            binary: false,
        })
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            billionths: self.billionths.saturating_add(other.billionths),
            binary: self.binary || other.binary,
        }
    }

    /// At least that many thousandths.
    #[must_use]
    pub fn at_least_milli(self, milli: i64) -> Self {
        let least = i128::from(milli) * (BILLION / 1_000);
        Self {
            billionths: self.billionths.max(least),
            ..self
        }
    }

    /// Whether it is nothing at all.
    pub fn is_zero(self) -> bool {
        self.billionths == 0
    }

    /// The one spelling that an API server stores.
    pub fn canonical(self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let (whole, rest) = (self.billionths / BILLION, self.billionths % BILLION);
        if self.binary && rest == 0 && whole.abs() >= 1024 {
            let fits = BINARY.iter().rev().find(|(_, size)| whole % size == 0);
            return match fits {
                Some((suffix, size)) => format!("{}{suffix}", whole / size),
                None => whole.to_string(),
            };
        }
        let mut sizes = DECIMAL.iter().map(|(s, power)| (s, 10_i128.pow(*power)));
        let fits = sizes.find(|(_, size)| self.billionths % size == 0);
        // Every number of billionths is one of billionths.
        fits.map_or_else(String::new, |(suffix, size)| {
            format!("{}{suffix}", self.billionths / size)
        })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.billionths == other.billionths
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.billionths.cmp(&other.billionths)
    }
}

/// `e3`, `E3` and `e-3`.
fn exponent(suffix: &str) -> Option<i32> {
    suffix.strip_prefix(['e', 'E'])?.parse().ok()
}

/// A decimal number: its digits without the point, and how many of them stand behind it.
struct Number {
    negative: bool,
    /// None if there are too many.
    digits: Option<i128>,
    behind: i64,
}

impl Number {
    fn read(text: &str) -> Option<Self> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            negative,
            digits: all.parse().ok(),
            behind: i64::try_from(fraction.len()).ok()?,
        })
    }

    /// That many times it, and times a power of ten; rounded away from zero, and at most the largest.
    fn times(&self, size: i128, power: i64) -> i128 {
        let power = power - self.behind;
        let zero = self.digits == Some(0);
        let product = self.digits.and_then(|d| d.checked_mul(size));
        let shift = u32::try_from(power.unsigned_abs()).ok();
        let ten = shift.and_then(|s| 10_i128.checked_pow(s));
        let amount = match (product, ten) {
            _ if zero => Some(0),
            (Some(product), Some(ten)) if power >= 0 => product.checked_mul(ten),
            (Some(product), Some(ten)) => Some((product - 1) / ten + 1),
            // Next to nothing, rounded up.
            (Some(_), None) if power < 0 => Some(1),
            _ => None,
        };
        let amount = amount.map_or(LARGEST, |a| a.min(LARGEST));
        if self.negative { -amount } else { amount }
    }
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
            ("5.", "5"),
            ("+5", "5"),
            ("1Gi", "1024Mi"),
            ("1Gi", "1073741824"),
            ("1.5Gi", "1536Mi"),
            ("1G", "1e9"),
            ("1E", "1e18"),
            ("2E3", "2k"),
            ("2e-3", "2m"),
            ("25e-1", "2.5"),
            ("100000u", "100m"),
            ("1000n", "1u"),
            ("1048576", "1Mi"),
            ("-1.5", "-1500m"),
        ];
        for (one, other) in same {
            assert_eq!(read(one), read(other), "{one} {other}");
        }
    }

    #[test]
    fn amounts_are_compared_as_amounts() {
        for (less, more) in [
            ("999m", "1"),
            ("1G", "1Gi"),
            ("1000M", "1Gi"),
            ("-1", "0"),
            ("0.999999999", "1"),
        ] {
            assert!(read(less) < read(more), "{less} {more}");
        }
    }

    #[test]
    fn what_is_finer_than_a_billionth_is_rounded_away_from_zero() {
        assert_eq!(read("0.1n"), read("1n"));
        assert_eq!(read("-0.1n"), read("-1n"));
        assert_eq!(read("1.0000000001"), read("1000000001n"));
        assert_eq!(read("1e-4000"), read("1n"));
        assert_eq!(read("0e-4000"), read("0"));
    }

    #[test]
    fn what_is_too_large_is_the_largest() {
        for text in ["8Ei", "9223372036854775808", "1e30"] {
            assert_eq!(read(text), read("9223372036854775807"), "{text}");
        }
        assert_eq!(read(&"9".repeat(60)), read("9223372036854775807"));
    }

    #[test]
    fn what_is_no_amount_is_none() {
        for text in [
            "", ".", "-", "x", "1x", "1K", "1 Gi", "e", "e3", "Gi", "--1", "1-2", "1.2.3", "1e",
            "1e1.5", "lots",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_amount_has_one_spelling_in_store() {
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
            ("0.5Ki", "512"),
        ] {
            assert_eq!(read(given).canonical(), kept, "{given}");
        }
    }

    #[test]
    fn amounts_are_added_and_held_against_a_least_one() {
        assert_eq!(read("500m").plus(read("1.5")), read("2"));
        assert_eq!(read("1m").at_least_milli(2), read("2m"));
        assert_eq!(read("3m").at_least_milli(2), read("3m"));
        assert!(read("0Gi").is_zero() && Quantity::ZERO.is_zero() && !read("1n").is_zero());
    }
}
