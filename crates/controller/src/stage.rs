//! The main loop: it owns all conductors, tells each what concerns it, and sends what they want.

use crate::budgets::{Audience, Budgets};
use crate::calls;
use crate::engine::Asker;
use crate::events::Announcer;
use crate::lease::Leading;
use crate::metrics::Metrics;
use crate::queue::{EnsembleKey, Queue};
use crate::watches::Watches;
use crate::{Options, resources};
use ensemble_api::labels;
use ensemble_conductor::{
    ApiError, Ask, CallId, Conductor, EngineCall, EngineOutcome, Input, Kind, Nodes, Outcome,
    Output, Time, WATCHED,
};
use ensemble_planner::view::NodeView;
use kube::Client;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};

/// What a watch brings.
pub enum News {
    Applied(Arc<Value>),
    Deleted(Arc<Value>),
    /// All there are, and when they were asked for.
    Listed(Vec<Arc<Value>>, Time),
}

/// What the main loop is told.
pub enum Message {
    Watch(Kind, News),
    /// Nodes may not be read.
    NoNodes,
    Done(EnsembleKey, CallId, Outcome),
    Engine(EnsembleKey, CallId, EngineOutcome),
    Lead(Option<i64>),
}

pub struct Stage {
    client: Client,
    metrics: Arc<Metrics>,
    watches: Watches,
    leading: Leading,
    tell: mpsc::Sender<Message>,
    announcer: Announcer,
    asker: Asker,
    /// How many questions to engines run at once.
    asking: Arc<Semaphore>,
    queue: Queue,
    conductors: BTreeMap<EnsembleKey, Conductor>,
    wakes: BTreeMap<EnsembleKey, Time>,
    listed: BTreeSet<Kind>,
    budgets: Budgets,
    nodes: Option<Nodes>,
    nodes_told: Option<Arc<Nodes>>,
    nodes_unreadable: bool,
    lead: Option<i64>,
    touched: BTreeSet<EnsembleKey>,
}

pub fn now() -> Time {
    Time(jiff::Timestamp::now().as_millisecond())
}

pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Which ensemble an object belongs to.
fn key_of(kind: Kind, object: &Value) -> Option<EnsembleKey> {
    let name = match kind {
        Kind::Ensemble => text(object, "/metadata/name"),
        Kind::Request => text(object, "/spec/ensemble"),
        _ => object
            .get("metadata")?
            .get("labels")?
            .get(labels::ENSEMBLE)?
            .as_str()?,
    };
    let namespace = text(object, "/metadata/namespace");
    (!name.is_empty()).then(|| (namespace.to_owned(), name.to_owned()))
}

impl Stage {
    pub fn new(
        client: Client,
        options: &Options,
        metrics: Arc<Metrics>,
        watches: Watches,
        leading: Leading,
        tell: mpsc::Sender<Message>,
    ) -> Self {
        Self {
            announcer: Announcer::new(client.clone(), options.identity.clone()),
            asker: Asker::new(client.clone()),
            asking: Arc::new(Semaphore::new(256)),
            client,
            metrics,
            watches,
            leading,
            tell,
            queue: Queue::new(options.concurrency),
            conductors: BTreeMap::new(),
            wakes: BTreeMap::new(),
            listed: BTreeSet::new(),
            budgets: Budgets::default(),
            nodes: None,
            nodes_told: None,
            nodes_unreadable: false,
            lead: None,
            touched: BTreeSet::new(),
        }
    }

    /// Runs until told to stop; then calls under way are awaited.
    pub async fn run(
        mut self,
        mut told: mpsc::Receiver<Message>,
        mut stopping: watch::Receiver<bool>,
    ) {
        let mut batch = Vec::new();
        loop {
            let pause = self.pause();
            tokio::select! {
                count = told.recv_many(&mut batch, 256) => if count == 0 { break },
                () = tokio::time::sleep(pause) => {}
                _ = stopping.wait_for(|stop| *stop) => break,
            }
            for message in batch.drain(..) {
                self.take(message);
            }
            self.wake_up();
            self.act();
            self.pump();
        }
        self.queue.clear();
        while self.queue.running() > 0 {
            match told.recv().await {
                Some(Message::Done(key, ..)) => self.queue.finished(&key),
                Some(_) => {}
                None => break,
            }
        }
    }

    fn pause(&self) -> Duration {
        let at = self
            .wakes
            .values()
            .min()
            .copied()
            .unwrap_or(now().plus_seconds(60));
        Duration::from_millis(u64::try_from(at.0 - now().0).unwrap_or(0))
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Watch(Kind::Node, news) => self.take_node(news),
            Message::Watch(Kind::Budget, news) => self.take_budget(news),
            Message::Watch(kind, news) => self.take_news(kind, news),
            Message::NoNodes => {
                self.nodes_unreadable = true;
                self.listed.insert(Kind::Node);
                tracing::warn!("nodes cannot be read: no member is ever proven down by its node");
                self.tell_all(&Input::Nodes(None));
            }
            Message::Done(key, id, outcome) => {
                self.queue.finished(&key);
                self.tell_one(&key, Input::Done(id, outcome));
            }
            Message::Engine(key, id, outcome) => {
                // One that is gone meanwhile is not made again for an answer's sake.
                if self.conductors.contains_key(&key) {
                    self.tell_one(&key, Input::Engine(id, outcome));
                }
            }
            Message::Lead(lead) => {
                self.lead = lead;
                self.metrics.leading.set(i64::from(lead.is_some()));
                self.drop_queue();
                self.tell_all(&Input::Lead(lead));
            }
        }
        self.metrics.ready.set(i64::from(self.ready()));
    }

    /// Whether everything was listed once.
    fn ready(&self) -> bool {
        WATCHED
            .iter()
            .chain([&Kind::Node])
            .all(|kind| self.listed.contains(kind))
    }

    fn drop_queue(&mut self) {
        for (key, id) in self.queue.clear() {
            let outcome = Outcome::Refused(not_leading());
            self.tell_one(&key, Input::Done(id, outcome));
        }
    }

    fn take_news(&mut self, kind: Kind, news: News) {
        match news {
            News::Applied(object) => {
                if let Some(key) = key_of(kind, &object) {
                    self.tell_one(&key, Input::Applied(kind, object));
                }
            }
            News::Deleted(object) => {
                if let Some(key) = key_of(kind, &object) {
                    self.tell_one(&key, Input::Deleted(kind, object));
                }
            }
            News::Listed(objects, asked) => self.take_list(kind, objects, asked),
        }
    }

    fn take_list(&mut self, kind: Kind, objects: Vec<Arc<Value>>, asked: Time) {
        let mut groups: BTreeMap<EnsembleKey, Vec<Arc<Value>>> = BTreeMap::new();
        for object in objects {
            if let Some(key) = key_of(kind, &object) {
                groups.entry(key).or_default().push(object);
            }
        }
        for key in groups.keys() {
            self.conductor(key);
        }
        self.listed.insert(kind);
        let keys: Vec<EnsembleKey> = self.conductors.keys().cloned().collect();
        for key in keys {
            let objects = groups.remove(&key).unwrap_or_default();
            self.tell_one(&key, Input::Listed(kind, objects, asked));
        }
    }

    fn take_budget(&mut self, news: News) {
        match news {
            News::Applied(budget) => {
                let audience = Audience::of(&budget);
                let before = self.budgets.insert(budget.clone());
                // It may have selected others before.
                if let Some(before) = before.filter(|b| Audience::of(b) != audience) {
                    self.tell_audience(
                        &Audience::of(&before),
                        &Input::Deleted(Kind::Budget, before),
                    );
                }
                self.tell_audience(&audience, &Input::Applied(Kind::Budget, budget));
            }
            News::Deleted(budget) => {
                self.budgets.remove(&budget);
                let audience = Audience::of(&budget);
                self.tell_audience(&audience, &Input::Deleted(Kind::Budget, budget));
            }
            News::Listed(budgets, asked) => {
                self.budgets.replace(budgets);
                self.listed.insert(Kind::Budget);
                let keys: Vec<EnsembleKey> = self.conductors.keys().cloned().collect();
                for key in keys {
                    let input = Input::Listed(Kind::Budget, self.budgets.of(&key), asked);
                    self.tell_one(&key, input);
                }
            }
        }
    }

    /// Tells those that there are: a budget alone makes no conductor.
    fn tell_audience(&mut self, audience: &Audience, input: &Input) {
        let keys: Vec<EnsembleKey> = match audience {
            Audience::One(key) => vec![key.clone()],
            Audience::Namespace(_) => self.conductors.keys().cloned().collect(),
        };
        for key in keys {
            if audience.includes(&key) && self.conductors.contains_key(&key) {
                self.tell_one(&key, input.clone());
            }
        }
    }

    fn take_node(&mut self, news: News) {
        let nodes = self.nodes.get_or_insert_default();
        let name = |object: &Value| text(object, "/metadata/name").to_owned();
        match news {
            News::Applied(object) => drop(nodes.insert(name(&object), NodeView::read(&object))),
            News::Deleted(object) => drop(nodes.remove(&name(&object))),
            News::Listed(objects, _) => {
                *nodes = objects
                    .iter()
                    .map(|o| (name(o), NodeView::read(o)))
                    .collect();
                self.nodes_unreadable = false;
                self.listed.insert(Kind::Node);
            }
        }
        // A kubelet reports its node's health again and again; only what changes is passed on.
        let changed = self.nodes_told.as_deref() != self.nodes.as_ref();
        if changed && self.listed.contains(&Kind::Node) {
            self.nodes_told = self.nodes.clone().map(Arc::new);
            self.tell_all(&Input::Nodes(self.nodes_told.clone()));
        }
    }

    /// The conductor of that ensemble, made if it is new and told what others know already.
    fn conductor(&mut self, key: &EnsembleKey) {
        if self.conductors.contains_key(key) {
            return;
        }
        self.conductors
            .insert(key.clone(), Conductor::new(&key.0, &key.1));
        let listed: Vec<Kind> = self.listed.iter().copied().collect();
        for kind in listed {
            let input = match kind {
                Kind::Node => {
                    Input::Nodes(self.nodes_told.clone().filter(|_| !self.nodes_unreadable))
                }
                Kind::Budget => Input::Listed(kind, self.budgets.of(key), now()),
                _ => Input::Listed(kind, Vec::new(), now()),
            };
            self.tell_one(key, input);
        }
        self.tell_one(key, Input::Lead(self.lead));
    }

    fn tell_one(&mut self, key: &EnsembleKey, input: Input) {
        self.conductor(key);
        let mut out = Vec::new();
        if let Some(conductor) = self.conductors.get_mut(key) {
            conductor.tell(now(), input, &mut out);
        }
        self.touched.insert(key.clone());
        self.handle(key, out);
    }

    fn tell_all(&mut self, input: &Input) {
        let keys: Vec<EnsembleKey> = self.conductors.keys().cloned().collect();
        for key in keys {
            self.tell_one(&key, input.clone());
        }
    }

    fn wake_up(&mut self) {
        let now = now();
        let due = self
            .wakes
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| key.clone());
        self.touched.extend(due.collect::<Vec<_>>());
        self.wakes.retain(|_, at| *at > now);
    }

    fn act(&mut self) {
        // No plan before nodes are known, or known not to be readable.
        if !self.ready() {
            return;
        }
        for key in std::mem::take(&mut self.touched) {
            let mut out = Vec::new();
            let Some(conductor) = self.conductors.get_mut(&key) else {
                continue;
            };
            let started = std::time::Instant::now();
            conductor.act(now(), &mut out);
            self.metrics
                .plan_seconds
                .observe(started.elapsed().as_secs_f64());
            let over = !conductor.present();
            self.handle(&key, out);
            if over {
                self.forget(&key);
            }
        }
        self.metrics.ensembles.set(self.conductors.len() as i64);
    }

    /// An Ensemble that is gone and left nothing needs no conductor.
    fn forget(&mut self, key: &EnsembleKey) {
        let empty = self.conductors.get(key).is_some_and(|c| {
            let snap = c.snapshot();
            snap.pods.is_empty() && snap.claims.is_empty() && snap.revisions.is_empty()
        });
        if empty && self.listed.contains(&Kind::Ensemble) {
            self.conductors.remove(key);
            self.wakes.remove(key);
        }
        self.metrics.forget(key);
    }

    fn handle(&mut self, key: &EnsembleKey, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Call(id, call) => self.queue.push(key, id, call),
                Output::Engine(id, call) => self.ask(key, id, call),
                Output::Wake(at) => drop(self.wakes.insert(key.clone(), at)),
                Output::Relist(kind) => self.watches.relist(kind),
                Output::Publish(report) => {
                    let plan = report.id.as_str();
                    let waits = report.first_blocked().map(|(_, b)| b.message.as_str());
                    tracing::info!(namespace = %key.0, ensemble = %key.1, plan, state = ?report.state, waits, "planned");
                    self.metrics.report(key, &report, now());
                }
                Output::Happened(happening) => {
                    let uid = self
                        .conductors
                        .get(key)
                        .map(|c| c.snapshot().ensemble.uid().to_owned());
                    self.announcer
                        .announce(key, uid.unwrap_or_default(), happening);
                }
            }
        }
    }

    /// Asks a member's engine, beside the main loop.
    fn ask(&self, key: &EnsembleKey, id: CallId, call: EngineCall) {
        let (asker, tell, key) = (self.asker.clone(), self.tell.clone(), key.clone());
        let (leading, turns) = (self.leading.clone(), self.asking.clone());
        tokio::spawn(async move {
            // Never closed, so there is always a turn.
            let turn = turns.acquire_owned().await;
            let outcome = asker.ask(&call, || leading.now()).await;
            drop(turn);
            if !matches!(call.ask(), Ask::Observe) {
                tracing::info!(namespace = %key.0, ensemble = %key.1, member = call.member(), ask = ?call.ask(), ?outcome, "asked");
            }
            let _ = tell.send(Message::Engine(key, id, outcome)).await;
        });
    }

    /// Starts as many calls as may run.
    fn pump(&mut self) {
        while let Some((key, id, call)) = self.queue.pop() {
            let (client, tell) = (self.client.clone(), self.tell.clone());
            let (leading, metrics) = (self.leading.clone(), self.metrics.clone());
            tokio::spawn(async move {
                let outcome = if leading.now() {
                    calls::send(&client, &call).await
                } else {
                    Outcome::Refused(not_leading())
                };
                let kind = resources::plural(call.kind());
                let code = match &outcome {
                    Outcome::Done(_) => "ok".to_owned(),
                    Outcome::Refused(error) => error.code.to_string(),
                    Outcome::Unknown(_) => "unknown".to_owned(),
                };
                tracing::debug!(namespace = %key.0, ensemble = %key.1, verb = ?call.verb(), kind, name = call.name(), code, "called");
                metrics.called(call.verb(), kind, &code);
                let _ = tell.send(Message::Done(key, id, outcome)).await;
            });
        }
        self.metrics.calls_waiting.set(self.queue.waiting() as i64);
    }
}

fn not_leading() -> ApiError {
    let message = "not sent: this controller does not lead".into();
    ApiError {
        code: 503,
        reason: "NotLeading".into(),
        message,
    }
}
