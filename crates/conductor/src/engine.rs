//! Talking to engines: who is asked when, and what came of it.
//!
//! Like calls to the API server, an [`EngineCall`] can only be made inside this crate, and one that
//! disrupts only from a warrant. The driver sends it as it is and brings back its outcome.

use crate::call::CallId;
use crate::conductor::Conductor;
use crate::{Kind, Output, Time};
use ensemble_api::{EnsembleSpec, Reason};
use ensemble_planner::engine::{self, Answer, EngineAct, Reply, Tell};
use ensemble_planner::memory::{ErrandNews, RestartNews};
use ensemble_planner::plan::Watch;
use ensemble_planner::roster::Roster;
use ensemble_planner::view::{Pinned, PodView};
use ensemble_planner::{ErrandWarrant, Snapshot, Warrant};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a member's engine is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Who are you?
    Observe,
    /// To do something.
    Do(EngineAct),
}

/// One question to one member's engine.
#[derive(Clone, Debug)]
pub struct EngineCall {
    namespace: String,
    member: String,
    uid: String,
    address: String,
    peers: BTreeMap<String, String>,
    spec: Arc<EnsembleSpec>,
    asked: Time,
    ask: Ask,
}

impl EngineCall {
    /// In which namespace the Secret is looked for.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Who is asked, by its pod's name.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Which pod of that name.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// All members, by address.
    pub fn peers(&self) -> &BTreeMap<String, String> {
        &self.peers
    }

    /// What the user says of the engine.
    pub fn spec(&self) -> &EnsembleSpec {
        &self.spec
    }

    /// When it was asked, by our clock.
    pub fn asked(&self) -> Time {
        self.asked
    }

    /// What is asked.
    pub fn ask(&self) -> &Ask {
        &self.ask
    }
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineOutcome {
    /// What was seen; also that nothing could be.
    Saw(Answer),
    /// What the engine said to something that it was asked to do.
    Replied(Reply),
}

/// Why an engine was asked.
#[derive(Clone, Debug)]
pub(crate) enum EnginePurpose {
    Observe {
        uid: String,
    },
    Errand {
        id: String,
    },
    /// For which change of parameters, in its words.
    Restart {
        member: String,
        of: String,
    },
    Nudge,
    Tell,
}

/// Which pod is asked who it is.
fn observed(purpose: &EnginePurpose) -> Option<&str> {
    match purpose {
        EnginePurpose::Observe { uid } => Some(uid),
        _ => None,
    }
}

/// What a warrant has become: a question that is held back until it is stored that it was asked.
/// It is put at most once, like any call that was made.
#[derive(Clone, Debug)]
struct HeldErrand {
    id: String,
    /// Who is asked, and which pod of that name.
    pod: Pinned,
    act: EngineAct,
}

impl HeldErrand {
    fn by(warrant: ErrandWarrant) -> Self {
        Self {
            id: warrant.id().to_owned(),
            pod: warrant.pod().clone(),
            act: warrant.act().clone(),
        }
    }
}

/// What is under way with engines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engines {
    pub watch: Watch,
    pub pending: BTreeMap<CallId, EnginePurpose>,
    /// By pod uid: when it was last asked who it is.
    asked: BTreeMap<String, Time>,
    /// By member, and whether it is a nudge: what it was last told that disrupts nobody.
    told: BTreeMap<(String, bool), Told>,
    /// By pod: what of it showed last that its engine has something to say.
    signs: BTreeMap<String, String>,
    /// The errand that is about to be stored as asked.
    held: Option<HeldErrand>,
    /// The newest plan tells an engine something.
    pub telling: bool,
}

/// What a member was told, and how often by now.
#[derive(Clone, Debug)]
struct Told {
    act: EngineAct,
    sake: BTreeSet<String>,
    times: u32,
    last: Time,
}

/// How often an engine is told the same thing for the same sake, to begin with.
const TELL_EVERY_MS: i64 = 500;
/// So many times. A member that has just come is followed within seconds by then.
const TELL_QUICKLY: u32 = 8;
/// How often afterwards: ten times a minute. Each costs the engine a round and some lines of its log.
const TELL_LATER_EVERY_MS: i64 = 6_000;

impl Told {
    /// Whether it is that again: nothing that is new has come to it.
    fn is(&self, tell: &Tell) -> bool {
        self.act == *tell.act() && tell.sake().is_subset(&self.sake)
    }

    /// When it may be told that: at once if it is new.
    fn due(&self, tell: &Tell) -> Time {
        let every = match self.times {
            0..TELL_QUICKLY => TELL_EVERY_MS,
            _ if self.is(tell) => TELL_LATER_EVERY_MS,
            _ => TELL_EVERY_MS,
        };
        self.last.plus_ms(every)
    }

    /// It is told that now.
    fn again(before: Option<&Self>, tell: &Tell, now: Time) -> Self {
        let same = before.filter(|told| told.is(tell));
        Self {
            act: tell.act().clone(),
            sake: same.map_or_else(|| tell.sake().clone(), |told| told.sake.clone()),
            times: same.map_or(0, |told| told.times) + 1,
            last: now,
        }
    }
}

fn every_ms(watch: Watch) -> Option<i64> {
    match watch {
        Watch::None => None,
        Watch::Rest => Some(5_000),
        Watch::Closely => Some(1_000),
        Watch::Eagerly => Some(250),
    }
}

fn engine_call(snap: &Snapshot, now: Time, pod: &PodView, ask: Ask) -> EngineCall {
    let pods = snap.pods.values().filter(|p| !p.ip.is_empty());
    EngineCall {
        namespace: snap.ensemble.namespace.clone(),
        member: pod.meta.pin.name.clone(),
        uid: pod.meta.pin.uid.clone(),
        address: pod.ip.clone(),
        peers: pods
            .map(|p| (p.ip.clone(), p.meta.pin.name.clone()))
            .collect(),
        spec: snap.ensemble.spec.clone(),
        asked: now,
        ask,
    }
}

/// The change of parameters that is under way, in its words.
pub(crate) fn change_under_way(snap: &Snapshot) -> Option<String> {
    let change = snap.ensemble.status.parameters.as_ref();
    change.filter(|c| c.is_under_way()).map(|c| c.words())
}

/// Under which key it is remembered that the engine, as a whole, does not do as it is told.
fn told() -> (Kind, String) {
    (Kind::Ensemble, "engine".to_owned())
}

/// Members whose engine can be asked: those that have an address.
pub(crate) fn to_be_asked(snap: &Snapshot) -> Vec<&PodView> {
    if !snap.abilities.can_answer {
        return Vec::new();
    }
    let roster = Roster::of(&snap.ensemble);
    let pods = snap.pods.values();
    let pods = pods.filter(|p| roster.of_pod(p).is_some());
    pods.filter(|p| !p.ip.is_empty() && !p.node.is_empty())
        .collect()
}

impl Conductor {
    fn ask(&mut self, purpose: EnginePurpose, call: EngineCall, out: &mut Vec<Output>) {
        let id = self.new_call();
        self.engines.pending.insert(id, purpose);
        out.push(Output::Engine(id, call));
    }

    /// Asks everybody whose last answer is old enough, and says when the next is due.
    pub(crate) fn observe(&mut self, now: Time, out: &mut Vec<Output>) -> Option<Time> {
        let every = every_ms(self.engines.watch)?;
        let snap = &self.world.snap;
        let pods = to_be_asked(snap);
        let engines = &mut self.engines;
        let known: BTreeSet<&str> = pods.iter().map(|p| p.meta.pin.uid.as_str()).collect();
        engines.asked.retain(|uid, _| known.contains(uid.as_str()));
        let under_way: BTreeSet<&str> = engines.pending.values().filter_map(observed).collect();
        let mut next: Option<Time> = None;
        let mut calls = Vec::new();
        for pod in pods {
            let uid = &pod.meta.pin.uid;
            let due = engines.asked.get(uid).map_or(now, |t| t.plus_ms(every));
            if due <= now && !under_way.contains(uid.as_str()) {
                engines.asked.insert(uid.clone(), now);
                calls.push(engine_call(snap, now, pod, Ask::Observe));
            }
            let due = if due <= now { now.plus_ms(every) } else { due };
            next = Some(next.map_or(due, |n| n.min(due)));
        }
        for call in calls {
            let uid = call.uid.clone();
            self.ask(EnginePurpose::Observe { uid }, call, out);
        }
        next
    }

    /// Engines are asked at once when one of their pods shows that there is something new to hear.
    pub(crate) fn saw_sign(&mut self, name: &str, pod: &Value) {
        let Some(sign) = ensemble_engines::sign(&self.world.snap.ensemble.spec, pod) else {
            return;
        };
        let before = self.engines.signs.get(name);
        if before.is_none_or(|b| *b != sign) {
            self.engines.signs.insert(name.to_owned(), sign);
            self.ask_again();
        }
    }

    /// Everybody is asked again as soon as possible.
    pub(crate) fn ask_again(&mut self) {
        self.engines.asked.clear();
    }

    /// Tells engines what disrupts nobody, not too often, and says when the next is due.
    pub(crate) fn tell_engines(
        &mut self,
        now: Time,
        tells: Vec<Tell>,
        out: &mut Vec<Output>,
    ) -> Option<Time> {
        let mut next: Option<Time> = None;
        for tell in tells {
            let nudges = *tell.act() == EngineAct::Nudge;
            let key = (tell.member().to_owned(), nudges);
            let before = self.engines.told.get(&key);
            let due = before.map_or(now, |told| told.due(&tell));
            let snap = &self.world.snap;
            let pod = snap.pods.get(tell.member());
            let Some(pod) = pod.filter(|p| p.meta.pin.uid == tell.uid()) else {
                continue;
            };
            if due > now {
                next = Some(next.map_or(due, |n| n.min(due)));
                continue;
            }
            let told = Told::again(before, &tell, now);
            let due = told.due(&tell);
            next = Some(next.map_or(due, |n| n.min(due)));
            self.engines.told.insert(key, told);
            let purpose = if nudges {
                EnginePurpose::Nudge
            } else {
                EnginePurpose::Tell
            };
            let call = engine_call(snap, now, pod, Ask::Do(tell.act().clone()));
            self.ask(purpose, call, out);
        }
        next
    }

    /// An errand was confirmed: as soon as it is stored as asked, the engine is asked.
    pub(crate) fn hold_errand(&mut self, warrant: ErrandWarrant) {
        self.engines.held = Some(HeldErrand::by(warrant));
    }

    /// The status was not stored, or nobody knows: what was confirmed for it is looked at again.
    pub(crate) fn withdraw_errand(&mut self) {
        if let Some(held) = self.engines.held.take() {
            self.memory().errands.remove(&held.id);
        }
    }

    /// The errand is stored as asked, by us, just now: the engine is asked, once.
    pub(crate) fn begin_errand(&mut self, now: Time, id: &str, out: &mut Vec<Output>) {
        let held = self.engines.held.take().filter(|held| held.id == id);
        let Some(HeldErrand { id, pod, act }) = held else {
            return;
        };
        let snap = &self.world.snap;
        let there = snap.pods.get(&pod.name);
        let Some(there) = there.filter(|p| p.meta.pin.uid == pod.uid) else {
            return;
        };
        let call = engine_call(snap, now, there, Ask::Do(act));
        self.ask(EnginePurpose::Errand { id }, call, out);
        self.ask_again();
    }

    /// Restarts a member's engine, by warrant.
    pub(crate) fn ask_for_restart(&mut self, now: Time, warrant: Warrant, out: &mut Vec<Output>) {
        let snap = &self.world.snap;
        let Some(pod) = snap.pods.get(&warrant.pod().name) else {
            return;
        };
        let member = pod.meta.pin.name.clone();
        let of = change_under_way(snap).unwrap_or_default();
        let call = engine_call(snap, now, pod, Ask::Do(EngineAct::Restart));
        self.busy.insert((Kind::Pod, member.clone()));
        self.ask(EnginePurpose::Restart { member, of }, call, out);
    }

    /// Takes in what came of a question.
    pub(crate) fn engine_said(&mut self, now: Time, id: CallId, outcome: EngineOutcome) {
        let Some(purpose) = self.engines.pending.remove(&id) else {
            return;
        };
        let (uid, said) = match (purpose, outcome) {
            (EnginePurpose::Observe { uid }, EngineOutcome::Saw(said)) => (uid, said),
            (purpose, outcome) => {
                self.rests_until = None;
                return self.engine_replied(now, purpose, outcome);
            }
        };
        let snap = &self.world.snap;
        let older = snap.memory.pod(&uid).said.as_ref();
        // Whoever looks again, or has just told an engine something, waits for this very answer.
        let awaited = self.look.is_some() || self.engines.telling;
        if awaited || !older.is_some_and(|o| engine::is_no_news(snap, &uid, o, &said)) {
            self.rests_until = None;
        }
        if older.is_none_or(|s| s.asked <= said.asked) {
            self.memory().pod_mut(&uid).said = Some(said.into());
        }
    }

    fn engine_replied(&mut self, now: Time, purpose: EnginePurpose, outcome: EngineOutcome) {
        match (purpose, outcome) {
            (EnginePurpose::Errand { id }, EngineOutcome::Replied(reply)) => {
                let refused = match &reply {
                    Reply::Refused(cause) | Reply::Unauthorised(cause) => cause.clone(),
                    // Whether it came about is seen by looking.
                    Reply::Taken(_) => {
                        self.memory().failures.remove(&told());
                        return self.ask_again();
                    }
                    Reply::Unknown(_) => return self.ask_again(),
                };
                // Credentials are worth a word of their own, beside the handover that failed.
                if matches!(reply, Reply::Unauthorised(_)) {
                    self.replied(now, told(), reply);
                }
                self.memory()
                    .errands
                    .insert(id, ErrandNews::Refused(refused));
                self.ask_again();
            }
            (EnginePurpose::Restart { member, of }, EngineOutcome::Replied(reply)) => {
                self.ask_again();
                self.restarted(now, member, of, reply);
            }
            // A nudge only hastens: one that was lost is no failure, and nobody would clear it.
            (
                EnginePurpose::Nudge,
                EngineOutcome::Replied(Reply::Unknown(_) | Reply::Refused(_)),
            ) => {}
            (EnginePurpose::Nudge | EnginePurpose::Tell, EngineOutcome::Replied(reply)) => {
                self.replied(now, told(), reply);
            }
            _ => {}
        }
    }

    /// What a member's engine said to its restart belongs to the change that it was to restart for, and
    /// is nothing any more if another is under way by now.
    fn restarted(&mut self, now: Time, member: String, of: String, reply: Reply) {
        let key = (Kind::Pod, member.clone());
        self.busy.remove(&key);
        let over = change_under_way(&self.world.snap).is_none_or(|now| now != of);
        if over && !matches!(reply, Reply::Taken(_)) {
            return;
        }
        let failed = match &reply {
            Reply::Refused(cause) => Some(Some(cause.clone())),
            Reply::Unknown(_) => Some(None),
            Reply::Taken(_) | Reply::Unauthorised(_) => None,
        };
        let restarts = &mut self.memory().restarts;
        match failed {
            Some(failed) => drop(restarts.insert(member, RestartNews { of, failed })),
            None => drop(restarts.remove(&member)),
        }
        self.replied(now, key, reply);
    }

    fn replied(&mut self, now: Time, key: (Kind, String), reply: Reply) {
        match reply {
            Reply::Taken(_) => drop(self.memory().failures.remove(&key)),
            Reply::Unauthorised(cause) => self.fail(now, key, Reason::EngineUnauthorised, cause),
            Reply::Refused(cause) => self.fail(now, key, Reason::EngineFailing, cause),
            Reply::Unknown(cause) => self.fail(now, key, Reason::EngineUnreachable, cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nudge(sake: &[&str]) -> Tell {
        let pod = Pinned {
            name: "orders-0".into(),
            ..Pinned::default()
        };
        Tell::nudge(&pod, sake.iter().map(|s| (*s).to_owned()).collect())
    }

    /// How often it is told in each of so many minutes, if it is always wanted.
    fn per_minute(told: &mut Option<Told>, tell: &Tell, from: i64, minutes: i64) -> Vec<usize> {
        let mut times = Vec::new();
        for minute in 0..minutes {
            let mut count = 0;
            for tick in 0..600 {
                let now = Time(from + minute * 60_000 + tick * 100);
                let due = told.as_ref().map_or(now, |t| t.due(tell));
                if due <= now {
                    *told = Some(Told::again(told.as_ref(), tell, now));
                    count += 1;
                }
            }
            times.push(count);
        }
        times
    }

    #[test]
    fn after_a_change_an_engine_is_told_quickly_and_then_ten_times_a_minute_at_most() {
        let mut told = None;
        let first = per_minute(&mut told, &nudge(&["run-1"]), 0, 3);
        assert_eq!(first, [17, 10, 10]);
        // What is no longer new is nothing new.
        let fewer = per_minute(&mut told, &nudge(&[]), 180_000, 1);
        assert_eq!(fewer, [10]);
        // With the next change it is quick again, once.
        let next = per_minute(&mut told, &nudge(&["run-1", "run-2"]), 240_000, 2);
        assert_eq!(next, [17, 10]);
    }

    #[test]
    fn changes_without_end_do_not_hasten_more_than_twice_a_second() {
        let mut told: Option<Told> = None;
        let mut count = 0;
        for tick in 0..600 {
            let tell = nudge(&[&format!("run-{tick}")]);
            let now = Time(tick * 100);
            if told.as_ref().map_or(now, |t| t.due(&tell)) <= now {
                told = Some(Told::again(told.as_ref(), &tell, now));
                count += 1;
            }
        }
        assert_eq!(count, 120);
    }
}
