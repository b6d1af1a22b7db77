//! A conductor at a desk: what it asks for is done by the simulated API server, unless a test says
//! otherwise. Nobody else is there: what kubelets and controllers would do is done at once, watches
//! show what the desk lets them show, and time is the test's own.
#![allow(dead_code, clippy::unwrap_used)]

use ensemble_api::EnsembleStatus;
use ensemble_conductor::{
    ApiCall, ApiError, CallId, Conductor, EngineCall, Happening, Input, Kind, Nodes, Outcome,
    Output, Time, Verb, WATCHED,
};
use ensemble_planner::view::{NodeView, View};
use ensemble_rehearsal::process::now;
use ensemble_rehearsal::translate;
use ensemble_rehearsal::world::{self, World};
use serde_json::{Value, json};
use simkube::config::Config;
use simkube::{Part, Request};
use std::collections::VecDeque;
use std::sync::Arc;

/// A call that waits for its answer.
pub type Asked = (CallId, ApiCall);

pub struct Desk {
    pub conductor: Conductor,
    pub now: Time,
    world: World,
    /// Calls that were asked for and not yet taken up.
    pub calls: VecDeque<Asked>,
    /// What engines were asked.
    pub questions: Vec<(CallId, EngineCall)>,
    /// What was carried out, in words.
    pub done: Vec<String>,
    pub relists: Vec<Kind>,
    pub wake: Option<Time>,
    pub happenings: Vec<Happening>,
    uids: u64,
}

/// An API server with nobody beside it.
fn server() -> World {
    let mut world = world::empty(Config::default(), "shop", "orders");
    let parts = [
        Part::Scheduler,
        Part::Volumes,
        Part::Collector,
        Part::Disruption,
        Part::Endpoints,
        Part::Nodes,
        Part::Jobs,
        Part::Namespaces,
    ];
    for part in parts {
        world.cluster.pause(part);
    }
    world
}

/// A claim of that name in a spec.
pub fn claim(name: &str) -> Value {
    let room = json!({"requests": {"storage": "1Gi"}});
    json!({"name": name, "spec": {"accessModes": ["ReadWriteOnce"], "resources": room}})
}

/// The Ensemble `orders`.
pub fn orders(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "orders", "namespace": "shop", "uid": "ens", "generation": 1},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "db", "image": "db:1"}]}},
            "claims": [claim("data")],
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
        let mut desk = Self::before(server());
        desk.put(Kind::Ensemble, ensemble);
        desk.list_all();
        desk
    }

    /// A conductor that has seen nothing.
    fn before(world: World) -> Self {
        Self {
            conductor: Conductor::new("shop", "orders"),
            now: now(&world),
            world,
            calls: VecDeque::new(),
            questions: Vec::new(),
            done: Vec::new(),
            relists: Vec::new(),
            wake: None,
            happenings: Vec::new(),
            uids: 100,
        }
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
        let mut desk = Self::before(self.world.clone());
        desk.uids = self.uids;
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

    /// The cluster, for whoever owns it.
    pub fn cluster(&mut self) -> &mut simkube::Cluster {
        &mut self.world.cluster
    }

    /// Time passes, and it is woken when it asked to be.
    pub fn after(&mut self, ms: i64) {
        let until = self.now.plus_ms(ms);
        while let Some(at) = self.wake.filter(|at| *at < until) {
            self.wake = None;
            self.pass((at.0 - self.now.0).max(0));
        }
        self.pass(until.0 - self.now.0);
    }

    fn pass(&mut self, ms: i64) {
        self.world.cluster.advance_ms(u64::try_from(ms).unwrap());
        self.now = now(&self.world);
        self.tell(Input::Tick);
    }

    /// Its clock jumps, or it was asleep.
    pub fn jump(&mut self, ms: i64) {
        self.wake = None;
        self.pass(ms);
    }

    /// The watch of a kind begins anew.
    pub fn list(&mut self, kind: Kind) {
        let at = translate::resource(&self.world, kind);
        let objects = self.world.cluster.objects(at, "shop");
        self.tell(Input::Listed(kind, objects, self.now));
    }

    /// Stores an object as it is given, whether or not an API server would; no watch tells of it yet.
    pub fn put(&mut self, kind: Kind, mut object: Value) {
        object["metadata"]["namespace"] = "shop".into();
        if object["metadata"]["uid"].is_null() {
            self.uids += 1;
            object["metadata"]["uid"] = format!("uid-{}", self.uids).into();
        }
        let at = translate::resource(&self.world, kind);
        self.world.cluster.restore(at, &object).unwrap();
    }

    /// The watch shows an object as it is now.
    pub fn show(&mut self, kind: Kind, name: &str) {
        let object = self.get(kind, name).unwrap();
        self.tell(Input::Applied(kind, Arc::new(object)));
    }

    /// Somebody merges into an object; no watch tells of it yet. A kubelet that says something of a
    /// pod has seen it as it is.
    fn amend(&mut self, kind: Kind, name: &str, patch: &Value) {
        let mut object = self.get(kind, name).unwrap();
        merge(&mut object, patch);
        if kind == Kind::Pod && patch.get("status").is_some() {
            let seen = object["metadata"]["generation"].clone();
            object["status"]["observedGeneration"] = seen;
        }
        self.put(kind, object);
    }

    /// Somebody merges into an object, and the watch shows it.
    pub fn edit(&mut self, kind: Kind, name: &str, patch: &Value) {
        self.amend(kind, name, patch);
        if kind == Kind::Ensemble && patch.get("spec").is_some() {
            let generation = self.get(kind, name).unwrap()["metadata"]["generation"].as_i64();
            let next = json!({"metadata": {"generation": generation.unwrap() + 1}});
            self.amend(kind, name, &next);
        }
        self.show(kind, name);
    }

    /// An object is gone at once, whatever would hold it; no watch tells of it.
    pub fn vanish(&mut self, kind: Kind, name: &str) -> Option<Value> {
        let mut object = self.get(kind, name)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("finalizers");
        }
        self.put(kind, object.clone());
        let at = translate::resource(&self.world, kind);
        let gone = Request::delete(at, "shop", name).grace(0);
        // With its last finalizer an object that was told to end went by itself.
        let _ = self.world.cluster.call(&gone);
        assert!(self.get(kind, name).is_none(), "{name} is held");
        Some(object)
    }

    /// An object goes, and the watch tells.
    pub fn remove(&mut self, kind: Kind, name: &str) {
        if let Some(object) = self.vanish(kind, name) {
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
        let shown = !matches!(
            call.verb(),
            Verb::Get | Verb::List | Verb::Create { dry_run: true }
        );
        if done && shown && self.get(call.kind(), call.name()).is_some() {
            self.show(call.kind(), call.name());
        }
    }

    /// The API server does what a call asks, and whoever else has to do with it does the rest.
    pub fn perform(&mut self, call: &ApiCall) -> Outcome {
        let request = translate::request(&self.world, call, "controller");
        let outcome = translate::outcome(self.world.cluster.call(&request));
        if matches!(outcome, Outcome::Done(_)) {
            self.follow_up(call);
        }
        outcome
    }

    /// What kubelets and controllers do then.
    fn follow_up(&mut self, call: &ApiCall) {
        let (kind, name) = (call.kind(), call.name());
        match (call.verb(), kind) {
            (Verb::Create { dry_run: false }, Kind::Pod) => self.amend(
                kind,
                name,
                &json!({"spec": {"nodeName": "n0"}, "status": {
                    "phase": "Running", "startTime": "2026-01-01T00:00:00Z",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [{"name": "db", "state": {"running": {}}}]}}),
            ),
            (Verb::Create { dry_run: false }, Kind::Claim) => {
                self.amend(kind, name, &json!({"status": {"phase": "Bound"}}));
            }
            (Verb::Create { dry_run: false }, Kind::Budget) => self.allow(name),
            (Verb::MergePatchStatus, Kind::Budget) => self.allow(name),
            (Verb::Evict, _) => {
                self.remove(kind, name);
                self.allow("orders-members");
                self.show(Kind::Budget, "orders-members");
            }
            (Verb::Delete, _) => self.remove(kind, name),
            _ => {}
        }
    }

    /// A budget is counted anew, and one may go.
    fn allow(&mut self, budget: &str) {
        let generation = self.get(Kind::Budget, budget).unwrap()["metadata"]["generation"].clone();
        let status = json!({"disruptionsAllowed": 1, "observedGeneration": generation,
            "disruptedPods": null});
        self.amend(Kind::Budget, budget, &json!({"status": status}));
    }

    pub fn status(&self) -> EnsembleStatus {
        let ensemble = self.get(Kind::Ensemble, "orders").unwrap();
        serde_json::from_value(ensemble["status"].clone()).unwrap_or_default()
    }

    pub fn is_ready(&self) -> bool {
        let status = self.status();
        status
            .condition("Ready")
            .is_some_and(|c| c.status == "True")
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        let at = translate::resource(&self.world, kind);
        let object = self.world.cluster.get(at, "shop", name)?;
        Some((*object).clone())
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
