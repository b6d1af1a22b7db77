//! What all steps of a plan add to: what is to be written and told, what the report says, and when
//! to look again. A step cannot read here what another has said; what it needs of another, it is
//! given as that one's result.

use crate::cast::Cast;
use crate::engine::Tell;
use crate::memory::{Failure, Key, Kind};
use crate::plan::{Plan, Watch, blocker, waive_command};
use crate::safety::{Letting, Permit, Refusal};
use crate::steps::evicted;
use crate::time::{Time, Wake};
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::{Blocker, Reason, Report, Step, StepState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Stamp;

/// Filled by one step after the other; nothing is taken away again.
pub(crate) struct Sheet<'s> {
    snap: &'s Cast<'s>,
    writes: Vec<Write>,
    engine: Vec<Tell>,
    lettings: Vec<Letting>,
    steps: Vec<Step>,
    wake: Wake,
}

impl<'s> Sheet<'s> {
    /// With nothing on it.
    pub fn new(snap: &'s Cast<'s>) -> Self {
        Self {
            snap,
            writes: Vec::new(),
            engine: Vec::new(),
            lettings: Vec::new(),
            steps: Vec::new(),
            wake: Wake::default(),
        }
    }

    /// Wants something written, unless it failed a moment ago.
    pub fn write(&mut self, write: Write) {
        if !self.has_just_failed(&write.key()) {
            self.writes.push(write);
        }
    }

    /// Whether a call about that object failed a moment ago; then it is looked at again once it may be made.
    fn has_just_failed(&mut self, key: &Key) -> bool {
        let failed = self.snap.memory.failures.get(key);
        let Some(failure) = failed.filter(|f| f.retry_at > self.snap.now) else {
            return false;
        };
        self.wake(failure.retry_at);
        true
    }

    /// Wants the engine told something that disrupts nobody.
    pub fn tell(&mut self, write: Tell) {
        self.engine.push(write);
    }

    /// Lets a claim go, unless that failed a moment ago.
    pub fn let_go(&mut self, letting: Letting) {
        let key = (Kind::Claim, letting.claim().name.clone());
        if !self.has_just_failed(&key) {
            self.lettings.push(letting);
        }
    }

    /// Wants to be woken at that time at the latest.
    pub fn wake(&mut self, at: Time) {
        self.wake.at(at);
    }

    /// Says what is done, or is to be done.
    pub fn step(&mut self, action: Action, member: Option<String>, cause: &str, state: StepState) {
        let since = (state == StepState::Running).then(|| self.since(action, member.as_deref()));
        let cause = cause.to_owned();
        self.steps.push(Step {
            action,
            member,
            cause,
            state,
            since,
            blocker: None,
        });
    }

    /// Says what cannot be done now, and why.
    pub fn block(&mut self, action: Action, member: Option<String>, cause: &str, blocker: Blocker) {
        let since = Some(self.since(action, member.as_deref()));
        let cause = cause.to_owned();
        let state = StepState::Blocked;
        self.steps.push(Step {
            action,
            member,
            cause,
            state,
            since,
            blocker: Some(blocker),
        });
    }

    /// Says that the API server or the engine did not do it.
    pub fn failed(&mut self, action: Action, member: String, cause: &str, failure: &Failure) {
        let mut blocker = blocker(self.snap, failure.reason, failure.message.clone());
        if failure.reason == Reason::EvictionRefused {
            blocker.message += &evicted::explain(self.snap);
        }
        self.block(action, Some(member), cause, blocker);
    }

    /// Says that a rule forbids it.
    pub fn refused(&mut self, action: Action, member: String, cause: &str, refusal: &Refusal) {
        let message = format!("{} is false: {}", refusal.predicate, refusal.observed);
        let mut blocker = blocker(self.snap, refusal.reason, message);
        blocker.observed = refusal.observed.clone();
        blocker.limit = refusal.limit.clone();
        let lasts = self.lasts(action, &member);
        if let Some(rule) = refusal
            .way_out(lasts)
            .filter(|_| blocker.next_command.is_empty())
        {
            blocker.next_command = waive_command(self.snap, rule, &member);
        }
        self.block(action, Some(member), cause, blocker);
    }

    /// Whether a step has waited for longer than the rollout may make no progress.
    pub fn lasts(&self, action: Action, member: &str) -> bool {
        let since = Time::from_stamp(&self.since(action, Some(member)));
        let seconds = self.snap.ensemble.spec.rollout.progress_deadline_seconds;
        since.plus_seconds(seconds) <= self.snap.now
    }

    /// Since when this step runs or waits: as stored, else from now.
    fn since(&self, action: Action, member: Option<&str>) -> Stamp {
        let old = self.snap.ensemble.status.plan.steps.iter();
        let mut same = old.filter(|s| s.action == action && s.member.as_deref() == member);
        same.find_map(|s| s.since.clone())
            .unwrap_or_else(|| self.snap.now.stamp())
    }

    /// Ends the steps that act: what they said can be read from here on.
    pub fn filled(self) -> Filled<'s> {
        Filled(self)
    }
}

/// A sheet that every step has added to. Only whoever owns it can have made it of a [`Sheet`], so no
/// step that is lent one reads in it; the status, which is made last, is written by it.
pub(crate) struct Filled<'s>(Sheet<'s>);

impl<'s> Filled<'s> {
    /// What was said, in order.
    pub fn steps(&self) -> &[Step] {
        &self.0.steps
    }

    /// Whether the engine is told something.
    pub fn tells_engine(&self) -> bool {
        !self.0.engine.is_empty()
    }

    /// For what is said of all the steps together.
    pub fn sheet(&mut self) -> &mut Sheet<'s> {
        &mut self.0
    }

    /// The plan that it makes, with what is told of it.
    pub fn into_plan(self, permits: Vec<Permit>, watch: Watch, report: Report) -> Plan {
        let Sheet {
            snap: _,
            writes,
            engine,
            lettings,
            // The report holds them.
            steps: _,
            wake,
        } = self.0;
        Plan {
            writes,
            permits,
            lettings,
            engine,
            watch,
            report,
            wake_at: wake.0,
        }
    }
}
