//! Objects as the planner sees them: what decisions need, and nothing else.
//!
//! Read from plain JSON, so that the API server's, the simulator's and a golden file's objects go
//! the same way, and so that fields newer than our libraries survive where they matter.

mod budget;
mod pod;

pub use budget::{BudgetView, Selector};
pub use pod::{ContainerState, ContainerView, Phase, PodView};

use crate::kinds::Kind;
use crate::quantity::{self, Quantity};
use crate::snapshot::Snapshot;
use ensemble_api::request::AcceptedWaiver;
use ensemble_api::{EnsembleRequestSpec, EnsembleSpec, EnsembleStatus, labels};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object as it was when it was read: what a conditional write needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pinned {
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// At which version.
    pub resource_version: String,
}

/// What every view keeps of an object's metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// Name, uid and version.
    pub pin: Pinned,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations of ours.
    pub annotations: BTreeMap<String, String>,
    /// Which ensemble it belongs to, by its label.
    pub ensemble: String,
    /// Which group, by its label.
    pub group: String,
    /// The number in the name of the member that it belongs to, by its label.
    pub ordinal: Option<u32>,
    /// Which life of that number it belongs to, by its label.
    pub incarnation: Option<u32>,
    /// The uid of the controlling owner.
    pub controller: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// Generation, 0 where the kind has none.
    pub generation: i64,
}

/// Why an object could not be read: the field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The field, as a path.
    pub field: String,
    /// What is wrong.
    pub cause: String,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.cause)
    }
}

impl std::error::Error for Unreadable {}

/// One kind of object as we see it.
pub trait View: Sized {
    /// Which kind.
    const KIND: Kind;

    /// Reads an object.
    fn read(object: &Value) -> Result<Self, Unreadable>;
}

/// A view that a snapshot keeps, by name.
pub trait Kept: View + PartialEq {
    /// Its metadata.
    fn meta(&self) -> &Meta;

    /// Where a snapshot keeps it.
    fn shelf(snap: &mut Snapshot) -> &mut BTreeMap<String, Self>;

    /// Whether it concerns that ensemble. What belongs by its label was told apart by that.
    fn is_of(&self, _ensemble: &str) -> bool {
        true
    }
}

/// What stands at a path as `/metadata/name`. serde_json's own `pointer` makes two strings of every
/// part of the path.
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let mut parts = path.split('/').skip(1);
    parts.try_fold(value, |value, part| value.get(part))
}

fn text(value: &Value, path: &str) -> String {
    at(value, path)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn strings(
    value: Option<&Value>,
    keep: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let map = value.and_then(Value::as_object).into_iter().flatten();
    map.filter(|(k, _)| keep(k))
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect()
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    at(value, path)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// A number as we write it, without sign and leading zeros; anything else is none of ours.
fn number(text: Option<&String>) -> Option<u32> {
    let text = text?;
    let number: u32 = text.parse().ok()?;
    (number.to_string() == *text).then_some(number)
}

impl Meta {
    /// Reads an object's metadata.
    pub fn read(object: &Value) -> Self {
        let owners = list(object, "/metadata/ownerReferences");
        let controller = owners
            .filter(|o| o.get("controller").and_then(Value::as_bool) == Some(true))
            .map(|o| text(o, "/uid"))
            .next();
        let finalizers = list(object, "/metadata/finalizers");
        let labels_ = strings(at(object, "/metadata/labels"), |_| true);
        Self {
            pin: Pinned {
                name: text(object, "/metadata/name"),
                uid: text(object, "/metadata/uid"),
                resource_version: text(object, "/metadata/resourceVersion"),
            },
            ensemble: labels_.get(labels::ENSEMBLE).cloned().unwrap_or_default(),
            group: labels_.get(labels::GROUP).cloned().unwrap_or_default(),
            ordinal: number(labels_.get(labels::ORDINAL)),
            incarnation: number(labels_.get(labels::INCARNATION)),
            labels: labels_,
            annotations: strings(at(object, "/metadata/annotations"), |k| {
                k.starts_with("ensemble.dev/")
            }),
            controller,
            deleting: at(object, "/metadata/deletionTimestamp").is_some_and(|v| !v.is_null()),
            finalizers: finalizers
                .filter_map(|f| f.as_str().map(str::to_owned))
                .collect(),
            generation: at(object, "/metadata/generation")
                .and_then(Value::as_i64)
                .unwrap_or(0),
        }
    }

    /// A label, empty if absent.
    pub fn label(&self, key: &str) -> &str {
        self.labels.get(key).map_or("", String::as_str)
    }
}

/// The Ensemble itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnsembleView {
    /// Metadata.
    pub meta: Meta,
    /// Its namespace.
    pub namespace: String,
    /// What the user asks for.
    pub spec: Arc<EnsembleSpec>,
    /// What was last written back, as stored.
    pub status: EnsembleStatus,
    /// Whether a status was stored at all.
    pub has_status: bool,
}

impl View for EnsembleView {
    const KIND: Kind = Kind::Ensemble;

    /// A status that cannot be read counts as lost, a spec as unreadable.
    fn read(object: &Value) -> Result<Self, Unreadable> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let spec = EnsembleSpec::deserialize(spec).map_err(|e| Unreadable {
            field: "spec".into(),
            cause: e.to_string(),
        })?;
        Ok(Self::of(object, Meta::read(object), Arc::new(spec)))
    }
}

impl EnsembleView {
    /// Reads an Ensemble that was read before: of the same generation, it has the same spec.
    pub fn read_after(object: &Value, before: &Self) -> Result<Self, Unreadable> {
        let now = Meta::read(object);
        let known = before.meta.generation > 0 && before.uid() == now.pin.uid;
        if known && before.meta.generation == now.generation {
            return Ok(Self::of(object, now, before.spec.clone()));
        }
        Self::read(object)
    }

    fn of(object: &Value, meta: Meta, spec: Arc<EnsembleSpec>) -> Self {
        let status = object
            .get("status")
            .filter(|s| s.as_object().is_some_and(|m| !m.is_empty()));
        let status = status.and_then(read_status);
        Self {
            meta,
            namespace: text(object, "/metadata/namespace"),
            spec,
            has_status: status.is_some(),
            status: status.unwrap_or_default(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.meta.pin.name
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.meta.pin.uid
    }
}

/// Reads a status. A controller of another version may use words in its report that we do not know;
/// the report is made anew anyway, and what it stands beside must not be lost for it.
fn read_status(status: &Value) -> Option<EnsembleStatus> {
    EnsembleStatus::deserialize(status).ok().or_else(|| {
        let mut facts = status.as_object()?.clone();
        facts.remove("plan");
        serde_json::from_value(Value::Object(facts)).ok()
    })
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimView {
    /// Metadata.
    pub meta: Meta,
    /// Which of its member's claims it is, by its label.
    pub claim: String,
    /// `Bound`, `Pending` or `Lost`.
    pub phase: String,
}

impl View for ClaimView {
    const KIND: Kind = Kind::Claim;

    fn read(claim: &Value) -> Result<Self, Unreadable> {
        let meta = Meta::read(claim);
        Ok(Self {
            claim: meta.label(labels::CLAIM).to_owned(),
            meta,
            phase: text(claim, "/status/phase"),
        })
    }
}

impl Kept for ClaimView {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shelf(snap: &mut Snapshot) -> &mut BTreeMap<String, Self> {
        &mut snap.claims
    }
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Whether its kubelet reports, and reports well.
    pub ready: bool,
    /// Whether somebody who knows has said that it is off.
    pub out_of_service: bool,
    /// Whether it takes no new pods.
    pub cordoned: bool,
    /// The CPU that it has for pods, if it says so.
    pub cpu: Option<Quantity>,
    /// The memory that it has for pods, if it says so.
    pub memory: Option<Quantity>,
    /// Major and minor version of its kubelet, if it says so.
    pub kubelet: Option<(u32, u32)>,
    /// Its labels, which tell its zone.
    pub labels: BTreeMap<String, String>,
}

/// `v1.33.4+k3s1` as 1 and 33.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim_start_matches('v').split('.');
    let mut number = || parts.next()?.parse().ok();
    Some((number()?, number()?))
}

impl View for NodeView {
    const KIND: Kind = Kind::Node;

    fn read(node: &Value) -> Result<Self, Unreadable> {
        let ready = list(node, "/status/conditions").any(|c| {
            c.get("type").and_then(Value::as_str) == Some("Ready")
                && c.get("status").and_then(Value::as_str) == Some("True")
        });
        let out_of_service = list(node, "/spec/taints")
            .any(|t| text(t, "/key") == "node.kubernetes.io/out-of-service");
        let cordoned = at(node, "/spec/unschedulable").and_then(Value::as_bool) == Some(true);
        let has = |resource: &str| {
            let amount = at(node, "/status/allocatable")?.get(resource)?;
            quantity::read(amount)
        };
        Ok(Self {
            ready,
            out_of_service,
            cordoned,
            cpu: has("cpu"),
            memory: has("memory"),
            kubelet: version(&text(node, "/status/nodeInfo/kubeletVersion")),
            labels: strings(at(node, "/metadata/labels"), |_| true),
        })
    }
}

/// A stored revision of the template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RevisionView {
    /// Metadata.
    pub meta: Meta,
    /// Its integer version.
    pub number: i64,
    /// The template in it.
    pub template: Map<String, Value>,
}

impl View for RevisionView {
    const KIND: Kind = Kind::Revision;

    fn read(revision: &Value) -> Result<Self, Unreadable> {
        let template = at(revision, "/data/template").and_then(Value::as_object);
        Ok(Self {
            meta: Meta::read(revision),
            number: revision
                .get("revision")
                .and_then(Value::as_i64)
                .unwrap_or(0),
            template: template.cloned().unwrap_or_default(),
        })
    }
}

impl Kept for RevisionView {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shelf(snap: &mut Snapshot) -> &mut BTreeMap<String, Self> {
        &mut snap.revisions
    }
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceView {
    /// Metadata.
    pub meta: Meta,
    /// The labels by which it selects pods.
    pub selector: BTreeMap<String, String>,
}

impl View for ServiceView {
    const KIND: Kind = Kind::Service;

    fn read(service: &Value) -> Result<Self, Unreadable> {
        let meta = Meta::read(service);
        let selector = service.pointer("/spec/selector").and_then(Value::as_object);
        let text = |(k, v): (&String, &Value)| Some((k.clone(), v.as_str()?.to_owned()));
        Ok(Self {
            meta,
            selector: selector.into_iter().flatten().filter_map(text).collect(),
        })
    }
}

impl Kept for ServiceView {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shelf(snap: &mut Snapshot) -> &mut BTreeMap<String, Self> {
        &mut snap.services
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestView {
    /// Metadata.
    pub meta: Meta,
    /// What is asked.
    pub spec: EnsembleRequestSpec,
    /// Whether its outcome is known.
    pub finished: bool,
    /// When its outcome was known, by our own writing.
    pub finished_at: Option<crate::Time>,
    /// When it was created, by the API server's clock. That may differ from ours: it only ever ends
    /// something sooner.
    pub created: Option<crate::Time>,
    /// Of a waiver: that it was accepted, by our own writing.
    pub waiver: Option<AcceptedWaiver>,
}

impl View for RequestView {
    const KIND: Kind = Kind::Request;

    fn read(request: &Value) -> Result<Self, Unreadable> {
        let spec = request.get("spec").cloned().unwrap_or(Value::Null);
        let spec = serde_json::from_value(spec).map_err(|e| Unreadable {
            field: "spec".into(),
            cause: e.to_string(),
        })?;
        let stamp = |path: &str| {
            let found = at(request, path).cloned();
            found.and_then(|v| serde_json::from_value(v).ok())
        };
        let waiver = at(request, "/status/waiver").cloned();
        Ok(Self {
            meta: Meta::read(request),
            spec,
            finished: at(request, "/status/outcome").is_some_and(|v| !v.is_null()),
            finished_at: stamp("/status/finishedAt")
                .as_ref()
                .map(crate::Time::from_stamp),
            created: stamp("/metadata/creationTimestamp")
                .as_ref()
                .map(crate::Time::from_stamp),
            waiver: waiver.and_then(|v| serde_json::from_value(v).ok()),
        })
    }
}

impl Kept for RequestView {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shelf(snap: &mut Snapshot) -> &mut BTreeMap<String, Self> {
        &mut snap.requests
    }

    fn is_of(&self, ensemble: &str) -> bool {
        self.spec.ensemble == ensemble
    }
}
