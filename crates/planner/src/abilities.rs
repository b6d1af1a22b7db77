//! What an engine can do, and what it demands of whoever changes it.
//!
//! The planner knows no engine. Whoever makes a snapshot hands these in, from the crate that knows
//! them all; the planner decides by them.

use crate::engine::Judge;
use ensemble_api::WrongValue;
use std::collections::BTreeMap;

/// What one kind of engine can do and demands. Without an engine: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// How what its members say is understood. Without it nothing is known of any of them.
    pub judge: Option<Judge>,
    /// Its members can be asked who they are.
    pub can_answer: bool,
    /// It hands the lead over to whom it is told.
    pub can_switch: bool,
    /// Its members vote: without a majority of them nothing is written.
    pub votes: bool,
    /// Its members keep a list of themselves that nobody here can change: one that is taken away would stay
    /// on it, and one that is new would not be let in.
    pub members_fixed: bool,
    /// In what it measures how far a follower is behind.
    pub lag: Measure,
    /// One of its members may take the lead before any other runs.
    pub leads_alone: bool,
    /// It can be told to look at its cluster now rather than in its next round.
    pub can_nudge: bool,
    /// How often it looks at its cluster, if it does so in rounds.
    pub rounds: Option<Rounds>,
    /// Parameters of which a replica may not have less than its primary.
    pub ordered: &'static [Ordered],
    /// Parameters that the spec names, by their names, with values that it cannot have.
    pub impossible: BTreeMap<String, WrongValue>,
    /// Values that its agent puts on a primary in one version or another, beside the one that the spec
    /// names: while a rollout brings another version, members of both are there.
    pub also_primary: &'static [&'static str],
    /// Where it listens, if its container does not say.
    pub port: Option<Port>,
}

/// In what an engine measures how far a follower is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// What it counts, for people.
    pub unit: &'static str,
    /// So far behind a follower may be at most, whatever the spec allows.
    pub most: u64,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            unit: "bytes",
            most: u64::MAX,
        }
    }
}

/// An engine looks at its cluster in rounds; what it is told takes effect in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// By which name people set how long one takes.
    pub setting: &'static str,
    /// How many seconds one takes where nobody has set it.
    pub seconds: u32,
    /// How much longer than one round it takes until all members have noticed what was set.
    pub notice_ms: i64,
    /// For how many rounds a member that commits wait for puts off its stop.
    pub before_stop: u32,
}

/// A number of which a replica may not have less than its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The parameter's name.
    pub name: &'static str,
    /// What it is where nobody has set it.
    pub default: i64,
}

/// A port for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name in a Service.
    pub name: &'static str,
    /// Its number.
    pub number: u16,
}

impl Ordered {
    /// What it is among these values.
    fn of(&self, values: &BTreeMap<String, String>) -> i64 {
        self.number(values.get(self.name).map(String::as_str))
    }

    fn number(&self, value: Option<&str>) -> i64 {
        let number = value.and_then(|v| v.parse().ok());
        number.unwrap_or(self.default)
    }
}

impl Abilities {
    /// Whether a change lowers anything whose order matters.
    pub fn lowers(&self, from: &BTreeMap<String, String>, to: &BTreeMap<String, String>) -> bool {
        self.ordered_in(to).any(|o| o.of(to) < o.of(from))
    }

    /// Whether a change raises anything whose order matters: to put it back lowers that.
    pub fn raises(&self, from: &BTreeMap<String, String>, to: &BTreeMap<String, String>) -> bool {
        self.ordered_in(to).any(|o| o.of(to) > o.of(from))
    }

    fn ordered_in(&self, values: &BTreeMap<String, String>) -> impl Iterator<Item = &Ordered> {
        let named = |o: &&Ordered| values.contains_key(o.name);
        self.ordered.iter().filter(named)
    }

    /// Whether such a change lowers a parameter whose order matters: then the primary comes first.
    pub fn is_lowered(&self, name: &str, from: Option<&str>, to: &str) -> bool {
        let ordered = self.ordered.iter().find(|o| o.name == name);
        ordered.is_some_and(|o| o.number(Some(to)) < o.number(from))
    }

    /// Whether such a change raises a parameter whose order matters: then replicas come first.
    pub fn is_raised(&self, name: &str, from: Option<&str>, to: &str) -> bool {
        let ordered = self.ordered.iter().find(|o| o.name == name);
        ordered.is_some_and(|o| o.number(Some(to)) > o.number(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ordered_is_lowered_and_what_nobody_has_set_is_its_default() {
        let abilities = Abilities {
            ordered: &[Ordered {
                name: "seats",
                default: 100,
            }],
            ..Abilities::default()
        };
        for (name, from, to, lowered) in [
            ("seats", Some("100"), "50", true),
            ("seats", Some("50"), "100", false),
            ("seats", Some("50"), "50", false),
            ("seats", None, "50", true),
            ("seats", None, "200", false),
            ("seats", Some("many"), "99", true),
            ("colour", Some("100"), "50", false),
        ] {
            let found = abilities.is_lowered(name, from, to);
            assert_eq!(found, lowered, "{name} {from:?} -> {to}");
        }
    }
}
