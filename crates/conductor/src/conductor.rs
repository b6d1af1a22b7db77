//! The conductor: told what happens, it says what to do.

use crate::call::{ApiCall, ApiError, CallId, Outcome};
use crate::confirm::Look;
use crate::engine::Engines;
use crate::events::{self, Happening};
use crate::fold::World;
use crate::gate::Gate;
use crate::outcome;
use crate::overtaken::Overtaken;
use crate::pruned::Pruned;
use crate::{Input, Kind, Output, Time, WATCHED};
use ensemble_api::status::{EnsembleStatus, SwitchPhase};
use ensemble_api::{Reason, Report};
use ensemble_planner::errand::Errand;
use ensemble_planner::memory::{Check, Key, Memory, Refused};
use ensemble_planner::view::Meta;
use ensemble_planner::{Plan, Snapshot, Write, pace, plan, render};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an outstanding call was for.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    Create,
    Patch,
    Discard {
        uid: String,
    },
    Check {
        revision: String,
    },
    Look,
    Status {
        old: Box<EnsembleStatus>,
        new: Box<EnsembleStatus>,
    },
    /// The status is ours from here on.
    TakeOver {
        epoch: i64,
    },
    Answer,
    Confirm,
    Disrupt {
        uid: String,
    },
    /// In the same pod.
    Change {
        uid: String,
        revision: String,
    },
    LetGo {
        uid: String,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub key: Key,
    pub purpose: Purpose,
}

/// Conducts one ensemble.
///
/// A clone is for another world, for a rehearsal that parts from another: in the same world both
/// would act on a consent that was given once.
#[derive(Clone, Debug)]
pub struct Conductor {
    pub(crate) world: World,
    lead: Option<i64>,
    gate: Gate,
    pub(crate) pending: BTreeMap<CallId, Pending>,
    pub(crate) busy: BTreeSet<Key>,
    pub(crate) engines: Engines,
    pub(crate) look: Option<Look>,
    pub(crate) next_call: u64,
    published: Option<Arc<Report>>,
    complained: Option<String>,
    status_sent: Option<Time>,
    pub(crate) overtaken: Overtaken,
    pub(crate) pruned: Pruned,
    /// When it asked to be woken.
    alarm: Option<Time>,
    /// Until then the newest plan holds: nothing was told since, and nothing changes by time alone.
    pub(crate) rests_until: Option<Time>,
}

/// Woken that much too late, it has slept, or its clock has jumped.
const OVERSLEPT_MS: i64 = 10_000;

/// A wake-up call is at least that far ahead: one in the past would spin.
const SOONEST_MS: i64 = 100;

/// What is due within that time is waited for in short naps.
const WATCHED_MS: i64 = 3_600_000;

/// A plan is made anew after that time at the latest.
const LONGEST_REST_MS: i64 = 5_000;

impl Conductor {
    /// A conductor for the Ensemble of that name, which knows nothing yet.
    pub fn new(namespace: &str, name: &str) -> Self {
        let mut world = World::default();
        world.snap.ensemble.namespace = namespace.to_owned();
        world.snap.ensemble.meta.pin.name = name.to_owned();
        Self {
            world,
            lead: None,
            gate: Gate::default(),
            pending: BTreeMap::new(),
            busy: BTreeSet::new(),
            engines: Engines::default(),
            look: None,
            next_call: 0,
            published: None,
            complained: None,
            status_sent: None,
            overtaken: Overtaken::default(),
            pruned: Pruned::default(),
            alarm: None,
            rests_until: None,
        }
    }

    /// Takes one input in and acts.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        self.tell(now, input, out);
        self.act(now, out);
    }

    /// Takes one input in. Several may be told before [`Conductor::act`].
    pub fn tell(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        let now = self.pass_to(now);
        // An engine may say what it said before, a node may be nobody's of ours: that is looked at
        // where it is taken in.
        if !matches!(input, Input::Tick | Input::Engine(..) | Input::Nodes(..)) {
            self.rests_until = None;
        }
        match input {
            Input::Applied(kind, object) => self.saw(kind, &object, false),
            Input::Deleted(kind, object) => self.saw(kind, &object, true),
            Input::Listed(kind, objects, asked) => {
                self.gate.listed(kind, &objects, asked);
                self.world.replace(kind, &objects);
            }
            Input::Lead(lead) => {
                if std::mem::replace(&mut self.lead, lead) != lead {
                    self.overtaken.new_lease();
                }
            }
            Input::Nodes(nodes) => {
                if self.world.take_nodes(nodes) {
                    self.rests_until = None;
                }
            }
            Input::Done(id, outcome) => {
                self.world.remember(now);
                self.done(now, id, outcome, out);
            }
            Input::Engine(id, outcome) => self.engine_said(now, id, outcome),
            Input::Tick => {}
        }
    }

    /// It is so late now. Time never goes back here, whatever the driver says; and in time in which
    /// nothing was seen, nothing has grown older.
    fn pass_to(&mut self, now: Time) -> Time {
        let now = now.max(self.world.snap.now);
        self.world.snap.now = now;
        let slept = self.alarm.map_or(0, |at| now.0.saturating_sub(at.0));
        if slept > OVERSLEPT_MS {
            self.alarm = Some(now);
            self.rests_until = None;
            self.memory().skip(slept, now);
        }
        now
    }

    /// Asks to be woken.
    pub(crate) fn wake(&mut self, now: Time, at: Time, out: &mut Vec<Output>) {
        let at = at.max(now.plus_ms(SOONEST_MS));
        self.alarm = Some(at);
        out.push(Output::Wake(at));
    }

    fn saw(&mut self, kind: Kind, object: &Value, gone: bool) {
        let meta = Meta::read(object);
        let pin = &meta.pin;
        self.gate
            .saw(kind, &pin.resource_version, &pin.uid, gone || meta.deleting);
        if gone {
            self.world.remove(kind, pin);
        } else {
            self.memory().taken.remove(&(kind, pin.name.clone()));
            self.world.apply(kind, object);
        }
        if kind == Kind::Pod {
            self.saw_sign(&pin.name, object);
        }
    }

    /// The snapshot, for a driver that explains or checks.
    pub fn snapshot(&self) -> &Snapshot {
        &self.world.snap
    }

    /// Whether an object is in its view, and not told to end.
    pub fn shows(&mut self, kind: Kind, name: &str, uid: &str) -> bool {
        self.world.shows(kind, name, uid)
    }

    /// Whether its newest plan still holds: it need not act before it asked to be woken.
    pub fn rests(&self) -> bool {
        self.rests_until.is_some()
    }

    /// Whether the Ensemble exists.
    pub fn present(&self) -> bool {
        self.world.present
    }

    /// Plans and says what to do, if there is anything to plan and we lead.
    pub fn act(&mut self, now: Time, out: &mut Vec<Output>) {
        let now = self.pass_to(now);
        let Some(epoch) = self.lead else { return };
        self.alarm = None;
        if let Some(until) = self.rests_until.filter(|until| now < *until) {
            let next = self.observe(now, out);
            let next = next.map_or(until, |at| at.min(until));
            return self.wake(now, next, out);
        }
        self.world.snap.epoch = self.overtaken.epoch(epoch);
        self.world.remember(now);
        let known = WATCHED.iter().all(|k| self.world.listed.contains(k));
        if !known || !self.world.present {
            return;
        }
        if let Some(unreadable) = &self.world.unreadable {
            let text = unreadable.to_string();
            return self.complain(Reason::Invalid, text, out);
        }
        if self.stands_down(now, out) {
            return;
        }
        self.confirm_if_complete(now, out);
        self.list_what_lags(now, out);
        self.world.snap.behind = self.gate.behind();
        let overdue = self.note_lag(now);
        if !self.world.snap.behind.is_empty() && !overdue {
            if let Some(at) = self.gate.wake_at() {
                self.wake(now, at, out);
            }
            return;
        }
        self.carry_out(now, plan(&self.world.snap), out);
    }

    pub(crate) fn list_what_lags(&mut self, now: Time, out: &mut Vec<Output>) {
        let lists = self.gate.due_for_listing(now);
        out.extend(lists.into_iter().map(Output::Relist));
    }

    /// Whether some view does not show what we wrote.
    pub(crate) fn lags(&self) -> bool {
        !self.gate.behind().is_empty()
    }

    /// A view that stays behind is worth a word; nothing but that word is written meanwhile.
    fn note_lag(&mut self, now: Time) -> bool {
        let overdue = self.gate.overdue(now) && !self.world.snap.behind.is_empty();
        let key = (Kind::Ensemble, "behind".to_owned());
        let kinds = format!(
            "the view of {:?} lags behind our own writes",
            self.world.snap.behind
        );
        let memory = self.memory();
        if overdue {
            let before = memory.failures.get(&key).cloned();
            let failure = outcome::failure(before.as_ref(), Reason::CacheBehind, kinds, now);
            memory.failures.insert(key, failure);
        } else {
            memory.failures.remove(&key);
        }
        overdue
    }

    /// Says once what is wrong where no status can say it.
    pub(crate) fn complain(&mut self, reason: Reason, text: String, out: &mut Vec<Output>) {
        if self.complained.as_ref() == Some(&text) {
            return;
        }
        out.push(Output::Happened(Happening {
            warning: true,
            reason: reason.to_string(),
            action: "Read".into(),
            note: text.clone(),
            member: None,
        }));
        self.complained = Some(text);
    }

    pub(crate) fn memory(&mut self) -> &mut Memory {
        Arc::make_mut(&mut self.world.snap.memory)
    }

    fn carry_out(&mut self, now: Time, plan: Plan, out: &mut Vec<Output>) {
        let Plan {
            writes,
            permits,
            lettings,
            engine,
            watch,
            report,
            wake_at,
        } = plan;
        // The permits are in the status to be stored; they are worth nothing before.
        drop(permits);
        let lagging = !self.world.snap.behind.is_empty();
        let mut later = None;
        for write in writes {
            if let Write::Status(new) = &write {
                later = pace::status_can_wait(&self.world.snap, new, self.status_sent);
                if later.is_none() && !self.is_stored(new) {
                    self.status_sent = Some(now);
                    self.send_write(write, out);
                }
            } else if !lagging {
                self.send_write(write, out);
            }
        }
        self.engines.watch = watch;
        self.engines.telling = !engine.is_empty();
        let (mut tell_at, mut look_at) = (None, None);
        if !lagging {
            tell_at = self.tell_engines(now, engine, out);
            look_at = self.look_again(now, out);
            for letting in lettings {
                let uid = letting.claim().uid.clone();
                let key = (Kind::Claim, letting.claim().name.clone());
                let call = ApiCall::let_go(&self.world.snap.ensemble.namespace, letting);
                self.send(key, Purpose::LetGo { uid }, call, out);
            }
        }
        self.publish(report, out);
        let ask_at = self.observe(now, out);
        let due = [wake_at, self.gate.wake_at(), later, tell_at, look_at];
        let due = due.into_iter().flatten().min();
        let longest = now.plus_ms(LONGEST_REST_MS);
        self.rests_until = Some(due.map_or(longest, |at| at.min(longest)));
        let wake = due.into_iter().chain(ask_at).min();
        if let Some(at) = wake {
            // Whoever counts on time looks at the clock often enough to notice when it jumps.
            let nap = if at <= now.plus_ms(WATCHED_MS) {
                longest
            } else {
                at
            };
            self.wake(now, at.min(nap), out);
        }
    }

    fn publish(&mut self, report: Report, out: &mut Vec<Output>) {
        if self.published.as_deref() != Some(&report) {
            let report = Arc::new(report);
            self.published = Some(report.clone());
            out.push(Output::Publish(report));
        }
    }

    pub(crate) fn cancel(
        &mut self,
        now: Time,
        uid: &str,
        member: &str,
        reason: Reason,
        message: String,
    ) {
        self.memory().cancelled.insert(uid.to_owned());
        self.fail(now, (Kind::Pod, member.to_owned()), reason, message);
    }

    pub(crate) fn fail(&mut self, now: Time, key: Key, reason: Reason, message: String) {
        let memory = self.memory();
        let failure = outcome::failure(memory.failures.get(&key), reason, message, now);
        memory.failures.insert(key, failure);
    }

    fn done(&mut self, now: Time, id: CallId, outcome: Outcome, out: &mut Vec<Output>) {
        let Some(Pending { key, purpose }) = self.pending.remove(&id) else {
            return;
        };
        self.busy.remove(&key);
        match outcome {
            Outcome::Done(object) => self.succeeded(now, key, purpose, object, out),
            Outcome::Refused(error) => self.refused(now, key, purpose, error),
            Outcome::Unknown(message) => self.unknown(now, key, purpose, message),
        }
    }

    fn succeeded(
        &mut self,
        now: Time,
        key: Key,
        purpose: Purpose,
        object: Arc<Value>,
        out: &mut Vec<Output>,
    ) {
        let meta = Meta::read(&object);
        let version = &meta.pin.resource_version;
        match purpose {
            Purpose::Confirm => return self.listed_again(key.0, object),
            Purpose::Check { revision } => {
                self.memory().failures.remove(&key);
                let images = render::images(&object);
                let digest = render::digest(Arc::unwrap_or_clone(object));
                self.memory().admitted.insert(revision.clone(), images);
                self.memory().checks.insert(revision, Check::Passed(digest));
                return;
            }
            Purpose::Look => return self.looked(now, key, &object),
            Purpose::Create | Purpose::Patch | Purpose::Change { .. } => {
                self.memory().taken.remove(&key);
                self.gate.wrote(key.0, version, now);
            }
            Purpose::Answer => self.gate.wrote(Kind::Request, version, now),
            Purpose::TakeOver { epoch } => {
                self.gate.wrote(Kind::Ensemble, version, now);
                self.took_over(epoch, out);
            }
            Purpose::Status { old, new } => {
                self.gate.wrote(Kind::Ensemble, version, now);
                self.note_pruned(now, &new, &object);
                for id in newly_asked(&old, &new) {
                    self.begin_errand(now, &id, out);
                }
                out.extend(
                    events::between(&old, &new)
                        .into_iter()
                        .map(Output::Happened),
                );
            }
            Purpose::Discard { uid } | Purpose::Disrupt { uid } | Purpose::LetGo { uid } => {
                // The watch may have been faster than the answer.
                if self.world.shows(key.0, &key.1, &uid) {
                    self.gate.told_to_go(key.0, &uid, now);
                }
            }
        }
        self.memory().failures.remove(&key);
    }

    fn refused(&mut self, now: Time, key: Key, purpose: Purpose, error: ApiError) {
        let reason = outcome::classify(&error);
        // An API server without that door says 404, too.
        let no_such_door = error
            .message
            .contains("could not find the requested resource");
        let gone = error.code == 404 && !no_such_door;
        match purpose {
            Purpose::Create if reason == Reason::NameTaken => self.name_taken(now, key),
            Purpose::Create if reason == Reason::QuotaExceeded && key.0 == Kind::Pod => {
                // A quota is looked at before the name: one of ours that our watch does not show may
                // have it.
                self.name_taken(now, key.clone());
                self.fail(now, key, reason, error.message);
            }
            Purpose::Patch if reason == Reason::Conflict && self.is_taken(&key) => {
                // Our watch does not show it: it is read again before the next try.
                self.memory().taken.remove(&key);
                self.name_taken(now, key);
            }
            Purpose::Look if gone => drop(self.memory().taken.remove(&key)),
            // What had the name is gone; without our label our watch would not have shown that.
            Purpose::Patch if gone && self.is_taken(&key) => {
                self.memory().taken.remove(&key);
            }
            Purpose::Check { revision } if error.code < 500 && error.code != 429 => {
                let before = self.world.snap.memory.checks.get(&revision);
                let before = match before {
                    Some(Check::Refused(failure)) => Some(failure.clone()),
                    _ => None,
                };
                let reason = if reason == Reason::CreateRefused {
                    Reason::TemplateRefused
                } else {
                    reason
                };
                let mut failure = outcome::failure(before.as_ref(), reason, error.message, now);
                // A quota or an account may be put right without a change of the template.
                failure.retry_at = now.plus_ms(if failure.tries < 4 { 5_000 } else { 60_000 });
                self.memory()
                    .checks
                    .insert(revision, Check::Refused(failure));
            }
            Purpose::Disrupt { uid } | Purpose::Change { uid, .. }
                if gone || reason == Reason::Conflict =>
            {
                // The pod changed or went since it was read: decide anew.
                let member = key.1.clone();
                self.cancel(now, &uid, &member, Reason::Conflict, error.message);
            }
            Purpose::Change { uid, revision } if reason == Reason::CreateRefused => {
                // Not to this pod: the planner decides what to do about it.
                let message = format!("the API server refuses: {}", error.message);
                let refused = Refused { revision, message };
                self.memory().pod_mut(&uid).refused = Some(refused);
                let member = key.1.clone();
                self.cancel(now, &uid, &member, Reason::Conflict, error.message);
            }
            Purpose::Confirm => {
                self.look_failed();
                self.fail(now, key, reason, error.message);
            }
            Purpose::Status { .. } => {
                self.withdraw_errand();
                self.fail(now, key, reason, error.message);
            }
            Purpose::TakeOver { .. } => self.not_taken_over(now),
            // Gone already, and our view does not show that yet: it would be asked for again at once.
            Purpose::Discard { uid } | Purpose::LetGo { uid } if gone => {
                if self.world.shows(key.0, &key.1, &uid) {
                    self.gate.told_to_go(key.0, &uid, now);
                }
            }
            // Whatever holds of what is to go, our view of it is old: it is listed before the next try.
            Purpose::Discard { .. } | Purpose::LetGo { .. } if reason == Reason::Conflict => {
                self.gate.unsure(key.0, now);
                self.fail(now, key, reason, error.message);
            }
            _ => self.fail(now, key, reason, error.message),
        }
    }

    /// Whether something else was seen to have that name.
    fn is_taken(&self, key: &Key) -> bool {
        self.world.snap.memory.taken.contains_key(key)
    }

    /// Whether it was done can only be seen.
    fn unknown(&mut self, now: Time, key: Key, purpose: Purpose, message: String) {
        let writes = !matches!(
            purpose,
            Purpose::Look | Purpose::Confirm | Purpose::Check { .. }
        );
        match &purpose {
            Purpose::Confirm => self.look_failed(),
            Purpose::Status { .. } => self.withdraw_errand(),
            Purpose::TakeOver { .. } => self.not_taken_over(now),
            _ => {}
        }
        if writes {
            self.gate.unsure(key.0, now);
        }
        self.fail(now, key, Reason::ApiFailing, message);
    }
}

/// Errands that were written down as asked for just now.
fn newly_asked(old: &EnsembleStatus, new: &EnsembleStatus) -> Vec<String> {
    let proposed: Vec<Errand> = Errand::stored(old)
        .filter(|e| e.phase == SwitchPhase::Proposed)
        .collect();
    Errand::stored(new)
        .filter(|e| e.phase == SwitchPhase::Asked && proposed.iter().any(|p| p.id == e.id))
        .map(|e| e.id)
        .collect()
}
