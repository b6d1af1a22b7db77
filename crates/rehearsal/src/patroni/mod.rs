//! PostgreSQL under Patroni, as far as a controller can tell: members with data of their own, a lock
//! that has to be renewed, replicas that stream only once the leader has made a slot for them, a
//! synchronous standby that is named only in the leader's loop, switchovers, labels on the pods.
//!
//! Times are those that were measured on a real cluster. What is left out: a stopping synchronous
//! standby waits for its successor to be named, which here takes no time; the positions that
//! Patroni writes into annotations; and replicas that follow other replicas.

mod answers;
mod ha;
mod log;
mod parameters;
mod trouble;
mod truth;

pub use log::Log;
pub use parameters::{SLOW, TOO_MUCH};
pub use trouble::Trouble;

use crate::world::World;
use ensemble_api::EnsembleSpec;
use log::Writer;
use parameters::Parameters;
use simkube::{Object, Process, ProcessEvent, Readiness, SimTime, Workload, WorkloadApi};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

/// How long a lock that is not renewed is held.
pub const TTL_MS: u64 = 30_000;
/// How often an agent looks at its cluster.
pub const LOOP_WAIT_MS: u64 = 10_000;
/// How long PostgreSQL takes to start.
const START_MS: u64 = 1_000;
/// How long a member whose log has parted takes to be rewound: its data is read through.
const REWIND_MS: u64 = 30_000;
/// How often the model looks whether nodes are cut off.
const LOOK_MS: u64 = 1_000;
/// A write in bytes of log.
const WRITE_BYTES: u64 = 64 << 10;

/// What a running agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// PostgreSQL starts, until then.
    Starting(u64),
    /// It runs.
    Up,
    /// It was told to stop.
    Stopping,
    /// Somebody has stopped it by hand, until then. Its agent answers.
    Halted(u64),
    /// PostgreSQL does not start with what it is given.
    Failing,
}

/// A running agent.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    uid: String,
    node: String,
    state: State,
    /// It holds the lock and leads, or is about to.
    leads: bool,
    /// As a leader: it takes writes from then on.
    takes_from: u64,
    /// As a leader: who has a slot.
    slots: BTreeSet<String>,
    /// As a leader: when it looks next.
    next_loop: u64,
    /// As a leader: it is promoted from then on. It holds the lock and says that it leads before.
    promoted_at: u64,
    /// As a replica: it streams from the leader, since then.
    streams_since: Option<u64>,
    /// As a replica: until then it streams what the leader's term began with and nothing newer, and
    /// tells how far behind it was when it began.
    old_term: Option<(u64, u64)>,
    /// As a replica: when it tries to attach.
    attach_at: Option<u64>,
    /// Its data is being rewound, since then.
    rewinds_since: Option<u64>,
    /// The label that it wants on its pod, and the one that it wrote.
    label: Option<&'static str>,
    written: Option<&'static str>,
    reachable: bool,
    /// Its PostgreSQL's start, in order, and when.
    start: u64,
    started_at: u64,
    /// What its agent writes on a primary, if its version says another word than the others'.
    calls_primary: Option<&'static str>,
    /// Its PostgreSQL did not come up.
    failed: bool,
    /// The parameters that it runs with.
    applied: BTreeMap<String, String>,
}

impl Run {
    /// Whether it gets what the leader writes.
    fn streams(&self) -> bool {
        self.streams_since.is_some() && self.old_term.is_none()
    }

    /// PostgreSQL is stopped, until then.
    fn halt(&mut self, until: u64) {
        self.state = State::Halted(until);
        self.leads = false;
        self.takes_from = u64::MAX;
        self.next_loop = u64::MAX;
        self.streams_since = None;
        self.attach_at = None;
        self.label = None;
    }
}

/// A member: its data outlives its pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    log: Log,
    run: Option<Run>,
}

/// A change of leader that is under way.
#[derive(Clone, Debug)]
struct Handing {
    from: String,
    to: String,
    stops_at: u64,
    releases_at: u64,
    takes_at: u64,
    restarts_at: u64,
    stopped: bool,
    released: bool,
}

/// A change of leader that came about.
#[derive(Clone, Debug)]
pub struct Change {
    /// When.
    pub at: u64,
    /// Who led before.
    pub from: Option<String>,
    /// The pod that led before, and which start of PostgreSQL in it took the lead.
    pub from_run: Option<(String, u64)>,
    /// Who leads.
    pub to: String,
    /// When it was promoted.
    pub promoted: u64,
    /// The new term.
    pub term: u64,
    /// How many acknowledged writes the new leader lacks.
    pub lost: u64,
    /// Whether it was asked for by a controller.
    pub asked_by_us: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Patroni {
    /// Where its pods are, and which of their containers it runs in.
    namespace: String,
    container: String,
    /// The label that tells roles, and its values on a primary and on a replica.
    label: [String; 3],
    members: BTreeMap<String, Member>,
    synchronous: bool,
    /// Who holds the lock, and since when it is not renewed.
    holder: Option<String>,
    renewed: u64,
    /// A released lock is taken from then on.
    vacant_from: u64,
    term: u64,
    /// In synchronous mode, who leads and whom commits wait for, as stored.
    sync: (String, Option<String>),
    handing: Option<Handing>,
    asked_by_us: bool,
    paused_from: u64,
    paused_until: u64,
    parameters: Parameters,
    troubles: BTreeMap<Trouble, u64>,
    /// Who runs, answers, and cannot reach its peers.
    apart: Option<String>,
    writer: Writer,
    changes: Vec<Change>,
    /// Who led when last.
    last_led: BTreeMap<String, u64>,
    last_leader: Option<(String, (String, u64))>,
    /// Who last streamed when.
    last_streamed: BTreeMap<String, u64>,
    /// Who was last the synchronous standby when.
    last_named: BTreeMap<String, u64>,
    starts: u64,
    version: u64,
    next_look: u64,
    now: u64,
}

impl Patroni {
    /// Nobody runs yet.
    pub fn new(synchronous: bool) -> Self {
        Self {
            namespace: crate::world::NAMESPACE.into(),
            container: "db".into(),
            label: ["role", "primary", "replica"].map(str::to_owned),
            members: BTreeMap::new(),
            synchronous,
            holder: None,
            renewed: 0,
            vacant_from: 0,
            term: 0,
            sync: (String::new(), None),
            handing: None,
            asked_by_us: false,
            paused_from: 0,
            paused_until: 0,
            parameters: Parameters::default(),
            troubles: BTreeMap::new(),
            apart: None,
            writer: Writer::default(),
            changes: Vec::new(),
            last_led: BTreeMap::new(),
            last_leader: None,
            last_streamed: BTreeMap::new(),
            last_named: BTreeMap::new(),
            starts: 0,
            version: 0,
            next_look: 0,
            now: 0,
        }
    }

    /// All changes of leader so far; the first is the first leader.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The longest time between two acknowledged writes.
    pub fn longest_pause_ms(&self) -> u64 {
        let now = self.writer.silent_ms(self.now);
        self.writer.longest_pause_ms.max(now)
    }

    /// How many writes were acknowledged and are there.
    pub fn writes(&self) -> u64 {
        self.writer.acknowledged.end()
    }

    /// Who holds the lock, runs and takes writes.
    pub fn leader(&self) -> Option<&str> {
        let name = self.holder.as_deref()?;
        let run = self.run(name)?;
        (run.leads && run.state == State::Up).then_some(name)
    }

    /// Whether that pod is the leader's, or holds the lock on its way up.
    pub fn leads(&self, uid: &str) -> bool {
        let leader = self.leader().and_then(|l| self.run(l));
        leader.is_some_and(|run| run.uid == uid)
    }

    /// When somebody last led.
    pub fn last_led(&self) -> u64 {
        self.last_led.values().max().copied().unwrap_or(0)
    }

    /// When that member last led.
    pub fn led_at(&self, name: &str) -> Option<u64> {
        self.last_led.get(name).copied()
    }

    /// Whether a member leads, or streams from the leader.
    pub fn in_sync(&self, name: &str) -> bool {
        let streams = self.run(name).is_some_and(Run::streams);
        self.leader() == Some(name) || streams && self.leader().is_some()
    }

    /// When a member last led or streamed from the leader.
    pub fn synced_at(&self, name: &str) -> u64 {
        let of = |times: &BTreeMap<String, u64>| times.get(name).copied().unwrap_or(0);
        of(&self.last_streamed).max(of(&self.last_led))
    }

    /// Whether a liar's word may be about.
    pub fn lies(&self) -> bool {
        [Trouble::Lies, Trouble::Usurped, Trouble::Alone]
            .into_iter()
            .any(|t| self.is(t))
    }

    /// Whom commits wait for.
    pub fn sync_standby(&self) -> Option<&str> {
        self.sync.1.as_deref()
    }

    /// When commits last waited for that member.
    pub fn named_at(&self, name: &str) -> u64 {
        self.last_named.get(name).copied().unwrap_or(0)
    }

    /// Rises whenever something has changed that no write tells of.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The time up to which it has been played.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Whether PostgreSQL of that pod runs.
    pub fn is_up(&self, uid: &str) -> bool {
        let mut runs = self.members.values().filter_map(|m| m.run.as_ref());
        runs.any(|r| r.uid == uid && r.state == State::Up)
    }

    /// Which start of PostgreSQL that pod is at; 0 if none.
    pub fn start_of(&self, uid: &str) -> u64 {
        let mut runs = self.members.values().filter_map(|m| m.run.as_ref());
        runs.find(|r| r.uid == uid).map_or(0, |r| r.start)
    }

    /// Whether its high availability is paused, for longer than since a moment ago.
    pub fn paused_since(&self, before: u64) -> bool {
        self.is(Trouble::Paused) && self.paused_from <= before
    }

    /// Members that run and do not stream, and when that began.
    pub fn coming_up(&self) -> impl Iterator<Item = (&str, u64)> {
        let runs = self.members.iter();
        let runs = runs.filter_map(|(n, m)| Some((n.as_str(), m.run.as_ref()?)));
        runs.filter(|(n, r)| r.reachable && !self.in_sync(n))
            .map(|(n, r)| (n, self.synced_at(n).max(r.started_at)))
    }

    /// Whether the lead is on its way from one to another.
    pub fn is_handing_over(&self) -> bool {
        self.handing.is_some()
    }

    /// Whether it is so because a controller asked for it.
    pub fn hands_over_for_us(&self) -> bool {
        self.is_handing_over() && self.asked_by_us
    }

    /// Since when the data of that pod's member is being rewound.
    pub fn rewinds_since(&self, uid: &str) -> Option<u64> {
        let mut runs = self.members.values().filter_map(|m| m.run.as_ref());
        runs.find(|r| r.uid == uid)?.rewinds_since
    }

    /// Whether anybody's data is being rewound.
    pub fn anybody_rewinds(&self) -> bool {
        let mut runs = self.members.values().filter_map(|m| m.run.as_ref());
        runs.any(|r| r.rewinds_since.is_some())
    }

    /// Everybody who ever was a member.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// The pod in which a member runs, and which start of PostgreSQL that is.
    pub fn run_of(&self, name: &str) -> Option<(&str, u64)> {
        self.run(name).map(|r| (r.uid.as_str(), r.start))
    }

    /// Whether PostgreSQL of anybody runs.
    pub fn anybody_up(&self) -> bool {
        let mut runs = self.members.values().filter_map(|m| m.run.as_ref());
        runs.any(|r| r.state == State::Up && r.reachable)
    }

    /// Whether commits wait for a replica.
    pub fn is_synchronous(&self) -> bool {
        self.synchronous
    }

    /// Whether all of so many members run, one leads, the others stream, and the standby is named.
    pub fn settled(&self, replicas: usize) -> bool {
        let up: Vec<&String> = self
            .members
            .iter()
            .filter(|(_, m)| m.run.is_some())
            .map(|(n, _)| n)
            .collect();
        let named = !self.synchronous || replicas < 2 || self.sync.1.is_some();
        up.len() == replicas
            && named
            && self.leader().is_some()
            && up.iter().all(|n| self.in_sync(n))
    }

    /// In one line, for people.
    pub fn describe(&self) -> String {
        let mut words = vec![format!("term {}, lock {:?}", self.term, self.holder)];
        for (name, member) in &self.members {
            let state = member
                .run
                .as_ref()
                .map(|r| (r.state, r.leads, r.streams_since.is_some()));
            words.push(format!("{name} {} {state:?}", member.log.end()));
        }
        words.join("; ")
    }

    fn run(&self, name: &str) -> Option<&Run> {
        self.members.get(name)?.run.as_ref()
    }

    fn run_mut(&mut self, name: &str) -> Option<&mut Run> {
        self.members.get_mut(name)?.run.as_mut()
    }

    /// For an Ensemble that says that it runs Patroni; None if it does not.
    pub fn of_spec(spec: &serde_json::Value, namespace: &str) -> Option<Self> {
        let spec: EnsembleSpec = serde_json::from_value(spec.clone()).ok()?;
        let engine = spec.engine.as_ref().filter(|e| e.patroni.is_some())?;
        let label = engine.role_label()?;
        Some(Self {
            namespace: namespace.to_owned(),
            container: spec.engine_container(),
            label: [label.key, label.primary, label.replica].map(str::to_owned),
            ..Self::new(false)
        })
    }

    fn is_engine(&self, process: &Process) -> bool {
        // Prefetch pods run the same image in another container.
        process.container == *self.container
    }

    fn started(&mut self, process: &Process) {
        self.starts += 1;
        let takes = self.starts_in(&process.pod);
        let state = match takes {
            Some(takes) if !process.image.ends_with(":deaf") => State::Starting(self.now + takes),
            _ => State::Failing,
        };
        let run = Run {
            uid: process.pod_uid.to_string(),
            node: process.node.to_string(),
            state,
            leads: false,
            takes_from: u64::MAX,
            slots: BTreeSet::new(),
            next_loop: u64::MAX,
            promoted_at: 0,
            streams_since: None,
            old_term: None,
            attach_at: None,
            rewinds_since: None,
            label: None,
            written: None,
            reachable: true,
            start: self.starts,
            started_at: self.now,
            calls_primary: calls_primary(&process.image),
            failed: takes.is_none(),
            applied: self.kept().clone(),
        };
        let member = self.members.entry(process.pod.clone()).or_default();
        member.run = Some(run);
    }

    /// It was told to stop: a leader stops taking writes and lets its replicas have all of them.
    fn stopping(&mut self, name: &str) {
        let leads = self.run(name).is_some_and(|r| r.leads);
        if leads && self.paused_until > self.now {
            // Paused, the agent leaves PostgreSQL alone; it will be killed.
            return;
        }
        if leads {
            self.flush(name);
        }
        if self.sync.1.as_deref() == Some(name) {
            self.sync.1 = None;
        }
        if let Some(run) = self.run_mut(name) {
            run.state = State::Stopping;
            run.streams_since = None;
            run.takes_from = u64::MAX;
            run.label = None;
        }
    }

    fn stopped(&mut self, name: &str) {
        let Some(run) = self.members.get_mut(name).and_then(|m| m.run.take()) else {
            return;
        };
        self.next_look = self.now;
        if !run.leads {
            return;
        }
        self.no_streams();
        // The lock is let go only if somebody has everything.
        if run.state == State::Stopping
            && self.holder.as_deref() == Some(name)
            && self.somebody_has_all(name)
        {
            self.release();
        }
    }
}

/// Agents before version 4 have another word for a primary.
fn calls_primary(image: &str) -> Option<&'static str> {
    image.ends_with(":agent-3").then_some("master")
}

/// The model in a world, if there is one.
pub fn of(world: &World) -> Option<&Patroni> {
    world.cluster.workload_as()
}

/// Does something to the model in a world.
pub fn with<T>(world: &mut World, act: impl FnOnce(&mut Patroni, u64) -> T) -> Option<T> {
    let now = world.cluster.now().0;
    let model = world.cluster.workload_mut()?.as_any().downcast_mut()?;
    let done = act(model, now);
    world.cluster.plan_workload_wake();
    Some(done)
}

impl Workload for Patroni {
    fn event(&mut self, now: SimTime, process: &Process, _: &Object, event: &ProcessEvent) {
        if !self.is_engine(process) {
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
        if !self.is_engine(process) {
            return Readiness::Default;
        }
        if process.image.ends_with(":unready") {
            // It runs well, and its probe asks for something that is not there.
            return Readiness::NotReady;
        }
        match self.run(&process.pod) {
            Some(run) if run.state == State::Up => Readiness::Ready,
            _ => Readiness::NotReady,
        }
    }

    fn next_wake(&self) -> Option<SimTime> {
        let any = self.members.values().any(|m| m.run.is_some());
        any.then(|| SimTime(self.next_due()))
    }

    fn wake(&mut self, api: &mut WorkloadApi<'_>) {
        let now = api.now().0;
        self.advance(now);
        self.look(api);
        self.advance_ha();
        self.write_labels(api);
    }

    fn clone_box(&self) -> Box<dyn Workload> {
        Box::new(self.clone())
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
