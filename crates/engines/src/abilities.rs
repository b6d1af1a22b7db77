//! What each engine can do and demands. No I/O: the conductor and every test ask it, too.

use crate::postgres;
use ensemble_api::{EnsembleSpec, WrongValue};
use ensemble_planner::abilities::{Abilities, Ordered, Port, Rounds};
use std::collections::BTreeMap;

/// What the engine of that spec can do.
pub fn abilities(spec: &EnsembleSpec) -> Abilities {
    let engine = spec.engine.as_ref();
    match engine.and_then(|e| e.patroni.as_ref()) {
        Some(patroni) => Abilities {
            impossible: impossible(&patroni.parameters),
            ..PATRONI
        },
        // Where somebody else's agent sets labels, nobody can be asked and nothing is handed over.
        None => Abilities::default(),
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

/// PostgreSQL under Patroni.
const PATRONI: Abilities = Abilities {
    can_answer: true,
    can_switch: true,
    can_nudge: true,
    rounds: Some(ROUNDS),
    ordered: &ORDERED,
    impossible: BTreeMap::new(),
    port: Some(Port {
        name: "postgres",
        number: 5432,
    }),
};

/// Patroni's loop.
pub(crate) const ROUNDS: Rounds = Rounds {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(engine: Value) -> Abilities {
        let spec = json!({"replicas": 3, "template": {}, "engine": engine});
        abilities(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn patroni_can_do_all_of_it_and_labels_nothing() {
        let patroni = of(json!({"patroni": {}}));
        assert!(patroni.can_answer && patroni.can_switch && patroni.can_nudge);
        let labels = of(json!({"labels": {"key": "role"}}));
        assert_eq!(labels, Abilities::default());
        assert_eq!(of(json!(null)), Abilities::default());
    }

    #[test]
    fn fewer_connections_than_postgresql_has_by_itself_are_fewer() {
        let patroni = of(json!({"patroni": {}}));
        assert!(patroni.is_lowered("max_connections", None, "99"));
        assert!(!patroni.is_lowered("max_connections", None, "100"));
        assert!(patroni.is_lowered("max_locks_per_transaction", None, "63"));
        assert!(!patroni.is_lowered("work_mem", Some("64"), "32"));
    }
}
