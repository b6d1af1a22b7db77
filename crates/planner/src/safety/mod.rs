//! The only room with rules about losing something.
//!
//! [`Safety`] is a ledger, not a value computed once: after one grant, the next is judged in the
//! world where the first was used. It grants [`Permit`]s; once the intent is stored and the world
//! was looked at afresh, [`confirm`] turns it into a [`Warrant`], and only a warrant can be sent.
//! None of the three can be made, copied or read from a file anywhere else.

mod alone;
mod confirm;
mod copies;
mod evictions;
mod first;
mod overtaken;
mod people;
mod quorum;
mod recovery;
mod removal;
mod roles;
mod sync;
mod turns;

use confirm::is_live;
pub use confirm::{confirm, confirm_errand, intent_is_live};
pub(crate) use first::{Starts, may_start};
pub use overtaken::{TAKE_OVER_AFTER_SECONDS, superseded, takes_over_at};
pub(crate) use roles::Sake;
pub use roles::{ErrandWarrant, HandOver};
pub(crate) use sync::{in_sync, is_apart};
pub(crate) use turns::in_second_turn;

use crate::cast::Cast;
use crate::claims::{self, ClaimGroup};
use crate::presence::Presence;
use crate::roster::MemberId;
use crate::snapshot::Snapshot;
use crate::view::{ClaimView, Pinned};
use crate::waivers::Waivers;
use crate::wish::{Act, Wish};
use ensemble_api::reason::Wait;
use ensemble_api::status::{Intent, LetGo, Method};
use ensemble_api::{Predicate, Reason, Rule};
use std::collections::BTreeSet;

/// After this long without becoming Ready, a running member that a newer revision waits for may be
/// replaced although the budget is used up, one at a time.
pub const RECOVER_AFTER_SECONDS: u32 = 60;

/// Planned consent to disrupt one member.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    member: String,
    pod: Pinned,
    method: Method,
    target: String,
    /// The rules that would refuse it and that a person has waived.
    waived: Vec<String>,
}

impl Permit {
    /// As it is written down before it is used.
    pub fn intent(&self, snap: &Snapshot) -> Intent {
        Intent {
            member: self.member.clone(),
            uid: self.pod.uid.clone(),
            method: self.method,
            epoch: snap.epoch,
            since: snap.now.stamp(),
            target: self.target.clone(),
            waived: self.waived.clone(),
        }
    }
}

/// How a warrant is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Through the eviction API, whose arithmetic also counts drains and autoscalers.
    Evict,
    /// Nothing of it runs, or it must go whatever the budget says: a plain conditional delete.
    Delete,
    /// Its pod gets new images in one conditional write.
    InPlace,
    /// Its engine is asked to restart.
    Restart,
}

/// Consent to disrupt one member, confirmed on a fresh view after the intent was stored.
#[derive(Debug)]
#[must_use]
pub struct Warrant {
    pod: Pinned,
    how: How,
    target: String,
}

impl Warrant {
    /// The pod, at the version that was just read.
    pub fn pod(&self) -> &Pinned {
        &self.pod
    }

    /// How it is carried out.
    pub fn how(&self) -> How {
        self.how
    }

    /// The revision that it brings, for what happens in the same pod.
    pub fn target(&self) -> &str {
        &self.target
    }
}

/// Consent to let one claim go.
#[derive(Debug)]
#[must_use]
pub struct Letting {
    claim: Pinned,
}

impl Letting {
    /// The claim.
    pub fn claim(&self) -> &Pinned {
        &self.claim
    }
}

/// A rule that says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule.
    pub predicate: Rule,
    /// As one of the known reasons.
    pub reason: Reason,
    /// What was seen.
    pub observed: String,
    /// What it is held against.
    pub limit: String,
}

impl Refusal {
    /// The promise that is not kept: the rule itself, or the one that it guards.
    pub fn promise(&self) -> Rule {
        self.predicate.page().guards.unwrap_or(self.predicate)
    }

    /// The rule that a person may waive to lift it. What passes by itself is waited for, unless it has
    /// lasted too long for that, or nobody knows how long it takes.
    pub(crate) fn way_out(&self, lasts: bool) -> Option<Rule> {
        let wait = self.reason.page().wait;
        let unsure = matches!(self.reason, Reason::EngineAtWork | Reason::LastInSync);
        let held = matches!(wait, Wait::Stalls | Wait::Held) || unsure;
        Some(self.promise()).filter(|rule| rule.page().waivable && (held || lasts))
    }
}

fn refuse<T>(
    predicate: Rule,
    reason: Reason,
    observed: impl Into<String>,
    limit: impl Into<String>,
) -> Result<T, Refusal> {
    Err(Refusal {
        predicate,
        reason,
        observed: observed.into(),
        limit: limit.into(),
    })
}

/// The safety ledger of one pass.
#[derive(Debug)]
pub struct Safety<'s> {
    snap: &'s Cast<'s>,
    unavailable: BTreeSet<MemberId>,
    in_flight: BTreeSet<MemberId>,
    leaving_extras: u32,
    /// The lead is being handed over, or was granted to be.
    switching: bool,
    /// Waivers that count in place of all that are in force.
    counting: Option<Waivers>,
}

impl<'s> Safety<'s> {
    /// Looks at the world as it is, with every stored intent counted as used.
    pub fn assess(snap: &'s Cast<'s>) -> Self {
        Self::assess_without(snap, None)
    }

    fn assess_without(snap: &'s Cast<'s>, own: Option<&Intent>) -> Self {
        let stored = snap
            .ensemble
            .status
            .in_flight
            .iter()
            .filter(|i| Some(*i) != own);
        let counts = !crate::mutants::is_off(Rule::BudgetCountsIntents);
        let live = stored.filter(|i| counts && is_live(snap, i, snap.since()));
        let in_flight: BTreeSet<MemberId> = live
            .filter_map(|i| snap.roster().named(&i.member))
            .collect();
        let unavailable = snap
            .wanted()
            .filter(|m| !snap.fit(*m) || in_flight.contains(m));
        let leaving = snap.surplus().filter(|m| {
            let presence = snap.presence(*m);
            // Down is free of budget, also on its way out.
            presence == Presence::Leaving || in_flight.contains(m) && !presence.is_down()
        });
        Self {
            snap,
            unavailable: unavailable.collect(),
            leaving_extras: u32::try_from(leaving.count()).unwrap_or(u32::MAX),
            in_flight,
            switching: roles::switchover_is_open(snap),
            counting: None,
        }
    }

    fn budget(&self) -> u32 {
        self.snap.ensemble.spec.rollout.max_unavailable
    }

    fn unavailable_count(&self) -> u32 {
        u32::try_from(self.unavailable.len()).unwrap_or(u32::MAX)
    }

    /// How many more members may be lost now before more than the budget are unavailable. The last one
    /// never may.
    pub fn tolerance(&self) -> u32 {
        let others = self.snap.roster().size().saturating_sub(1);
        let most = self.budget().min(others);
        most.saturating_sub(self.unavailable_count())
    }

    /// Consent to disrupt a member, which the next question is then judged with.
    pub fn grant(&mut self, wish: &Wish) -> Result<Permit, Refusal> {
        let who = wish.who;
        let pod = self.judge(who, &wish.act)?.0;
        let waived = self.waived_for(who, &wish.act);
        let member = self.snap.roster().name(who);
        if !crate::mutants::is_off(Rule::BudgetCountsGrants) {
            if self.snap.roster().wants(who) {
                self.unavailable.insert(who);
            } else if !self.snap.presence(who).is_down() {
                self.leaving_extras += 1;
            }
            self.in_flight.insert(who);
        }
        Ok(Permit {
            member,
            pod,
            method: wish.act.method(),
            target: wish.act.target().to_owned(),
            waived,
        })
    }

    /// The fewest of the waivers in force without which a rule would refuse it.
    fn waived_for(&mut self, who: MemberId, act: &Act) -> Vec<String> {
        let all = self.snap.waivers();
        let mut needed = BTreeSet::new();
        // Every turn adds a rule or ends.
        while !all.is_empty() {
            self.counting = Some(all.only(who, &needed));
            let Err(refused) = self.judge(who, act) else {
                break;
            };
            if !needed.insert(refused.promise()) {
                break;
            }
        }
        self.counting = None;
        let used = needed.iter().filter(|rule| all.suspend(**rule, who));
        used.map(|rule| rule.to_string()).collect()
    }

    /// All rules, in order; the pod and how it may be disrupted if all of them hold. First whose it is
    /// and what is under way; then what only a person overrides; then roles, votes and the budget. What
    /// makes an exception from a rule is asked after it: there is no way past a rule that comes before.
    fn judge(&self, who: MemberId, act: &Act) -> Result<(Pinned, How), Refusal> {
        let method = act.method();
        let pod = self.identity_known(who)?;
        if self.on(Rule::ViewCurrent, who) {
            self.view_current()?;
        }
        if self.on(Rule::ClaimsIntact, who) {
            self.claims_intact(who, method)?;
        }
        if self.on(Rule::OneChangeAtATime, who) {
            self.one_change_at_a_time(who)?;
        }
        self.left_to_people(who, act)?;
        self.role_allows(who, act)?;
        self.copies_left(who, act)?;
        self.in_turn(who, act)?;
        self.quorum_holds(who, act)?;
        let how = self.within_budget(who, method)?;
        // Whoever does not come up for long gets a new pod also for what was to restart nothing: then all
        // of it goes, and is judged so.
        if how == How::Delete && method == Method::InPlace {
            return self.judge(who, &Act::Recreate);
        }
        Ok((pod, how))
    }

    /// Whether a rule is asked about a member: the one place where that is looked up.
    fn on(&self, rule: Rule, who: MemberId) -> bool {
        let waivers = self.counting.as_ref().unwrap_or(self.snap.waivers());
        !crate::mutants::is_off(rule) && !waivers.suspend(rule, who)
    }

    /// Whether a person has suspended a rule for a member.
    pub fn is_waived(&self, rule: Rule, who: MemberId) -> bool {
        self.snap.waivers().suspend(rule, who)
    }

    fn identity_known(&self, who: MemberId) -> Result<Pinned, Refusal> {
        match self.snap.our_pod(who) {
            Some(pod) if !pod.meta.deleting || crate::mutants::is_off(Rule::IdentityKnown) => {
                Ok(pod.meta.pin.clone())
            }
            Some(_) => refuse(
                Rule::IdentityKnown,
                Reason::Terminating,
                "already ending",
                "",
            ),
            None => refuse(Rule::IdentityKnown, Reason::NameTaken, "no pod of ours", ""),
        }
    }

    fn view_current(&self) -> Result<(), Refusal> {
        if self.snap.behind.is_empty() {
            return Ok(());
        }
        refuse(
            Rule::ViewCurrent,
            Reason::CacheBehind,
            format!("{:?}", self.snap.behind),
            "",
        )
    }

    /// A running pod may be the last that holds a claim which is being deleted, and a member whose
    /// claims are not all there would not come back.
    fn claims_intact(&self, who: MemberId, method: Method) -> Result<(), Refusal> {
        let group = self.snap.group(self.snap.ledger(), who);
        match (group, method) {
            (ClaimGroup::Ending { claim }, _) => refuse(
                Rule::ClaimsIntact,
                Reason::ClaimEnding,
                format!("{claim} is being deleted"),
                "",
            ),
            (_, Method::Remove) | (ClaimGroup::Complete, _) => Ok(()),
            (ClaimGroup::Incomplete { missing }, _) | (ClaimGroup::Creating { missing }, _) => {
                let missing = format!("missing: {}", missing.join(", "));
                refuse(Rule::ClaimsIntact, Reason::ClaimMissing, missing, "")
            }
            (ClaimGroup::Replaced { claim, was, is }, _) => refuse(
                Rule::ClaimsIntact,
                Reason::ClaimReplaced,
                format!("{claim} is {is}, and was {was}"),
                "",
            ),
            (ClaimGroup::Lost { claim }, _) => refuse(
                Rule::ClaimsIntact,
                Reason::ClaimLost,
                format!("{claim} is lost"),
                "",
            ),
            // A pod of a former life has to go before the new one can begin.
            (ClaimGroup::Taken { .. }, _) if self.former_life(who) => Ok(()),
            (ClaimGroup::Taken { claim }, _) => refuse(
                Rule::ClaimsIntact,
                Reason::NameTaken,
                format!("{claim} is not ours"),
                "",
            ),
        }
    }

    fn former_life(&self, who: MemberId) -> bool {
        let life = self.snap.ledger().incarnation(who);
        let pod = self.snap.our_pod(who);
        pod.is_some_and(|p| p.meta.incarnation != Some(life))
    }

    fn one_change_at_a_time(&self, who: MemberId) -> Result<(), Refusal> {
        if self.in_flight.contains(&who) {
            return refuse(
                Rule::OneChangeAtATime,
                Reason::Terminating,
                "already in flight",
                "",
            );
        }
        if self.switching {
            return refuse(
                Rule::OneChangeAtATime,
                Reason::SwitchingOver,
                "the lead is being handed over",
                "",
            );
        }
        let foreign = self.snap.ensemble.status.in_flight.iter();
        let mut foreign = foreign
            .filter(|i| i.epoch != self.snap.epoch && is_live(self.snap, i, self.snap.since()));
        match foreign.next() {
            None => Ok(()),
            Some(intent) => refuse(
                Rule::OneChangeAtATime,
                Reason::ForeignIntent,
                format!("{} by epoch {}", intent.member, intent.epoch),
                format!("epoch {}", self.snap.epoch),
            ),
        }
    }

    fn within_budget(&self, who: MemberId, method: Method) -> Result<How, Refusal> {
        let presence = self.snap.presence(who);
        if method == Method::Clear && !presence.is_down() && self.on(Rule::ProvenDown, who) {
            return refuse(Rule::ProvenDown, Reason::NotReady, presence.word(), "Down");
        }
        let refused = match self.budget_allows(who, method) {
            Err(refused) if self.on(Rule::WithinBudget, who) => refused,
            _ => return Ok(self.how(who, method)),
        };
        if presence.is_down() && self.on(Rule::DownCostsNoBudget, who) {
            return Ok(How::Delete);
        }
        if self.recovering(who) && self.on(Rule::RecoveryExceedsBudget, who) {
            return Ok(How::Delete);
        }
        Err(refused)
    }

    fn budget_allows(&self, who: MemberId, method: Method) -> Result<(), Refusal> {
        let removed = u32::from(method == Method::Remove);
        let extras = self.leaving_extras + removed;
        let counted = self.unavailable.contains(&who) || method == Method::Remove;
        let used = self.unavailable_count() + u32::from(!counted);
        let most = self.budget();
        if used <= most && extras <= most {
            return Ok(());
        }
        let others = self.unavailable.iter().map(|m| self.snap.roster().name(*m));
        let others: Vec<String> = others.collect();
        refuse(
            Rule::WithinBudget,
            Reason::BudgetUsed,
            format!("{} unavailable: {}", others.len(), others.join(", ")),
            format!("maxUnavailable {}", self.budget()),
        )
    }

    fn how(&self, who: MemberId, method: Method) -> How {
        if self.snap.presence(who).is_down() {
            return How::Delete;
        }
        match method {
            Method::InPlace => How::InPlace,
            Method::Restart => How::Restart,
            // Our own budget keeps the primary from being evicted; this was asked for.
            _ if self.snap.engine().leads(who) => How::Delete,
            _ if self.evictable_at_any_version(who) => How::Delete,
            // So does it whoever a person lets go beyond it.
            _ if self.goes_by_leave(who) => How::Delete,
            Method::Recreate | Method::Clear | Method::Remove => How::Evict,
        }
    }

    /// Whether a person has waived something for a member, and no budget but ours has a say.
    fn goes_by_leave(&self, who: MemberId) -> bool {
        self.snap.waivers().concern(who) && !self.is_in_anothers_budget(who)
    }

    /// Consent to delete a claim that was written down as let go: the one that is meant, and used by
    /// no pod of its member.
    pub fn let_go(&self, entry: &LetGo) -> Result<Letting, Refusal> {
        let Some(claim) = self.snap.claims.get(&entry.claim) else {
            return refuse(Rule::IdentityKnown, Reason::Deleting, "already gone", "");
        };
        let another = claim.meta.pin.uid != entry.uid && !crate::mutants::is_off(Rule::LetGoByUid);
        if another || claim.meta.deleting {
            return refuse(
                Rule::IdentityKnown,
                Reason::Deleting,
                "another one, or already going",
                "",
            );
        }
        let in_use = self.is_in_use(claim);
        let rule = !crate::mutants::is_off(Rule::ClaimUnused);
        if in_use && rule && !self.snap.ensemble.meta.deleting {
            return refuse(
                Rule::ClaimUnused,
                Reason::Terminating,
                "a pod still uses it",
                "",
            );
        }
        Ok(Letting {
            claim: claim.meta.pin.clone(),
        })
    }

    /// Whether a member whose claim this is, by its labels or by its name, has a pod.
    fn is_in_use(&self, claim: &ClaimView) -> bool {
        let (cast, roster) = (self.snap, self.snap.roster());
        let labelled = roster.labelled(&claim.meta.group, claim.meta.ordinal);
        let named = |m: MemberId| {
            let mut claims = cast.ensemble.spec.claims.iter();
            claims.any(|c| roster.claim(&c.name, m) == claim.meta.pin.name)
        };
        labelled.is_some_and(|m| cast.our_pod(m).is_some()) || cast.members().any(named)
    }

    /// Every rule with its value now, also those that hold.
    pub fn predicates(&self) -> Vec<Predicate> {
        let snap = self.snap;
        let incomplete: Vec<String> = snap
            .roster()
            .wanted()
            .filter(|m| {
                let group = snap.group(snap.ledger(), *m);
                !matches!(group, ClaimGroup::Complete | ClaimGroup::Creating { .. })
            })
            .map(|m| snap.roster().name(m))
            .collect();
        let data_missing = claims::data_missing(snap, self.snap.ledger());
        let row = |rule: Rule, holds: bool, observed: String, limit: String| Predicate {
            name: rule.to_string(),
            holds,
            observed,
            limit,
        };
        let used = self.unavailable_count();
        let mut rows = vec![
            row(
                Rule::WithinBudget,
                used <= self.budget(),
                format!("{used} unavailable"),
                format!("maxUnavailable {}", self.budget()),
            ),
            row(
                Rule::ClaimsIntact,
                incomplete.is_empty(),
                if incomplete.is_empty() {
                    "all complete".into()
                } else {
                    incomplete.join(", ")
                },
                String::new(),
            ),
            row(
                Rule::DataPresent,
                !data_missing,
                if data_missing {
                    "no claim is left".into()
                } else {
                    "yes".into()
                },
                String::new(),
            ),
            row(
                Rule::OneChangeAtATime,
                self.in_flight.len() <= self.budget() as usize,
                format!("{} in flight", self.in_flight.len()),
                format!("maxUnavailable {}", self.budget()),
            ),
            // Without nodes nothing is ever proven down by its node or kubelet.
            row(
                Rule::NodesKnown,
                snap.nodes.is_some(),
                if snap.nodes.is_some() {
                    "yes"
                } else {
                    "no right to read nodes"
                }
                .into(),
                String::new(),
            ),
        ];
        rows.extend(self.role_predicates());
        rows.extend(self.quorum_predicates());
        rows
    }
}
