//! The same random calls to two API servers, compared answer by answer.
//!
//! References to versions and uids are symbolic: "the one seen two answers
//! ago" is another number on each side. Anything that implements
//! [`Api`] can be a side.

mod calls;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::ids::Ids;
use crate::probes::{Api, Normaliser};
use crate::request::{Request, Response, Subresource};
use crate::resource::Resource;
use crate::status::Status;
use crate::value::Object;
use crate::watch::WatchOptions;

use calls::{Call, Pick, Stage};

/// Two answers to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The call, counted from one.
    pub step: usize,
    /// What was asked.
    pub question: String,
    /// The left server's answer.
    pub left: String,
    /// The right server's answer.
    pub right: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Divergence {
            step,
            question,
            left,
            right,
        } = self;
        write!(
            f,
            "step {step}: {question}\n  left:  {left}\n  right: {right}"
        )
    }
}

/// One server, and what has been seen on it.
struct Side<'a> {
    api: &'a mut dyn Api,
    normaliser: Normaliser,
    /// Every object, in the order in which answers showed it.
    seen: BTreeMap<(Resource, String), Vec<Object>>,
    /// How many replicas each object with a scale was last stored with.
    sizes: BTreeMap<String, i64>,
    start: u64,
}

/// Makes `steps` random calls in a namespace of their own, which must not
/// exist, and stops at the first difference.
///
/// # Errors
/// The first difference.
pub fn compare(
    left: &mut dyn Api,
    right: &mut dyn Api,
    seed: u64,
    steps: usize,
) -> Result<(), Box<Divergence>> {
    let namespace = format!("fidelity-{seed}");
    let mut ids = Ids::new(seed);
    let (mut left, mut right) = (Side::new(left), Side::new(right));
    let stage = Stage {
        namespace,
        widgets: left.prepare(seed),
    };
    let other = right.prepare(seed);
    if stage.widgets != other {
        return Err(diverge(
            0,
            "the definition",
            format!("{:?}", stage.widgets),
            format!("{other:?}"),
        ));
    }
    for step in 1..=steps {
        let call = Call::random(&mut ids);
        let (a, b) = (left.make(&stage, &call), right.make(&stage, &call));
        if a != b {
            return Err(diverge(step, &format!("{call:?}"), a, b));
        }
    }
    for resource in stage.resources() {
        let all = |side: &mut Side<'_>| side.events(&stage, resource);
        let (a, b) = (all(&mut left), all(&mut right));
        if let Some(at) = first_difference(&a, &b) {
            let shown = |events: &[String]| events.get(at).cloned().unwrap_or("none".to_owned());
            let question = format!("event {at} of {resource:?}");
            return Err(diverge(steps, &question, shown(&a), shown(&b)));
        }
    }
    Ok(())
}

fn first_difference(a: &[String], b: &[String]) -> Option<usize> {
    (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i))
}

fn diverge(step: usize, question: &str, left: String, right: String) -> Box<Divergence> {
    Box::new(Divergence {
        step,
        question: question.to_owned(),
        left,
        right,
    })
}

impl<'a> Side<'a> {
    fn new(api: &'a mut dyn Api) -> Side<'a> {
        Side {
            api,
            normaliser: Normaliser::default(),
            seen: BTreeMap::new(),
            sizes: BTreeMap::new(),
            start: 0,
        }
    }

    fn prepare(&mut self, seed: u64) -> Option<Resource> {
        // First, for a watch cannot begin before its resource was served.
        let widgets = self
            .api
            .register_crd(&crate::probes::widget_definition())
            .ok()?;
        let body = serde_json::json!({"metadata": {"name": format!("fidelity-{seed}")}});
        let created = self
            .api
            .call(&Request::create(Resource::Namespaces, "", body))
            .ok()?;
        self.start = created.as_object().map_or(0, |o| crate::value::revision(o));
        Some(widgets)
    }

    fn make(&mut self, stage: &Stage, call: &Call) -> String {
        let mut request = stage.request(call, |resource, name, pick| {
            self.recall(resource, name, pick)
        });
        self.scale_to_another(&mut request);
        let answer = self.api.call(&request);
        if !request.params.dry_run {
            self.note_size(&request, &answer);
        }
        self.remember(request.resource, &request.name, &answer);
        self.line(&answer)
    }

    /// To scale to what is there already is a write on a real server, by managedFields alone, which
    /// simkube does not have.
    fn scale_to_another(&self, request: &mut Request) {
        let size = self.sizes.get(&request.name);
        if let (Some(Subresource::Scale), Some(size), Some(body)) =
            (request.subresource, size, &mut request.body)
            && body["spec"]["replicas"] == *size
        {
            Arc::make_mut(body)["spec"]["replicas"] = (size + 1).into();
        }
    }

    fn note_size(&mut self, request: &Request, answer: &Result<Response, Status>) {
        let object = answer.as_ref().ok().and_then(Response::as_object);
        let Some(object) = object.filter(|_| request.resource.is_custom()) else {
            return;
        };
        let path = if is_scale(object) {
            "spec.replicas"
        } else {
            "spec.size"
        };
        let size = crate::value::int(object, path).unwrap_or(0);
        let name = crate::value::name(object).to_owned();
        self.sizes.insert(name, size);
    }

    /// An object as it was seen before, on this side.
    fn recall(&self, resource: Resource, name: &str, pick: Pick) -> Option<Object> {
        let history = self.seen.get(&(resource, name.to_owned()))?;
        match pick {
            Pick::Nothing => None,
            Pick::Latest => history.last().cloned(),
            Pick::Older(n) => history.iter().rev().nth(n).or(history.first()).cloned(),
        }
    }

    fn remember(&mut self, resource: Resource, name: &str, answer: &Result<Response, Status>) {
        let Ok(response) = answer else { return };
        let Some(object) = response.as_object() else {
            return;
        };
        let version = crate::value::text_or_empty(object, "metadata.resourceVersion");
        let name = if name.is_empty() {
            crate::value::name(object)
        } else {
            name
        };
        // A Scale is no object of its own: what can be sent back is the object.
        if crate::value::uid(object).is_empty() || version.is_empty() || is_scale(object) {
            return;
        }
        self.seen
            .entry((resource, name.to_owned()))
            .or_default()
            .push(object.clone());
    }

    fn line(&mut self, answer: &Result<Response, Status>) -> String {
        match answer {
            Ok(response) => {
                let body = without_noise(response.to_value());
                format!("{} {}", response.code, self.normaliser.value(&body))
            }
            Err(status) => format!(
                "{} {}",
                status.code,
                self.normaliser.value(&status.to_value())
            ),
        }
    }

    fn events(&mut self, stage: &Stage, resource: Resource) -> Vec<String> {
        let options = WatchOptions {
            namespace: stage.namespace.clone(),
            resource_version: Some(self.start),
            ..WatchOptions::default()
        };
        match self.api.watch(resource, &options) {
            Ok(events) => events
                .iter()
                .map(|e| {
                    let body = without_noise((*e.object).clone());
                    format!("{:?} {}", e.kind, self.normaliser.value(&body))
                })
                .collect(),
            Err(status) => vec![status.to_string()],
        }
    }
}

fn is_scale(object: &Value) -> bool {
    object.get("kind").is_some_and(|kind| kind == "Scale")
}

/// Items of lists say their kind in memory and not on the wire.
fn without_noise(mut body: Value) -> Value {
    if let Some(Value::Array(items)) = body.get_mut("items") {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("apiVersion");
            item.remove("kind");
        }
        // A real server is busy with other things, so its revision says nothing here.
        crate::value::take(&mut body, "metadata.resourceVersion");
    }
    body
}
