//! Who tells the roles: the part of a spec that makes members more than equals.

use crate::names;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the roles of members are known, and how the lead is handed over. Exactly one of `patroni`,
/// `etcd` and `labels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Engine {
    /// The container whose restart is a restart of the member; a change of another one moves no
    /// leader. Default: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,

    /// PostgreSQL under Patroni, with Kubernetes as its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patroni: Option<Patroni>,

    /// etcd: members that vote. It is upgraded without losing its quorum, and its leader moves once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<Etcd>,

    /// Another agent already labels the pods with their roles. Ensemble can see who leads, and can
    /// hand nothing over: `rollout.primary` must be Restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<RoleLabels>,

    /// How far a replica may be behind and still count as in sync, in bytes of its log. With etcd it
    /// is a number of log entries, and never more than 5000.
    #[serde(default = "sixteen_mi")]
    #[schemars(length(min = 1, max = 32), regex(pattern = r"^[0-9]+(Ki|Mi|Gi)?$"))]
    pub max_lag: String,

    /// How long a switchover may take before it is given up and the old primary stays.
    #[serde(default = "sixty")]
    #[schemars(range(min = 5, max = 3600))]
    pub switchover_timeout_seconds: u32,

    /// After how long without a leader and without a Ready member the members may be recreated on
    /// their own claims, one at a time, so that a corrected template gets through.
    #[serde(default = "sixty")]
    #[schemars(range(min = 5, max = 86400))]
    pub recover_after_seconds: u32,
}

/// PostgreSQL under Patroni.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.parameters) || !('max_connections' in self.parameters) || (self.parameters['max_connections'].matches('^[0-9]{1,6}$') && int(self.parameters['max_connections']) >= 25)").message(
        "spec.engine.patroni.parameters.max_connections: must be a whole number of at least 25, as Patroni takes it; for example '200'"
    ),
    validation = Rule::new("!has(self.parameters) || !('max_worker_processes' in self.parameters) || (self.parameters['max_worker_processes'].matches('^[0-9]{1,6}$') && int(self.parameters['max_worker_processes']) >= 2)").message(
        "spec.engine.patroni.parameters.max_worker_processes: must be a whole number of at least 2; for example '8'"
    ),
    validation = Rule::new("!has(self.parameters) || !('max_wal_senders' in self.parameters) || (self.parameters['max_wal_senders'].matches('^[0-9]{1,6}$') && int(self.parameters['max_wal_senders']) >= 3)").message(
        "spec.engine.patroni.parameters.max_wal_senders: must be a whole number of at least 3; for example '10'"
    ),
    validation = Rule::new("!has(self.parameters) || !('max_prepared_transactions' in self.parameters) || self.parameters['max_prepared_transactions'].matches('^[0-9]{1,6}$')").message(
        "spec.engine.patroni.parameters.max_prepared_transactions: must be a whole number; for example '0'"
    ),
    validation = Rule::new("!has(self.parameters) || !('max_locks_per_transaction' in self.parameters) || (self.parameters['max_locks_per_transaction'].matches('^[0-9]{1,6}$') && int(self.parameters['max_locks_per_transaction']) >= 32)").message(
        "spec.engine.patroni.parameters.max_locks_per_transaction: must be a whole number of at least 32; for example '64'"
    )
)]
pub struct Patroni {
    /// The port of Patroni's REST API in each member.
    #[serde(default = "patroni_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,

    /// The label by which Patroni tells roles (`kubernetes.role_label`).
    #[serde(default = "role")]
    #[schemars(length(min = 1, max = 253))]
    pub role_label: String,

    /// That label's value on the primary, if `kubernetes.leader_label_value` of Patroni's configuration
    /// says another than Patroni's own: `primary` since 4.0 and `master` before are both understood.
    #[serde(default = "primary")]
    #[schemars(length(min = 1, max = 63))]
    pub primary_value: String,

    /// That label's value on replicas.
    #[serde(default = "replica")]
    #[schemars(length(min = 1, max = 63))]
    pub replica_value: String,

    /// Speak TLS with the REST API. The CA in the Secret's `ca.crt` is trusted; a client's
    /// certificate is sent if it has `tls.crt` and `tls.key`.
    #[serde(default)]
    pub tls: bool,

    /// A Secret in this namespace with `username` and `password` for the REST API, and what `tls`
    /// needs. The controller may read no Secret by itself: grant it `get` on this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,

    /// PostgreSQL's parameters, kept in Patroni's dynamic configuration. What can be reloaded is
    /// reloaded; what needs a restart restarts PostgreSQL member by member, in the order that the
    /// change demands. Parameters that are not named here are left alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128), inner(length(max = 1024)))]
    pub parameters: BTreeMap<String, String>,
}

/// etcd, asked through its own JSON gateway on the port for clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Etcd {
    /// The port for clients in each member.
    #[serde(default = "etcd_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,

    /// Speak TLS with the members. The CA in the Secret's `ca.crt` is trusted; a client's
    /// certificate is sent if it has `tls.crt` and `tls.key`.
    #[serde(default)]
    pub tls: bool,

    /// A Secret in this namespace with what `tls` needs, and with `username` and `password` of a user
    /// with the role `root` if etcd's authentication is on, which needs `tls`. The controller may read
    /// no Secret by itself: grant it `get` on this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// Roles by a label that somebody else sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleLabels {
    /// The label's key.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// Its value on the primary.
    #[serde(default = "primary")]
    #[schemars(length(min = 1, max = 63))]
    pub primary_value: String,
    /// Its value on replicas.
    #[serde(default = "replica")]
    #[schemars(length(min = 1, max = 63))]
    pub replica_value: String,
}

/// Which Services Ensemble keeps beside the headless one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Services {
    /// NAME-primary, which leads to the primary.
    #[serde(default = "yes")]
    pub primary: bool,
    /// NAME-replicas, which leads to the replicas.
    #[serde(default = "yes")]
    pub replicas: bool,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            primary: true,
            replicas: true,
        }
    }
}

/// The label that tells roles: its key and its two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleLabel<'a> {
    /// The key.
    pub key: &'a str,
    /// The value on the primary.
    pub primary: &'a str,
    /// The value on replicas.
    pub replica: &'a str,
}

impl Engine {
    /// The label that tells roles, whoever sets it; none where nobody labels pods, and clients reach
    /// whichever member they like.
    pub fn role_label(&self) -> Option<RoleLabel<'_>> {
        let patroni = self.patroni.as_ref().map(|p| RoleLabel {
            key: &p.role_label,
            primary: &p.primary_value,
            replica: &p.replica_value,
        });
        let labels = || {
            self.labels.as_ref().map(|l| RoleLabel {
                key: &l.key,
                primary: &l.primary_value,
                replica: &l.replica_value,
            })
        };
        patroni.or_else(labels)
    }

    /// The port of the agent beside it, which is not for clients, if it has one.
    pub fn agent_port(&self) -> Option<u16> {
        self.patroni.as_ref().map(|p| p.port)
    }

    /// The parameters that it is to have, if it takes any.
    pub fn parameters(&self) -> Option<&BTreeMap<String, String>> {
        self.patroni.as_ref().map(|p| &p.parameters)
    }

    /// How far behind a replica may be, in the engine's own measure.
    pub fn max_lag(&self) -> u64 {
        let digits = self.max_lag.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number: u64 = digits.parse().unwrap_or(16 << 20);
        let factor = match &self.max_lag[digits.len()..] {
            "Ki" => 1 << 10,
            "Mi" => 1 << 20,
            "Gi" => 1 << 30,
            _ => 1,
        };
        number.saturating_mul(factor)
    }
}

fn sixteen_mi() -> String {
    "16Mi".into()
}

fn sixty() -> u32 {
    60
}

fn patroni_port() -> u16 {
    8008
}

fn etcd_port() -> u16 {
    2379
}

fn role() -> String {
    names::DEFAULT_ROLE_LABEL.into()
}

fn primary() -> String {
    "primary".into()
}

fn replica() -> String {
    "replica".into()
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_is_read_with_its_unit() {
        let engine = |lag: &str| -> Engine {
            serde_json::from_value(serde_json::json!({"patroni": {}, "maxLag": lag})).unwrap()
        };
        assert_eq!(engine("7").max_lag(), 7);
        assert_eq!(engine("2Ki").max_lag(), 2048);
        assert_eq!(engine("16Mi").max_lag(), 16 << 20);
    }

    #[test]
    fn where_nobody_labels_pods_no_label_tells_roles() {
        let engine =
            |which: serde_json::Value| -> Engine { serde_json::from_value(which).unwrap() };
        let etcd = engine(serde_json::json!({"etcd": {}}));
        assert_eq!(etcd.role_label(), None);
        assert_eq!(etcd.etcd.map(|e| (e.port, e.tls)), Some((2379, false)));
        let patroni = engine(serde_json::json!({"patroni": {}}));
        assert_eq!(
            patroni.role_label().map(|l| l.key.to_owned()),
            Some("role".into())
        );
    }
}
