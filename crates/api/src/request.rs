//! The kind `EnsembleRequest`: one thing a person asks for, once.
//!
//! Requests have an author, a result and RBAC of their own, which an annotation or a patched spec
//! would not.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing asked of an Ensemble, once. Its spec cannot be changed; the outcome is in its status.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ensemble.dev",
    version = "v1alpha1",
    kind = "EnsembleRequest",
    namespaced,
    status = "EnsembleRequestStatus",
    derive = "PartialEq",
    shortname = "ensreq",
    category = "ensemble",
    doc = "One thing asked of an Ensemble, once. Its spec cannot be changed; the outcome is in its status.",
    printcolumn(name = "Ensemble", type_ = "string", json_path = ".spec.ensemble"),
    printcolumn(name = "Outcome", type_ = "string", json_path = ".status.outcome"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf").message(
        "spec: a request cannot be changed; delete it and create another"
    ),
    validation = Rule::new("(has(self.rebuild) ? 1 : 0) + (has(self.switch) ? 1 : 0) + (has(self.approve) ? 1 : 0) + (has(self.waive) ? 1 : 0) + (has(self.remove) ? 1 : 0) + (has(self.replace) ? 1 : 0) == 1").message(
        "spec: exactly one of rebuild, switch, approve, waive, remove and replace must be set"
    ),
    validation = Rule::new("!has(self.waive) || (has(self.reason) && self.reason.trim() != '')").message(
        "spec.reason: required with waive; say why the risk is taken, for those who read it later"
    )
)]
pub struct EnsembleRequestSpec {
    /// The Ensemble in this namespace that is asked.
    #[schemars(length(min = 1, max = 52))]
    pub ensemble: String,
    /// Give members whose volumes are lost a new life on empty ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuild>,
    /// Hand the lead to another member, once it is in sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Switch>,
    /// Let the rollout hand the lead over, where `rollout.primary` is Supervised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approve: Option<Approve>,
    /// Suspend one safety rule for one member and a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waive: Option<Waive>,
    /// Remove one member for good. The next ordinal takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<Remove>,
    /// Replace one member by another under the next ordinal, which is in sync before it leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<Replace>,
    /// Why, in the asker's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// How long the request stays after its outcome is known.
    #[serde(default = "one_day")]
    #[schemars(range(min = 0, max = 2592000))]
    pub ttl_seconds_after_finished: u32,
}

/// Give members whose volumes are lost a new life on empty ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rebuild {
    /// The members, by name: `orders-1`. Claims of theirs that still exist are deleted once no pod
    /// uses them.
    #[schemars(length(min = 1, max = 64))]
    pub members: Vec<String>,
    /// Must be true: the data that these members held is given up.
    pub accept_data_loss: bool,
}

/// Hand the lead over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Switch {
    /// Who is to lead, by name: `orders-1`. Default: whoever is in sync and least behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub to: Option<String>,
}

/// Let the rollout hand the lead over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approve {
    /// The revision whose rollout is approved, as in `status.groups[].revision`; another one needs another
    /// approval.
    #[schemars(length(min = 1, max = 63))]
    pub revision: String,
}

/// Suspend one safety rule for one member and a while. Rules about identity, ownership, claims and data
/// cannot be waived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waive {
    /// The rule, by its name in reports: `within-budget`.
    #[schemars(schema_with = "waivable")]
    pub rule: String,
    /// The member, by name: `orders-1`. The rule holds for every other.
    #[schemars(length(min = 1, max = 63))]
    pub member: String,
    /// For how long, from when the request is created.
    #[schemars(range(min = 60, max = 86400))]
    pub for_seconds: u32,
}

/// Remove one member for good. Its ordinal is never used again, and the next one takes its place, so that
/// `replicas` members run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// The member, by name: `orders-1`.
    #[schemars(length(min = 1, max = 63))]
    pub member: String,
    /// Keep its PersistentVolumeClaims. Otherwise they follow `storage.whenScaled`.
    #[serde(default)]
    pub keep_volumes: bool,
}

/// Replace one member by another under the next ordinal. It leaves once its successor is in sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replace {
    /// The member, by name: `orders-1`.
    #[schemars(length(min = 1, max = 63))]
    pub member: String,
}

impl Waive {
    /// The shortest that can be asked for.
    pub const SHORTEST_SECONDS: u32 = 60;
    /// The longest that can be asked for.
    pub const LONGEST_SECONDS: u32 = 86_400;
}

/// The rules that can be waived, and no other.
fn waivable(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names: Vec<&str> = crate::Rule::waivable().map(crate::Rule::as_str).collect();
    schemars::json_schema!({"type": "string", "enum": names})
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnsembleRequestStatus {
    /// The outcome, absent until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The outcome in words.
    #[serde(default)]
    pub message: String,
    /// When the outcome was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Of a waiver: since it was accepted, and until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiver: Option<AcceptedWaiver>,
}

/// A waiver that was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedWaiver {
    /// Until when the rule is suspended.
    pub until: Time,
    /// The epoch of the controller that accepted it; it ends with that controller.
    pub epoch: i64,
    /// What was done that the rule would have refused: `Recreate`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub used_for: Vec<String>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// It was refused; the message says by which rule.
    Refused,
    /// It was tried and did not come about; the message says why.
    Failed,
}

fn one_day() -> u32 {
    86_400
}
