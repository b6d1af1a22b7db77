//! Rules about roles: whom a disruption would hurt, and who may take over.

use super::{RECOVER_AFTER_SECONDS, Refusal, Safety, refuse, sync};
use crate::cast::Cast;
use crate::engine::{Duty, EngineAct, Lead, WhyUnknown};
use crate::errand::{Errand, Guard};
use crate::method;
use crate::presence::Presence;
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
    /// Whether the role of a member lets it be disrupted. Down is free of roles.
    pub(super) fn role_allows(&self, who: MemberId, act: &Act) -> Result<(), Refusal> {
        let method = act.method();
        let cast = self.snap;
        if !cast.engine().matter() || cast.presence(who).is_down() {
            return Ok(());
        }
        if method == Method::InPlace && !method::touches_engine(cast, who, act.target()) {
            return Ok(());
        }
        if self.in_recovery() {
            return Ok(());
        }
        let leader = match self.lead_known() {
            Err(no)
                if no.predicate == Rule::RoleKnown && crate::mutants::is_off(Rule::RoleKnown) =>
            {
                None
            }
            known => Some(known?),
        };
        if leader != Some(who) || crate::mutants::is_off(Rule::PrimaryHandedOver) {
            return self.not_on_its_way(who);
        }
        self.leader_may_be_disrupted(who, method)
    }

    /// An engine that stops or starts may be at work on its data (a rewind, a copy): it is let finish,
    /// unless that takes for ever.
    fn not_on_its_way(&self, who: MemberId) -> Result<(), Refusal> {
        let standing = self.snap.engine().standing(who);
        let Some(work) = standing.and_then(|s| s.at_work.as_ref()) else {
            return Ok(());
        };
        if self.recovering(who) || crate::mutants::is_off(Rule::EngineSettled) {
            return Ok(());
        }
        let name = self.snap.roster().name(who);
        refuse(
            Rule::EngineSettled,
            Reason::RoleUnknown,
            format!("{name}: {work}"),
            "it leads or follows",
        )
    }

    /// Exactly one leader is known, backed by the lock, and its engine is not paused.
    fn lead_known(&self) -> Result<MemberId, Refusal> {
        let cast = self.snap;
        if cast.engine().held && !crate::mutants::is_off(Rule::EngineNotPaused) {
            return refuse(Rule::EngineNotPaused, Reason::EnginePaused, "paused", "");
        }
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
        self.lead_known().err()
    }

    fn leader_may_be_disrupted(&self, who: MemberId, method: Method) -> Result<(), Refusal> {
        let cast = self.snap;
        if cast.roster().is_only(who) {
            // Downtime is unavoidable, and asked for.
            return Ok(());
        }
        let as_it_is = cast.ensemble.spec.rollout.primary == PrimaryTurn::Restart;
        if method != Method::Restart && !as_it_is {
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
        if crate::mutants::is_off(Rule::PrimaryHasSuccessor) {
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
        let from = self.lead_known()?;
        if self.switching || !self.in_flight.is_empty() {
            return refuse(
                Rule::OneChangeAtATime,
                Reason::SwitchingOver,
                format!("{} in flight", self.in_flight.len()),
                "nothing in flight",
            );
        }
        // The one that hands over is away for a while: nobody else may be on the way just then.
        let away: Vec<String> = self
            .snap
            .roster()
            .wanted()
            .filter(|m| *m != from && *m != to && self.is_on_its_way(*m))
            .map(|m| self.snap.roster().name(m))
            .collect();
        let most = self.budget().saturating_sub(1) as usize;
        if away.len() > most && !crate::mutants::is_off(Rule::SwitchWithinBudget) {
            return refuse(
                Rule::WithinBudget,
                Reason::BudgetUsed,
                format!("{} not back yet", away.join(", ")),
                format!("maxUnavailable {}", self.budget()),
            );
        }
        let heir = self.may_succeed(to);
        if let Err(cause) = heir
            && !crate::mutants::is_off(Rule::SuccessorSynced)
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

    /// Whether a member is expected back soon: not fit, not proven down, and not so for long.
    fn is_on_its_way(&self, who: MemberId) -> bool {
        let cast = self.snap;
        let presence = cast.presence(who);
        if cast.fit(who) || presence.is_down() || presence == Presence::Unreachable {
            return false;
        }
        if presence == Presence::Serving {
            let run = cast
                .our_pod(who)
                .and_then(|p| cast.memory.pod(&p.meta.pin.uid).run.as_ref());
            let since = run.map(|r| r.since).max(cast.memory.led_since);
            return since.is_none_or(|s| s.plus_seconds(RECOVER_AFTER_SECONDS) > cast.now);
        }
        self.recovery_at(who).is_none_or(|at| at > cast.now)
    }

    /// Nobody has led and nobody was Ready for long: members may be recreated on their own claims,
    /// so that a corrected template gets through.
    pub(super) fn in_recovery(&self) -> bool {
        self.in_flight.is_empty() && self.in_recovery_at().is_some_and(|at| at <= self.snap.now)
    }

    /// When [`Safety::in_recovery`] will hold by time alone.
    pub fn in_recovery_at(&self) -> Option<Time> {
        let cast = self.snap;
        let engine = cast.ensemble.spec.engine.as_ref()?;
        let serving = cast
            .members()
            .any(|m| cast.presence(m) == Presence::Serving);
        let led = matches!(cast.lead(), Lead::One { .. } | Lead::Contested(_));
        if serving || led {
            return None;
        }
        let since = cast.memory.leaderless_since?;
        Some(since.plus_seconds(engine.recover_after_seconds))
    }

    /// The rules about roles with their values now.
    pub(super) fn role_predicates(&self) -> Vec<Predicate> {
        let cast = self.snap;
        if !cast.engine().matter() {
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
        let leader = cast.engine().leader();
        let heirs: Vec<String> = cast
            .roster()
            .wanted()
            .filter(|m| Some(*m) != leader && self.may_succeed(*m).is_ok())
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

/// Credentials that are refused do not pass by themselves, so they are named first.
fn unknown_because(cast: &Cast<'_>, who: &[MemberId]) -> Reason {
    let refused = who.iter().any(|m| {
        let duty = cast.engine().standing(*m).map(|s| &s.duty);
        matches!(duty, Some(Duty::Unknown(WhyUnknown::Unauthorised(_))))
    });
    if refused {
        Reason::EngineUnauthorised
    } else {
        Reason::RoleUnknown
    }
}
