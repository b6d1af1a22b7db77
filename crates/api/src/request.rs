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
    validation = Rule::new("(has(self.rebuild) ? 1 : 0) + (has(self.switch) ? 1 : 0) + (has(self.approve) ? 1 : 0) == 1").message(
        "spec: exactly one of rebuild, switch and approve must be set"
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
