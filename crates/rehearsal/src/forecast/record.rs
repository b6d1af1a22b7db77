//! What happened on the way: the plan's own steps, counted and timed.

use crate::invariants::{Broken, Checker};
use crate::process::Process;
use crate::scenario::pod_ready;
use crate::world::World;
use ensemble_api::report::Action;
use ensemble_api::{Blocker, EnsembleStatus, Report, State, Step, StepState};
use ensemble_planner::roster::Roster;
use ensemble_planner::view::{EnsembleView, View};
use serde::Serialize;
use serde_json::Value;
use simkube::{Change, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A forecast. Times are guesses: how long real containers take to start is not known.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The id that the plan will have.
    pub plan: String,
    /// How it ends.
    pub end: End,
    /// The steps in their order.
    pub steps: Vec<Stride>,
    /// What went wrong on the way, and when.
    pub events: Vec<Event>,
    /// The step that does not move at the end, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// Containers that restart in their pod.
    pub restarts: u32,
    /// Pods that make way for a new one of the same name.
    pub recreated_pods: u32,
    /// Pods of members that did not exist before.
    pub created_pods: u32,
    /// Members that go.
    pub removed_pods: u32,
    /// Claims that are created.
    pub created_claims: u32,
    /// Claims that are deleted.
    pub deleted_claims: u32,
    /// The lowest number of further losses that could be borne on the way.
    pub lowest_tolerance: u32,
    /// During which steps that was.
    pub lowest_at: Vec<u32>,
    /// The fewest members that were Ready at once, once all had been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fewest_ready: Option<u32>,
    /// How long it takes; a guess.
    pub guessed_seconds: u64,
    /// How many writes were checked against the rules.
    pub checks: u64,
    /// A rule that was broken. There is none, or Ensemble has a bug.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// How a forecast ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum End {
    /// Everything is as asked for, and nothing had to be done.
    Nothing,
    /// Everything is as asked for.
    Converged,
    /// It waits for something that may pass, or the user holds it.
    Blocked,
    /// It waits for something that will not pass by itself.
    Stalled,
}

/// One step, as it was taken.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stride {
    /// Its number from 1.
    pub number: u32,
    /// What is done.
    pub action: Action,
    /// To whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Why.
    pub cause: String,
    /// When it begins; a guess.
    pub guessed_at_seconds: u64,
    /// How long it takes; a guess. Absent if it does not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guessed_seconds: Option<u64>,
    /// How many members could be lost meanwhile.
    pub tolerance: u32,
}

/// Something that went wrong, or right again.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When; a guess.
    pub guessed_at_seconds: u64,
    /// What.
    pub what: String,
}

/// A step that does not move.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// What is to be done.
    pub action: Action,
    /// To whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Why it is not.
    pub blocker: Blocker,
}

/// Looks over the controller's shoulder.
pub(super) struct Recorder {
    began: u64,
    /// Where in the journal the change was made.
    from: usize,
    steps: Vec<Stride>,
    /// Steps under way: by action and member, which of `steps`.
    open: BTreeMap<(Action, Option<String>), usize>,
    events: Vec<Event>,
    seen: Option<Arc<Report>>,
    lowest: Option<u32>,
    lowest_at: BTreeSet<u32>,
    last_news: u64,
    counts: (u32, u32),
    pub settling_ms: u64,
    /// How long a pod may take to end.
    stopping_s: u64,
    pub broken: Option<Broken>,
}

fn begun(step: &Step) -> bool {
    match step.state {
        StepState::Running => true,
        // What is tried or fetched waits for an answer, which is how it runs.
        StepState::Blocked => {
            let waits = step.blocker.as_ref();
            step.member.is_none()
                && waits.is_some_and(|b| !b.reason.page().stalls)
                && matches!(step.action, Action::Check | Action::Pull)
        }
        _ => false,
    }
}

impl Recorder {
    pub fn new(world: &World) -> Self {
        let now = world.cluster.now().0;
        let spec = crate::scenario::ensemble(world);
        let number = |path: &str| spec.as_ref()?.pointer(path)?.as_u64();
        let settling = number("/spec/minReadySeconds");
        let stopping = number("/spec/template/spec/terminationGracePeriodSeconds");
        Self {
            began: now,
            from: world.cluster.log().len(),
            steps: Vec::new(),
            open: BTreeMap::new(),
            events: Vec::new(),
            seen: None,
            lowest: None,
            lowest_at: BTreeSet::new(),
            last_news: now,
            counts: (0, 0),
            settling_ms: settling.unwrap_or(0) * 1000,
            stopping_s: stopping.unwrap_or(30) + 10,
            broken: None,
        }
    }

    fn seconds(&self, now: u64) -> u64 {
        (now.saturating_sub(self.began)) / 1000
    }

    pub fn last_news(&self) -> u64 {
        self.last_news
    }

    /// Whether a member has been touched.
    pub fn disrupted(&self) -> bool {
        let quiet = |a: Action| {
            use Action::{Check, Create, Maintain, Pull, Start};
            matches!(a, Check | Pull | Maintain | Create | Start)
        };
        self.steps.iter().any(|s| !quiet(s.action))
    }

    pub fn event(&mut self, world: &World, what: String) {
        let now = world.cluster.now().0;
        self.last_news = now;
        let guessed_at_seconds = self.seconds(now);
        self.events.push(Event {
            guessed_at_seconds,
            what,
        });
    }

    pub fn look(&mut self, world: &World, controller: &Process) {
        let Some(report) = &controller.report else {
            return;
        };
        if self.seen.as_ref().is_some_and(|s| Arc::ptr_eq(s, report)) {
            return;
        }
        let now = world.cluster.now().0;
        let status = &controller.conductor().snapshot().ensemble.status;
        let counts = (status.ready_replicas, status.updated_replicas);
        if std::mem::replace(&mut self.counts, counts) != counts {
            self.last_news = now;
        }
        self.take(report, now);
        self.seen = Some(report.clone());
    }

    fn take(&mut self, report: &Report, now: u64) {
        let running: BTreeMap<_, _> = report
            .steps
            .iter()
            .filter(|s| begun(s))
            .map(|s| ((s.action, s.member.clone()), s))
            .collect();
        let over: Vec<_> = self
            .open
            .iter()
            .filter(|(key, _)| !running.contains_key(*key))
            .map(|(key, at)| (key.clone(), *at))
            .collect();
        for (key, at) in over {
            self.open.remove(&key);
            self.close(at, now);
        }
        for (key, step) in running {
            if !self.open.contains_key(&key) {
                let at = self.begin(step, now, report.tolerance);
                self.open.insert(key, at);
            }
        }
        self.note_tolerance(report.tolerance);
    }

    fn close(&mut self, at: usize, now: u64) {
        let seconds = self.seconds(now);
        if let Some(step) = self.steps.get_mut(at) {
            step.guessed_seconds = Some(seconds.saturating_sub(step.guessed_at_seconds));
        }
    }

    /// A member that is created and starts after it was told to end is the same step going on.
    fn goes_on(&self, step: &Step, now: u64) -> Option<usize> {
        if !matches!(step.action, Action::Start | Action::Create) {
            return None;
        }
        let at = self.steps.iter().rposition(|s| s.member == step.member)?;
        let before = &self.steps[at];
        let ends_there = matches!(before.action, Action::Remove | Action::LetGo);
        let ended = before.guessed_at_seconds + before.guessed_seconds.unwrap_or(u64::MAX / 2);
        let soon = self.seconds(now) <= ended.saturating_add(self.stopping_s);
        let another = ends_there || before.action == Action::Start || !soon;
        let again = step.action == Action::Create && before.action == Action::Create;
        (!another && !again).then_some(at)
    }

    /// What is tried over and over is one step.
    fn again(&self, step: &Step) -> Option<usize> {
        use Action::{Check, Pull, Resize, Start};
        let tries = matches!(step.action, Start | Check | Pull | Resize);
        let same = |s: &Stride| s.action == step.action && s.member == step.member;
        self.steps.iter().rposition(same).filter(|_| tries)
    }

    fn begin(&mut self, step: &Step, now: u64, tolerance: u32) -> usize {
        if let Some(at) = self.again(step) {
            return at;
        }
        self.last_news = now;
        if let Some(at) = self.goes_on(step, now) {
            return at;
        }
        let number = u32::try_from(self.steps.len()).unwrap_or(u32::MAX) + 1;
        self.steps.push(Stride {
            number,
            action: step.action,
            member: step.member.clone(),
            cause: step.cause.clone(),
            guessed_at_seconds: self.seconds(now),
            guessed_seconds: None,
            tolerance,
        });
        self.steps.len() - 1
    }

    fn note_tolerance(&mut self, tolerance: u32) {
        let open: Vec<usize> = self.open.values().copied().collect();
        let mut numbers = Vec::new();
        for at in open {
            if let Some(step) = self.steps.get_mut(at) {
                step.tolerance = step.tolerance.min(tolerance);
                numbers.push(step.number);
            }
        }
        if self.lowest.is_none_or(|l| tolerance < l) {
            self.lowest = Some(tolerance);
            self.lowest_at.clear();
        }
        if self.lowest == Some(tolerance) {
            self.lowest_at.extend(numbers);
        }
    }

    pub fn finish(mut self, world: &World, status: &EnsembleStatus, checker: &Checker) -> Forecast {
        let counts = Counts::of(world, self.from);
        let plan = status.plan.clone();
        let done = plan.state == State::Ready;
        let end = match plan.state {
            State::Ready if self.steps.is_empty() && self.events.is_empty() => End::Nothing,
            State::Ready => End::Converged,
            State::Stalled => End::Stalled,
            _ => End::Blocked,
        };
        // A step that was under way when all was done is done.
        if done {
            for at in std::mem::take(&mut self.open).into_values() {
                self.close(at, self.last_news);
            }
        }
        let blocked = plan.first_blocked().filter(|_| !done);
        for step in self.steps.iter_mut() {
            let still =
                |(b, _): &(&Step, &Blocker)| b.action == step.action && b.member == step.member;
            if blocked.as_ref().is_some_and(still) {
                step.guessed_seconds = None;
            }
        }
        let blocked = blocked.map(|(step, blocker)| Blocked {
            action: step.action,
            member: step.member.clone(),
            blocker: blocker.clone(),
        });
        let ended = |s: &Stride| s.guessed_at_seconds + s.guessed_seconds.unwrap_or(0);
        let last = self.steps.iter().map(ended).max().unwrap_or(0);
        let last = last.max(self.seconds(self.last_news));
        Forecast {
            plan: plan.id,
            end,
            blocked,
            restarts: counts.restarts,
            recreated_pods: counts.recreated,
            created_pods: counts.created,
            removed_pods: counts.removed,
            created_claims: counts.claims,
            deleted_claims: counts.let_go,
            lowest_tolerance: self.lowest.unwrap_or(plan.tolerance),
            lowest_at: self.lowest_at.into_iter().collect(),
            fewest_ready: checker.fewest_ready,
            guessed_seconds: last,
            checks: checker.checks,
            broken: self.broken.map(|b| format!("{}: {}", b.rule, b.seen)),
            steps: self.steps,
            events: self.events,
        }
    }
}

/// What the journal says was done.
#[derive(Default)]
struct Counts {
    restarts: u32,
    recreated: u32,
    created: u32,
    removed: u32,
    claims: u32,
    let_go: u32,
}

fn restarts(pod: &Value) -> u64 {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let counts = statuses.into_iter().flatten();
    counts.filter_map(|c| c["restartCount"].as_u64()).sum()
}

fn is_member(object: &Value) -> bool {
    object["metadata"]["labels"]["ensemble.dev/group"].is_string()
}

impl Counts {
    fn of(world: &World, from: usize) -> Self {
        let mut counts = Self::default();
        let mut known: BTreeSet<simkube::Key> = BTreeSet::new();
        let mut restarted = 0;
        for (at, entry) in world.cluster.log().iter().enumerate() {
            let ours = entry.origin.client.starts_with("controller") && at >= from;
            match (entry.resource, entry.change) {
                (Resource::Pods, Change::Added) if is_member(&entry.object) => {
                    let anew = !known.insert(entry.key.clone());
                    counts.recreated += u32::from(ours && anew);
                    counts.created += u32::from(ours && !anew);
                }
                (Resource::Pods, Change::Modified) if at >= from && is_member(&entry.object) => {
                    let before = entry.previous.as_deref().map_or(0, restarts);
                    restarted += restarts(&entry.object).saturating_sub(before);
                }
                (Resource::PersistentVolumeClaims, Change::Added) => {
                    counts.claims += u32::from(ours);
                }
                (Resource::PersistentVolumeClaims, Change::Modified | Change::Deleted) => {
                    let ending = |o: &Value| !o["metadata"]["deletionTimestamp"].is_null();
                    let told = entry.previous.as_deref().is_some_and(|p| !ending(p))
                        && (entry.change == Change::Deleted || ending(&entry.object));
                    counts.let_go += u32::from(ours && told);
                }
                _ => {}
            }
        }
        let there = |key: &simkube::Key| {
            let (namespace, name) = simkube::split_key(key);
            world.cluster.get(Resource::Pods, namespace, name).is_some()
        };
        let asked = crate::scenario::ensemble(world);
        let asked = asked.and_then(|e| EnsembleView::read(&e).ok());
        let roster = asked.map(|view| Roster::of(&view));
        let extra = |key: &simkube::Key| {
            let (_, name) = simkube::split_key(key);
            let wanted = roster.as_ref().is_some_and(|r| r.asked_for(name).is_ok());
            !wanted
        };
        let gone = known.iter().filter(|key| !there(key) && extra(key)).count();
        counts.removed = u32::try_from(gone).unwrap_or(u32::MAX);
        counts.restarts = u32::try_from(restarted).unwrap_or(u32::MAX);
        counts
    }
}

/// Whether every pod of a list is Ready.
pub(super) fn all_ready(pods: &[simkube::Object]) -> bool {
    pods.iter().all(|p| pod_ready(p))
}
