//! All engines that are known, a line each. Nothing else in the house knows their names.

#[cfg(feature = "wire")]
use crate::speaks::Contact;
use crate::{etcd, labels, patroni};
use ensemble_api::EnsembleSpec;
use ensemble_api::engine::Engine;
use ensemble_planner::abilities::Abilities;
use serde_json::Value;

/// What is known of one engine.
pub(crate) struct Row {
    /// Whether a spec means it.
    pub is_meant: fn(&Engine) -> bool,
    /// What it can do and demands, and how its answers are understood.
    pub abilities: fn(&Engine) -> Abilities,
    /// What of a pod shows that its engine has something new to say.
    pub sign: fn(&Engine, &Value) -> Option<String>,
    /// How it is spoken with, if it can be.
    #[cfg(feature = "wire")]
    pub contact: Option<Contact>,
}

const ROWS: &[Row] = &[patroni::ROW, etcd::ROW, labels::ROW];

fn row(spec: &EnsembleSpec) -> Option<(&'static Row, &Engine)> {
    let engine = spec.engine.as_ref()?;
    let row = ROWS.iter().find(|row| (row.is_meant)(engine))?;
    Some((row, engine))
}

/// What the engine of that spec can do; without one, nothing.
pub fn abilities(spec: &EnsembleSpec) -> Abilities {
    row(spec).map_or_else(Abilities::default, |(row, engine)| (row.abilities)(engine))
}

/// A word that is another one when it is worth asking; None where nobody can be asked. Nothing is
/// decided by it: engines are only asked sooner.
pub fn sign(spec: &EnsembleSpec, pod: &Value) -> Option<String> {
    let (row, engine) = row(spec)?;
    (row.sign)(engine, pod)
}

/// How the engine of that spec is spoken with, if it can be.
#[cfg(feature = "wire")]
pub fn contact(spec: &EnsembleSpec) -> Option<(&'static Contact, &Engine)> {
    let (row, engine) = row(spec)?;
    Some((row.contact.as_ref()?, engine))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(engine: Value) -> Abilities {
        let spec = json!({"replicas": 3, "template": {}, "engine": engine});
        abilities(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn patroni_can_do_all_of_it_and_labels_can_only_be_read() {
        let patroni = of(json!({"patroni": {}}));
        assert!(patroni.can_answer && patroni.can_switch && patroni.can_nudge);
        let labels = of(json!({"labels": {"key": "role"}}));
        assert!(labels.judge.is_some());
        assert!(!labels.can_answer && !labels.can_switch && !labels.can_nudge);
        assert_eq!(of(json!(null)), Abilities::default());
    }

    #[test]
    fn etcd_votes_and_hands_over_and_takes_no_parameters() {
        let etcd = of(json!({"etcd": {}}));
        assert!(etcd.can_answer && etcd.can_switch && etcd.votes && etcd.members_fixed);
        assert!(!etcd.can_nudge && !etcd.leads_alone && etcd.port.is_none());
        assert_eq!(etcd.lag.unit, "log entries");
    }

    #[test]
    fn where_nobody_can_be_asked_there_is_no_sign() {
        for engine in [json!({"labels": {"key": "role"}}), json!(null)] {
            let spec = json!({"replicas": 3, "template": {}, "engine": engine});
            let spec: EnsembleSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(
                sign(&spec, &json!({"metadata": {"labels": {"role": "x"}}})),
                None
            );
        }
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
