//! The main loop: it owns all conductors, tells each what concerns it, and sends what they want.

use crate::alarms::Alarms;
use crate::calls;
use crate::clock::Clock;
use crate::engine::Asker;
use crate::events::Announcer;
use crate::lease::Leading;
use crate::metrics::Metrics;
use crate::nodes::NodeBook;
use crate::queue::{EnsembleKey, Limits, Queue};
use crate::shared::{Audience, Shared};
use crate::watches::Watches;
use crate::{Options, resources};
use ensemble_conductor::{
    ApiCall, ApiError, Ask, Belongs, CallId, Conductor, EngineCall, EngineOutcome, Input, KINDS,
    Kind, Outcome, Output, Time, ensemble_of, owner_of,
};
use kube::Client;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

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

/// How many calls of one ensemble run at once.
const CALLS_EACH: usize = 16;

/// How many questions to engines run at once: a thousand members of one ensemble that do not answer
/// make nobody else blind.
const ASKS: Limits = Limits {
    all: 256,
    each: 128,
};

pub struct Stage {
    client: Client,
    clock: Clock,
    metrics: Arc<Metrics>,
    watches: Watches,
    leading: Leading,
    tell: mpsc::Sender<Message>,
    announcer: Announcer,
    asker: Asker,
    calls: Queue<ApiCall>,
    asks: Queue<EngineCall>,
    conductors: BTreeMap<EnsembleKey, Conductor>,
    alarms: Alarms,
    listed: BTreeSet<Kind>,
    shared: Shared,
    nodes: NodeBook,
    lead: Option<i64>,
    touched: BTreeSet<EnsembleKey>,
}

pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Which ensemble an object belongs to.
fn key_of(kind: Kind, object: &Value) -> Option<EnsembleKey> {
    let name = ensemble_of(kind, object)?;
    let namespace = text(object, "/metadata/namespace");
    Some((namespace.to_owned(), name.to_owned()))
}

impl Stage {
    pub fn new(
        client: Client,
        clock: Clock,
        options: &Options,
        metrics: Arc<Metrics>,
        watches: Watches,
        leading: Leading,
        tell: mpsc::Sender<Message>,
    ) -> Self {
        Self {
            announcer: Announcer::new(client.clone(), options.identity.clone()),
            asker: Asker::new(client.clone()),
            client,
            clock,
            metrics,
            watches,
            leading,
            tell,
            calls: Queue::new(Limits {
                all: options.concurrency,
                each: CALLS_EACH,
            }),
            asks: Queue::new(ASKS),
            conductors: BTreeMap::new(),
            alarms: Alarms::default(),
            listed: BTreeSet::new(),
            shared: Shared::default(),
            nodes: NodeBook::default(),
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
            self.tell_nodes();
            self.wake_up();
            self.act();
            self.send_calls();
            self.ask_engines();
        }
        self.calls.clear();
        while self.calls.running() > 0 {
            match told.recv().await {
                Some(Message::Done(key, ..)) => self.calls.finished(&key),
                Some(_) => {}
                None => break,
            }
        }
    }

    fn pause(&self) -> Duration {
        let now = self.clock.now();
        let at = self.alarms.next().unwrap_or(now.plus_seconds(60));
        Duration::from_millis(u64::try_from(at.0 - now.0).unwrap_or(0))
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Watch(kind, news) => match kind.info().belongs {
                Belongs::InCluster => self.take_nodes(news),
                Belongs::InNamespace => self.take_shared(kind, news),
                Belongs::Itself | Belongs::BySpec | Belongs::ByLabel => self.take_news(kind, news),
            },
            Message::NoNodes => {
                tracing::warn!("nodes cannot be read: no member is ever proven down by its node");
                self.listed.insert(Kind::Node);
                self.nodes.forbidden();
            }
            Message::Done(key, id, outcome) => {
                self.calls.finished(&key);
                self.tell_one(&key, Input::Done(id, outcome));
            }
            Message::Engine(key, id, outcome) => {
                self.asks.finished(&key);
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
        let mut kinds = KINDS.iter().map(|info| info.kind);
        kinds.all(|kind| self.listed.contains(&kind))
    }

    fn drop_queue(&mut self) {
        for (key, id) in self.calls.clear() {
            let outcome = Outcome::Refused(not_leading());
            self.tell_one(&key, Input::Done(id, outcome));
        }
    }

    fn take_news(&mut self, kind: Kind, news: News) {
        match news {
            News::Applied(object) => {
                if let Some(key) = key_of(kind, &object) {
                    self.changed_hands(kind, &object, &key);
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

    /// What has no owner is known by its label alone. If somebody edits that, whoever had it before must
    /// not go on believing that it is there.
    fn changed_hands(&mut self, kind: Kind, object: &Arc<Value>, key: &EnsembleKey) {
        if !kind.info().is_labelled() || owner_of(object).is_some() {
            return;
        }
        let (name, uid) = (
            text(object, "/metadata/name"),
            text(object, "/metadata/uid"),
        );
        let first = (key.0.clone(), String::new());
        let near = self.conductors.range_mut(first..);
        let near = near.take_while(|(other, _)| other.0 == key.0);
        let had = near
            .filter(|(other, _)| *other != key)
            .filter_map(|(other, conductor)| {
                conductor.shows(kind, name, uid).then(|| other.clone())
            });
        for other in had.collect::<Vec<_>>() {
            self.tell_one(&other, Input::Deleted(kind, object.clone()));
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

    fn take_nodes(&mut self, news: News) {
        if matches!(news, News::Listed(..)) {
            self.listed.insert(Kind::Node);
        }
        self.nodes.take(news);
    }

    fn take_shared(&mut self, kind: Kind, news: News) {
        match news {
            News::Applied(object) => {
                let audience = Audience::of(&object);
                let before = self.shared.insert(kind, object.clone());
                // It may have concerned others before.
                if let Some(before) = before.filter(|b| Audience::of(b) != audience) {
                    self.tell_audience(&Audience::of(&before), &Input::Deleted(kind, before));
                }
                self.tell_audience(&audience, &Input::Applied(kind, object));
            }
            News::Deleted(object) => {
                self.shared.remove(kind, &object);
                let audience = Audience::of(&object);
                self.tell_audience(&audience, &Input::Deleted(kind, object));
            }
            News::Listed(objects, asked) => {
                self.shared.replace(kind, objects);
                self.listed.insert(kind);
                let keys: Vec<EnsembleKey> = self.conductors.keys().cloned().collect();
                for key in keys {
                    let input = Input::Listed(kind, self.shared.of(kind, &key), asked);
                    self.tell_one(&key, input);
                }
            }
        }
    }

    /// Tells those that there are: a budget alone makes no conductor.
    fn tell_audience(&mut self, audience: &Audience, input: &Input) {
        let first = match audience {
            Audience::One(key) => key.clone(),
            Audience::Namespace(namespace) => (namespace.clone(), String::new()),
        };
        let from_there = self.conductors.range(first..).map(|(key, _)| key);
        let concerned = from_there.take_while(|key| audience.includes(key));
        for key in concerned.cloned().collect::<Vec<_>>() {
            self.tell_one(&key, input.clone());
        }
    }

    /// Everybody is told of nodes, but only those think again whom it concerns.
    fn tell_nodes(&mut self) {
        let Some(nodes) = self.nodes.news() else {
            return;
        };
        let now = self.clock.now();
        for (key, conductor) in &mut self.conductors {
            // Nodes alone make no conductor want anything before it acts.
            conductor.tell(now, Input::Nodes(nodes.clone()), &mut Vec::new());
            if !conductor.rests() {
                self.touched.insert(key.clone());
            }
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
            let input = match kind.info().belongs {
                Belongs::InCluster => Input::Nodes(self.nodes.views()),
                // Nothing but such as are shared: what is its own comes by itself.
                _ => Input::Listed(kind, self.shared.of(kind, key), self.clock.now()),
            };
            self.tell_one(key, input);
        }
        self.tell_one(key, Input::Lead(self.lead));
    }

    fn tell_one(&mut self, key: &EnsembleKey, input: Input) {
        self.conductor(key);
        let mut out = Vec::new();
        if let Some(conductor) = self.conductors.get_mut(key) {
            conductor.tell(self.clock.now(), input, &mut out);
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
        let now = self.clock.now();
        let due = std::iter::from_fn(|| self.alarms.pop_due(now));
        self.touched.extend(due);
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
            conductor.act(self.clock.now(), &mut out);
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

    /// An Ensemble that is gone and left nothing needs no conductor. One that is still to come may
    /// have something already: a request, or what was restored before it.
    fn forget(&mut self, key: &EnsembleKey) {
        let empty = self.conductors.get(key).is_some_and(left_nothing);
        if empty && self.listed.contains(&Kind::Ensemble) {
            self.conductors.remove(key);
            self.alarms.remove(key);
            self.announcer.forget(key);
        }
        self.metrics.forget(key);
    }

    fn handle(&mut self, key: &EnsembleKey, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Call(id, call) => self.calls.push(key, id, call),
                // What an engine is to do is not kept waiting by what it is only asked.
                Output::Engine(id, call) => match call.ask() {
                    Ask::Observe => self.asks.push(key, id, call),
                    _ => self.asks.push_first(key, id, call),
                },
                Output::Wake(at) => self.alarms.set(key, at),
                Output::Relist(kind) => self.watches.relist(kind),
                Output::Publish(report) => {
                    let plan = report.id.as_str();
                    let waits = report.first_blocked().map(|(_, b)| b.message.as_str());
                    tracing::info!(namespace = %key.0, ensemble = %key.1, plan, state = ?report.state, waits, "planned");
                    self.metrics.report(key, &report, self.clock.now());
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

    /// Asks members' engines, beside the main loop, as many as may be asked at once.
    fn ask_engines(&mut self) {
        while let Some((key, id, call)) = self.asks.pop() {
            let (asker, tell) = (self.asker.clone(), self.tell.clone());
            let leading = self.leading.clone();
            tokio::spawn(async move {
                let outcome = asker.ask(&call, || leading.now()).await;
                if !matches!(call.ask(), Ask::Observe) {
                    tracing::info!(namespace = %key.0, ensemble = %key.1, member = call.member(), ask = ?call.ask(), ?outcome, "asked");
                }
                let _ = tell.send(Message::Engine(key, id, outcome)).await;
            });
        }
    }

    /// Starts as many calls as may run.
    fn send_calls(&mut self) {
        while let Some((key, id, call)) = self.calls.pop() {
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
        self.metrics.calls_waiting.set(self.calls.waiting() as i64);
    }
}

/// Whether nothing is there that is an ensemble's own.
fn left_nothing(conductor: &Conductor) -> bool {
    let snap = conductor.snapshot();
    let members = snap.pods.is_empty() && snap.claims.is_empty();
    let kept = snap.revisions.is_empty() && snap.services.is_empty();
    members && kept && snap.requests.is_empty()
}

fn not_leading() -> ApiError {
    let message = "not sent: this controller does not lead".into();
    ApiError {
        code: 503,
        reason: "NotLeading".into(),
        message,
    }
}

#[cfg(test)]
mod tests;
