//! Objects as the planner sees them: what decisions need, and nothing else.
//!
//! Read from plain JSON, so that the API server's, the simulator's and a golden file's objects go
//! the same way, and so that fields newer than our libraries survive where they matter.

mod budget;

pub use budget::{BudgetView, Selector};

use crate::quantity::{self, Quantity};
use crate::resize::{self, Resize};
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

fn strings(value: Option<&Value>, keep: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
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

impl EnsembleView {
    /// Reads an Ensemble. A status that cannot be read counts as lost, a spec as unreadable.
    pub fn read(object: &Value) -> Result<Self, Unreadable> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let spec = EnsembleSpec::deserialize(spec).map_err(|e| Unreadable {
            field: "spec".into(),
            cause: e.to_string(),
        })?;
        Ok(Self::of(object, Meta::read(object), Arc::new(spec)))
    }

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

/// What a container is doing, by its kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// It waits, for that reason.
    Waiting {
        /// The kubelet's word.
        reason: String,
        /// The kubelet's message.
        message: String,
    },
    /// It runs.
    Running,
    /// It has ended.
    Ended {
        /// The kubelet's word.
        reason: String,
        /// Its exit code.
        exit_code: i64,
    },
}

/// One container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// Its name.
    pub name: String,
    /// Whether it runs before the others, to an end.
    pub init: bool,
    /// Its image by the spec. A kubelet goes on naming the one that ran, while the new one cannot be
    /// had.
    pub image: String,
    /// Which run it is: the runtime's id of it, empty before it first ran.
    pub id: String,
    /// The digest, known once the image was pulled.
    pub image_id: String,
    /// What it does.
    pub state: ContainerState,
    /// How often it was restarted.
    pub restarts: i64,
    /// How the run before this one ended.
    pub last_exit: Option<(String, i64)>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// Running.
    Running,
    /// Ended for good.
    Ended,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// Metadata.
    pub meta: Meta,
    /// Its phase.
    pub phase: Phase,
    /// Why it ended, by the kubelet's word (`Evicted`), or the phase.
    pub ended: String,
    /// The node it is bound to, empty if none.
    pub node: String,
    /// Its address, empty if it has none.
    pub ip: String,
    /// Whether its Ready condition is True.
    pub ready: bool,
    /// Why the scheduler finds no node.
    pub unschedulable: Option<String>,
    /// Up to which generation its kubelet has looked at it.
    pub observed_generation: i64,
    /// Whether its kubelet has said anything yet.
    pub reported: bool,
    /// Containers, init containers first.
    pub containers: Vec<ContainerView>,
    /// The grace period it was told to end within.
    pub grace_seconds: u32,
    /// What is known of its resize, if it is being resized.
    pub resize: Option<Resize>,
    /// The name of the revision it was made from.
    revision: String,
}

fn container_state(status: &Value) -> ContainerState {
    let state = status.get("state").unwrap_or(&Value::Null);
    if state.get("running").is_some_and(|v| !v.is_null()) {
        return ContainerState::Running;
    }
    if let Some(ended) = state.get("terminated").filter(|v| !v.is_null()) {
        let exit_code = ended.get("exitCode").and_then(Value::as_i64).unwrap_or(-1);
        return ContainerState::Ended {
            reason: text(ended, "/reason"),
            exit_code,
        };
    }
    let waiting = state.get("waiting").unwrap_or(&Value::Null);
    ContainerState::Waiting {
        reason: text(waiting, "/reason"),
        message: text(waiting, "/message"),
    }
}

fn spec_image(pod: &Value, specs: &str, status: &Value) -> String {
    let own = list(pod, specs).find(|c| c.get("name") == status.get("name"));
    text(own.unwrap_or(status), "/image")
}

fn containers(pod: &Value) -> Vec<ContainerView> {
    let inits = list(pod, "/status/initContainerStatuses")
        .map(|status| ("/spec/initContainers", true, status));
    let mains =
        list(pod, "/status/containerStatuses").map(|status| ("/spec/containers", false, status));
    inits
        .chain(mains)
        .map(|(specs, init, status)| ContainerView {
            name: text(status, "/name"),
            init,
            image: spec_image(pod, specs, status),
            id: text(status, "/containerID"),
            image_id: text(status, "/imageID"),
            state: container_state(status),
            restarts: status
                .get("restartCount")
                .and_then(Value::as_i64)
                .unwrap_or(0),
            last_exit: at(status, "/lastState/terminated")
                .filter(|v| !v.is_null())
                .map(|t| {
                    (
                        text(t, "/reason"),
                        t.get("exitCode").and_then(Value::as_i64).unwrap_or(-1),
                    )
                }),
        })
        .collect()
}

impl PodView {
    /// Reads a pod.
    pub fn read(pod: &Value) -> Self {
        let condition = |type_: &str| {
            list(pod, "/status/conditions")
                .find(|c| c.get("type").and_then(Value::as_str) == Some(type_))
        };
        let is_true = |c: &Value| c.get("status").and_then(Value::as_str) == Some("True");
        let phase_text = text(pod, "/status/phase");
        let phase = match phase_text.as_str() {
            "Running" => Phase::Running,
            "Succeeded" | "Failed" => Phase::Ended,
            _ => Phase::Pending,
        };
        let reason = text(pod, "/status/reason");
        let ended = match phase {
            Phase::Ended if reason.is_empty() => phase_text,
            Phase::Ended => reason,
            _ => String::new(),
        };
        let unschedulable = condition("PodScheduled").filter(|c| !is_true(c));
        let grace = at(pod, "/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64);
        let meta = Meta::read(pod);
        Self {
            revision: meta.label(labels::REVISION_HASH).to_owned(),
            meta,
            phase,
            ended,
            node: text(pod, "/spec/nodeName"),
            ip: text(pod, "/status/podIP"),
            ready: condition("Ready").is_some_and(is_true),
            unschedulable: unschedulable
                .map(|c| text(c, "/message"))
                .filter(|m| !m.is_empty()),
            observed_generation: at(pod, "/status/observedGeneration")
                .and_then(Value::as_i64)
                .unwrap_or(0),
            reported: at(pod, "/status/startTime").is_some_and(|v| !v.is_null()),
            containers: containers(pod),
            resize: resize::read(pod),
            grace_seconds: grace.and_then(|g| u32::try_from(g).ok()).unwrap_or(30),
        }
    }

    /// The name of the revision it was made from.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The container of that name, by its kubelet's word.
    pub fn container(&self, name: &str) -> Option<&ContainerView> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// Whether a change that was made in place is not complete: its kubelet has not looked at it, or
    /// a container that it replaces is still the one that runs. The image proves nothing.
    pub fn is_changing(&self) -> bool {
        if self.resize.as_ref().is_some_and(|r| r.restarting) {
            return true;
        }
        let Some(replaces) = self.meta.annotations.get(labels::REPLACES) else {
            return false;
        };
        let old = replaces.split(',').filter_map(|pair| pair.split_once('='));
        let stays = |(name, id): (&str, &str)| self.container(name).is_none_or(|c| c.id == id);
        self.observed_generation < self.meta.generation || old.into_iter().any(stays)
    }

    /// Whether some container of it runs, by its kubelet.
    pub fn anything_runs(&self) -> bool {
        self.containers
            .iter()
            .any(|c| c.state == ContainerState::Running)
    }
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

impl ClaimView {
    /// Reads a claim.
    pub fn read(claim: &Value) -> Self {
        let meta = Meta::read(claim);
        Self {
            claim: meta.label(labels::CLAIM).to_owned(),
            meta,
            phase: text(claim, "/status/phase"),
        }
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
}

impl NodeView {
    /// Reads a node.
    pub fn read(node: &Value) -> Self {
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
        Self {
            ready,
            out_of_service,
            cordoned,
            cpu: has("cpu"),
            memory: has("memory"),
        }
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

impl RevisionView {
    /// Reads a ControllerRevision.
    pub fn read(revision: &Value) -> Self {
        let template = at(revision, "/data/template").and_then(Value::as_object);
        Self {
            meta: Meta::read(revision),
            number: revision
                .get("revision")
                .and_then(Value::as_i64)
                .unwrap_or(0),
            template: template.cloned().unwrap_or_default(),
        }
    }
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceView {
    /// Metadata.
    pub meta: Meta,
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
}

impl RequestView {
    /// Reads a request; one that cannot be read is nobody's.
    pub fn read(request: &Value) -> Result<Self, Unreadable> {
        let spec = request.get("spec").cloned().unwrap_or(Value::Null);
        let spec = serde_json::from_value(spec).map_err(|e| Unreadable {
            field: "spec".into(),
            cause: e.to_string(),
        })?;
        let stamp = at(request, "/status/finishedAt").cloned();
        let finished_at = stamp.and_then(|v| serde_json::from_value(v).ok());
        Ok(Self {
            meta: Meta::read(request),
            spec,
            finished: at(request, "/status/outcome").is_some_and(|v| !v.is_null()),
            finished_at: finished_at.as_ref().map(crate::Time::from_stamp),
        })
    }
}
