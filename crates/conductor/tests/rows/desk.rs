//! A conductor at a desk: what it asks for is done on a handful of objects, unless a test says
//! otherwise. No server, no time but the test's own.
#![allow(dead_code, clippy::unwrap_used)]

use ensemble_api::EnsembleStatus;
use ensemble_conductor::{
    ApiCall, ApiError, CallId, Conductor, EngineCall, Happening, Input, Kind, Nodes, Outcome,
    Output, Time, Verb, WATCHED,
};
use ensemble_planner::view::{NodeView, View};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A call that waits for its answer.
pub type Asked = (CallId, ApiCall);

pub struct Desk {
    pub conductor: Conductor,
    pub now: Time,
    pub objects: BTreeMap<(Kind, String), Value>,
    /// Calls that were asked for and not yet taken up.
    pub calls: VecDeque<Asked>,
    /// What engines were asked.
    pub questions: Vec<(CallId, EngineCall)>,
    /// What was carried out, in words.
    pub done: Vec<String>,
    pub relists: Vec<Kind>,
    pub wake: Option<Time>,
    pub happenings: Vec<Happening>,
    version: u64,
}

/// The Ensemble `orders`.
pub fn orders(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "orders", "namespace": "shop", "uid": "ens", "generation": 1},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "db", "image": "db:1"}]}},
            "claims": [{"name": "data", "spec": {}}],
            "rollout": {"prePull": "Skip", "method": "Recreate"},
        },
    })
}

pub fn refused(code: u16, reason: &str, message: &str) -> Outcome {
    Outcome::Refused(ApiError {
        code,
        reason: reason.into(),
        message: message.into(),
    })
}

/// What a call is, in a few words: `evict Pod orders-2`.
pub fn words(call: &ApiCall) -> String {
    let verb = match call.verb() {
        Verb::Create { dry_run: true } => "try",
        Verb::Create { dry_run: false } => "create",
        Verb::MergePatch => "patch",
        Verb::MergePatchStatus => "answer",
        Verb::Replace => "change",
        Verb::ReplaceResize => "resize",
        Verb::ReplaceStatus => "status",
        Verb::Delete => "delete",
        Verb::Evict => "evict",
        Verb::Get => "get",
        Verb::List => "list",
    };
    format!("{verb} {:?} {}", call.kind(), call.name())
}

impl Desk {
    /// A conductor that leads, at epoch 7, and knows an Ensemble and nothing else.
    pub fn new(ensemble: Value) -> Self {
        let mut desk = Self::idle(ensemble);
        desk.lead(7);
        desk
    }

    /// The same, not leading yet.
    pub fn idle(ensemble: Value) -> Self {
        let mut desk = Self {
            conductor: Conductor::new("shop", "orders"),
            now: Time(1_000_000_000),
            objects: BTreeMap::new(),
            calls: VecDeque::new(),
            questions: Vec::new(),
            done: Vec::new(),
            relists: Vec::new(),
            wake: None,
            happenings: Vec::new(),
            version: 100,
        };
        desk.put(Kind::Ensemble, ensemble);
        desk.list_all();
        desk
    }

    /// The same, and three members serve.
    pub fn serving() -> Self {
        let mut desk = Self::new(orders(3));
        desk.settle();
        assert!(desk.is_ready(), "{:?}", desk.status().plan);
        desk.done.clear();
        desk
    }

    /// Another process looks at the same objects, at that epoch.
    pub fn successor(&self, epoch: i64) -> Self {
        let ensemble = self.objects[&(Kind::Ensemble, "orders".into())].clone();
        let mut desk = Self::idle(ensemble);
        desk.objects = self.objects.clone();
        desk.version = self.version;
        desk.now = self.now;
        desk.list_all();
        desk.lead(epoch);
        desk
    }

    fn list_all(&mut self) {
        for kind in WATCHED {
            self.list(kind);
        }
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let nodes: Nodes = [("n0".to_owned(), NodeView::read(&ready).unwrap())].into();
        self.tell(Input::Nodes(Some(Arc::new(nodes))));
    }

    pub fn lead(&mut self, epoch: i64) {
        self.tell(Input::Lead(Some(epoch)));
    }

    /// Tells and lets it act.
    pub fn tell(&mut self, input: Input) {
        let mut out = Vec::new();
        self.conductor.step(self.now, input, &mut out);
        for output in out {
            match output {
                Output::Call(id, call) => self.calls.push_back((id, call)),
                Output::Wake(at) => self.wake = Some(at),
                Output::Relist(kind) => self.relists.push(kind),
                Output::Happened(happening) => self.happenings.push(happening),
                Output::Engine(id, question) => self.questions.push((id, question)),
                Output::Publish(_) => {}
            }
        }
    }

    /// Time passes.
    pub fn after(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
        self.tell(Input::Tick);
    }

    /// The watch of a kind begins anew.
    pub fn list(&mut self, kind: Kind) {
        let of_kind = self.objects.iter().filter(|((k, _), _)| *k == kind);
        let objects = of_kind.map(|(_, o)| Arc::new(o.clone())).collect();
        self.tell(Input::Listed(kind, objects, self.now));
    }

    /// Stores an object at a new version; no watch tells of it yet.
    pub fn put(&mut self, kind: Kind, mut object: Value) -> Value {
        self.version += 1;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{}", self.version).into();
        }
        self.objects.insert((kind, name), object.clone());
        object
    }

    /// The watch shows an object as it is now.
    pub fn show(&mut self, kind: Kind, name: &str) {
        let object = Arc::new(self.objects[&(kind, name.to_owned())].clone());
        self.tell(Input::Applied(kind, object));
    }

    /// Somebody merges into an object, and the watch shows it.
    pub fn edit(&mut self, kind: Kind, name: &str, patch: &Value) {
        let mut object = self.objects[&(kind, name.to_owned())].clone();
        merge(&mut object, patch);
        if kind == Kind::Ensemble && patch.get("spec").is_some() {
            let generation = object["metadata"]["generation"].as_i64().unwrap();
            object["metadata"]["generation"] = (generation + 1).into();
        }
        self.put(kind, object);
        self.show(kind, name);
    }

    /// An object goes, and the watch tells.
    pub fn remove(&mut self, kind: Kind, name: &str) {
        if let Some(object) = self.objects.remove(&(kind, name.to_owned())) {
            self.tell(Input::Deleted(kind, Arc::new(object)));
        }
    }

    /// A new image.
    pub fn image(&mut self, image: &str) {
        let template = json!({"spec": {"containers": [{"name": "db", "image": image}]}});
        self.edit(
            Kind::Ensemble,
            "orders",
            &json!({"spec": {"template": template}}),
        );
    }

    /// Carries out everything that is asked for, until nothing more is.
    pub fn settle(&mut self) {
        self.settle_until(|_| false);
    }

    /// The same, but stops before the first call that is wanted, and gives it.
    pub fn settle_until(&mut self, wanted: impl Fn(&ApiCall) -> bool) -> Option<Asked> {
        for _ in 0..500 {
            let Some((id, call)) = self.calls.pop_front() else {
                // What waits for a moment is waited for.
                let soon = self.wake.filter(|at| at.0 - self.now.0 <= 1_000)?;
                self.wake = None;
                self.after((soon.0 - self.now.0).max(0));
                continue;
            };
            if wanted(&call) {
                return Some((id, call));
            }
            self.carry_out(id, &call);
        }
        panic!("it does not come to rest: {:?}", &self.done[480..]);
    }

    /// Does what a call asks, answers, and lets the watch show it.
    pub fn carry_out(&mut self, id: CallId, call: &ApiCall) {
        self.done.push(words(call));
        let outcome = self.perform(call);
        let done = matches!(outcome, Outcome::Done(_));
        self.tell(Input::Done(id, outcome));
        let key = (call.kind(), call.name().to_owned());
        let shown = !matches!(
            call.verb(),
            Verb::Get | Verb::List | Verb::Create { dry_run: true }
        );
        if done && shown && self.objects.contains_key(&key) {
            self.show(key.0, &key.1);
        }
    }

    /// Does what a call asks, without a word to anybody.
    pub fn perform(&mut self, call: &ApiCall) -> Outcome {
        let key = (call.kind(), call.name().to_owned());
        let found = self.objects.get(&key).cloned();
        match call.verb() {
            Verb::Create { dry_run: true } => Outcome::Done(call.body().clone().into()),
            Verb::Create { dry_run: false } if found.is_some() => {
                refused(409, "AlreadyExists", "already exists")
            }
            Verb::Create { dry_run: false } => Outcome::Done(self.create(call).into()),
            Verb::List => Outcome::Done(json!({"items": self.pods()}).into()),
            _ => match found {
                None => refused(404, "NotFound", "not found"),
                Some(object) => self.change(call, object),
            },
        }
    }

    fn create(&mut self, call: &ApiCall) -> Value {
        let mut body = call.body().clone();
        if call.kind() == Kind::Pod {
            body["spec"]["nodeName"] = "n0".into();
            body["status"] = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "db", "state": {"running": {}}}]});
        }
        if call.kind() == Kind::Claim {
            body["status"] = json!({"phase": "Bound"});
        }
        if call.kind() == Kind::Budget {
            body["status"] = json!({"disruptionsAllowed": 1});
        }
        self.put(call.kind(), body)
    }

    fn change(&mut self, call: &ApiCall, mut object: Value) -> Outcome {
        let body = call.body();
        let version = match call.verb() {
            Verb::Delete => body.pointer("/preconditions/resourceVersion"),
            Verb::Evict => body.pointer("/deleteOptions/preconditions/resourceVersion"),
            _ => body.pointer("/metadata/resourceVersion"),
        };
        if version.is_some_and(|v| *v != object["metadata"]["resourceVersion"]) {
            return refused(409, "Conflict", "the object has been modified");
        }
        match call.verb() {
            Verb::Get => Outcome::Done(object.into()),
            Verb::Delete | Verb::Evict => {
                self.remove(call.kind(), call.name());
                Outcome::Done(json!({}).into())
            }
            Verb::ReplaceStatus => {
                object["status"] = body["status"].clone();
                Outcome::Done(self.put(call.kind(), object).into())
            }
            _ => {
                merge(&mut object, body);
                Outcome::Done(self.put(call.kind(), object).into())
            }
        }
    }

    fn pods(&self) -> Vec<Value> {
        let pods = self.objects.iter().filter(|((k, _), _)| *k == Kind::Pod);
        pods.map(|(_, o)| o.clone()).collect()
    }

    pub fn status(&self) -> EnsembleStatus {
        let ensemble = &self.objects[&(Kind::Ensemble, "orders".into())];
        serde_json::from_value(ensemble["status"].clone()).unwrap_or_default()
    }

    pub fn is_ready(&self) -> bool {
        let status = self.status();
        status
            .condition("Ready")
            .is_some_and(|c| c.status == "True")
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, name.to_owned()))
    }
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}
