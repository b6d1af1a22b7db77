//! An API server of a few lines: it keeps objects by path, and the log of what was asked of it.
#![allow(dead_code)] // each test binary uses its own part of it

use ensemble_cli::cluster::Cluster;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Value>,
    log: Vec<String>,
    version: u64,
    knows_ensembles: bool,
}

/// The server.
#[derive(Clone)]
pub struct Fake(Arc<Mutex<Store>>);

impl Fake {
    /// One that serves our kinds.
    pub fn new() -> Self {
        let fake = Self(Arc::default());
        fake.0.lock().unwrap().knows_ensembles = true;
        fake
    }

    /// One on which Ensemble was never installed.
    pub fn bare() -> Self {
        Self(Arc::default())
    }

    /// Keeps an object at that path.
    pub fn put(&self, path: &str, object: Value) {
        let mut store = self.0.lock().unwrap();
        store.keep(path, object);
    }

    /// What is at that path.
    pub fn at(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    /// All paths.
    pub fn paths(&self) -> Vec<String> {
        self.0.lock().unwrap().objects.keys().cloned().collect()
    }

    /// What was asked, `GET` left out: `DELETE /path {body}`.
    pub fn writes(&self) -> Vec<String> {
        let log = self.0.lock().unwrap().log.clone();
        log.into_iter()
            .filter(|line| !line.starts_with("GET") && !line.starts_with("DRY"))
            .collect()
    }

    /// What was tried without being done.
    pub fn tries(&self) -> Vec<String> {
        let log = self.0.lock().unwrap().log.clone();
        log.into_iter().filter(|l| l.starts_with("DRY")).collect()
    }

    /// As a cluster for the commands.
    pub fn cluster(&self) -> Cluster {
        let store = self.0.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let store = store.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap_or_default();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let dry = parts.uri.query().is_some_and(|q| q.contains("dryRun=All"));
                let mut store = store.lock().unwrap();
                let kept = dry.then(|| (store.objects.clone(), store.version));
                let answer = store.answer(&parts.method, parts.uri.path(), body);
                if let Some((objects, version)) = kept {
                    (store.objects, store.version) = (objects, version);
                    let line = store.log.pop().unwrap();
                    store.log.push(format!("DRY {line}"));
                }
                let code = answer["code"]
                    .as_u64()
                    .filter(|_| answer["kind"] == "Status");
                let code = StatusCode::from_u16(code.unwrap_or(200) as u16).unwrap();
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Cluster {
            client: Client::new(service, "default"),
            namespace: "default".into(),
        }
    }
}

impl Store {
    fn keep(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{}", self.version).into();
        }
        // Definitions and workloads arrive at once here.
        if object["kind"] == "CustomResourceDefinition" {
            object["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
            self.knows_ensembles = true;
        }
        if object["kind"] == "Deployment" {
            object["status"] = json!({"updatedReplicas": 1, "availableReplicas": 1, "replicas": 1});
        }
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn answer(&mut self, method: &Method, path: &str, body: Value) -> Value {
        let shown = if body.is_null() {
            String::new()
        } else {
            format!(" {body}")
        };
        self.log.push(format!("{method} {path}{shown}"));
        if path.contains("/apis/ensemble.dev/") && !self.knows_ensembles {
            return json!({"kind": "Status", "code": 404, "reason": "NotFound",
                "message": "the server could not find the requested resource"});
        }
        match *method {
            Method::GET if self.objects.contains_key(path) => self.objects[path].clone(),
            Method::GET if is_collection(path) => self.list(path),
            Method::POST => {
                let name = body["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                self.keep(&format!("{path}/{name}"), body)
            }
            _ if !self.objects.contains_key(path) => not_found(path),
            Method::PATCH => {
                let mut object = self.objects[path].clone();
                let asked = &body["metadata"]["resourceVersion"];
                if !asked.is_null() && *asked != object["metadata"]["resourceVersion"] {
                    return json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "changed"});
                }
                let before = object.clone();
                merge(&mut object, body);
                if object == before {
                    before
                } else {
                    self.keep(path, object)
                }
            }
            Method::PUT => self.keep(path, body),
            Method::DELETE => {
                self.objects.remove(path);
                json!({"kind": "Status", "status": "Success"})
            }
            _ => not_found(path),
        }
    }

    fn list(&self, path: &str) -> Value {
        // `/apis/x/v1/things` lists those of all namespaces.
        let (root, plural) = path.rsplit_once('/').unwrap();
        let mine = |key: &&String| key.starts_with(root) && key.rsplit('/').nth(1) == Some(plural);
        let items: Vec<&Value> = self
            .objects
            .iter()
            .filter(|(k, _)| mine(k))
            .map(|(_, v)| v)
            .collect();
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})
    }
}

fn is_collection(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    let known = [
        "ensembles",
        "ensemblerequests",
        "pods",
        "persistentvolumeclaims",
        "controllerrevisions",
        "services",
        "poddisruptionbudgets",
        "nodes",
        "persistentvolumes",
        "storageclasses",
    ];
    known.contains(&last)
}

fn not_found(path: &str) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default();
    json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": format!("\"{name}\" not found"),
        "details": {"name": name}})
}

/// RFC 7386.
fn merge(object: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *object = patch;
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => {
                object.as_object_mut().unwrap().remove(&key);
            }
            value => merge(&mut object[key], value),
        }
    }
}

/// An Ensemble with that state.
pub fn ensemble(name: &str, state: &str) -> Value {
    json!({
        "apiVersion": "ensemble.dev/v1alpha1",
        "kind": "Ensemble",
        "metadata": {"name": name, "namespace": "default", "generation": 3},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "db", "image": "db:2"}]}}},
        "status": {
            "observedGeneration": 3,
            "groups": [{"name": "members", "currentRevision": format!("{name}-1"),
                        "revision": format!("{name}-2")}],
            "plan": {"id": "p-1", "state": state, "tolerance": 1},
        },
    })
}

/// Where it is kept.
pub fn path_of(name: &str) -> String {
    format!("/apis/ensemble.dev/v1alpha1/namespaces/default/ensembles/{name}")
}

/// A stored revision.
pub fn revision(ensemble: &str, number: i64, image: &str) -> (String, Value) {
    let name = format!("{ensemble}-{number}");
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": "default"},
        "revision": number,
        "data": {"template": {"spec": {"containers": [{"name": "db", "image": image}]}}},
    });
    (
        format!("/apis/apps/v1/namespaces/default/controllerrevisions/{name}"),
        object,
    )
}
