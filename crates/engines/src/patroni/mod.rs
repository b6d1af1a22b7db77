//! PostgreSQL under Patroni: what its members say, how that is understood, what it can do, and, with
//! the feature `wire`, how it is asked.

#[cfg(feature = "wire")]
mod attached;
mod chain;
#[cfg(feature = "wire")]
mod client;
#[cfg(feature = "wire")]
mod config;
mod judge;
#[cfg(feature = "wire")]
mod look;
#[cfg(feature = "wire")]
mod reply;
#[cfg(feature = "wire")]
mod role;
mod sighting;
mod sign;
#[cfg(feature = "wire")]
mod topology;

#[cfg(feature = "wire")]
pub use client::Patroni;
pub use sighting::{Role, Sighting, Stream, Synchronous};

use crate::postgres;
use crate::table::Row;
use ensemble_api::WrongValue;
use ensemble_api::engine::Engine;
use ensemble_planner::abilities::{Abilities, Measure, Ordered, Port, Rounds};
use ensemble_planner::engine::Judge;
use std::collections::BTreeMap;

/// Its line in the table.
pub(crate) const ROW: Row = Row {
    is_meant: |engine| engine.patroni.is_some(),
    abilities,
    sign: sign::sign,
    #[cfg(feature = "wire")]
    contact: Some(client::CONTACT),
};

fn abilities(engine: &Engine) -> Abilities {
    let parameters = engine.patroni.as_ref().map(|p| &p.parameters);
    Abilities {
        impossible: parameters.map(impossible).unwrap_or_default(),
        ..ABILITIES
    }
}

/// What of these parameters PostgreSQL cannot have, by name.
fn impossible(parameters: &BTreeMap<String, String>) -> BTreeMap<String, WrongValue> {
    let wrong = |(name, value): (&String, &String)| {
        let wrong = wrong_parameter(name, value)?;
        Some((name.clone(), wrong))
    };
    parameters.iter().filter_map(wrong).collect()
}

/// What is wrong with a value in `engine.patroni.parameters`, if that can be told by looking at it.
pub fn wrong_parameter(name: &str, value: &str) -> Option<WrongValue> {
    let wrong = postgres::wrong(name, value)?;
    Some(WrongValue {
        field: format!("spec.engine.patroni.parameters.{name}"),
        what: wrong.what,
        right: wrong.right,
    })
}

const ABILITIES: Abilities = Abilities {
    judge: Some(Judge(judge::judge)),
    can_answer: true,
    can_switch: true,
    votes: false,
    lag: Measure {
        unit: "bytes",
        most: u64::MAX,
    },
    // Whoever starts first and is at most `maximum_lag_on_failover` behind may take the lock.
    members_fixed: false,
    leads_alone: true,
    can_nudge: true,
    rounds: Some(ROUNDS),
    ordered: &ORDERED,
    impossible: BTreeMap::new(),
    also_primary: ALSO_PRIMARY,
    port: Some(Port {
        name: "postgres",
        number: 5432,
    }),
};

/// What Patroni writes on a primary where nobody has configured it: the first since 4.0, the other before.
const ALSO_PRIMARY: &[&str] = &["primary", "master"];

/// Patroni's loop.
const ROUNDS: Rounds = Rounds {
    setting: "loop_wait",
    seconds: 10,
    notice_ms: 3_000,
    // A synchronous standby that is to stop waits until another one is named: twice its loop.
    before_stop: 2,
};

/// A standby of PostgreSQL does not start, or stops to replay, with less of these than its primary
/// has. They stand with PostgreSQL's own defaults.
const ORDERED: [Ordered; 5] = [
    Ordered {
        name: "max_connections",
        default: 100,
    },
    Ordered {
        name: "max_worker_processes",
        default: 8,
    },
    Ordered {
        name: "max_wal_senders",
        default: 10,
    },
    Ordered {
        name: "max_prepared_transactions",
        default: 0,
    },
    Ordered {
        name: "max_locks_per_transaction",
        default: 64,
    },
];
