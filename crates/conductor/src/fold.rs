//! Folding what is told into the snapshot and into memory.

use crate::Kind;
use crate::engine::change_under_way;
use ensemble_api::status::ParameterState;
use ensemble_api::{Reason, labels};
use ensemble_planner::cast::Cast;
use ensemble_planner::engine::Lead;
use ensemble_planner::errand::Errand;
use ensemble_planner::memory::{PodMemory, Run};
use ensemble_planner::miscount::miscounted;
use ensemble_planner::pull::Pull;
use ensemble_planner::roster::Roster;
use ensemble_planner::snapshot::Nodes;
use ensemble_planner::view::{EnsembleView, Pinned, PodView, Unreadable};
use ensemble_planner::write::uncount_key;
use ensemble_planner::{Snapshot, Time};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The world as told so far.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// What a plan is made from.
    pub snap: Snapshot,
    /// Whether the Ensemble exists.
    pub present: bool,
    /// Why the Ensemble cannot be read.
    pub unreadable: Option<Unreadable>,
    /// Kinds that were listed at least once.
    pub listed: BTreeSet<Kind>,
}

impl World {
    /// Takes one object in.
    pub fn apply(&mut self, kind: Kind, object: &Value) {
        if kind == Kind::Ensemble {
            return self.apply_ensemble(object);
        }
        let shelf = kind.info().shelf;
        let changed = shelf.is_some_and(|shelf| shelf.put(&mut self.snap, object));
        if kind == Kind::Budget && changed && self.has_room(object) {
            self.budget_has_room();
        }
    }

    /// Whether a budget that was just taken in lets somebody be evicted.
    fn has_room(&self, budget: &Value) -> bool {
        let budget = self.snap.budgets.get(name(budget));
        budget.is_some_and(|b| b.allowed > 0)
    }

    /// Takes nodes in, and says whether that concerns us: whether one that has a pod of ours is not
    /// what it was, or a pod waits for a node that would take it. Plans look at no other node.
    pub fn take_nodes(&mut self, nodes: Option<Arc<Nodes>>) -> bool {
        let before = std::mem::replace(&mut self.snap.nodes, nodes);
        let (Some(before), Some(now)) = (&before, &self.snap.nodes) else {
            return before.is_some() != self.snap.nodes.is_some();
        };
        let waits = |pod: &PodView| pod.node.is_empty() || pod.resize.is_some();
        let other = |pod: &PodView| before.get(&pod.node) != now.get(&pod.node);
        self.snap.pods.values().any(|pod| waits(pod) || other(pod))
    }

    /// A refused eviction need not wait for its turn: the budget has changed since.
    fn budget_has_room(&mut self) {
        let now = self.snap.now;
        let memory = Arc::make_mut(&mut self.snap.memory);
        let failures = memory.failures.values_mut();
        for failure in failures.filter(|f| f.reason == Reason::EvictionRefused) {
            failure.retry_at = failure.retry_at.min(now);
        }
    }

    fn apply_ensemble(&mut self, object: &Value) {
        self.present = true;
        match EnsembleView::read_after(object, &self.snap.ensemble) {
            Ok(view) => {
                self.unreadable = None;
                self.snap.abilities = ensemble_engines::abilities(&view.spec);
                self.snap.ensemble = view;
                self.snap.from_spec = Some(self.snap.from_spec());
            }
            Err(unreadable) => self.unreadable = Some(unreadable),
        }
    }

    /// Whether an object is still in view, and not told to end.
    pub fn shows(&mut self, kind: Kind, name: &str, uid: &str) -> bool {
        let shelf = kind.info().shelf;
        shelf.is_some_and(|shelf| shelf.shows(&mut self.snap, name, uid))
    }

    /// Takes one object out, if it is the one that was in.
    pub fn remove(&mut self, kind: Kind, pin: &Pinned) {
        if kind == Kind::Ensemble {
            self.present = false;
        }
        if let Some(shelf) = kind.info().shelf {
            shelf.remove(&mut self.snap, pin);
        }
    }

    /// Takes a whole list in. Those that stay are held against what they were.
    pub fn replace(&mut self, kind: Kind, objects: &[Arc<Value>]) {
        if kind == Kind::Ensemble {
            self.present = false;
        }
        if let Some(shelf) = kind.info().shelf {
            let names = objects.iter().map(|object| name(object));
            shelf.keep_only(&mut self.snap, &names.collect());
        }
        for object in objects {
            self.apply(kind, object);
        }
        self.listed.insert(kind);
    }

    /// Remembers since when things are as they are.
    pub fn remember(&mut self, now: Time) {
        self.remember_pods(now);
        self.remember_absent(now);
        if self.snap.ensemble.spec.engine.is_some() {
            self.remember_lead(now);
        }
    }

    /// Remembers since when members that are asked for have no pod.
    fn remember_absent(&mut self, now: Time) {
        let roster = Roster::of(&self.snap.ensemble);
        let names = roster.wanted().map(|m| roster.name(m));
        let absent: BTreeSet<String> = names.filter(|n| !self.snap.pods.contains_key(n)).collect();
        let memory = Arc::make_mut(&mut self.snap.memory);
        memory.absent_since.retain(|name, _| absent.contains(name));
        for name in absent {
            memory.absent_since.entry(name).or_insert(now);
        }
    }

    /// Remembers since when somebody, or nobody, leads.
    fn remember_lead(&mut self, now: Time) {
        let of = change_under_way(&self.snap);
        if !self.snap.memory.restarts.is_empty() {
            Arc::make_mut(&mut self.snap.memory).keep_restarts(of.as_deref());
        }
        let cast = Cast::of(&self.snap);
        let led = match cast.lead() {
            Lead::One { who, term } => cast
                .our_pod(*who)
                .map(|p| format!("{}/{term}", p.meta.pin.uid)),
            _ => None,
        };
        let held = cast.engine().held;
        let up: BTreeMap<String, bool> = cast
            .members()
            .filter_map(|m| {
                let up = cast.engine().standing(m).is_some_and(|s| s.is_known());
                Some((cast.our_pod(m)?.meta.pin.uid.clone(), up))
            })
            .collect();
        let kept = cast.engine().cohort().and_then(|c| c.parameters.clone());
        let told = self
            .snap
            .ensemble
            .status
            .parameters
            .as_ref()
            .map(|c| match c.state {
                ParameterState::Applying | ParameterState::Applied => c.to.clone(),
                ParameterState::RollingBack | ParameterState::Refused => c.from.clone(),
            });
        let keeps = kept.zip(told).is_some_and(|(kept, told)| {
            told.iter()
                .all(|(name, value)| kept.get(name) == Some(value))
        });
        let memory = Arc::make_mut(&mut self.snap.memory);
        match (keeps, led.is_some()) {
            (true, _) => drop(memory.told_since.get_or_insert(now)),
            (false, true) => memory.told_since = None,
            (false, false) => {}
        }
        for (uid, up) in up {
            let since = &mut memory.pod_mut(&uid).up_since;
            *since = up.then(|| since.unwrap_or(now));
        }
        // While people hold it, that nobody leads is their wish.
        if led.is_some() || held {
            memory.leaderless_since = None;
        } else {
            memory.leaderless_since.get_or_insert(now);
        }
        if memory.led_by != led {
            memory.led_since = led.is_some().then_some(now);
            memory.led_by = led;
        }
    }

    fn remember_pods(&mut self, now: Time) {
        let snap = &mut self.snap;
        snap.now = now;
        let memory = Arc::make_mut(&mut snap.memory);
        let there = snap.pods.values().map(|p| p.meta.pin.uid.as_str());
        memory.keep_pods(&there.collect());
        // A refused intent is remembered until it is cleared from the status; a later one for the
        // same pod is another.
        let stored = &snap.ensemble.status.in_flight;
        memory
            .cancelled
            .retain(|uid| stored.iter().any(|i| i.uid == *uid));
        for intent in &snap.ensemble.status.in_flight {
            if intent.epoch != snap.epoch {
                let known = memory.pod_mut(&intent.uid);
                known.foreign_since.get_or_insert(now);
            }
        }
        let status = &snap.ensemble.status;
        let is_open =
            |id: &String| Errand::stored(status).any(|e| e.id == *id && e.phase.is_open());
        memory.errands.retain(|id, _| is_open(id));
        memory.errands_since.retain(|id, _| is_open(id));
        for errand in Errand::stored(status).filter(|e| e.phase.is_open()) {
            memory.errands_since.entry(errand.id).or_insert(now);
        }
        let engine = snap.ensemble.spec.engine_container();
        for pod in snap.pods.values() {
            let uid = &pod.meta.pin.uid;
            let known = match memory.pods.get_mut(uid) {
                Some(known) => known,
                None => {
                    let known = memory.pod_mut(uid);
                    known.from_its_start = !pod.reported;
                    known
                }
            };
            remember_pod(known, pod, now);
            remember_run(known, pod, &engine, now);
            if is_pulled(pod) {
                let pulled = (pod.revision().to_owned(), pod.node.clone());
                memory.pulled.insert(pulled);
            }
        }
        remember_requests(snap);
        remember_miscounted(snap);
        let memory = Arc::make_mut(&mut snap.memory);
        let evicted = snap.budgets.values().flat_map(|b| b.evicted.keys());
        let counted: BTreeSet<&String> = evicted.filter(|n| !snap.pods.contains_key(*n)).collect();
        memory
            .counted_since
            .retain(|name, _| counted.contains(name));
        for name in counted {
            if !memory.counted_since.contains_key(name) {
                memory.counted_since.insert(name.clone(), now);
            }
        }
        let known = |node: &str| snap.nodes.as_ref().is_none_or(|n| n.contains_key(node));
        let bound: BTreeSet<&str> = snap.pods.values().map(|p| p.node.as_str()).collect();
        memory
            .node_missing_since
            .retain(|n, _| bound.contains(n.as_str()) && !known(n));
        for node in bound.into_iter().filter(|n| !n.is_empty() && !known(n)) {
            memory
                .node_missing_since
                .entry(node.to_owned())
                .or_insert(now);
        }
        memory
            .checks
            .retain(|name, _| snap.revisions.contains_key(name));
        memory
            .admitted
            .retain(|name, _| snap.revisions.contains_key(name));
        memory
            .pulled
            .retain(|(revision, _)| snap.revisions.contains_key(revision));
    }
}

fn name(object: &Value) -> &str {
    let name = object.get("metadata").and_then(|m| m.get("name"));
    name.and_then(Value::as_str).unwrap_or_default()
}

/// Keeps since when requests are known.
fn remember_requests(snap: &mut Snapshot) {
    let memory = Arc::make_mut(&mut snap.memory);
    let there: BTreeSet<&str> = snap
        .requests
        .values()
        .map(|r| r.meta.pin.uid.as_str())
        .collect();
    memory
        .requests_since
        .retain(|uid, _| there.contains(uid.as_str()));
    for uid in there {
        if !memory.requests_since.contains_key(uid) {
            memory.requests_since.insert(uid.to_owned(), snap.now);
        }
    }
}

/// Keeps since when pods live although a budget counts them as evicted, and forgets what failed about
/// those that are over.
fn remember_miscounted(snap: &mut Snapshot) {
    let mut seen: BTreeMap<_, _> = miscounted(snap).collect();
    let memory = Arc::make_mut(&mut snap.memory);
    for (key, miscount) in &mut seen {
        let before = memory.miscounted.get(key);
        let same = before.filter(|b| b.is_of(&miscount.uid, &miscount.entry));
        miscount.since = same.map_or(miscount.since, |b| b.since);
    }
    for (budget, _) in memory.miscounted.keys() {
        if !seen.keys().any(|(still, _)| still == budget) {
            memory.failures.remove(&uncount_key(budget));
        }
    }
    memory.miscounted = seen;
}

/// Which run of the engine's container it is, and since when.
fn remember_run(known: &mut PodMemory, pod: &PodView, engine: &str, now: Time) {
    let id = pod.container(engine).map(|c| c.id.as_str());
    let Some(id) = id.filter(|id| !id.is_empty()) else {
        return;
    };
    if known.run.as_ref().is_some_and(|run| run.container == id) {
        return;
    }
    known.run = Some(Run {
        container: id.to_owned(),
        since: now,
    });
}

fn remember_pod(known: &mut PodMemory, pod: &PodView, now: Time) {
    if pod.ready {
        known.ready_since.get_or_insert(now);
        known.once_ready = true;
        known.unready_since = None;
    } else {
        known.ready_since = None;
        known.unready_since.get_or_insert(now);
    }
    if pod.meta.deleting {
        known.leaving_since.get_or_insert(now);
    }
}

/// Whether it is a helper that has done its work.
fn is_pulled(pod: &PodView) -> bool {
    pod.meta.label(labels::PURPOSE) == labels::PREFETCH && Pull::of(pod) == Pull::Pulled
}
