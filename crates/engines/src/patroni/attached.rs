//! Who is attached to a member: `replication[]` in its answer to `GET /health`.
//!
//! PostgreSQL lists every connection that reads its log. Patroni gives its replicas their own names
//! as `application_name`. Three things in that list are no replica, and must not pass for one:
//! backups, which stream from the replica's address while there is no replica yet; connections of a
//! pod that is gone, which stay listed until they time out; and whatever else reads the log.

use super::Stream;
use crate::target::Target;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// By member's name. Of several connections of one member the worst counts.
pub(super) fn read(target: &Target, status: &Value) -> BTreeMap<String, Stream> {
    let mut attached: BTreeMap<String, Stream> = BTreeMap::new();
    let scope = status["patroni"]["scope"].as_str();
    for connection in status["replication"].as_array().into_iter().flatten() {
        let Some(name) = whose(target, scope, connection) else {
            continue;
        };
        let new = stream(connection);
        let worst = attached.entry(name.into()).or_insert(new);
        worst.streaming &= new.streaming;
        worst.synchronous &= new.synchronous;
    }
    attached
}

fn stream(connection: &Value) -> Stream {
    let sync_state = connection["sync_state"].as_str();
    Stream {
        streaming: connection["state"] == "streaming",
        synchronous: matches!(sync_state, Some("sync" | "quorum")),
    }
}

/// By its name, if its address does not tell otherwise; else by its address, if its name tells
/// nothing: PostgreSQL's own word, or the cluster's.
fn whose<'a>(target: &'a Target, scope: Option<&str>, connection: &'a Value) -> Option<&'a str> {
    let name = connection["application_name"].as_str().unwrap_or_default();
    let address = address(connection);
    if target.is_peer(name) {
        let believed = address.is_none_or(|ip| target.peer_at(ip) == Some(name));
        return believed.then_some(name);
    }
    let anonymous = matches!(name, "" | "walreceiver") || Some(name) == scope;
    address
        .filter(|_| anonymous)
        .and_then(|ip| target.peer_at(ip))
}

/// Where it comes from. A loopback address is a proxy's in the same pod, and tells nothing.
fn address(connection: &Value) -> Option<IpAddr> {
    let ip: IpAddr = connection["client_addr"].as_str()?.parse().ok()?;
    let ip = ip.to_canonical();
    (!ip.is_loopback()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(connections: &[(&str, Value, &str, &str)]) -> Vec<(String, bool, bool)> {
        let peers = [
            ("10.0.0.1", "pg-0"),
            ("10.0.0.2", "pg-1"),
            ("fd00::3", "pg-2"),
        ];
        let target = Target {
            peers: peers.map(|(k, v)| (k.into(), v.into())).into(),
            ..Target::default()
        };
        let entry = |(name, addr, state, sync): &(&str, Value, &str, &str)| {
            json!({"application_name": name, "client_addr": addr,
                "state": state, "sync_state": sync})
        };
        let connections: Vec<Value> = connections.iter().map(entry).collect();
        let status = json!({"replication": connections, "patroni": {"scope": "demo"}});
        let found = read(&target, &status).into_iter();
        found
            .map(|(name, s)| (name, s.streaming, s.synchronous))
            .collect()
    }

    fn one(name: &str, streaming: bool, synchronous: bool) -> Vec<(String, bool, bool)> {
        vec![(name.into(), streaming, synchronous)]
    }

    #[test]
    fn a_replica_is_known_by_its_name() {
        for (state, sync, expected) in [
            ("streaming", "async", one("pg-1", true, false)),
            ("streaming", "sync", one("pg-1", true, true)),
            ("streaming", "quorum", one("pg-1", true, true)),
            ("streaming", "potential", one("pg-1", true, false)),
            ("catchup", "async", one("pg-1", false, false)),
            ("backup", "async", one("pg-1", false, false)),
        ] {
            let found = of(&[("pg-1", json!("10.0.0.2"), state, sync)]);
            assert_eq!(found, expected, "{state} {sync}");
        }
    }

    #[test]
    fn a_proxy_in_the_pod_does_not_hide_a_replica() {
        for address in [json!("127.0.0.6"), json!("::1"), json!(null)] {
            let found = of(&[("pg-1", address, "streaming", "sync")]);
            assert_eq!(found, one("pg-1", true, true));
        }
    }

    #[test]
    fn an_anonymous_replica_is_known_by_its_address() {
        for name in ["walreceiver", "demo", ""] {
            let found = of(&[(name, json!("fd00:0::3"), "streaming", "async")]);
            assert_eq!(found, one("pg-2", true, false), "{name:?}");
        }
    }

    #[test]
    fn a_backup_is_no_replica() {
        let backup = ("pg_basebackup", json!("10.0.0.2"), "streaming", "async");
        assert_eq!(of(&[backup]), []);
    }

    #[test]
    fn a_connection_of_a_pod_that_is_gone_does_not_count() {
        let gone = ("pg-1", json!("10.0.0.99"), "streaming", "sync");
        assert_eq!(of(std::slice::from_ref(&gone)), []);
        let new = ("pg-1", json!("10.0.0.2"), "catchup", "async");
        assert_eq!(of(&[gone, new]), one("pg-1", false, false));
    }

    #[test]
    fn of_two_connections_the_worst_counts() {
        let good = ("pg-1", json!("10.0.0.2"), "streaming", "sync");
        let bad = ("pg-1", json!("10.0.0.2"), "catchup", "async");
        let expected = one("pg-1", false, false);
        assert_eq!(of(&[good.clone(), bad.clone()]), expected);
        assert_eq!(of(&[bad, good]), expected);
    }
}
