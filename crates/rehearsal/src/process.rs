//! One controller process: a conductor with its watches and its calls on the way.

use crate::raft;
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
    /// It does nothing before that.
    pub asleep_until: Option<Time>,
    /// What its newest plan says.
    pub report: Option<Arc<Report>>,
    /// What it announced.
    pub happenings: Vec<Happening>,
    dirty: bool,
}

impl Process {
    /// Starts and lists everything.
    pub fn start(world: &mut World, name: &str, epoch: i64) -> Self {
        let mut process = Self {
            name: name.into(),
            epoch,
            conductor: Conductor::new(&world.namespace, &world.name).knowing(raft::abilities),
            watches: BTreeMap::new(),
            nodes: Nodes::new(),
            nodes_changed: true,
            calls: VecDeque::new(),
            asks: VecDeque::new(),
            wake: None,
            blind_until: None,
            blind_to_pods_until: None,
            asleep_until: None,
            report: None,
            happenings: Vec::new(),
            dirty: true,
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
            .collect();
        let now = now(world);
        if kind == Kind::Node {
            self.nodes = objects.iter().map(|o| (name_of(o), read_node(o))).collect();
            self.nodes_changed = true;
        } else {
            self.tell(now, Input::Listed(kind, objects, now));
        }
    }

    fn tell(&mut self, now: Time, input: Input) {
        let mut out = Vec::new();
        self.conductor.tell(now, input, &mut out);
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
                Output::Wake(at) => self.wake = Some(at),
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
        if self.blind_until.is_none_or(|until| until <= now) {
            self.blind_until = None;
            self.see(world);
        }
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
            self.dirty = true;
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
        self.conductor.act(now, &mut out);
        for kind in self.take(out) {
            self.list(world, kind);
        }
    }

    /// Until when it does not see all that is new.
    pub fn blind_until(&self) -> Option<Time> {
        self.blind_until.max(self.blind_to_pods_until)
    }

    fn see(&mut self, world: &mut World) {
        let watches: Vec<(Kind, WatchId)> = self.watches.iter().map(|(k, w)| (*k, *w)).collect();
        for (kind, watch) in watches {
            if kind == Kind::Pod && self.blind_to_pods_until.is_some() {
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
