//! etcd: members that vote. What they say, how that is understood, what it can do, and, with the feature
//! `wire`, how it is asked.

#[cfg(feature = "wire")]
mod client;
mod judge;
#[cfg(feature = "wire")]
mod look;
mod sighting;

#[cfg(feature = "wire")]
pub use client::Etcd;
pub use sighting::{Alarm, Listed, Sighting};

use crate::ready;
use crate::table::Row;
use ensemble_api::engine::Engine;
use ensemble_planner::abilities::{Abilities, Measure};
use ensemble_planner::engine::Judge;

/// Its line in the table.
pub(crate) const ROW: Row = Row {
    is_meant: |engine| engine.etcd.is_some(),
    abilities,
    // etcd writes nothing to its pod: whether that is Ready is all that shows.
    sign: |_, pod| Some(ready::is_ready(pod).to_string()),
    #[cfg(feature = "wire")]
    contact: Some(client::CONTACT),
};

/// Its port for clients needs no word here: no Service leads to one role of it.
fn abilities(_: &Engine) -> Abilities {
    Abilities {
        judge: Some(Judge(judge::judge)),
        can_answer: true,
        can_switch: true,
        members_fixed: true,
        votes: true,
        lag: Measure {
            unit: "log entries",
            most: CATCH_UP,
        },
        ..Abilities::default()
    }
}

/// So many entries a leader of etcd keeps in its log behind a snapshot for those that are slow; one that
/// is further behind may need the whole snapshot.
const CATCH_UP: u64 = 5_000;
