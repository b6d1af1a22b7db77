//! Rules about roles: whom a disruption would hurt, and who may take over.

use super::{RECOVER_AFTER_SECONDS, Refusal, Safety, refuse, sync};
use crate::cast::Cast;
use crate::engine::{Duty, EngineAct, Lead};
use crate::errand::{Errand, Guard};
use crate::roster::MemberId;
use crate::time::Time;
use crate::view::Pinned;
use crate::wish::Act;
use ensemble_api::spec::PrimaryTurn;
use ensemble_api::status::{Method, SwitchPhase, Switchover};
use ensemble_api::{Predicate, Reason, Rule};

/// What the lead is handed over for.
#[derive(Clone, Copy)]
pub(crate) struct Sake<'a> {
    /// In words.
    pub cause: &'a str,
    /// The request that asks for it, if one does.
    pub request: &'a str,
    /// The revision whose rollout asks for it, if one does.
    pub revision: &'a str,
}

impl<'a> Sake<'a> {
    /// Neither a request nor a rollout asks for it.
    pub fn of(cause: &'a str) -> Self {
        Self {
            cause,
            request: "",
            revision: "",
        }
    }
}

/// Planned consent to hand the lead over.
#[derive(Debug)]
#[must_use]
pub struct HandOver {
    from: Pinned,
    to: Pinned,
    term: u64,
}

impl HandOver {
    /// Who hands over.
    pub fn from(&self) -> &str {
        &self.from.name
    }

    /// The term that it leads at.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// As it is written down before the engine is asked.
    pub(crate) fn propose(self, cast: &Cast<'_>, sake: Sake<'_>, tries: u32) -> Switchover {
        let engine = cast.ensemble.spec.engine.as_ref();
        let seconds = engine.map_or(60, |e| e.switchover_timeout_seconds);
        let text = format!(
            "{}/{}/{}/{}",
            cast.ensemble.uid(),
            self.term,
            self.to.uid,
            cast.now.0
        );
        Switchover {
            id: format!(
                "s-{:08x}",
                crate::revision::fnv64(text.as_bytes()) & 0xffff_ffff
            ),
            from: self.from.name,
            from_uid: self.from.uid,
            to: self.to.name,
            to_uid: self.to.uid,
            term: self.term,
            phase: SwitchPhase::Proposed,
            cause: sake.cause.to_owned(),
            request: sake.request.to_owned(),
            revision: sake.revision.to_owned(),
            epoch: cast.epoch,
            since: cast.now.stamp(),
            deadline: cast.now.plus_seconds(seconds).stamp(),
            tries,
            message: String::new(),
        }
    }

    /// Whether it is what was written down: the same pods, the same term.
    pub(super) fn is(&self, guard: &Guard) -> bool {
        self.from.uid == guard.from_uid && self.to.uid == guard.to_uid && self.term == guard.term
    }

    pub(super) fn warrant(self, errand: &Errand) -> ErrandWarrant {
        ErrandWarrant {
            id: errand.id.clone(),
            pod: self.from,
            act: errand.act.clone(),
        }
    }
}

/// Consent to ask an engine for an errand, confirmed on a fresh view.
#[derive(Debug)]
#[must_use]
pub struct ErrandWarrant {
    id: String,
    pod: Pinned,
    act: EngineAct,
}

impl ErrandWarrant {
    /// Which errand.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whose engine is asked.
    pub fn pod(&self) -> &Pinned {
        &self.pod
    }

    /// What it is to do.
    pub fn act(&self) -> &EngineAct {
        &self.act
    }
}

/// Whether a switchover is written down and not over.
pub(super) fn switchover_is_open(cast: &Cast<'_>) -> bool {
    let stored = cast.ensemble.status.switchover.as_ref();
    stored.is_some_and(|s| s.phase.is_open()) && !crate::mutants::is_off(Rule::NoChangeInASwitch)
}

fn named(cast: &Cast<'_>, members: &[MemberId]) -> String {
    let names: Vec<String> = members
        .iter()
        .map(|m| {
            let name = cast.roster().name(*m);
            match cast.engine().standing(*m).map(|s| &s.duty) {
                Some(Duty::Unknown(why)) => format!("{name} ({why})"),
                _ => name,
            }
        })
        .collect();
    names.join(", ")
}

impl Safety<'_> {
    /// Whether the role of a member lets it be disrupted. What makes an exception is asked last, and each
    /// makes one from its own promise alone.
    pub(super) fn role_allows(&self, who: MemberId, act: &Act) -> Result<(), Refusal> {
        if !self.touches_engine(who, act) {
            return Ok(());
        }
        self.lock_holder_kept(who)?;
        let Err(refused) = self.role_rules(who, act.method()) else {
            return Ok(());
        };
        match refused.predicate {
            Rule::RoleKnown if self.down_has_no_role(who) || self.needs_no_leader(who) => Ok(()),
            Rule::RoleKnown if self.none_is_to_stay(who, act) => Ok(()),
            Rule::PrimaryHandedOver | Rule::PrimaryHasSuccessor if self.is_only(who) => {
                self.runs_alone(who)
            }
            _ => Err(refused),
        }
    }

    fn role_rules(&self, who: MemberId, method: Method) -> Result<(), Refusal> {
        let leader = match self.lead_known() {
            Err(no) if self.on(no.predicate, who) => return Err(no),
            known => known.ok(),
        };
        if leader != Some(who) {
            return Ok(());
        }
        self.leader_may_be_disrupted(who, method)
    }

    fn down_has_no_role(&self, who: MemberId) -> bool {
        self.snap.presence(who).is_down() && self.on(Rule::DownHasNoRole, who)
    }

    fn needs_no_leader(&self, who: MemberId) -> bool {
        self.in_recovery(who) && self.on(Rule::RecoveryNeedsNoLeader, who)
    }

    /// Nobody is to stay, and all that are left say that nobody leads, for long: all of their data is kept
    /// as it is, whoever goes first.
    fn none_is_to_stay(&self, who: MemberId, act: &Act) -> bool {
        let cast = self.snap;
        let none = cast.roster().size() == 0 && *act == Act::Leave;
        let since = cast.memory.leaderless_since;
        let long = since.is_some_and(|since| self.patience(since) <= cast.now);
        none && long && *cast.lead() == Lead::Nobody && self.on(Rule::NoneNeedsNoLeader, who)
    }

    /// Downtime is unavoidable, and asked for.
    fn is_only(&self, who: MemberId) -> bool {
        self.is_asked_for_alone(who) && self.on(Rule::OnlyMemberRestarts, who)
    }

    /// Whether a member is named as the leader, by any that answers.
    pub(super) fn is_named(&self, who: MemberId) -> bool {
        let cohort = self.snap.engine().cohort_of(who);
        cohort.is_some_and(|c| c.named.contains(&who))
    }

    /// Whether it led last, and nobody else may have taken over yet: the lock outlives its holder for a
    /// while, and whoever would name it may be starting.
    fn has_just_led(&self, who: MemberId) -> bool {
        let cast = self.snap;
        let last = cast.ensemble.status.lead.as_ref();
        let led = last.is_some_and(|l| l.member == cast.roster().name(who));
        let seconds = cast.ensemble.spec.engine.as_ref();
        let seconds = seconds.map_or(RECOVER_AFTER_SECONDS, |e| e.recover_after_seconds);
        let since = cast.memory.leaderless_since.unwrap_or(cast.now);
        led && cast.engine().leader().is_none()
            && cast.engine().matter()
            && !self.is_asked_for_alone(who)
            && since.plus_seconds(seconds) > cast.now
    }

    /// One that is named and not known to lead may come back and lead, or is seen by others alone: until
    /// the lock moves, it is as good as a leader. One that is known to lead has rules of its own.
    fn lock_holder_kept(&self, who: MemberId) -> Result<(), Refusal> {
        let named = self.is_named(who) && !self.snap.engine().leads(who);
        let kept = named || self.has_just_led(who);
        if !kept || !self.on(Rule::LockHolderKept, who) {
            return Ok(());
        }
        let name = self.snap.roster().name(who);
        refuse(
            Rule::LockHolderKept,
            Reason::NoLeader,
            format!("{name} holds the leader lock and is not seen to lead"),
            "the lock moves",
        )
    }

    /// Exactly one leader is known, backed by the lock.
    pub(super) fn lead_known(&self) -> Result<MemberId, Refusal> {
        let cast = self.snap;
        match cast.lead() {
            Lead::One { who, .. } => Ok(*who),
            Lead::Contested(who) => refuse(
                Rule::RoleKnown,
                Reason::LeadContested,
                format!("{} claim the lead", named(cast, who)),
                "one leader",
            ),
            Lead::Unknown(who) => refuse(
                Rule::RoleKnown,
                unknown_because(cast, who),
                format!("unknown: {}", named(cast, who)),
                "one leader",
            ),
            Lead::Nobody | Lead::Equals => refuse(
                Rule::RoleKnown,
                Reason::NoLeader,
                "nobody leads",
                "one leader",
            ),
        }
    }

    /// What is wrong with the lead, if anything is.
    pub fn lead_trouble(&self) -> Option<Refusal> {
        // Of one for whom nobody has waived it: what is wrong with the lead is wrong for all others.
        let mut members = self.snap.members();
        let any = members.find(|m| !self.is_waived(Rule::EngineNotPaused, *m));
        let held = self.engine_not_paused(any.unwrap_or_default());
        held.and_then(|()| self.lead_known().map(drop)).err()
    }

    fn leader_may_be_disrupted(&self, who: MemberId, method: Method) -> Result<(), Refusal> {
        let cast = self.snap;
        let as_it_is = cast.ensemble.spec.rollout.primary == PrimaryTurn::Restart;
        let handed_over = method != Method::Restart && !as_it_is;
        if handed_over && !self.on(Rule::PrimaryHandedOver, who) {
            return Ok(());
        }
        if handed_over {
            return refuse(
                Rule::PrimaryHandedOver,
                Reason::NoSuccessor,
                format!("{} leads", cast.roster().name(who)),
                "the lead is handed over first",
            );
        }
        let heirs = cast.roster().wanted().filter(|m| *m != who);
        let mut why = Vec::new();
        for heir in heirs {
            match self.may_succeed(heir) {
                Ok(()) => return Ok(()),
                Err(cause) => why.push(format!("{}: {cause}", cast.roster().name(heir))),
            }
        }
        if !self.on(Rule::PrimaryHasSuccessor, who) {
            return Ok(());
        }
        refuse(
            Rule::PrimaryHasSuccessor,
            Reason::NoSuccessor,
            why.join("; "),
            "one in sync",
        )
    }

    /// Whether a member could take over now; else why not.
    pub fn may_succeed(&self, who: MemberId) -> Result<(), String> {
        let cast = self.snap;
        if self.in_flight.contains(&who) {
            return Err("it is being changed".into());
        }
        if !cast.available(who) {
            return Err(format!("it is {}", cast.presence(who).word()));
        }
        sync::may_succeed(cast, who)
    }

    /// Consent to hand the lead to a member; nobody is disrupted until it has arrived.
    pub fn hand_over(&mut self, to: MemberId) -> Result<HandOver, Refusal> {
        self.view_current()?;
        let from = self.lead_known();
        self.engine_not_paused(to)?;
        let from = from?;
        if self.switching || !self.in_flight.is_empty() {
            return refuse(
                Rule::OneChangeAtATime,
                Reason::SwitchingOver,
                format!("{} in flight", self.in_flight.len()),
                "nothing in flight",
            );
        }
        self.switch_within_budget(from, to)?;
        let heir = self.may_succeed(to);
        if let Err(cause) = heir
            && self.on(Rule::SuccessorSynced, to)
        {
            let name = self.snap.roster().name(to);
            return refuse(
                Rule::SuccessorSynced,
                Reason::NoSuccessor,
                format!("{name}: {cause}"),
                "in sync",
            );
        }
        let (from, to) = (self.identity_known(from)?, self.identity_known(to)?);
        let Lead::One { term, .. } = self.snap.lead() else {
            return refuse(
                Rule::RoleKnown,
                Reason::NoLeader,
                "nobody leads",
                "one leader",
            );
        };
        self.switching = true;
        Ok(HandOver {
            from,
            to,
            term: *term,
        })
    }

    /// The one that hands over is away for a while: nobody else may be on the way back just then. Nobody is
    /// waited for without end.
    fn switch_within_budget(&self, from: MemberId, to: MemberId) -> Result<(), Refusal> {
        let away: Vec<String> = self
            .awaited(from, to)
            .map(|(m, _)| self.snap.roster().name(m))
            .collect();
        let most = self.budget().saturating_sub(1) as usize;
        if away.len() <= most || !self.on(Rule::SwitchWithinBudget, to) {
            return Ok(());
        }
        refuse(
            Rule::WithinBudget,
            Reason::BudgetUsed,
            format!(
                "{} not back yet; the switchover waits {RECOVER_AFTER_SECONDS} s for a member at most",
                away.join(", ")
            ),
            format!("maxUnavailable {}", self.budget()),
        )
    }

    /// Other members that are expected back, and until when.
    fn awaited(&self, from: MemberId, to: MemberId) -> impl Iterator<Item = (MemberId, Time)> {
        let others = self.snap.roster().wanted();
        let others = others.filter(move |m| *m != from && *m != to);
        others.filter_map(|m| {
            let until = self.expected_until(m)?;
            let bounded = self.on(Rule::SwitchWaitIsBounded, m);
            (until > self.snap.now || !bounded).then_some((m, until))
        })
    }

    /// When a switchover to a member may go ahead by time alone, though others are still away.
    pub fn switch_waits_until(&self, to: MemberId) -> Option<Time> {
        let from = self.snap.engine().leader()?;
        let awaited = self.awaited(from, to).map(|(_, until)| until);
        awaited.filter(|until| *until > self.snap.now).min()
    }

    /// The rules about roles with their values now.
    pub(super) fn role_predicates(&self) -> Vec<Predicate> {
        let cast = self.snap;
        // Where nobody is, nobody leads, and that is as it should be.
        let anybody = cast.roster().size() > 0 || cast.members().next().is_some();
        if !cast.engine().matter() || !anybody {
            return Vec::new();
        }
        let row = |rule: Rule, holds: bool, observed: String, limit: &str| Predicate {
            name: rule.to_string(),
            holds,
            observed,
            limit: limit.into(),
        };
        let (known, observed) = match cast.lead() {
            Lead::One { who, term } => (
                true,
                format!("{} leads at term {term}", cast.roster().name(*who)),
            ),
            Lead::Contested(who) => (false, format!("{} claim the lead", named(cast, who))),
            Lead::Unknown(who) => (false, format!("unknown: {}", named(cast, who))),
            Lead::Nobody | Lead::Equals => (false, "nobody leads".into()),
        };
        let heirs: Vec<String> = cast
            .heirs()
            .into_iter()
            .filter(|m| self.may_succeed(*m).is_ok())
            .map(|m| cast.roster().name(m))
            .collect();
        let single = cast.roster().size() == 1;
        let heir = match (heirs.is_empty(), single) {
            (false, _) => heirs.join(", "),
            (true, true) => "a single member has none".into(),
            (true, false) => "none".into(),
        };
        vec![
            row(Rule::RoleKnown, known, observed, "one leader"),
            row(
                Rule::PrimaryHasSuccessor,
                !heirs.is_empty(),
                heir,
                "one in sync",
            ),
        ]
    }
}

/// What does not pass by itself is named first: credentials that are refused, a mode that is not handled.
fn unknown_because(cast: &Cast<'_>, who: &[MemberId]) -> Reason {
    let reasons = who
        .iter()
        .filter_map(|m| match cast.engine().standing(*m).map(|s| &s.duty) {
            Some(Duty::Unknown(why)) => Some(why.reason()),
            _ => None,
        });
    let named = reasons.filter(|reason| *reason != Reason::RoleUnknown);
    named
        .min_by_key(|r| r.page().wait)
        .unwrap_or(Reason::RoleUnknown)
}
