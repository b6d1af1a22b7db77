//! Calls to the API server: what is asked, and what comes back.
//!
//! A call can only be made inside this crate, from a harmless write, a warrant or a letting. The
//! driver sends it as it is; it adds nothing and retries nothing.

use ensemble_api::Rule;
use ensemble_api::labels;
use ensemble_planner::memory::{Images, Kind};
use ensemble_planner::method::{self, InPlace};
use ensemble_planner::safety::How;
use ensemble_planner::view::{Pinned, RevisionView};
use ensemble_planner::{Letting, Warrant};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Names one call, so that its outcome finds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What is asked of the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// POST the body. `dry_run` asks for `dryRun=All&fieldValidation=Strict`.
    Create {
        /// Nothing is stored.
        dry_run: bool,
    },
    /// PATCH with a JSON merge patch. The body carries uid and resourceVersion.
    MergePatch,
    /// PATCH the status subresource with a JSON merge patch. The body carries resourceVersion.
    MergePatchStatus,
    /// PUT the object as it was read, changed. The body carries uid and resourceVersion.
    Replace,
    /// PUT the resize subresource of a pod. The body carries uid and resourceVersion.
    ReplaceResize,
    /// PUT the status subresource. The body carries resourceVersion.
    ReplaceStatus,
    /// DELETE with the body as DeleteOptions, which carry preconditions.
    Delete,
    /// POST pods/eviction, whose deleteOptions carry preconditions.
    Evict,
    /// GET one object.
    Get,
    /// LIST pods of the ensemble by [`ApiCall::selector`], straight from the store (no
    /// resourceVersion parameter).
    List,
}

impl Verb {
    /// The right that it needs: on which part of the object, empty for the whole, to do what.
    pub fn right(&self) -> (&'static str, &'static str) {
        match self {
            Self::Create { .. } => ("", "create"),
            Self::MergePatch => ("", "patch"),
            Self::MergePatchStatus => ("status", "patch"),
            Self::Replace => ("", "update"),
            Self::ReplaceResize => ("resize", "update"),
            Self::ReplaceStatus => ("status", "update"),
            Self::Delete => ("", "delete"),
            Self::Evict => ("eviction", "create"),
            Self::Get => ("", "get"),
            Self::List => ("", "list"),
        }
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiCall {
    verb: Verb,
    kind: Kind,
    namespace: String,
    name: String,
    body: Value,
}

impl ApiCall {
    /// What is asked.
    pub fn verb(&self) -> &Verb {
        &self.verb
    }

    /// Of which kind of object.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// In which namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Of which object. For [`Verb::List`] it is the ensemble's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// With which body.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// The label selector of a [`Verb::List`].
    pub fn selector(&self) -> String {
        format!("{}={}", labels::ENSEMBLE, self.name)
    }

    pub(crate) fn new(verb: Verb, kind: Kind, namespace: &str, name: &str, body: Value) -> Self {
        // A right that is not in the table is missed in every rehearsal, and not first in a cluster.
        let (part, right) = verb.right();
        let allowed = kind.info().allows(part, right);
        debug_assert!(allowed, "no right to {right} {kind:?} {part}");
        Self {
            verb,
            kind,
            namespace: namespace.into(),
            name: name.into(),
            body,
        }
    }

    /// Disrupts a member, by warrant. What happens in the same pod needs the pod as it was just read
    /// and the revisions that it has and is to get, with the images that the API server makes of it.
    pub(crate) fn disrupt(
        namespace: &str,
        warrant: Warrant,
        read: Option<&Value>,
        revisions: [Option<&RevisionView>; 2],
        admitted: &Images,
    ) -> Option<Self> {
        let pod = warrant.pod();
        let options = delete_options(pod);
        let call = match warrant.how() {
            How::Delete => Self::new(Verb::Delete, Kind::Pod, namespace, &pod.name, options),
            How::InPlace => {
                let [Some(old), Some(new)] = revisions else {
                    return None;
                };
                let name = &new.meta.pin.name;
                let (from, to) = (&old.template, &new.template);
                let write = method::in_place(read?, name, new.number, from, to, admitted)?;
                let (verb, body) = match write {
                    InPlace::Pod(body) => (Verb::Replace, body),
                    InPlace::Resize(body) => (Verb::ReplaceResize, body),
                };
                Self::new(verb, Kind::Pod, namespace, &pod.name, body)
            }
            // Not a call to the API server.
            How::Restart => return None,
            How::Evict => {
                let body = json!({
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": pod.name, "namespace": namespace},
                    "deleteOptions": options,
                });
                Self::new(Verb::Evict, Kind::Pod, namespace, &pod.name, body)
            }
        };
        Some(call)
    }

    /// Lets a claim go, by letting.
    pub(crate) fn let_go(namespace: &str, letting: Letting) -> Self {
        let claim = letting.claim();
        let options = delete_options(claim);
        Self::new(Verb::Delete, Kind::Claim, namespace, &claim.name, options)
    }

    /// Takes pods out of those that a budget counts as evicted. Kubernetes counts anew then.
    pub(crate) fn uncount(namespace: &str, budget: &Pinned, pods: &[String]) -> Self {
        let entries: Map<String, Value> = pods.iter().map(|p| (p.clone(), Value::Null)).collect();
        let body = json!({
            "metadata": {"uid": budget.uid, "resourceVersion": budget.resource_version},
            "status": {"disruptedPods": entries},
        });
        let verb = Verb::MergePatchStatus;
        Self::new(verb, Kind::Budget, namespace, &budget.name, body)
    }

    /// Deletes something that holds no data and that nobody uses.
    pub(crate) fn discard(kind: Kind, namespace: &str, pin: &Pinned) -> Self {
        Self::new(
            Verb::Delete,
            kind,
            namespace,
            &pin.name,
            delete_options(pin),
        )
    }
}

fn delete_options(pin: &Pinned) -> Value {
    let mut preconditions = json!({"resourceVersion": pin.resource_version});
    if !ensemble_planner::mutants::is_off(Rule::DeleteByUid) {
        preconditions["uid"] = pin.uid.clone().into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": preconditions,
    })
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was done; the object, list or Status in the answer.
    Done(Arc<Value>),
    /// It was refused: the API server's Status.
    Refused(ApiError),
    /// Nobody knows whether it was done: no answer, or a broken one.
    Unknown(String),
}

/// The API server's refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP code.
    pub code: u16,
    /// The Status' reason: `AlreadyExists`, `Conflict`, `NotFound`, `Forbidden`, ...
    pub reason: String,
    /// The Status' message.
    pub message: String,
}
