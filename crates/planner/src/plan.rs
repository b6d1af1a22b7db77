//! One pass: a straight list of steps.

use crate::cast::Cast;
use crate::ledger::Ledgers;
use crate::revision::Revisions;
use crate::roster::MemberId;
use crate::safety::{Letting, Permit, Refusal, Safety, Sake};
use crate::sheet::Sheet;
use crate::snapshot::Snapshot;
use crate::steps;
use crate::steps::status::Durable;
use crate::time::Time;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::status::{LetGo, ParameterChange, SwitchPhase, Switchover};
use ensemble_api::{Blocker, Reason, Report, StepState};
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
    if snap.ensemble.meta.deleting {
        return steps::deletion::run(&cast, &draft.revisions, &draft.safety, draft.sheet);
    }
    if snap.ensemble.spec.suspend {
        return steps::status::suspended(&cast, &draft.revisions, &draft.safety, draft.sheet);
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
    let durable = Durable {
        over: draft.over,
        switchover: draft.switchover,
        ledgers: draft.ledger,
        let_go: draft.let_go,
        permits: draft.permits,
        parameters: draft.parameters,
        mark_first: draft.mark_first,
    };
    steps::status::write(&cast, &draft.revisions, &draft.safety, draft.sheet, durable)
}

/// What became of the wish to hand the lead over. The report has been told.
pub(crate) enum Proposal {
    /// It is to be written down.
    Made,
    /// Another one is under way, or the last one failed a moment ago.
    Waits,
    /// A rule forbids it.
    Refused(Refusal),
    /// Nobody can take over, in words.
    Nobody(String),
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
    pub permits: Vec<Permit>,
    pub sheet: Sheet<'s>,
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
            permits: Vec::new(),
            sheet: Sheet::new(snap),
        }
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
    pub fn hand_over_to_best(
        &mut self,
        sake: Sake<'_>,
        will_do: impl Fn(MemberId) -> bool,
    ) -> Proposal {
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
            return self.hand_over(heir, sake);
        }
        if self.switch_is_open() {
            return Proposal::Waits;
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
        let blocker = blocker(snap, Reason::NoSuccessor, message.clone());
        let leader = leader.map(|m| snap.roster().name(m));
        self.sheet
            .block(Action::Switch, leader, sake.cause, blocker);
        Proposal::Nobody(message)
    }

    /// Whether a switchover is under way; its own step speaks for it.
    pub fn switch_is_open(&self) -> bool {
        self.switchover.as_ref().is_some_and(|s| s.phase.is_open())
    }

    /// Wants the lead handed to a member. What a rule refuses is returned, and reported.
    pub fn hand_over(&mut self, to: MemberId, sake: Sake<'_>) -> Proposal {
        let snap = self.snap;
        if self.switch_is_open() {
            return Proposal::Waits;
        }
        let member = snap.roster().name(to);
        let last = self.switchover.as_ref();
        let failed = last.filter(|s| s.phase != SwitchPhase::Arrived && s.request.is_empty());
        let tries = failed.map_or(0, |s| s.tries);
        if let Some(failed) = failed.filter(|_| sake.request.is_empty()) {
            let pause = 2_i64 << tries.min(5);
            let again = Time::from_stamp(&failed.since).plus_ms(pause * 1000);
            if again > snap.now {
                self.sheet.wake(again);
                let message = format!(
                    "{} -> {} ended {:?}: {}",
                    failed.from, failed.to, failed.phase, failed.message
                );
                let mut blocker = blocker(snap, Reason::SwitchoverFailed, message);
                blocker.observed = format!("tried {tries} times");
                self.sheet
                    .block(Action::Switch, Some(member), sake.cause, blocker);
                return Proposal::Waits;
            }
        }
        match self.safety.hand_over(to) {
            Ok(planned) => {
                self.switchover = Some(planned.propose(snap, sake, tries + 1));
                self.sheet
                    .step(Action::Switch, Some(member), sake.cause, StepState::Running);
                Proposal::Made
            }
            Err(refusal) => {
                self.sheet
                    .refused(Action::Switch, member, sake.cause, &refusal);
                Proposal::Refused(refusal)
            }
        }
    }
}

/// A blocker with what its reason's page says.
pub(crate) fn blocker(snap: &Snapshot, reason: Reason, message: String) -> Blocker {
    let page = reason.page();
    let next_command = match reason {
        Reason::TemplateRefused
        | Reason::ImageMissing
        | Reason::ImagePullFailing
        | Reason::CrashLooping
        | Reason::ContainerFailing
        | Reason::Stalled
        | Reason::ResizeInfeasible
        | Reason::Unschedulable => format!("ensemble undo {}", snap.name()),
        Reason::Paused => format!("ensemble resume {}", snap.name()),
        _ => String::new(),
    };
    Blocker {
        reason,
        message,
        observed: String::new(),
        limit: String::new(),
        clears_when: page.clears_when.to_owned(),
        next_command,
    }
}
