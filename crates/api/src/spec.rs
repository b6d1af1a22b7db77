//! The kind `Ensemble`: what a user asks for.

use crate::engine::{Engine, Services};
use crate::names;
use crate::offline;
use crate::status::EnsembleStatus;
use crate::template::{ClaimSpec, Template};
use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stable members on their own volumes that are created, scaled, rolled, rolled back and repaired,
/// with a status that says at every moment what is happening and what it waits for.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ensemble.dev",
    version = "v1alpha1",
    kind = "Ensemble",
    namespaced,
    status = "EnsembleStatus",
    derive = "PartialEq",
    shortname = "ens",
    category = "all",
    category = "ensemble",
    doc = "Stable members on their own volumes, rolled without hurting each other, with a status \
           that says at every moment what is happening and what it waits for.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.summary.ready"),
    printcolumn(name = "Primary", type_ = "string", json_path = ".status.summary.primary"),
    printcolumn(name = "Updated", type_ = "string", json_path = ".status.summary.updated"),
    printcolumn(name = "Step", type_ = "string", json_path = ".status.summary.step"),
    printcolumn(name = "Waiting", type_ = "string", json_path = ".status.summary.waiting"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Tolerates",
        type_ = "integer",
        json_path = ".status.plan.tolerance",
        priority = 1
    ),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.summary.revision", priority = 1),
    printcolumn(name = "Plan", type_ = "string", json_path = ".status.plan.id", priority = 1),
    validation = Rule::new("size(self.metadata.name) <= 52").message(
        "metadata.name: at most 52 characters, since members add an ordinal to it and a host name ends at 63; choose a shorter name"
    ),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message(
        "metadata.name: must be a DNS label (lower-case letters, digits and '-', starting with a letter), since members use it as host name; for example 'orders'"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.claims) || !has(self.template.spec.volumes) || self.claims.all(c, !self.template.spec.volumes.exists(v, v.name == c.name))").message(
        "spec.claims: a claim and a volume in spec.template.spec.volumes have the same name; remove the volume, Ensemble adds one for each claim"
    ),
    validation = Rule::new("!has(self.template.spec.restartPolicy) || self.template.spec.restartPolicy == 'Always'").message(
        "spec.template.spec.restartPolicy: must be Always or absent, since members are to run for ever"
    ),
    validation = Rule::new("!has(self.template.spec.hostname) && !has(self.template.spec.subdomain) && !has(self.template.spec.nodeName)").message(
        "spec.template.spec: hostname, subdomain and nodeName are set by Ensemble for each member; remove them (use nodeSelector or affinity to choose nodes)"
    ),
    validation = Rule::new("!has(self.template.metadata) || !has(self.template.metadata.labels) || !self.template.metadata.labels.exists(k, k.startsWith('ensemble.dev/'))").message(
        "spec.template.metadata.labels: labels under ensemble.dev/ belong to Ensemble; choose another prefix"
    ),
    validation = Rule::new("(has(self.serviceName) ? self.serviceName : '') == (has(oldSelf.serviceName) ? oldSelf.serviceName : '')").message(
        "spec.serviceName: cannot be changed, members are known by it; create a new Ensemble"
    ),
    validation = Rule::new("(has(self.claims) ? self.claims.map(c, c.name) : []) == (has(oldSelf.claims) ? oldSelf.claims.map(c, c.name) : [])").message(
        "spec.claims: claims cannot be added or removed yet; create a new Ensemble with the claims that it needs"
    ),
    validation = Rule::new("!has(self.engine) || (has(self.engine.patroni) ? 1 : 0) + (has(self.engine.etcd) ? 1 : 0) + (has(self.engine.labels) ? 1 : 0) == 1").message(
        "spec.engine: exactly one of patroni, etcd and labels must be set; for PostgreSQL under Patroni write 'patroni: {}', for etcd 'etcd: {}'"
    ),
    validation = Rule::new("!has(self.engine) || !has(self.engine.etcd) || self.replicas == oldSelf.replicas").message(
        "spec.replicas: cannot be changed with spec.engine.etcd yet, since members would have to join and leave etcd's own member list; put back the old number"
    ),
    validation = Rule::new("!has(self.engine) || !has(self.engine.etcd) || !has(self.offline) || size(self.offline) == 0").message(
        "spec.offline: not possible with spec.engine.etcd yet, since etcd's own member list would still name the member; remove the list"
    ),
    validation = Rule::new("!has(self.engine) || !has(self.engine.labels) || (has(self.rollout) && has(self.rollout.primary) && self.rollout.primary == 'Restart')").message(
        "spec.rollout.primary: must be Restart with spec.engine.labels, since labels tell who leads and hand nothing over; set it, or use an engine that can switch over"
    ),
    validation = Rule::new("!has(self.engine) || !has(self.engine.container) || self.template.spec.containers.exists(c, c.name == self.engine.container)").message(
        "spec.engine.container: no container of spec.template.spec.containers has this name; name the one that runs the engine"
    ),
    validation = Rule::new("has(self.engine) == has(oldSelf.engine)").message(
        "spec.engine: cannot be added to or removed from an Ensemble that exists; create a new Ensemble"
    ),
    validation = Rule::new("!has(self.claims) || !has(oldSelf.claims) || self.claims.all(c, oldSelf.claims.exists(o, o.name == c.name && o.spec == c.spec))").message(
        "spec.claims: a claim's spec cannot be changed yet; put back the old one"
    ),
    validation = Rule::new("!has(self.scaling) || !has(self.scaling.min) || !has(self.scaling.max) || self.scaling.min <= self.scaling.max").message(
        "spec.scaling: min is above max; lower min or raise max"
    ),
    validation = limit("!has(self.scaling.min) || self.replicas >= self.scaling.min").message(
        "below spec.scaling.min; ask for at least that many members, or lower the limit"
    ),
    validation = limit("!has(self.scaling.max) || self.replicas <= self.scaling.max").message(
        "above spec.scaling.max; ask for at most that many members, or raise the limit"
    ),
    validation = limit("!has(self.scaling.oddOnly) || !self.scaling.oddOnly || self.replicas % 2 == 1").message(
        "even, and spec.scaling.oddOnly is true; ask for an odd number of members"
    )
)]
pub struct EnsembleSpec {
    /// How many members run.
    #[schemars(range(min = 0, max = 1000))]
    #[serde(default = "one")]
    pub replicas: u32,

    /// Ordinals of members to take out, wherever they stand: `[1, "3-5"]`. The next ordinals take their
    /// place, so that `replicas` members run. The PersistentVolumeClaims of an offline member are kept, and
    /// it returns with them once it is removed from this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "set"))]
    pub offline: Vec<offline::Entry>,

    /// Limits on `replicas`. The API server itself refuses a number outside of them, whoever asks:
    /// `kubectl scale`, an autoscaler, or an edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,

    /// Spread the members over zones. Each member gets a zone when it is created and keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<Zones>,

    /// The headless Service that gives each member its name in DNS. Default: NAME-members. It is
    /// created unless it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub service_name: Option<String>,

    /// How long a member must have been Ready before the next one may be touched.
    #[schemars(range(min = 0, max = 86400))]
    #[serde(default)]
    pub min_ready_seconds: u32,

    /// How many old revisions are kept for `ensemble undo`.
    #[schemars(range(min = 1, max = 100))]
    #[serde(default = "ten")]
    pub revision_history_limit: u32,

    /// What each member's pod looks like: a PodTemplateSpec. ENSEMBLE_NAME, ENSEMBLE_MEMBER and
    /// ENSEMBLE_ORDINAL are added to the environment of every container.
    pub template: Template,

    /// The volumes of each member. All claims of a member are one unit: one that has been used
    /// never gets an empty volume in place of a lost one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub claims: Vec<Claim>,

    /// Who tells the roles of members and hands the lead over. Absent: members are equals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,

    /// How a change of the template reaches the members.
    #[serde(default)]
    pub rollout: Rollout,

    /// Which Services are kept beside the headless one; only with `engine`.
    #[serde(default)]
    pub services: Services,

    /// What happens to claims that are no longer needed.
    #[serde(default)]
    pub storage: Storage,

    /// Whether Ensemble keeps a PodDisruptionBudget for the members.
    #[serde(default)]
    pub disruption: Disruption,

    /// Stop all work on this Ensemble: while true nothing is written but its own condition.
    #[serde(default)]
    pub suspend: bool,
}

/// Limits on the number of members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// The fewest members that may be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub min: Option<u32>,
    /// The most members that may be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub max: Option<u32>,
    /// Whether only odd numbers may be asked for, as members that vote need: an even number costs one
    /// more and survives no more losses.
    #[serde(default)]
    pub odd_only: bool,
}

/// A limit on `replicas`. It must stand on `spec`, where both are seen. There the API server asks every
/// rule again at every change of the spec, so a number that was accepted before its limit existed would
/// block all other edits: who changes neither is let pass.
fn limit(holds: &str) -> Rule {
    let unchanged = "oldSelf.hasValue() && has(oldSelf.value().scaling) \
                     && oldSelf.value().scaling == self.scaling \
                     && oldSelf.value().replicas == self.replicas";
    Rule {
        optional_old_self: Some(true),
        field_path: Some(".replicas".into()),
        ..Rule::new(format!("!has(self.scaling) || {holds} || {unchanged}"))
    }
}

/// The zones that members are spread over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Zones {
    /// The zones, as nodes are labelled with them. A new member goes to the one with the fewest members, of
    /// equal ones to the first.
    #[schemars(
        length(min = 1, max = 16),
        inner(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub names: Vec<String>,
    /// The label of nodes that says in which zone they are.
    #[schemars(length(min = 1, max = 316))]
    #[serde(default = "zone_label")]
    pub topology_key: String,
    /// Whether a member may be started outside of its zone.
    #[serde(default)]
    pub mode: ZoneMode,
}

/// Whether a member may be started outside of its zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ZoneMode {
    /// It is started in its zone or not at all.
    #[default]
    Require,
    /// It is started elsewhere if its zone has no room.
    Prefer,
}

/// One volume of each member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The name of the volume in the pod; the claim is called NAME-ENSEMBLE-ORDINAL.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// A PersistentVolumeClaimSpec.
    pub spec: ClaimSpec,
}

/// How a change of the template reaches the members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How a member gets a new template.
    #[serde(default)]
    pub method: RolloutMethod,
    /// Whose turn it is first; only with `engine`.
    #[serde(default)]
    pub order: Order,
    /// What happens before the primary's turn; only with `engine`.
    #[serde(default)]
    pub primary: PrimaryTurn,
    /// How many members may be unavailable at once because of a change.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(default = "one")]
    pub max_unavailable: u32,
    /// Whether new images are pulled on the nodes concerned before the first member is touched.
    #[serde(default)]
    pub pre_pull: PrePull,
    /// After how long without progress a rollout counts as stalled. It never stops trying.
    #[schemars(range(min = 1, max = 604800))]
    #[serde(default = "six_hundred")]
    pub progress_deadline_seconds: u32,
    /// Hold the rollout where it is. Members that fail are still repaired.
    #[serde(default)]
    pub paused: bool,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            method: RolloutMethod::default(),
            order: Order::default(),
            primary: PrimaryTurn::default(),
            max_unavailable: one(),
            pre_pull: PrePull::default(),
            progress_deadline_seconds: six_hundred(),
            paused: false,
        }
    }
}

/// How a member gets a new template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutMethod {
    /// A change of images, of CPU and memory, of labels and annotations is made in the same pod, on
    /// the same node, at the same address. A new image restarts its container; CPU and memory do so
    /// only where the container's `resizePolicy` asks for it; labels and annotations restart nothing.
    /// Every other change recreates the pod on the same claims.
    #[default]
    InPlaceIfPossible,
    /// The pod is always recreated, on the same claims.
    Recreate,
}

/// Whose turn it is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// Replicas first, unless the change demands otherwise.
    #[default]
    Auto,
    /// Replicas first, the most lagging one first; the primary last.
    ReplicasFirst,
    /// Whoever leads when it begins goes first, once it has handed the lead over; who leads then goes
    /// last. The lead moves twice.
    PrimaryFirst,
}

/// What happens before the primary's turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PrimaryTurn {
    /// The lead is handed to an updated replica that is in sync, and seen to have arrived.
    #[default]
    Switchover,
    /// The primary is restarted as it is, once a replica is in sync; whoever has the consensus
    /// decides who leads meanwhile.
    Restart,
    /// As Switchover, once somebody has said `ensemble approve`.
    Supervised,
}

/// Whether images are pulled ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PrePull {
    /// No member is touched before its node has the new images.
    #[default]
    Required,
    /// Images are pulled ahead where a helper pod finds room: where a quota, an admission rule or a full
    /// node refuses it, they are pulled when the member restarts.
    IfPossible,
    /// Images are pulled when a member restarts.
    Skip,
}

/// What happens to claims that are no longer needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// The claims of members that scaling in has removed.
    #[serde(default)]
    pub when_scaled: Keep,
    /// The claims of a deleted Ensemble.
    #[serde(default)]
    pub when_deleted: Keep,
}

/// Keep or delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Keep {
    /// Kept, and taken up again by the member of that number.
    #[default]
    Retain,
    /// Deleted once no pod uses them.
    Delete,
}

/// Who keeps disruption budgets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Disruption {
    /// Ensemble keeps one, unless somebody else's selects the members.
    #[default]
    Managed,
    /// Ensemble keeps none.
    Unmanaged,
}

impl EnsembleSpec {
    /// The container whose restart is a restart of the member.
    pub fn engine_container(&self) -> String {
        let named = self.engine.as_ref().and_then(|e| e.container.clone());
        named
            .or_else(|| self.template.first_container())
            .unwrap_or_default()
    }

    /// The headless Service, by the user's word or by default.
    pub fn service(&self, ensemble: &str) -> String {
        self.service_name
            .clone()
            .unwrap_or_else(|| names::default_service(ensemble))
    }
}

fn zone_label() -> String {
    "topology.kubernetes.io/zone".to_owned()
}

fn one() -> u32 {
    1
}

fn ten() -> u32 {
    10
}

fn six_hundred() -> u32 {
    600
}
