//! Which values PostgreSQL's parameters can have.
//!
//! Of a value that PostgreSQL could not read, or that is out of range, Patroni says a line in its log,
//! leaves it out or cuts it, and goes on: everybody would take the change as done. So it is looked at
//! before anybody is told. A name that PostgreSQL does not know it leaves out just as quietly, so one that
//! is nearly another's is taken for a slip. What is like nothing in the table (extensions, newer
//! versions) is let through.

mod number;

use number::{Number, Unit};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use strsim::osa_distance;

static PARAMETERS: LazyLock<BTreeMap<&str, Kind>> = LazyLock::new(|| {
    let text = include_str!("postgres/parameters.txt");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(row).collect()
});

/// What values a parameter has.
enum Kind {
    Bool,
    Number(Number),
    OneOf(Vec<&'static str>),
    /// Nothing can be told by looking at it.
    Text,
    /// Patroni sets it from elsewhere.
    Kept,
}

/// What is wrong with a value, and what would be right.
pub(crate) struct Wrong {
    pub(crate) what: String,
    pub(crate) right: String,
}

/// What is wrong with that value of that parameter, or with its name, if that can be told by looking at it.
pub(crate) fn wrong(name: &str, value: &str) -> Option<Wrong> {
    let name = name.to_lowercase();
    let Some(kind) = PARAMETERS.get(name.as_str()) else {
        return misspelt(&name);
    };
    let word = value.trim().to_lowercase();
    match kind {
        Kind::Text => None,
        Kind::Bool if is_switch(&word) => None,
        Kind::Bool => Some(Wrong {
            what: format!("'{value}' is neither on nor off"),
            right: "write 'on' or 'off'".into(),
        }),
        Kind::Number(number) => number.wrong(value).map(|what| Wrong {
            what,
            right: number.right(),
        }),
        Kind::OneOf(values) if values.contains(&word.as_str()) => None,
        Kind::OneOf(values) if values.contains(&"off") && is_switch(&word) => None,
        Kind::OneOf(values) => {
            let named: Vec<&str> = values.iter().copied().filter(|v| !v.is_empty()).collect();
            Some(Wrong {
                what: format!("it has no value '{value}'"),
                right: format!("write one of {}", named.join(", ")),
            })
        }
        Kind::Kept => Some(Wrong {
            what: "Patroni sets it itself and ignores it here".into(),
            right: "leave it out, and set it in Patroni's own configuration".into(),
        }),
    }
}

/// A name that is nearly another's. In a short name, a letter more or less makes another word.
fn misspelt(name: &str) -> Option<Wrong> {
    let slips = (name.len() / 6).min(2);
    let near = PARAMETERS
        .keys()
        .map(|known| (osa_distance(name, known), known));
    let (_, meant) = near.filter(|(slip, _)| *slip <= slips).min()?;
    Some(Wrong {
        what: "PostgreSQL has no such parameter, and Patroni would leave it out".into(),
        right: format!(
            "write {meant}; one that only a newer PostgreSQL has goes into Patroni's own configuration"
        ),
    })
}

/// PostgreSQL would take a part of these words as well; Patroni does not.
fn is_switch(word: &str) -> bool {
    matches!(
        word,
        "on" | "off" | "true" | "false" | "yes" | "no" | "1" | "0"
    )
}

/// Reads a row of the table; a test requires that all can be read.
fn row(line: &'static str) -> Option<(&'static str, Kind)> {
    let (name, rest) = line.split_once(' ')?;
    let (kind, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let kind = match kind {
        "bool" => Kind::Bool,
        "kept" => Kind::Kept,
        "text" => Kind::Text,
        "enum" => Kind::OneOf(rest.split(',').collect()),
        "integer" | "real" => {
            let mut words = rest.split(' ');
            Kind::Number(Number {
                whole: kind == "integer",
                unit: Unit::read(words.next()?)?,
                min: words.next()?.parse().ok()?,
                max: words.next()?.parse().ok()?,
            })
        }
        _ => return None,
    };
    Some((name, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, value: &str) -> String {
        let wrong = wrong(name, value);
        wrong.map_or("right".into(), |w| format!("{}; {}", w.what, w.right))
    }

    #[test]
    fn every_row_of_the_table_can_be_read_and_stands_once_in_order() {
        let text = include_str!("postgres/parameters.txt");
        let rows: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
        for line in &rows {
            assert!(row(line).is_some(), "{line}");
        }
        assert!(rows.is_sorted());
        assert_eq!(rows.len(), PARAMETERS.len());
    }

    #[test]
    fn values_that_postgresql_takes_are_right() {
        for (name, value) in [
            ("work_mem", "64MB"),
            ("work_mem", " 64 MB "),
            ("work_mem", "65536"),
            ("Work_Mem", "0.5GB"),
            ("work_mem", "0x1000"),
            ("autovacuum_work_mem", "-1"),
            ("shared_buffers", "7000GB"),
            ("statement_timeout", "1.5min"),
            ("checkpoint_timeout", "1d"),
            ("random_page_cost", "1.1"),
            ("cpu_tuple_cost", "1e-3"),
            ("autovacuum", "on"),
            ("autovacuum", "FALSE"),
            ("synchronous_commit", "remote_write"),
            ("synchronous_commit", "yes"),
            ("wal_compression", "lz4"),
            ("default_transaction_isolation", "repeatable read"),
            ("ssl_max_protocol_version", ""),
            ("hot_standby", "on"),
            ("log_line_prefix", "anything at all"),
            ("pg_stat_statements.max", "banana"),
            ("of_a_version_to_come", "banana"),
            ("TimeZone", "UTC"),
            ("ssk", "on"),
        ] {
            assert_eq!(told(name, value), "right", "{name}={value}");
        }
    }

    #[test]
    fn a_wrong_value_is_told_with_what_would_be_right() {
        for (name, value, words) in [
            (
                "work_mem",
                "banana",
                "'banana' is no amount of memory; write a whole number in kB, or with B, kB, MB, GB or TB; from 64 to 2147483647 kB",
            ),
            (
                "work_mem",
                "1kB",
                "'1kB' is too little; write a whole number in kB, or with B, kB, MB, GB or TB; from 64 to 2147483647 kB",
            ),
            (
                "checkpoint_timeout",
                "2d",
                "'2d' is too much; write a whole number in s, or with us, ms, s, min, h or d; from 30 to 86400 s",
            ),
            (
                "max_connections",
                "24",
                "'24' is too little; write a whole number; from 25 to 262143",
            ),
            (
                "cpu_tuple_cost",
                "-1",
                "'-1' is too little; write a number; at least 0",
            ),
            (
                "autovacuum",
                "maybe",
                "'maybe' is neither on nor off; write 'on' or 'off'",
            ),
            (
                "huge_pages",
                "often",
                "it has no value 'often'; write one of off, on, try",
            ),
            (
                "port",
                "5433",
                "Patroni sets it itself and ignores it here; leave it out, and set it in Patroni's own configuration",
            ),
        ] {
            assert_eq!(told(name, value), words);
        }
    }

    #[test]
    fn a_name_that_is_nearly_a_parameter_is_told_with_the_one_that_was_meant() {
        for (name, meant) in [
            ("max_conections", "max_connections"),
            ("Max_Connection", "max_connections"),
            ("work-mem", "work_mem"),
            ("wrok_mem", "work_mem"),
            ("shared_bufers", "shared_buffers"),
            ("effective_cachesize", "effective_cache_size"),
            ("log_min_duration_statment", "log_min_duration_statement"),
            ("archive_comand", "archive_command"),
        ] {
            let words = format!(
                "PostgreSQL has no such parameter, and Patroni would leave it out; write {meant}; \
                 one that only a newer PostgreSQL has goes into Patroni's own configuration"
            );
            assert_eq!(told(name, "1"), words, "{name}");
        }
    }

    #[test]
    fn units_are_those_of_the_parameter_and_spelt_as_postgresql_does() {
        for (name, value) in [
            ("work_mem", "64mb"),
            ("work_mem", "64KB"),
            ("work_mem", "64ms"),
            ("work_mem", "64 M"),
            ("work_mem", "MB"),
            ("work_mem", ""),
            ("work_mem", "inf"),
            ("work_mem", "NaN"),
            ("statement_timeout", "1MB"),
            ("max_connections", "100MB"),
            ("deadlock_timeout", "0.5"),
            ("autovacuum", "t"),
        ] {
            assert_ne!(told(name, value), "right", "{name}={value}");
        }
    }
}
