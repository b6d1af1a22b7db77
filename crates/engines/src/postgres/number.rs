//! Numbers with units, as PostgreSQL reads them.

/// A number that a parameter can have.
pub(super) struct Number {
    pub(super) whole: bool,
    pub(super) unit: Option<Unit>,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// In what a number is counted.
pub(super) struct Unit {
    name: &'static str,
    /// How many of the smallest unit of its measure it is.
    size: f64,
    measure: &'static Measure,
}

struct Measure {
    /// What a wrong value is not.
    what: &'static str,
    /// What one may write, and how many of the smallest unit each is.
    units: &'static [(&'static str, f64)],
}

const KIB: f64 = 1024.0;
const SECOND: f64 = 1e6;

static MEMORY: Measure = Measure {
    what: "amount of memory",
    units: &[
        ("B", 1.0),
        ("kB", KIB),
        ("MB", KIB * KIB),
        ("GB", KIB * KIB * KIB),
        ("TB", KIB * KIB * KIB * KIB),
    ],
};

static TIME: Measure = Measure {
    what: "time",
    units: &[
        ("us", 1.0),
        ("ms", 1e3),
        ("s", SECOND),
        ("min", 60.0 * SECOND),
        ("h", 3600.0 * SECOND),
        ("d", 86400.0 * SECOND),
    ],
};

impl Unit {
    /// `-` is none, `8kB` eight of a kind.
    pub(super) fn read(name: &'static str) -> Option<Option<Self>> {
        if name == "-" {
            return Some(None);
        }
        let unit = name.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &name[..name.len() - unit.len()];
        let times: f64 = if digits.is_empty() {
            1.0
        } else {
            digits.parse().ok()?
        };
        let measure = [&MEMORY, &TIME];
        measure.into_iter().find_map(|measure| {
            let (_, size) = measure.units.iter().find(|(u, _)| *u == unit)?;
            Some(Some(Self {
                name,
                size: times * size,
                measure,
            }))
        })
    }
}

impl Number {
    /// What is wrong with a value, if anything is.
    pub(super) fn wrong(&self, value: &str) -> Option<String> {
        let Some(mut number) = self.read(value.trim()) else {
            let what = self.unit.as_ref().map_or("number", |u| u.measure.what);
            return Some(format!("'{value}' is no {what}"));
        };
        if self.whole {
            number = number.round_ties_even();
        }
        if number < self.min {
            return Some(format!("'{value}' is too little"));
        }
        (number > self.max).then(|| format!("'{value}' is too much"))
    }

    /// What to write.
    pub(super) fn right(&self) -> String {
        let number = if self.whole {
            "a whole number"
        } else {
            "a number"
        };
        let (how, of) = match &self.unit {
            None => (String::new(), String::new()),
            Some(unit) => {
                let names: Vec<&str> = unit.measure.units.iter().map(|(name, _)| *name).collect();
                let (last, others) = names.split_last().unwrap_or((&"", &[]));
                let names = format!("{} or {last}", others.join(", "));
                let each = format!(" {}", unit.name);
                (format!(" in {}, or with {names}", unit.name), each)
            }
        };
        let range = if self.max.is_finite() {
            format!("from {} to {}{of}", self.min, self.max)
        } else {
            format!("at least {}{of}", self.min)
        };
        format!("write {number}{how}; {range}")
    }

    /// The number in the parameter's own unit.
    fn read(&self, value: &str) -> Option<f64> {
        if let Some(number) = bare(value) {
            return Some(number);
        }
        let unit = self.unit.as_ref()?;
        unit.measure.units.iter().find_map(|(name, size)| {
            let number = bare(value.strip_suffix(name)?.trim_end())?;
            Some(number * size / unit.size)
        })
    }
}

fn bare(text: &str) -> Option<f64> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    if let Some(digits) = hexadecimal {
        let number = i64::from_str_radix(digits, 16).ok()?;
        return Some(number as f64);
    }
    text.parse().ok().filter(|n: &f64| n.is_finite())
}
