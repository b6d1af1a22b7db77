//! What only a person overrides: a pause of the rollout or of the engine, an approval that is awaited, a
//! member at work on its data. Asked of every act that it concerns, whatever is known of the member's pod
//! and however long it has been so.

use super::{Refusal, Safety, refuse};
use crate::engine::{Duty, Standing, WhyUnknown};
use crate::method;
use crate::presence::{Presence, ProofOfDown};
use crate::revision::Revisions;
use crate::roster::MemberId;
use crate::wish::Act;
use ensemble_api::spec::PrimaryTurn;
use ensemble_api::status::Method;
use ensemble_api::{Reason, Rule};

impl Safety<'_> {
    /// What people hold is left to them.
    pub(super) fn left_to_people(&self, who: MemberId, act: &Act) -> Result<(), Refusal> {
        self.rollout_not_paused(who, act)?;
        if !self.touches_engine(who, act) {
            return Ok(());
        }
        match self.engine_not_paused(who) {
            Err(_) if self.ended_makes_way(who, act) => {}
            held => held?,
        }
        if is_of_the_rollout(act) {
            self.approved(who)?;
        }
        self.engine_settled(who)
    }

    /// Whether an act reaches the engine of a member: a new exporter image does not.
    pub(super) fn touches_engine(&self, who: MemberId, act: &Act) -> bool {
        let cast = self.snap;
        let all_of_it = act.method() != Method::InPlace;
        cast.engine().matter() && (all_of_it || method::touches_engine(cast, who, act.target()))
    }

    /// What a user paused or suspended is not carried out, also if it was written down before.
    fn rollout_not_paused(&self, who: MemberId, act: &Act) -> Result<(), Refusal> {
        let spec = &self.snap.ensemble.spec;
        let waits = is_of_the_rollout(act) || matches!(act, Act::RestartEngine { .. });
        let field = match (spec.suspend, spec.rollout.paused && waits) {
            (false, false) => return Ok(()),
            (true, _) => "spec.suspend",
            (false, true) => "spec.rollout.paused",
        };
        if !self.on(Rule::RolloutNotPaused, who) {
            return Ok(());
        }
        refuse(
            Rule::RolloutNotPaused,
            Reason::Paused,
            format!("{field} is true"),
            "false",
        )
    }

    /// While people hold the engine's high availability, its members are theirs.
    pub(super) fn engine_not_paused(&self, who: MemberId) -> Result<(), Refusal> {
        let held = self.snap.engine().held || self.pause_remembered(who);
        if !held || !self.on(Rule::EngineNotPaused, who) {
            return Ok(());
        }
        refuse(
            Rule::EngineNotPaused,
            Reason::EnginePaused,
            "paused",
            "not paused",
        )
    }

    /// A pause was seen, and nobody has answered since who would know that it is over. The stored report
    /// tells it, so that it outlives us; if that is lost, whoever answers first tells it again.
    fn pause_remembered(&self, who: MemberId) -> bool {
        let cast = self.snap;
        if !cast.abilities.can_answer || !self.on(Rule::PauseRemembered, who) {
            return false;
        }
        let answered = cast.engine().standings.values().any(has_answered);
        let blockers = cast.ensemble.status.plan.steps.iter();
        let mut blockers = blockers.filter_map(|s| s.blocker.as_ref());
        !answered && blockers.any(|b| b.reason == Reason::EnginePaused)
    }

    /// Nothing runs in a pod that has ended for good, or ever will.
    fn ended_makes_way(&self, who: MemberId, act: &Act) -> bool {
        let ended = self.snap.presence(who) == Presence::Down(ProofOfDown::Ended);
        ended && *act == Act::Clear && self.on(Rule::EndedMakesWay, who)
    }

    /// A supervised rollout waits for approval of its revision before it touches the primary. So does the
    /// last member that is left: by then the engine may have moved the lead off it, and an approval that
    /// nobody gave is not made up for by a crash. It takes no status to know that.
    pub fn approved(&self, who: MemberId) -> Result<(), Refusal> {
        let cast = self.snap;
        let supervised = cast.ensemble.spec.rollout.primary == PrimaryTurn::Supervised;
        if !supervised || !self.on(Rule::Approved, who) {
            return Ok(());
        }
        let revisions = Revisions::of(cast);
        let outdated = |m: &MemberId| {
            let pod = cast.our_pod(*m).filter(|p| !p.meta.deleting);
            pod.is_some_and(|p| !revisions.is_current(p.revision()))
        };
        let (leads, last) = (
            self.counts_as_primary(who),
            !cast.wanted().any(|m| m != who && outdated(&m)),
        );
        if !outdated(&who) || !leads && !last || is_approved(self, &revisions.target) {
            return Ok(());
        }
        let name = cast.roster().name(who);
        let waits = match (leads, last) {
            (true, true) => {
                format!("all replicas are updated; {name} leads and waits for approval")
            }
            (true, false) => format!("{name} leads and waits for approval"),
            (false, _) => format!("all other members are updated; {name} waits for approval"),
        };
        let limit = format!("{} is approved", revisions.target);
        refuse(Rule::Approved, Reason::AwaitingApproval, waits, limit)
    }

    /// Whether a member leads, or led last and nobody else is known to since.
    fn counts_as_primary(&self, who: MemberId) -> bool {
        let cast = self.snap;
        match cast.engine().leader() {
            Some(leader) => leader == who,
            None => {
                let last = cast.ensemble.status.lead.as_ref();
                let name = cast.roster().name(who);
                last.is_some_and(|l| l.member == name) || self.is_named(who)
            }
        }
    }

    /// An engine that stops or starts may be at work on its data (a rewind, a copy): it is let finish. One
    /// that has failed says so, and is not at work.
    fn engine_settled(&self, who: MemberId) -> Result<(), Refusal> {
        let standing = self.snap.engine().standing(who);
        let Some(work) = standing.and_then(|s| s.at_work.as_ref()) else {
            return Ok(());
        };
        if !self.on(Rule::EngineSettled, who) {
            return Ok(());
        }
        let name = self.snap.roster().name(who);
        refuse(
            Rule::EngineSettled,
            Reason::EngineAtWork,
            format!("{name}: {work}"),
            "it leads or follows",
        )
    }
}

/// Whether an act brings a new template.
fn is_of_the_rollout(act: &Act) -> bool {
    match act {
        Act::Recreate | Act::Relabel { .. } | Act::Resize { .. } | Act::InPlace { .. } => true,
        Act::Clear | Act::Leave | Act::RestartEngine { .. } => false,
    }
}

/// Whether somebody approved of that revision.
fn is_approved(safety: &Safety<'_>, revision: &str) -> bool {
    let mut requests = safety.snap.requests.values().filter(|r| !r.finished);
    requests.any(|r| {
        let approve = r.spec.approve.as_ref();
        approve.is_some_and(|a| a.revision == revision)
    })
}

/// Whether what is known of a member is its own word, however little it says.
fn has_answered(standing: &Standing) -> bool {
    !matches!(
        standing.duty,
        Duty::Unknown(
            WhyUnknown::NotAsked
                | WhyUnknown::Stale
                | WhyUnknown::Unreachable(_)
                | WhyUnknown::Unauthorised(_)
                | WhyUnknown::Stranger(_)
        )
    )
}
