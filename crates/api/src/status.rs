//! What Ensemble writes back.

use crate::report::Report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// At most this many members are listed in status, those that need attention first.
pub const MEMBERS_MAX: usize = 64;

/// What Ensemble knows and does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnsembleStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default)]
    pub observed_generation: i64,
    /// How many pods of members exist.
    #[serde(default)]
    pub replicas: u32,
    /// How many members have been Ready for long enough.
    #[serde(default)]
    pub ready_replicas: u32,
    /// How many members run the newest revision.
    #[serde(default)]
    pub updated_replicas: u32,
    /// Selects the pods of all members.
    #[serde(default)]
    pub selector: String,
    /// The newest revision, by the name of its ControllerRevision.
    #[serde(default)]
    pub revision: String,
    /// The revision that last reached all members; what fails is repaired at it while a newer one
    /// may not be used yet.
    #[serde(default)]
    pub current_revision: String,
    /// Which leadership wrote this status. One of a lower epoch that sees it stands down.
    #[serde(default)]
    pub epoch: i64,
    /// When the rollout last made progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressed_at: Option<Time>,
    /// What the columns of `kubectl get` show.
    #[serde(default)]
    pub summary: Summary,
    /// Ready, and Reconciling, Stalled, Available, Paused as they apply (kstatus).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// By group: which ordinals were ever used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ledger: BTreeMap<String, Ledger>,
    /// Disruptions written down before they are done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub in_flight: Vec<Intent>,
    /// Claims that policy or a request lets go, written down before they are deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub let_go: Vec<LetGo>,
    /// The members, those that need attention first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub members: Vec<MemberStatus>,
    /// The plan: what is done, what is next, what waits and for what.
    #[serde(default)]
    pub plan: Report,
}

/// The columns of `kubectl get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// `2/3`: members that are Ready.
    #[serde(default)]
    pub ready: String,
    /// `1/3`: members at the newest revision.
    #[serde(default)]
    pub updated: String,
    /// `4/6`: steps done of the plan; `-` if there is nothing to do.
    #[serde(default)]
    pub step: String,
    /// The reason that the plan waits for; `-` if it does not wait.
    #[serde(default)]
    pub waiting: String,
}

/// Which ordinals of a group were ever used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// The first ordinal never used. It is raised before the first claim of an ordinal is created.
    #[serde(default)]
    pub next: u32,
    /// Ordinals that were Ready once: `0-2,5`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub born: String,
    /// By ordinal, which life it is in, where that is not the first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub incarnations: BTreeMap<String, u32>,
}

/// A disruption written down before it is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// The member, by its pod's name.
    pub member: String,
    /// The pod that is meant; another of the same name is not.
    pub uid: String,
    /// What is done to it.
    pub method: Method,
    /// The epoch of the controller that wrote it (transitions of its Lease).
    pub epoch: i64,
    /// When it was written.
    pub since: Time,
}

/// How a member is disrupted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Method {
    /// Evicted, then created again on the same claims.
    Recreate,
    /// Proven down or ended: deleted, then created again on the same claims.
    Replace,
    /// Evicted and not created again.
    Remove,
}

/// One member, as last seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Its pod's name.
    pub name: String,
    /// What is known of its pod: Absent, Down, Starting, Serving, Unhealthy, Leaving, Unreachable.
    pub presence: String,
    /// The node it is on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Whether it runs the newest revision.
    #[serde(default)]
    pub updated: bool,
    /// What is wrong with it, if anything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl EnsembleStatus {
    /// The condition of that type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.type_ == type_)
    }
}

/// A claim that policy or a request lets go, written down before it is deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LetGo {
    /// The claim's name.
    pub claim: String,
    /// The claim that is meant; another of the same name is not.
    pub uid: String,
    /// Who consented: `storage.whenScaled`, `storage.whenDeleted`, or a request's name.
    pub consent: String,
}
