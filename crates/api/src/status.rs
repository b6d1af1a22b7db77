//! What Ensemble writes back.

use crate::report::Report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// At most this many members are listed in status, those that need attention first.
pub const MEMBERS_MAX: usize = 64;

/// At most this many disruptions are written down at a time; whatever `maxUnavailable` allows beyond
/// that takes its turn.
pub const IN_FLIGHT_MAX: usize = 256;

/// At most this many claims are written down as let go at a time. The largest ensemble has more, and
/// the others follow as those go.
pub const LET_GO_MAX: usize = 1024;

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
    /// The groups of members, in the order of the spec. An ensemble that declares none has one, named
    /// `members`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub groups: Vec<GroupStatus>,
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
    /// Who leads, as last seen and backed by the engine's own consensus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<Lead>,
    /// The newest switchover: under way, or how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switchover: Option<Switchover>,
    /// The newest change of the engine's parameters: under way, or how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<ParameterChange>,
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

/// One group of members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// How many pods of its members exist.
    #[serde(default)]
    pub replicas: u32,
    /// How many of its members have been Ready for long enough.
    #[serde(default)]
    pub ready_replicas: u32,
    /// How many of its members run the newest revision.
    #[serde(default)]
    pub updated_replicas: u32,
    /// The newest revision, by the name of its ControllerRevision.
    #[serde(default)]
    pub revision: String,
    /// The revision that last reached all its members; what fails is repaired at it while a newer one
    /// may not be used yet.
    #[serde(default)]
    pub current_revision: String,
}

/// The columns of `kubectl get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// `2/3`: members that are Ready.
    #[serde(default)]
    pub ready: String,
    /// The member that leads; `-` if nobody is known to, or if there are no roles.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub primary: String,
    /// `1/3`: members at the newest revision.
    #[serde(default)]
    pub updated: String,
    /// The newest revision; of several groups, all of them, with commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
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
    /// Ordinals of members that were removed for good: `1,4-5`. They are never used again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub retired: String,
    /// Those of them whose claims are kept whatever `storage.whenScaled` says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kept: String,
    /// By ordinal, which life it is in, where that is not the first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub incarnations: BTreeMap<String, u32>,
    /// By ordinal and name of claim, the last group of the uid of the claim that it was born on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, BTreeMap<String, String>>,
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
    /// The revision that it brings, for what happens in the same pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// The rules that would refuse it and that a person has waived for this member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub waived: Vec<String>,
}

/// Who leads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lead {
    /// The member, by its pod's name.
    pub member: String,
    /// At which term of the engine, a number that rises with every change of leader.
    pub term: u64,
}

/// A switchover, written down before the engine is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Switchover {
    /// Names it; the engine is asked at most once for each.
    pub id: String,
    /// Who is to hand the lead over.
    pub from: String,
    /// The pod that is meant by `from`.
    pub from_uid: String,
    /// Who is to lead.
    pub to: String,
    /// The pod that is meant by `to`.
    pub to_uid: String,
    /// The term that `from` leads at; whoever leads after it leads at a higher one.
    pub term: u64,
    /// How far it is, or how it ended.
    pub phase: SwitchPhase,
    /// Why.
    pub cause: String,
    /// The request that asked for it, if one did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// The revision whose rollout it serves, if it serves one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The epoch of the controller that wrote it.
    pub epoch: i64,
    /// When it was written down.
    pub since: Time,
    /// When it is given up.
    pub deadline: Time,
    /// How often in a row one ended elsewhere than asked, this one included.
    #[serde(default)]
    pub tries: u32,
    /// How it ended, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How far a switchover is, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SwitchPhase {
    /// Written down; the engine has not been asked.
    Proposed,
    /// The engine is being asked, or was.
    Asked,
    /// The wanted member leads, at a higher term.
    Arrived,
    /// Another member leads, at a higher term.
    Superseded,
    /// Given up: refused, or not done in time. The old primary stays.
    Abandoned,
}

impl SwitchPhase {
    /// Whether it is not over.
    pub fn is_open(self) -> bool {
        matches!(self, SwitchPhase::Proposed | SwitchPhase::Asked)
    }
}

/// A change of the engine's parameters, written down before the engine is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParameterChange {
    /// By parameter: its value before; one that had none is missing here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub from: BTreeMap<String, String>,
    /// By parameter: its value after.
    #[serde(default)]
    pub to: BTreeMap<String, String>,
    /// How far it is.
    #[serde(default)]
    pub state: ParameterState,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl ParameterChange {
    /// In words: what becomes what.
    pub fn words(&self) -> String {
        let one = |(name, value): (&String, &String)| match self.from.get(name) {
            Some(old) => format!("{name} {old} -> {value}"),
            None => format!("{name} -> {value}"),
        };
        let all: Vec<String> = self.to.iter().map(one).collect();
        all.join(", ")
    }

    /// Whether the engine is being told of it, or of the old values.
    pub fn is_under_way(&self) -> bool {
        matches!(
            self.state,
            ParameterState::Applying | ParameterState::RollingBack
        )
    }
}

/// How far a change of parameters is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ParameterState {
    /// The engine is being told, and members restart where they have to.
    #[default]
    Applying,
    /// All members run with it.
    Applied,
    /// A member did not come up with it: the old values are put back.
    RollingBack,
    /// The old values are in force again. It is not tried again before it is corrected.
    Refused,
}

/// How a member is disrupted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Method {
    /// Evicted, then created again on the same claims.
    Recreate,
    /// Proven down or ended: deleted, then created again on the same claims.
    Clear,
    /// Evicted and not created again.
    Remove,
    /// What changed is brought to the same pod: images, CPU and memory, labels, annotations.
    InPlace,
    /// The engine restarts in its container.
    Restart,
}

/// One member, as last seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Its pod's name.
    pub name: String,
    /// What is known of its pod: Absent, Down, Starting, Serving, Unhealthy, Leaving, Unreachable.
    pub presence: String,
    /// What it plays, by the engine's word: Primary, Replica, or Unknown; empty without an engine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Whether it follows the primary closely enough to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_sync: Option<bool>,
    /// The node it is on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The zone it belongs to; empty without `spec.zones`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// Whether it runs the newest revision.
    #[serde(default)]
    pub updated: bool,
    /// What is wrong with it, if anything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl EnsembleStatus {
    /// The group of that name.
    pub fn group(&self, name: &str) -> Option<&GroupStatus> {
        self.groups.iter().find(|g| g.name == name)
    }

    /// The newest revision of the first group; empty before the first status.
    pub fn revision(&self) -> &str {
        self.groups.first().map_or("", |g| &g.revision)
    }

    /// The revision that last reached all members of the first group; empty before one has.
    pub fn current_revision(&self) -> &str {
        self.groups.first().map_or("", |g| &g.current_revision)
    }

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
