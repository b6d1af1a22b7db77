//! Scripts about roles that differ only in who leads, in which mode, and by which method: a table.

use crate::roles::{
    ASYNC, CORDON, DRAIN, IMAGE_2, LEADS, QUIET, SETTLED, SYNC, UNCORDON, UPDATED, found, script,
};
use crate::scenario::{Line, Scenario};
use Leads::{First, JustMoved, Moved};
use Method::{InPlace, NewPods};
use Mode::{Async, Sync};
use serde_json::json;

/// Whether commits wait for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Async,
    Sync,
}

/// How a new image comes to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    InPlace,
    NewPods,
}

/// Who leads when the image changes, by ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    /// The one that led from the beginning.
    First,
    /// One that the lead was moved to, long ago.
    Moved(usize),
    /// One that the lead was moved to just now.
    JustMoved(usize),
}

/// A new image reaches everybody.
const ROLLS: &[(&str, Mode, Method, Leads)] = &[
    ("roles-image-0", Async, InPlace, First),
    ("roles-image-1", Async, InPlace, Moved(1)),
    ("roles-image-2", Async, InPlace, Moved(2)),
    ("roles-sync-0", Sync, InPlace, First),
    ("roles-sync-1", Sync, InPlace, Moved(1)),
    ("roles-sync-2", Sync, InPlace, Moved(2)),
    ("roles-recreate", Async, NewPods, Moved(1)),
    ("roles-recreate-sync", Sync, NewPods, Moved(2)),
    ("roles-window", Async, InPlace, JustMoved(1)),
    ("roles-window-sync", Sync, InPlace, JustMoved(2)),
];

/// The leader's node is drained.
const DRAINS: &[(&str, Mode)] = &[("roles-drain", Async), ("roles-drain-sync", Sync)];

/// All of them. Made once, and kept for as long as the program runs.
pub fn all() -> Vec<Scenario> {
    let rolls = ROLLS.iter().map(|(name, mode, method, leads)| {
        let mut lines = vec![created(*mode, *method), SETTLED];
        lines.extend(moved(*leads));
        lines.extend([IMAGE_2, UPDATED]);
        script(name, about(*mode, *method, *leads), lines.leak())
    });
    let drains = DRAINS.iter().map(|(name, mode)| {
        let created = created(*mode, InPlace);
        let lines = vec![created, SETTLED, CORDON, DRAIN, UNCORDON, SETTLED];
        let about = format!("the leader's node is drained{}", also(*mode));
        script(name, about.leak(), lines.leak())
    });
    rolls.chain(drains).collect()
}

fn created(mode: Mode, method: Method) -> Line {
    match (mode, method) {
        (Async, InPlace) => ASYNC,
        (Sync, InPlace) => SYNC,
        (Async, NewPods) => Line::Do("create, method: Recreate", |w| {
            found(w, false, json!({"rollout": {"method": "Recreate"}}))
        }),
        (Sync, NewPods) => Line::Do("create, synchronous, method: Recreate", |w| {
            found(w, true, json!({"rollout": {"method": "Recreate"}}))
        }),
    }
}

fn moved(leads: Leads) -> Vec<Line> {
    match leads {
        First => Vec::new(),
        Moved(to) => vec![LEADS[to], SETTLED, QUIET],
        JustMoved(to) => vec![LEADS[to]],
    }
}

fn also(mode: Mode) -> &'static str {
    match mode {
        Async => "",
        Sync => ", synchronous",
    }
}

fn about(mode: Mode, method: Method, leads: Leads) -> &'static str {
    let how = match method {
        InPlace => "in place",
        NewPods => "by new pods",
    };
    let who = match leads {
        First => "orders-0 leads".to_owned(),
        Moved(to) => format!("orders-{to} leads"),
        JustMoved(to) => format!("the lead has just moved to orders-{to}"),
    };
    format!("a new image {how}{}, {who}", also(mode)).leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_are_the_same_but_for_their_name() {
        for (at, row) in ROLLS.iter().enumerate() {
            for other in &ROLLS[at + 1..] {
                assert_ne!(row.0, other.0);
                assert_ne!((row.1, row.2, row.3), (other.1, other.2, other.3));
            }
        }
    }

    #[test]
    fn what_a_script_is_about_is_said_by_its_row() {
        let said = about(Sync, NewPods, Moved(2));
        assert_eq!(said, "a new image by new pods, synchronous, orders-2 leads");
    }
}
