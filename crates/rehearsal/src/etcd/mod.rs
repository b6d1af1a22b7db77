//! etcd, as small as it can be: a log that a majority must have before a write is acknowledged, a leader
//! that a majority must name, terms, and elections that only somebody with all acknowledged writes can win.
//! Its members answer in etcd's own words, which etcd's own judge is given.
//!
//! What is left out: who votes does not change, and messages take no time.

mod answers;
mod life;
mod trouble;

use crate::world::World;
use ensemble_api::EnsembleSpec;
use simkube::{Object, Process, ProcessEvent, Readiness, SimTime, Workload, WorkloadApi};
use std::any::Any;
use std::collections::BTreeMap;
use trouble::Trouble;

/// How long a member takes to start.
const START_MS: u64 = 800;
/// How long it then takes to get what it missed.
const CATCH_UP_MS: u64 = 2_500;
/// How long nobody hears of a leader before an election is held.
const ELECTION_MS: u64 = 1_200;
/// How often a client writes.
const WRITE_MS: u64 = 100;
/// How often the model looks whether nodes are cut off.
const LOOK_MS: u64 = 500;

/// A running member.
#[derive(Clone, Debug)]
struct Run {
    uid: String,
    node: String,
    /// It runs from then on.
    up_at: u64,
    /// It has everything from then on, if it hears of a leader.
    synced_at: u64,
    stopping: bool,
    reachable: bool,
    start: u64,
}

/// A member: its log outlives its pod.
#[derive(Clone, Debug, Default)]
struct Member {
    /// How much of the log it has.
    index: u64,
    run: Option<Run>,
}

/// A change of leader that came about.
#[derive(Clone, Debug)]
pub struct Change {
    /// When.
    pub at: u64,
    /// Who led before, in which pod.
    pub from: Option<(String, String)>,
    /// Who leads.
    pub to: String,
    /// The new term.
    pub term: u64,
    /// How many acknowledged writes the new leader lacks.
    pub lost: u64,
    /// Whether it was asked for by a controller.
    pub asked_by_us: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Etcd {
    /// Those that vote, by name.
    voters: Vec<String>,
    /// The container that runs it.
    container: String,
    members: BTreeMap<String, Member>,
    leader: Option<String>,
    /// Since when nobody leads.
    vacant_since: u64,
    term: u64,
    /// How many writes were acknowledged.
    acknowledged: u64,
    written_at: u64,
    longest_pause_ms: u64,
    troubles: BTreeMap<Trouble, u64>,
    changes: Vec<Change>,
    last_leader: Option<(String, String)>,
    /// Who led, or had all that the leader had, when last.
    last_synced: BTreeMap<String, u64>,
    last_led: BTreeMap<String, u64>,
    starts: u64,
    version: u64,
    next_look: u64,
    now: u64,
}

impl Etcd {
    /// So many of that ensemble vote, and nobody runs yet.
    pub fn new(ensemble: &str, voters: u32) -> Self {
        Self {
            voters: (0..voters).map(|o| format!("{ensemble}-{o}")).collect(),
            container: "db".to_owned(),
            members: BTreeMap::new(),
            leader: None,
            vacant_since: 0,
            term: 0,
            acknowledged: 0,
            written_at: 0,
            longest_pause_ms: 0,
            troubles: BTreeMap::new(),
            changes: Vec::new(),
            last_leader: None,
            last_synced: BTreeMap::new(),
            last_led: BTreeMap::new(),
            starts: 0,
            version: 0,
            next_look: 0,
            now: 0,
        }
    }

    /// For an Ensemble that says that it runs etcd; None if it does not.
    pub fn of_spec(spec: &serde_json::Value, ensemble: &str) -> Option<Self> {
        let spec: EnsembleSpec = serde_json::from_value(spec.clone()).ok()?;
        spec.engine.as_ref().filter(|e| e.etcd.is_some())?;
        Some(Self {
            container: spec.engine_container(),
            ..Self::new(ensemble, spec.replicas)
        })
    }

    /// How many of its members must be there.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    fn names(&self) -> impl Iterator<Item = String> + use<> {
        self.voters.clone().into_iter()
    }

    fn run(&self, name: &str) -> Option<&Run> {
        self.members.get(name)?.run.as_ref()
    }

    fn is_up(&self, name: &str) -> bool {
        let run = self.run(name);
        run.is_some_and(|r| r.up_at <= self.now && !r.stopping && r.reachable)
    }

    /// Whether a member leads, or has all that the leader has.
    pub fn in_sync(&self, name: &str) -> bool {
        let caught_up = self.run(name).is_some_and(|r| r.synced_at <= self.now);
        self.is_up(name) && (self.leader() == Some(name) || self.leader.is_some() && caught_up)
    }

    /// When that was last so.
    pub fn synced_at(&self, name: &str) -> u64 {
        self.last_synced.get(name).copied().unwrap_or(0)
    }

    /// When that member last led.
    pub fn led_at(&self, name: &str) -> u64 {
        self.last_led.get(name).copied().unwrap_or(0)
    }

    /// Who leads.
    pub fn leader(&self) -> Option<&str> {
        self.leader.as_deref()
    }

    /// Whether that pod is the leader's.
    pub fn leads(&self, uid: &str) -> bool {
        let run = self.leader().and_then(|l| self.run(l));
        run.is_some_and(|r| r.uid == uid)
    }

    /// Voters that are up and have everything, or had just before a time.
    pub fn present(&self, since: u64) -> Vec<String> {
        let there = |n: &String| self.in_sync(n) || self.synced_at(n) >= since;
        self.names().filter(there).collect()
    }

    /// How many vote.
    pub fn voters(&self) -> usize {
        self.voters.len()
    }

    /// The pod in which a member runs, and which start of it that is.
    pub fn run_of(&self, name: &str) -> Option<(&str, u64)> {
        self.run(name).map(|r| (r.uid.as_str(), r.start))
    }

    /// Which start that pod is at; 0 if none.
    pub fn start_of(&self, uid: &str) -> u64 {
        let mut runs = self.members.values().filter_map(|m| m.run.as_ref());
        runs.find(|r| r.uid == uid).map_or(0, |r| r.start)
    }

    /// Whether anybody claims the lead without having it.
    pub fn lies(&self) -> bool {
        self.is(Trouble::Lies)
    }

    /// In one line, for people.
    pub fn describe(&self) -> String {
        let mut words = vec![format!("term {}, leader {:?}", self.term, self.leader)];
        for (name, member) in &self.members {
            let up = self.is_up(name);
            words.push(format!(
                "{name} {} of {} up {up} in sync {}",
                member.index,
                self.acknowledged,
                self.in_sync(name)
            ));
        }
        words.join("; ")
    }
}

/// The model in a world, if it is this one.
pub fn of(world: &World) -> Option<&Etcd> {
    world.cluster.workload_as()
}

impl Workload for Etcd {
    fn event(&mut self, now: SimTime, process: &Process, _: &Object, event: &ProcessEvent) {
        // Prefetch pods run the same image in another container.
        if *process.container != *self.container {
            return;
        }
        self.advance(now.0);
        let name = process.pod.as_str();
        let same = self.run(name).is_some_and(|r| *r.uid == *process.pod_uid);
        match event {
            ProcessEvent::Started { .. } => self.started(process),
            ProcessEvent::Stopping { .. } if same => self.stopping(name),
            ProcessEvent::Stopped { .. } if same => self.stopped(name),
            _ => {}
        }
        self.next_look = self.now;
    }

    fn readiness(&self, _: SimTime, process: &Process) -> Readiness {
        if *process.container != *self.container {
            return Readiness::Default;
        }
        match self.run(&process.pod) {
            Some(run) if run.up_at <= self.now && !run.stopping => Readiness::Ready,
            _ => Readiness::NotReady,
        }
    }

    fn next_wake(&self) -> Option<SimTime> {
        let any = self.members.values().any(|m| m.run.is_some());
        any.then(|| SimTime(self.next_due()))
    }

    fn wake(&mut self, api: &mut WorkloadApi<'_>) {
        self.advance(api.now().0);
        self.look(api);
        self.live();
    }

    fn clone_box(&self) -> Box<dyn Workload> {
        Box::new(self.clone())
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
