//! Names, as a StatefulSet of the same name would give them.

use std::collections::BTreeSet;
use std::fmt;

/// The one group of an ensemble that declares none.
pub const DEFAULT_GROUP: &str = "members";

/// The label by which roles are told unless the user names another.
pub const DEFAULT_ROLE_LABEL: &str = "role";

/// The Service that leads to the primary, and the budget that protects it: `orders-primary`.
pub fn primary(ensemble: &str) -> String {
    format!("{ensemble}-primary")
}

/// The Service that leads to the replicas, and the budget that protects them: `orders-replicas`.
pub fn replicas(ensemble: &str) -> String {
    format!("{ensemble}-replicas")
}

/// The headless Service if the user names none: `orders-members`.
pub fn default_service(ensemble: &str) -> String {
    format!("{ensemble}-members")
}

/// The disruption budget: `orders-members`.
pub fn budget(ensemble: &str) -> String {
    format!("{ensemble}-members")
}

/// A set of ordinals, written compactly: `0-2,5`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordinals(pub BTreeSet<u32>);

impl Ordinals {
    /// Reads `0-2,5`; what cannot be read is left out and counted, never guessed.
    pub fn parse(text: &str) -> (Self, usize) {
        // Read all the time: a set is made of a list at once much faster than one by one.
        let mut all: Vec<u32> = Vec::new();
        let mut unreadable = 0;
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            match (from.parse::<u32>(), to.parse::<u32>()) {
                (Ok(from), Ok(to)) if from <= to && to - from <= 100_000 => all.extend(from..=to),
                _ => unreadable += 1,
            }
        }
        (Self(all.into_iter().collect()), unreadable)
    }
}

impl fmt::Display for Ordinals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut first = true;
        while let Some(from) = rest.next() {
            let mut to = from;
            while rest.peek() == Some(&(to + 1)) {
                to += 1;
                rest.next();
            }
            if !first {
                f.write_str(",")?;
            }
            first = false;
            if from == to {
                write!(f, "{from}")?;
            } else {
                write!(f, "{from}-{to}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_written_as_ranges_and_read_back() {
        let (set, bad) = Ordinals::parse("0-2, 5,7-8,x,9-3");
        assert_eq!(bad, 2);
        assert_eq!(set.to_string(), "0-2,5,7-8");
        assert_eq!(Ordinals::parse(&set.to_string()).0, set);
    }
}
