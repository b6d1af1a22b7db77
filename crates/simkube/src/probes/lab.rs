//! Where a probe asks its questions.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};

use super::normal::Normaliser;
use super::{Api, Report};
use crate::request::{Request, Response};
use crate::resource::Resource;
use crate::status::Status;
use crate::watch::{EventType, WatchEvent, WatchOptions};

type Failures = Rc<RefCell<Vec<String>>>;

/// A namespace of its own on some server, and a record of all answers.
pub struct Lab<'a> {
    api: &'a mut dyn Api,
    /// The probe's namespace.
    pub namespace: String,
    transcript: Vec<String>,
    failures: Failures,
    normaliser: Normaliser,
}

/// An answer, and what may be asked of it.
pub struct Seen {
    question: String,
    answer: Result<Response, Status>,
    body: Value,
    failures: Failures,
}

impl<'a> Lab<'a> {
    pub(super) fn new(api: &'a mut dyn Api, id: &str) -> Lab<'a> {
        let namespace = format!("probe-{}", id.to_lowercase());
        let mut lab = Lab {
            api,
            namespace: namespace.clone(),
            transcript: Vec::new(),
            failures: Failures::default(),
            normaliser: Normaliser::default(),
        };
        let body = json!({"metadata": {"name": namespace}});
        lab.ask(Request::create(Resource::Namespaces, "", body))
            .ok(201);
        lab
    }

    pub(super) fn finish(self) -> Report {
        Report {
            transcript: self.transcript,
            failures: self.failures.take(),
        }
    }

    /// Asks, and writes the answer down.
    pub fn ask(&mut self, request: Request) -> Seen {
        let part = request
            .subresource
            .map(|p| format!("/{p:?}"))
            .unwrap_or_default();
        let question = format!(
            "{:?} {:?}{part} {}",
            request.verb, request.resource, request.name
        );
        let answer = self.api.call(&request);
        let body = match &answer {
            Ok(response) => response.to_value(),
            Err(status) => status.to_value(),
        };
        let line = self.line(&question, &answer, &body);
        self.transcript.push(line);
        Seen {
            question,
            answer,
            body,
            failures: self.failures.clone(),
        }
    }

    fn line(&mut self, question: &str, answer: &Result<Response, Status>, body: &Value) -> String {
        let shown = match answer {
            Ok(response) if is_large(body) => {
                return format!("{question} -> {} {}", response.code, self.excerpt(body));
            }
            _ => self.normaliser.value(&without_item_types(body)),
        };
        let code = answer
            .as_ref()
            .map_or_else(|status| status.code, |response| response.code);
        format!("{question} -> {code} {shown}")
    }

    /// Of pods and their kin only what the probes are about; the rest is full
    /// of defaults that say nothing about the verbs.
    fn excerpt(&mut self, body: &Value) -> Value {
        let meta = self
            .normaliser
            .value(body.get("metadata").unwrap_or(&Value::Null));
        let phase = body
            .pointer("/status/phase")
            .cloned()
            .unwrap_or(Value::Null);
        json!({"kind": body.get("kind"), "metadata": meta, "phase": phase})
    }

    /// POST.
    pub fn create(&mut self, resource: Resource, body: Value) -> Seen {
        let namespace = self.scope(resource);
        self.ask(Request::create(resource, &namespace, body))
    }

    /// GET.
    pub fn get(&mut self, resource: Resource, name: &str) -> Seen {
        let namespace = self.scope(resource);
        self.ask(Request::get(resource, &namespace, name))
    }

    /// PUT.
    pub fn put(&mut self, resource: Resource, body: Value) -> Seen {
        let name = text(&body, "/metadata/name");
        let namespace = self.scope(resource);
        self.ask(Request::update(resource, &namespace, &name, body))
    }

    /// Merge patch.
    pub fn patch(&mut self, resource: Resource, name: &str, body: Value) -> Seen {
        let namespace = self.scope(resource);
        self.ask(Request::patch(resource, &namespace, name, body))
    }

    /// DELETE.
    pub fn delete(&mut self, resource: Resource, name: &str) -> Seen {
        let request = self.deletion(resource, name);
        self.ask(request)
    }

    /// A DELETE to be refined before it is asked.
    pub fn deletion(&self, resource: Resource, name: &str) -> Request {
        Request::delete(resource, &self.scope(resource), name)
    }

    fn scope(&self, resource: Resource) -> String {
        let namespaced = resource.built_in().is_none_or(|info| info.namespaced);
        if namespaced {
            self.namespace.clone()
        } else {
            String::new()
        }
    }

    /// A name for a cluster-scoped object that no other probe uses.
    pub fn own_name(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Registers a definition.
    pub fn register(&mut self, definition: &Value) -> Option<Resource> {
        match self.api.register_crd(definition) {
            Ok(resource) => Some(resource),
            Err(status) => {
                self.fail(format!("the definition was refused: {status}"));
                None
            }
        }
    }

    /// The events of the probe's namespace after a version, as short lines.
    pub fn events(&mut self, resource: Resource, options: WatchOptions) -> Vec<String> {
        let options = WatchOptions {
            namespace: self.namespace.clone(),
            ..options
        };
        let lines: Vec<String> = match self.api.watch(resource, &options) {
            Ok(events) => events.iter().map(short).collect(),
            Err(status) => vec![format!("REFUSED {}", status.code)],
        };
        self.transcript
            .push(format!("watch {resource:?} -> {lines:?}"));
        lines
    }

    /// See [`Api::compact`].
    pub fn compact(&mut self, resource: Resource) -> bool {
        self.api.compact(resource)
    }

    /// See [`Api::wait_a_second`].
    pub fn wait(&mut self) {
        self.api.wait_a_second();
    }

    /// Writes a failure down.
    pub fn fail(&self, what: String) {
        self.failures.borrow_mut().push(what);
    }

    /// Writes a failure down unless two things are equal.
    pub fn equal<T: PartialEq + std::fmt::Debug>(&self, what: &str, found: T, expected: T) {
        if found != expected {
            self.fail(format!(
                "{what}: found {found:?}, Kubernetes has {expected:?}"
            ));
        }
    }
}

/// Items of a list say their kind in memory and not on the wire. The version of a list is also that
/// of what a real server writes for itself meanwhile.
fn without_item_types(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(Value::Array(items)) = body.get_mut("items") {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("apiVersion");
            item.remove("kind");
        }
        crate::value::take(&mut body, "metadata.resourceVersion");
    }
    body
}

fn is_large(body: &Value) -> bool {
    matches!(
        text(body, "/kind").as_str(),
        "Pod" | "Node" | "Service" | "PersistentVolume" | "Job" | "Namespace"
    )
}

fn short(event: &WatchEvent) -> String {
    let object = &event.object;
    let kind = match event.kind {
        EventType::Added => "ADDED",
        EventType::Modified => "MODIFIED",
        EventType::Deleted => "DELETED",
        EventType::Bookmark => {
            let end = object.pointer("/metadata/annotations/k8s.io~1initial-events-end");
            return format!(
                "BOOKMARK{}",
                if end.is_some() {
                    " end of initial events"
                } else {
                    ""
                }
            );
        }
        EventType::Error => {
            return format!("ERROR {} {}", object["code"], text(object, "/reason"));
        }
    };
    format!("{kind} {}", text(object, "/metadata/name"))
}

/// The string at a JSON pointer, or the empty one.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned()
}

impl Seen {
    fn fail(&self, what: &str) {
        self.failures
            .borrow_mut()
            .push(format!("{}: {what}", self.question));
    }

    /// It must have succeeded with this code.
    pub fn ok(self, code: u16) -> Seen {
        match &self.answer {
            Ok(response) if response.code == code => {}
            Ok(response) => self.fail(&format!("{} instead of {code}", response.code)),
            Err(status) => self.fail(&format!("{status} instead of {code}")),
        }
        self
    }

    /// It must have been refused in this way.
    pub fn refused(self, code: u16, reason: &str) -> Seen {
        match &self.answer {
            Err(status) if status.code == code && status.reason == reason => {}
            Err(status) => self.fail(&format!("{status} instead of {code} {reason}")),
            Ok(_) => self.fail(&format!("accepted instead of {code} {reason}")),
        }
        self
    }

    /// The sentence must contain this.
    pub fn says(self, expected: &str) -> Seen {
        let said = text(&self.body, "/message");
        if !said.contains(expected) {
            self.fail(&format!("it says {said:?}, not {expected:?}"));
        }
        self
    }

    /// One of the causes must be this.
    pub fn cause(self, reason: &str, field: &str) -> Seen {
        let causes = self
            .body
            .pointer("/details/causes")
            .and_then(Value::as_array);
        let found = causes.into_iter().flatten().any(|c| {
            c["reason"] == reason && c.get("field").and_then(Value::as_str).unwrap_or("") == field
        });
        if !found {
            self.fail(&format!("no cause {reason} at {field:?} in {}", self.body));
        }
        self
    }

    /// The body must have this value at this JSON pointer.
    pub fn has(self, pointer: &str, expected: impl Into<Value>) -> Seen {
        let expected = expected.into();
        let found = self.body.pointer(pointer);
        if found != Some(&expected) {
            self.fail(&format!("{pointer} is {found:?}, not {expected}"));
        }
        self
    }

    /// The body must have nothing at this JSON pointer.
    pub fn lacks(self, pointer: &str) -> Seen {
        if let Some(found) = self.body.pointer(pointer) {
            self.fail(&format!("{pointer} is {found}, but should be absent"));
        }
        self
    }

    /// The string at a JSON pointer.
    pub fn text(&self, pointer: &str) -> String {
        text(&self.body, pointer)
    }

    /// The resourceVersion.
    pub fn version(&self) -> String {
        self.text("/metadata/resourceVersion")
    }

    /// The resourceVersion as a number.
    pub fn revision(&self) -> u64 {
        self.version().parse().unwrap_or(0)
    }

    /// The uid.
    pub fn uid(&self) -> String {
        self.text("/metadata/uid")
    }

    /// The body, to be changed and sent again.
    pub fn body(&self) -> Value {
        self.body.clone()
    }

    /// The names of a list's items.
    pub fn names(&self) -> Vec<String> {
        let items = self.body.get("items").and_then(Value::as_array);
        items
            .into_iter()
            .flatten()
            .map(|o| text(o, "/metadata/name"))
            .collect()
    }
}

/// A pod that the API server accepts.
pub(super) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "example.com/web:1"}]},
    })
}

/// A pod that looks as if it were scheduled.
pub(super) fn scheduled_pod(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = "no-such-node".into();
    pod
}

/// A ConfigMap.
pub(super) fn config(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"},
    })
}
