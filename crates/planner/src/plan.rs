//! One pass: a straight list of steps.

use crate::cast::Cast;
use crate::ledger::Ledgers;
use crate::memory::Failure;
use crate::revision::Revisions;
use crate::roster::MemberId;
use crate::safety::{Letting, Permit, Refusal, Safety, Sake};
use crate::snapshot::Snapshot;
use crate::steps;
use crate::time::{Time, Wake};
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::status::{LetGo, ParameterChange, SwitchPhase, Switchover};
use ensemble_api::{Blocker, Reason, Report, Step, StepState};
use std::collections::BTreeSet;

/// What is to happen next, and why.
#[derive(Debug)]
#[must_use]
pub struct Plan {
    /// Writes that hurt nobody.
    pub writes: Vec<Write>,
    /// Members that may be disrupted, once each is written down and looked at again. The status in
    /// `writes` has them as intents.
    pub permits: Vec<Permit>,
    /// Claims that may be let go.
    pub lettings: Vec<Letting>,
    /// What the engine is to be told that disrupts nobody.
    pub engine: Vec<EngineWrite>,
    /// How closely the engine has to be watched.
    pub watch: Watch,
    /// What the plan says.
    pub report: Report,
    /// When something changes by time alone.
    pub wake_at: Option<Time>,
}

/// Something that an engine is told and that disrupts nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineWrite {
    /// Look at your cluster now, rather than in your next round.
    Nudge {
        /// The leader.
        member: String,
        /// Its pod.
        uid: String,
    },
    /// Keep these parameters; None removes one.
    SetParameters {
        /// The leader.
        member: String,
        /// Its pod.
        uid: String,
        /// By name.
        parameters: std::collections::BTreeMap<String, Option<String>>,
    },
}

/// How closely an engine has to be watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watch {
    /// There is no engine.
    #[default]
    None,
    /// Nothing is in flight.
    Rest,
    /// Something is in flight, or waits for the engine.
    Closely,
    /// The lead is being handed over, or a member is about to follow.
    Eagerly,
}

/// Decides what happens next.
pub fn plan(snap: &Snapshot) -> Plan {
    let cast = Cast::of(snap);
    let mut draft = Draft::new(&cast);
    if snap.ensemble.spec.suspend && !snap.ensemble.meta.deleting {
        return steps::status::suspended(draft);
    }
    if snap.ensemble.meta.deleting {
        return steps::deletion::run(draft);
    }
    steps::intents::run(&mut draft);
    steps::switch::run(&mut draft);
    steps::prepare::run(&mut draft);
    steps::roles::run(&mut draft);
    steps::requests::run(&mut draft);
    steps::claims::run(&mut draft);
    steps::members::run(&mut draft);
    steps::resize::run(&mut draft);
    steps::turns::run(&mut draft);
    steps::parameters::run(&mut draft);
    steps::evicted::run(&mut draft);
    steps::upkeep::run(&mut draft);
    steps::status::run(draft)
}

/// What the steps add to.
pub(crate) struct Draft<'s> {
    pub snap: &'s Cast<'s>,
    pub safety: Safety<'s>,
    /// The ledger as it is to be stored.
    pub ledger: Ledgers,
    /// The ledger as it is stored: what may be created is judged by it.
    pub stored: Ledgers,
    pub revisions: Revisions,
    /// The revision that a missing pod may be created from, if any.
    pub usable: Option<String>,
    /// Whether outdated members that serve may be touched.
    pub may_roll: bool,
    /// Nothing at all may be created.
    pub halted: bool,
    pub let_go: Vec<LetGo>,
    /// The newest switchover as it is to be stored.
    pub switchover: Option<Switchover>,
    /// The newest change of parameters as it is to be stored.
    pub parameters: Option<ParameterChange>,
    /// The marks in the Ensemble's metadata are written first: they are to outlive the status.
    pub mark_first: bool,
    /// Members whose rebuilding is not answered yet: their new life has not begun.
    pub rebuilding: BTreeSet<MemberId>,
    /// Intents of ours or others that are over.
    pub over: BTreeSet<String>,
    pub writes: Vec<Write>,
    pub permits: Vec<Permit>,
    pub lettings: Vec<Letting>,
    pub engine: Vec<EngineWrite>,
    pub steps: Vec<Step>,
    pub wake: Wake,
}

impl<'s> Draft<'s> {
    fn new(snap: &'s Cast<'s>) -> Self {
        Self {
            snap,
            safety: Safety::assess(snap),
            stored: Ledgers::stored(snap, snap.roster()),
            ledger: snap.ledger().clone(),
            revisions: Revisions::of(snap),
            usable: None,
            may_roll: false,
            halted: false,
            let_go: snap.ensemble.status.let_go.clone(),
            switchover: snap.ensemble.status.switchover.clone(),
            parameters: snap.ensemble.status.parameters.clone(),
            rebuilding: BTreeSet::new(),
            over: BTreeSet::new(),
            mark_first: false,
            writes: Vec::new(),
            permits: Vec::new(),
            lettings: Vec::new(),
            engine: Vec::new(),
            steps: Vec::new(),
            wake: Wake::default(),
        }
    }

    /// Wants something written, unless it failed a moment ago.
    pub fn write(&mut self, write: Write) {
        let failed = self.snap.memory.failures.get(&write.key());
        if let Some(failure) = failed.filter(|f| f.retry_at > self.snap.now) {
            self.wake.at(failure.retry_at);
            return;
        }
        self.writes.push(write);
    }

    /// Whether the engine can hand the lead over.
    pub fn can_switch(&self) -> bool {
        self.snap.abilities.can_switch
    }

    /// Whether a member is on a node that takes no new pods.
    pub fn is_cordoned(&self, who: MemberId) -> bool {
        let nodes = self.snap.nodes.as_ref();
        let pod = self.snap.our_pod(who);
        let node = nodes.zip(pod).and_then(|(n, p)| n.get(&p.node));
        node.is_some_and(|n| n.cordoned)
    }

    /// Wants the lead handed to whoever is best among those that will do.
    pub fn hand_over_to_best(&mut self, sake: Sake<'_>, will_do: impl Fn(MemberId) -> bool) {
        let snap = self.snap;
        let leader = snap.roles().leader();
        let others: Vec<MemberId> = snap
            .roster()
            .wanted()
            .filter(|m| Some(*m) != leader)
            .collect();
        let mut heirs: Vec<MemberId> = others
            .iter()
            .copied()
            .filter(|m| will_do(*m) && self.safety.may_succeed(*m).is_ok())
            .collect();
        let lag = |m: MemberId| snap.roles().sighting(m).and_then(|s| s.lag).unwrap_or(0);
        let outdated = |m: MemberId| {
            let pod = snap.our_pod(m);
            !pod.is_some_and(|p| self.revisions.is_current(p.revision()))
        };
        heirs.sort_by_key(|m| (outdated(*m), self.is_cordoned(*m), lag(*m), *m));
        if let Some(heir) = heirs.first().copied() {
            self.hand_over(heir, sake);
            return;
        }
        if self.switch_is_open() {
            return;
        }
        let why: Vec<String> = others
            .iter()
            .map(|m| {
                let name = snap.roster().name(*m);
                match self.safety.may_succeed(*m) {
                    Err(why) => format!("{name}: {why}"),
                    Ok(()) => format!("{name}: it is not updated yet, or has to move itself"),
                }
            })
            .collect();
        let message = format!("nobody can take over; {}", why.join("; "));
        let blocker = blocker(snap, Reason::NoSuccessor, message);
        let leader = leader.map(|m| snap.roster().name(m));
        self.block(Action::Switch, leader, sake.cause, blocker);
    }

    /// Whether a switchover is under way; its own step speaks for it.
    pub fn switch_is_open(&self) -> bool {
        self.switchover.as_ref().is_some_and(|s| s.phase.is_open())
    }

    /// Wants the lead handed to a member. What a rule refuses is returned, and reported.
    pub fn hand_over(&mut self, to: MemberId, sake: Sake<'_>) -> Option<Refusal> {
        let snap = self.snap;
        if self.switch_is_open() {
            return None;
        }
        let member = snap.roster().name(to);
        let last = self.switchover.as_ref();
        let failed = last.filter(|s| s.phase != SwitchPhase::Arrived && s.request.is_empty());
        let tries = failed.map_or(0, |s| s.tries);
        if let Some(failed) = failed.filter(|_| sake.request.is_empty()) {
            let pause = 2_i64 << tries.min(5);
            let again = Time::from_stamp(&failed.since).plus_ms(pause * 1000);
            if again > snap.now {
                self.wake.at(again);
                let message = format!(
                    "{} -> {} ended {:?}: {}",
                    failed.from, failed.to, failed.phase, failed.message
                );
                let mut blocker = blocker(snap, Reason::SwitchoverFailed, message);
                blocker.observed = format!("tried {tries} times");
                self.block(Action::Switch, Some(member), sake.cause, blocker);
                return None;
            }
        }
        match self.safety.hand_over(to) {
            Ok(planned) => {
                self.switchover = Some(planned.propose(snap, sake, tries + 1));
                self.step(Action::Switch, Some(member), sake.cause, StepState::Running);
                None
            }
            Err(refusal) => {
                self.refused(Action::Switch, member, sake.cause, &refusal);
                Some(refusal)
            }
        }
    }

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

    pub fn failed(&mut self, action: Action, member: String, cause: &str, failure: &Failure) {
        let mut blocker = blocker(self.snap, failure.reason, failure.message.clone());
        if failure.reason == Reason::EvictionRefused {
            blocker.message += &steps::evicted::explain(self.snap);
        }
        self.block(action, Some(member), cause, blocker);
    }

    pub fn refused(&mut self, action: Action, member: String, cause: &str, refusal: &Refusal) {
        let message = format!("{} is false: {}", refusal.predicate, refusal.observed);
        let mut blocker = blocker(self.snap, refusal.reason, message);
        blocker.observed = refusal.observed.clone();
        blocker.limit = refusal.limit.clone();
        self.block(action, Some(member), cause, blocker);
    }

    /// Since when this step runs or waits: as stored, else from now.
    fn since(
        &self,
        action: Action,
        member: Option<&str>,
    ) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
        let old = self.snap.ensemble.status.plan.steps.iter();
        let mut same = old.filter(|s| s.action == action && s.member.as_deref() == member);
        same.find_map(|s| s.since.clone())
            .unwrap_or_else(|| self.snap.now.stamp())
    }
}

/// A blocker with what its reason's page says.
pub(crate) fn blocker(snap: &Snapshot, reason: Reason, message: String) -> Blocker {
    let page = reason.page();
    Blocker {
        reason,
        message,
        observed: String::new(),
        limit: String::new(),
        clears_when: page.clears_when.to_owned(),
        next_command: reason.next_command(snap.name()),
    }
}
