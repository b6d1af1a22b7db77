//! Safety rules that a person has suspended, each for one member and a while.
//!
//! A waiver counts only if this controller has accepted it, written that down on the request and read it back;
//! it ends by whichever clock is first. So whatever is lost or goes wrong with a clock may shorten a waiver
//! and never lengthens one: a new controller has another epoch and ends those of its predecessor, a request
//! that nobody looked at for long is over when it is found, and a clock that jumps ahead ends it early.

use crate::roster::{MemberId, Roster};
use crate::snapshot::Snapshot;
use crate::time::Time;
use crate::view::RequestView;
use ensemble_api::report::{WAIVERS_MAX, Waiver};
use ensemble_api::request::{AcceptedWaiver, Waive};
use ensemble_api::{Rule, request};
use std::collections::BTreeSet;

/// The waivers that are in force.
#[derive(Debug, Default)]
pub struct Waivers {
    in_force: BTreeSet<(Rule, MemberId)>,
    told: Vec<Waiver>,
}

impl Waivers {
    /// As the requests have it.
    pub fn of(snap: &Snapshot, roster: &Roster) -> Self {
        let mut waivers = Self::default();
        for request in snap.requests.values() {
            let Some((waive, accepted)) = accepted(snap, request) else {
                continue;
            };
            let Ok((rule, who)) = valid(snap, roster, request, waive) else {
                continue;
            };
            if ends_at(snap, request, waive, accepted) <= snap.now {
                continue;
            }
            waivers.in_force.insert((rule, who));
            waivers.told.push(Waiver {
                rule: rule.to_string(),
                member: waive.member.clone(),
                until: accepted.until.clone(),
                request: request.meta.pin.name.clone(),
                reason: request.spec.reason.clone().unwrap_or_default(),
            });
        }
        waivers
    }

    /// Whether a rule is suspended for a member: by itself, or with the promise that it guards.
    pub fn suspend(&self, rule: Rule, who: MemberId) -> bool {
        let page = rule.page();
        let promise = page.guards.unwrap_or(rule);
        if page.exempts {
            // It lets something happen; that its promise is suspended takes nothing away from it.
            return false;
        }
        if crate::mutants::is_off(Rule::WaivedForOneMember) {
            return self.in_force.iter().any(|(waived, _)| *waived == promise);
        }
        self.in_force.contains(&(promise, who))
    }

    /// Only these rules of a member.
    pub fn only(&self, who: MemberId, rules: &BTreeSet<Rule>) -> Self {
        let in_force = self.in_force.iter().copied();
        Self {
            in_force: in_force
                .filter(|(rule, whom)| *whom == who && rules.contains(rule))
                .collect(),
            told: Vec::new(),
        }
    }

    /// Whether anything is suspended for a member.
    pub fn concern(&self, who: MemberId) -> bool {
        self.in_force.iter().any(|(_, whom)| *whom == who)
    }

    /// Whether anything is suspended for anybody.
    pub fn is_empty(&self) -> bool {
        self.in_force.is_empty()
    }

    /// As the report tells them.
    pub fn told(&self) -> &[Waiver] {
        &self.told
    }
}

/// A waiver that this very controller has accepted and that has no outcome yet.
fn accepted<'r>(
    snap: &Snapshot,
    request: &'r RequestView,
) -> Option<(&'r Waive, &'r AcceptedWaiver)> {
    let open = !request.finished && !request.meta.deleting;
    let accepted = request.waiver.as_ref().filter(|_| open)?;
    let ours = accepted.epoch == snap.epoch || crate::mutants::is_off(Rule::WaiverExpires);
    Some((request.spec.waive.as_ref()?, accepted)).filter(|_| ours)
}

/// The rule and the member, if that may be waived at all; else why not, for whoever asked.
pub(crate) fn valid(
    snap: &Snapshot,
    roster: &Roster,
    request: &RequestView,
    waive: &Waive,
) -> Result<(Rule, MemberId), String> {
    let Some(rule) = Rule::named(&waive.rule) else {
        return Err(format!(
            "spec.waive.rule: no rule has the name '{}'",
            waive.rule
        ));
    };
    if !rule.page().waivable && !crate::mutants::is_off(Rule::SomeRulesStand) {
        return Err(format!(
            "spec.waive.rule: {rule} cannot be waived: breaking it could lose data or damage objects that \
             are not Ensemble's"
        ));
    }
    let reason = request.spec.reason.as_deref().unwrap_or_default();
    if reason.trim().is_empty() {
        return Err("spec.reason: required with waive; say why the risk is taken".into());
    }
    let (least, most) = (
        request::Waive::SHORTEST_SECONDS,
        request::Waive::LONGEST_SECONDS,
    );
    if !(least..=most).contains(&waive.for_seconds) {
        return Err(format!(
            "spec.waive.forSeconds: {} is not between {least} and {most}",
            waive.for_seconds
        ));
    }
    // One that is on its way out is asked for no more.
    let leaving = roster.named(&waive.member);
    let leaving = leaving.filter(|_| snap.pods.contains_key(&waive.member));
    let who = leaving.map_or_else(|| roster.asked_for(&waive.member), Ok);
    who.map(|who| (rule, who))
        .map_err(|why| format!("spec.waive.member: {why}"))
}

/// When it ends: as it was written down, and never later than asked for from when it was created or first
/// seen by this process.
pub(crate) fn ends_at(
    snap: &Snapshot,
    request: &RequestView,
    waive: &Waive,
    accepted: &AcceptedWaiver,
) -> Time {
    if crate::mutants::is_off(Rule::WaiverExpires) {
        return Time(i64::MAX);
    }
    let written = Time::from_stamp(&accepted.until);
    written.min(at_the_latest(snap, request, waive))
}

/// The latest end of a waiver that is accepted now.
pub(crate) fn at_the_latest(snap: &Snapshot, request: &RequestView, waive: &Waive) -> Time {
    let seen = snap.memory.requests_since.get(&request.meta.pin.uid);
    let seen = seen.copied().unwrap_or(snap.now);
    let from = request.created.map_or(seen, |created| created.min(seen));
    from.plus_seconds(waive.for_seconds)
}

/// Whether no further waiver can be accepted.
pub(crate) fn are_too_many(snap: &Snapshot) -> bool {
    let accepted = snap
        .requests
        .values()
        .filter(|r| accepted(snap, r).is_some());
    accepted.count() >= WAIVERS_MAX
}
