//! What a member said, put together from its answers.

use super::config::is_on;
use super::topology::Topology;
use super::{Sighting, Synchronous, attached, role};
use crate::failure::Failure;
use crate::target::Target;
use ensemble_planner::engine::WhyUnknown;
use serde_json::Value;

/// From its answers to `GET /health` and, if it gave one, `GET /cluster`.
pub(super) fn read(target: &Target, status: &Value, cluster: Result<Value, Failure>) -> Sighting {
    let topology = cluster.and_then(|cluster| Topology::read(&cluster));
    if let Some(who) = stranger(target, status, topology.as_ref().ok()) {
        return Sighting::unknown(WhyUnknown::Stranger(who));
    }
    let role = role::read(&target.member, status, topology.as_ref());
    let topology = topology.unwrap_or_default();
    let listed = topology.member(&target.member);
    Sighting {
        role,
        cluster: text(&status["database_system_identifier"]),
        term: status["timeline"].as_u64().unwrap_or(0),
        lock: topology.lock().map(String::from),
        attached: attached::read(target, status),
        sync_standbys: topology.sync_standbys(),
        lag: listed.and_then(|m| m.lag),
        unreplayed: unreplayed(&status["xlog"]),
        electable: electable(&status["tags"]),
        streams: !is_on(&status["tags"]["nostream"]),
        synchronous: Synchronous::Off,
        paused: status["pause"] == true || topology.paused,
        pending_restart: status["pending_restart"] == true,
        started: text(&status["postmaster_start_time"]),
        loop_wait: None,
        parameters: None,
        version: text(&status["patroni"]["version"]),
    }
}

/// Who answers, if it is not the member that was asked: an address can go to another pod.
///
/// Since 3.2 Patroni says its name. Before, the list of members tells it: with Kubernetes as the
/// store every pod of a cluster is in its list, with the address of its REST API.
fn stranger(target: &Target, status: &Value, topology: Option<&Topology>) -> Option<String> {
    if let Some(name) = status["patroni"]["name"].as_str() {
        return (name != target.member).then(|| name.into());
    }
    let topology = topology.filter(|t| !t.members.is_empty())?;
    let socket = target.socket();
    let here = |at: Option<_>| at.is_some() && at == socket;
    match topology.member(&target.member) {
        None => Some(format!("a member of another cluster, {}", scope(status))),
        Some(own) if here(own.at) => None,
        Some(_) => {
            let mut others = topology.members.iter();
            others.find(|m| here(m.at)).map(|m| m.name.clone())
        }
    }
}

fn scope(status: &Value) -> &str {
    status["patroni"]["scope"].as_str().unwrap_or("unnamed")
}

/// Text, or nothing; a number counts as the text that it is.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// What a replica has received and not replayed: it has to, before it leads. A replica may be told to wait
/// with it (`recovery_min_apply_delay`), or be slow.
fn unreplayed(xlog: &Value) -> u64 {
    let at = |key: &str| xlog[key].as_u64().unwrap_or(0);
    let left = at("received_location").saturating_sub(at("replayed_location"));
    left >> 20 << 20
}

/// As Patroni judges it: `nofailover` goes before `failover_priority`.
fn electable(tags: &Value) -> bool {
    match &tags["nofailover"] {
        Value::Null => {
            let priority = &tags["failover_priority"];
            let number = priority
                .as_i64()
                .or_else(|| priority.as_str()?.parse().ok());
            number.is_none_or(|n| n > 0)
        }
        Value::Bool(no) => !no,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_member_that_must_not_lead_is_not_electable() {
        for (tags, expected) in [
            (json!(null), true),
            (json!({}), true),
            (json!({"nofailover": true}), false),
            (json!({"nofailover": false}), true),
            (json!({"failover_priority": 0}), false),
            (json!({"failover_priority": "0"}), false),
            (json!({"failover_priority": -1}), false),
            (json!({"failover_priority": 2}), true),
            (json!({"nofailover": false, "failover_priority": 0}), true),
            (json!({"nofailover": true, "failover_priority": 2}), false),
            (json!({"nosync": true}), true),
        ] {
            assert_eq!(electable(&tags), expected, "{tags}");
        }
    }

    fn met(status: Value, cluster: Value) -> Option<String> {
        let target = Target {
            member: "pg-0".into(),
            address: "10.0.0.1".into(),
            port: 8008,
            ..Target::default()
        };
        stranger(&target, &status, Topology::read(&cluster).ok().as_ref())
    }

    fn members(list: &[(&str, &str)]) -> Value {
        let url = |ip: &str| format!("http://{ip}:8008/patroni");
        let listed = list
            .iter()
            .map(|(name, ip)| json!({"name": name, "role": "replica", "api_url": url(ip)}));
        json!({"members": listed.collect::<Vec<_>>()})
    }

    #[test]
    fn a_name_tells_a_stranger() {
        let own = members(&[("pg-0", "10.0.0.1")]);
        let named = |name: &str| json!({"patroni": {"name": name}});
        assert_eq!(met(named("pg-0"), own.clone()), None);
        assert_eq!(met(named("pg-1"), own), Some("pg-1".into()));
    }

    #[test]
    fn without_a_name_the_list_of_members_tells_a_stranger() {
        let nameless = || json!({"patroni": {"scope": "other"}});
        for (list, expected) in [
            (&[("pg-0", "10.0.0.1"), ("pg-1", "10.0.0.2")][..], None),
            (&[("pg-0", "10.0.0.9"), ("pg-1", "10.0.0.2")], None),
            (&[("pg-0", "10.0.0.9"), ("pg-1", "10.0.0.1")], Some("pg-1")),
            (
                &[("x-0", "10.0.0.1")],
                Some("a member of another cluster, other"),
            ),
            (&[], None),
        ] {
            let found = met(nameless(), members(list));
            assert_eq!(found.as_deref(), expected, "{list:?}");
        }
    }
}
