//! One controller process: a conductor with its watches and its calls on the way.

use crate::translate;
use crate::world::World;
use ensemble_api::Report;
use ensemble_conductor::{
    ApiCall, CallId, Conductor, EngineCall, EngineOutcome, Happening, Input, KINDS, Kind, Nodes,
    Outcome, Output, Time,
};
use ensemble_planner::view::{NodeView, View};
use simkube::{EventType, WatchId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A controller process.
#[derive(Clone)]
pub struct Process {
    /// Who it is in the log of calls.
    pub name: Arc<str>,
    /// Under which leadership it acts.
    pub epoch: i64,
    conductor: Conductor,
    watches: BTreeMap<Kind, WatchId>,
    nodes: Nodes,
    nodes_changed: bool,
    /// Calls to be sent, in order.
    pub calls: VecDeque<(CallId, ApiCall)>,
    /// Questions to engines to be asked, in order.
    pub asks: VecDeque<(CallId, EngineCall)>,
    /// When it wants to be woken.
    pub wake: Option<Time>,
    /// It sees nothing new before that.
    pub blind_until: Option<Time>,
    /// It sees nothing new of pods before that.
    pub blind_to_pods_until: Option<Time>,
    /// It sees nothing new of claims before that.
    pub blind_to_claims_until: Option<Time>,
    /// How much its clock is ahead of the cluster's, by which all other times here are.
    pub clock_off_by_ms: i64,
    /// Its Lease is another's by then: it notices, and leads no more.
    pub leads_until: Option<Time>,
    /// It does nothing before that.
    pub asleep_until: Option<Time>,
    /// What its newest plan says.
    pub report: Option<Arc<Report>>,
    /// What it announced.
    pub happenings: Vec<Happening>,
    dirty: bool,
    /// How often the clock woke it, and how often for nothing but to be woken at once again.
    woken: (u32, u32),
}

impl Process {
    /// Starts and lists everything.
    pub fn start(world: &mut World, name: &str, epoch: i64) -> Self {
        Self::start_off_by(world, name, epoch, 0)
    }

    /// The same, with a clock that is off by so much.
    pub fn start_off_by(world: &mut World, name: &str, epoch: i64, ms: i64) -> Self {
        let mut process = Self {
            name: name.into(),
            epoch,
            conductor: Conductor::new(&world.namespace, &world.name),
            watches: BTreeMap::new(),
            nodes: Nodes::new(),
            nodes_changed: true,
            calls: VecDeque::new(),
            asks: VecDeque::new(),
            wake: None,
            blind_until: None,
            blind_to_pods_until: None,
            blind_to_claims_until: None,
            clock_off_by_ms: ms,
            leads_until: None,
            asleep_until: None,
            report: None,
            happenings: Vec::new(),
            dirty: true,
            woken: (0, 0),
        };
        for kind in KINDS.iter().map(|info| info.kind) {
            process.list(world, kind);
        }
        let now = now(world);
        process.tell(now, Input::Lead(Some(epoch)));
        process
    }

    /// The conductor, to look at.
    pub fn conductor(&self) -> &Conductor {
        &self.conductor
    }

    /// Lists a kind and watches it from there on.
    pub fn list(&mut self, world: &mut World, kind: Kind) {
        if let Some(old) = self.watches.remove(&kind) {
            world.cluster.close(old);
        }
        let at = translate::resource(world, kind);
        // A watch from the beginning of time brings every object first: a list.
        let options = translate::watch(world, kind);
        let Ok(watch) = world.cluster.watch(at, &options) else {
            return;
        };
        let events = world.cluster.poll(watch);
        self.watches.insert(kind, watch);
        let objects: Vec<_> = events
            .into_iter()
            .filter(|e| matches!(e.kind, EventType::Added | EventType::Modified))
            .map(|e| e.object)
            .filter(|object| ours(kind, object, &self.conductor))
            .collect();
        let now = now(world);
        if kind == Kind::Node {
            self.nodes = objects.iter().map(|o| (name_of(o), read_node(o))).collect();
            self.nodes_changed = true;
        } else {
            let asked = self.clock(now);
            self.tell(now, Input::Listed(kind, objects, asked));
        }
    }

    /// What its own clock shows.
    fn clock(&self, now: Time) -> Time {
        now.plus_ms(self.clock_off_by_ms)
    }

    fn tell(&mut self, now: Time, input: Input) {
        let mut out = Vec::new();
        self.conductor.tell(self.clock(now), input, &mut out);
        self.dirty = true;
        self.take(out);
    }

    /// Brings a call's outcome back.
    pub fn answer(&mut self, now: Time, id: CallId, outcome: Outcome) {
        self.tell(now, Input::Done(id, outcome));
    }

    /// Brings an engine's answer back.
    pub fn engine_answer(&mut self, now: Time, id: CallId, outcome: EngineOutcome) {
        self.tell(now, Input::Engine(id, outcome));
    }

    fn take(&mut self, out: Vec<Output>) -> Vec<Kind> {
        let mut lists = Vec::new();
        for output in out {
            match output {
                Output::Call(id, call) => self.calls.push_back((id, call)),
                Output::Engine(id, call) => self.asks.push_back((id, call)),
                Output::Wake(at) => self.wake = Some(at.plus_ms(-self.clock_off_by_ms)),
                Output::Relist(kind) => lists.push(kind),
                Output::Happened(happening) => self.happenings.push(happening),
                Output::Publish(report) => self.report = Some(report),
            }
        }
        lists
    }

    /// Sees what is new, unless it is blind, and thinks, if there is anything to think about.
    pub fn turn(&mut self, world: &mut World) {
        let now = now(world);
        if self.asleep_until.is_some_and(|until| until > now) {
            return;
        }
        self.asleep_until = None;
        self.blind_to_pods_until = self.blind_to_pods_until.filter(|until| *until > now);
        self.blind_to_claims_until = self.blind_to_claims_until.filter(|until| *until > now);
        if self.blind_until.is_none_or(|until| until <= now) {
            self.blind_until = None;
            self.see(world);
        }
        if self.leads_until.is_some_and(|until| until <= now) {
            self.leads_until = None;
            self.tell(now, Input::Lead(None));
        }
        let by_clock = self.wake.is_some_and(|at| at <= now);
        let heard = self.dirty;
        if by_clock {
            self.wake = None;
            self.dirty = true;
            self.woken.0 += 1;
        }
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        if std::mem::take(&mut self.nodes_changed) {
            let nodes = Some(Arc::new(self.nodes.clone()));
            self.tell(now, Input::Nodes(nodes));
            self.dirty = false;
        }
        let mut out = Vec::new();
        self.conductor.act(self.clock(now), &mut out);
        for kind in self.take(out) {
            self.list(world, kind);
        }
        let at_once = self.wake.is_some_and(|at| at <= now) && self.calls.is_empty();
        self.woken.1 += u32::from(by_clock && !heard && at_once && self.asks.is_empty());
    }

    /// How often the clock woke it since this was last asked, and how often for nothing but to be woken at
    /// once again.
    pub fn wakes(&mut self) -> (u32, u32) {
        std::mem::take(&mut self.woken)
    }

    /// Until when it does not see all that is new.
    pub fn blind_until(&self) -> Option<Time> {
        let some = self.blind_to_pods_until.max(self.blind_to_claims_until);
        self.blind_until.max(some)
    }

    fn see(&mut self, world: &mut World) {
        let watches: Vec<(Kind, WatchId)> = self.watches.iter().map(|(k, w)| (*k, *w)).collect();
        for (kind, watch) in watches {
            let blind = match kind {
                Kind::Pod => self.blind_to_pods_until,
                Kind::Claim => self.blind_to_claims_until,
                _ => None,
            };
            if blind.is_some() {
                continue;
            }
            for event in world.cluster.poll(watch) {
                match event.kind {
                    EventType::Error => {
                        self.list(world, kind);
                        break;
                    }
                    EventType::Bookmark => {}
                    _ if kind == Kind::Node => self.see_node(&event),
                    EventType::Added | EventType::Modified => {
                        if ours(kind, &event.object, &self.conductor) {
                            self.tell(now(world), Input::Applied(kind, event.object));
                        } else if self.was_ours(kind, &event.object) {
                            self.tell(now(world), Input::Deleted(kind, event.object));
                        }
                    }
                    EventType::Deleted => {
                        if ours(kind, &event.object, &self.conductor) {
                            self.tell(now(world), Input::Deleted(kind, event.object));
                        }
                    }
                }
            }
        }
    }

    /// Whether an object that is another's by now still stands in its view.
    fn was_ours(&mut self, kind: Kind, object: &serde_json::Value) -> bool {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        self.conductor.shows(kind, &name_of(object), uid)
    }

    fn see_node(&mut self, event: &simkube::WatchEvent) {
        let name = name_of(&event.object);
        let before = self.nodes.get(&name).cloned();
        if event.kind == EventType::Deleted {
            self.nodes.remove(&name);
        } else {
            self.nodes.insert(name.clone(), read_node(&event.object));
        }
        if self.nodes.get(&name) != before.as_ref() {
            self.nodes_changed = true;
            self.dirty = true;
        }
    }

    /// Forgets its watches in the cluster.
    pub fn close(&self, world: &mut World) {
        for watch in self.watches.values() {
            world.cluster.close(*watch);
        }
    }
}

fn name_of(object: &serde_json::Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn ours(kind: Kind, object: &serde_json::Value, conductor: &Conductor) -> bool {
    translate::concerns(kind, object, conductor.snapshot().name())
}

/// One that cannot be read is not Ready.
fn read_node(node: &serde_json::Value) -> NodeView {
    NodeView::read(node).unwrap_or_default()
}

/// The simulator's time, as a conductor takes it.
pub fn now(world: &World) -> Time {
    Time(i64::try_from(world.cluster.now().0).unwrap_or(i64::MAX))
}
