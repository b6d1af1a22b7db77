//! What is written back: counts, conditions, members, the plan. Only what changes is written.

mod conditions;

use crate::cast::Cast;
use crate::engine;
use crate::evidence;
use crate::memory::Kind;
use crate::plan::{Plan, Watch};
use crate::presence::Presence;
use crate::render;
use crate::revision::{self, Revisions};
use crate::roster::{Group, GroupIx, MemberId};
use crate::safety::{Permit, Safety};
use crate::sheet::{Filled, Sheet};
use crate::steps::claims::Claimed;
use crate::steps::intents::Settled;
use crate::steps::parameters::Configured;
use crate::steps::upkeep::Marked;
use crate::succession::Succession;
use crate::time::Time;
use crate::write::Write;
use ensemble_api::reason::Wait;
use ensemble_api::report::{Action, STEPS_MAX, State};
use ensemble_api::status::{
    EnsembleStatus, GroupStatus, IN_FLIGHT_MAX, Lead, LetGo, MEMBERS_MAX, MemberStatus, Summary,
    Switchover,
};
use ensemble_api::{Reason, Report, Step, StepState};
use std::collections::BTreeSet;

/// What the steps leave behind that is stored, or that says when it may be.
pub struct Durable<'s> {
    /// Intents that were stored before.
    pub settled: Settled,
    /// The newest switchover.
    pub succession: Succession<'s>,
    /// The ledgers, and what is let go.
    pub claimed: Claimed,
    /// Members that may be disrupted.
    pub permits: Vec<Permit>,
    /// The newest change of parameters.
    pub configured: Configured,
    /// Whether the status waits for the marks in the Ensemble's metadata.
    pub marked: Marked,
}

/// The last step: the report, and the status that holds it.
pub fn write(
    snap: &Cast<'_>,
    revisions: &Revisions,
    safety: &Safety<'_>,
    sheet: Sheet<'_>,
    durable: Durable<'_>,
) -> Plan {
    let mut said = sheet.filled();
    let counts = counts(snap, revisions);
    deadline(snap, &mut said, counts);
    behind(snap, said.sheet());
    failing(snap, said.sheet());
    let state = state(snap, said.steps(), counts, &durable.permits);
    let report = report(snap, revisions, safety, said.steps(), state);
    let left = left(said.steps());
    let status = status(snap, revisions, counts, report, left, &durable);
    finish(snap, said, status, durable.permits, durable.marked)
}

/// While suspended nothing is written but this.
pub fn suspended(
    snap: &Cast<'_>,
    revisions: &Revisions,
    safety: &Safety<'_>,
    mut sheet: Sheet<'_>,
) -> Plan {
    let message = "suspend is true".to_owned();
    let blocker = crate::plan::blocker(snap, Reason::Suspended, message);
    sheet.block(Action::Maintain, None, "suspend", blocker);
    let said = sheet.filled();
    let mut status = snap.ensemble.status.clone();
    status.observed_generation = snap.ensemble.meta.generation;
    status.plan = report(snap, revisions, safety, said.steps(), State::Suspended);
    status.summary.waiting = Reason::Suspended.to_string();
    conditions::set(snap, &mut status, State::Suspended);
    finish(snap, said, status, Vec::new(), Marked::Settled)
}

/// While it is being deleted, status is written only if something has to be written down.
pub fn deleting(
    snap: &Cast<'_>,
    revisions: &Revisions,
    safety: &Safety<'_>,
    sheet: Sheet<'_>,
    to_write_down: Option<Vec<LetGo>>,
) -> Plan {
    let said = sheet.filled();
    let report = report(snap, revisions, safety, said.steps(), State::Deleting);
    if let Some(let_go) = to_write_down {
        let status = EnsembleStatus {
            let_go,
            plan: report,
            ..snap.ensemble.status.clone()
        };
        return finish(snap, said, status, Vec::new(), Marked::Settled);
    }
    said.into_plan(Vec::new(), Watch::None, report)
}

fn finish(
    snap: &Cast<'_>,
    mut said: Filled<'_>,
    mut status: EnsembleStatus,
    permits: Vec<Permit>,
    marked: Marked,
) -> Plan {
    let report = status.plan.clone();
    let watch = watch(snap, &said, status.switchover.as_ref());
    let stored = &snap.ensemble;
    // Whose status it is changes only along with something else: a new leader writes nothing.
    status.epoch = stored.status.epoch;
    if (!stored.has_status || stored.status != status) && marked == Marked::Settled {
        status.epoch = snap.epoch;
        said.sheet().write(Write::Status(Box::new(status)));
    }
    said.into_plan(permits, watch, report)
}

/// How closely the engine has to be watched from here.
fn watch(snap: &Cast<'_>, said: &Filled<'_>, switchover: Option<&Switchover>) -> Watch {
    if !snap.engine().matter() {
        return Watch::None;
    }
    // What is nudged is expected at any moment.
    if switchover.is_some_and(|s| s.phase.is_open()) || said.tells_engine() {
        return Watch::Eagerly;
    }
    let busy = said.steps().iter().any(|s| !is_advice(s));
    if busy { Watch::Closely } else { Watch::Rest }
}

/// A view that lags is said only if nothing more telling is.
fn behind(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    let stuck = snap
        .memory
        .failures
        .get(&(Kind::Ensemble, "behind".into()))
        .cloned();
    if let Some(failure) = stuck {
        let blocker = crate::plan::blocker(snap, Reason::CacheBehind, failure.message);
        sheet.block(Action::Maintain, None, "own writes", blocker);
    }
}

/// Writes around the members that fail again and again; those for members speak for themselves.
fn failing(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    let around = [Kind::Revision, Kind::Service, Kind::Budget, Kind::Request];
    for ((kind, name), failure) in &snap.memory.failures {
        // A conflict is tried again four times a second, anything else with growing pauses.
        let patience = if failure.reason == Reason::Conflict {
            20
        } else {
            3
        };
        let own = *kind == Kind::Ensemble && name != "behind";
        if (around.contains(kind) || own) && failure.tries >= patience {
            let message = format!("{kind:?} {name}: {}", failure.message);
            let blocker = crate::plan::blocker(snap, failure.reason, message);
            sheet.block(Action::Maintain, None, "upkeep", blocker);
        }
    }
}

/// How many pods exist, and how many members are ready and updated.
#[derive(Clone, Copy, Default, PartialEq)]
struct Counts {
    exist: u32,
    ready: u32,
    updated: u32,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            exist: self.exist + other.exist,
            ready: self.ready + other.ready,
            updated: self.updated + other.updated,
        }
    }
}

/// Of all groups together.
fn counts(snap: &Cast<'_>, revisions: &Revisions) -> Counts {
    let groups = snap.roster().groups();
    let each = groups.map(|(group, _)| counts_of(snap, revisions, group));
    each.fold(Counts::default(), Counts::plus)
}

fn counts_of(snap: &Cast<'_>, revisions: &Revisions, group: GroupIx) -> Counts {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let wanted = || snap.roster().wanted_in(group);
    Counts {
        exist: count(snap.members().filter(|m| m.group == group).count()),
        ready: count(wanted().filter(|m| snap.available(*m)).count()),
        updated: count(wanted().filter(|m| is_updated(snap, revisions, *m)).count()),
    }
}

fn is_updated(snap: &Cast<'_>, revisions: &Revisions, who: MemberId) -> bool {
    let pod = snap.our_pod(who);
    pod.is_some_and(|p| {
        let resized = p.resize.as_ref().is_none_or(|r| r.done);
        let settled = resized && p.put_back().is_none();
        revisions.is_current(p.revision()) && settled && !p.meta.deleting
    })
}

/// Whether a step only tells of something that holds nobody up.
fn is_advice(step: &Step) -> bool {
    let blocker = step.blocker.as_ref();
    blocker.is_some_and(|b| b.reason.page().wait == Wait::Advice)
}

/// Whether the goal is new or a count differs from what was last written.
fn has_progressed(snap: &Cast<'_>, counts: Counts) -> bool {
    let old = &snap.ensemble.status;
    let counted = Counts {
        exist: old.replicas,
        ready: old.ready_replicas,
        updated: old.updated_replicas,
    };
    old.observed_generation != snap.ensemble.meta.generation || counts != counted
}

/// No progress for longer than the deadline.
fn deadline(snap: &Cast<'_>, said: &mut Filled<'_>, counts: Counts) {
    let stored = &snap.ensemble.status;
    let working = said.steps().iter().any(|s| !is_advice(s)) && !has_progressed(snap, counts);
    let Some(since) = stored.progressed_at.as_ref().filter(|_| working) else {
        return;
    };
    let at =
        Time::from_stamp(since).plus_seconds(snap.ensemble.spec.rollout.progress_deadline_seconds);
    if at > snap.now {
        return said.sheet().wake(at);
    }
    let stalls = |s: &Step| s.blocker.as_ref().is_some_and(|b| b.reason.page().stalls);
    if said.steps().iter().any(stalls) || snap.ensemble.spec.rollout.paused {
        return;
    }
    let seconds = snap.ensemble.spec.rollout.progress_deadline_seconds;
    let message = format!("no member made progress for {seconds} s");
    let blocker = crate::plan::blocker(snap, Reason::Stalled, message);
    said.sheet()
        .block(Action::Maintain, None, "progressDeadlineSeconds", blocker);
}

/// Whether something lasts until somebody acts. The trouble of a member does not if the rollout is
/// about to replace it: then somebody has acted.
fn is_stalled(steps: &[Step]) -> bool {
    let replaced: BTreeSet<&str> = steps
        .iter()
        .filter(|s| {
            matches!(
                s.action,
                Action::Recreate | Action::InPlace | Action::Resize
            )
        })
        .filter_map(|s| s.member.as_deref())
        .collect();
    let passes = |s: &Step| {
        let member = s.member.as_deref();
        s.action == Action::Start && member.is_some_and(|m| replaced.contains(m))
    };
    let mut lasting = steps
        .iter()
        .filter(|s| s.blocker.as_ref().is_some_and(|b| b.reason.page().stalls));
    lasting.any(|s| !passes(s))
}

fn state(snap: &Cast<'_>, steps: &[Step], counts: Counts, permits: &[Permit]) -> State {
    let reasons: Vec<Reason> = steps
        .iter()
        .filter_map(|s| s.blocker.as_ref().map(|b| b.reason))
        .collect();
    let replicas = snap.roster().size();
    let whole = counts.ready == replicas && counts.updated == replicas && permits.is_empty();
    let busy = steps.iter().any(|s| !is_advice(s));
    if whole && !busy {
        return State::Ready;
    }
    if is_stalled(steps) {
        return State::Stalled;
    }
    if reasons.contains(&Reason::Paused) {
        return State::Paused;
    }
    let moving = steps.iter().any(|s| s.state == StepState::Running);
    if moving || reasons.is_empty() {
        State::Working
    } else {
        State::Waiting
    }
}

fn report(
    snap: &Cast<'_>,
    revisions: &Revisions,
    safety: &Safety<'_>,
    steps: &[Step],
    state: State,
) -> Report {
    let goal = format!(
        "{}/{}/{}",
        snap.ensemble.uid(),
        snap.ensemble.meta.generation,
        revisions.target
    );
    let id = format!("p-{:06x}", revision::fnv64(goal.as_bytes()) & 0xff_ffff);
    let mut report = Report {
        id,
        state,
        steps: steps.iter().take(STEPS_MAX).cloned().collect(),
        more_steps: 0,
        predicates: safety.predicates(),
        waivers: snap.waivers().told().to_vec(),
        tolerance: safety.tolerance(),
    }
    .bound();
    let more = steps.len().saturating_sub(STEPS_MAX);
    report.more_steps = u32::try_from(more).unwrap_or(u32::MAX);
    report
}

fn status(
    snap: &Cast<'_>,
    revisions: &Revisions,
    counts: Counts,
    report: Report,
    left: usize,
    durable: &Durable<'_>,
) -> EnsembleStatus {
    // Without `..`: what a step newly leaves behind cannot be forgotten here.
    let Durable {
        settled,
        succession,
        claimed: Claimed { lives, halted: _ },
        permits,
        configured: Configured { newest: parameters },
        // It says when the status is written, and nothing in it.
        marked: _,
    } = durable;
    let old = &snap.ensemble.status;
    let mut ledger = old.ledger.clone();
    ledger.extend(lives.ledgers.to_status(snap.roster()));
    let kept = old.in_flight.iter().filter(|i| settled.is_open(i));
    let mut in_flight: Vec<_> = kept.cloned().collect();
    // A permit is worth nothing unless it is stored: what has no room is granted again later.
    let room = IN_FLIGHT_MAX.saturating_sub(in_flight.len());
    in_flight.extend(permits.iter().take(room).map(|p| p.intent(snap)));
    let mut status = EnsembleStatus {
        observed_generation: snap.ensemble.meta.generation,
        replicas: counts.exist,
        ready_replicas: counts.ready,
        updated_replicas: counts.updated,
        selector: selector(snap),
        groups: groups(snap, revisions),
        epoch: old.epoch,
        progressed_at: old.progressed_at.clone(),
        summary: Summary::default(),
        conditions: old.conditions.clone(),
        ledger,
        in_flight,
        let_go: lives.let_go.clone(),
        lead: lead(snap),
        switchover: succession.newest().cloned(),
        parameters: parameters.clone(),
        members: members(snap, revisions),
        plan: report,
    };
    let since = status.progressed_at.as_ref();
    let since = since.and_then(|stamp| Time::past(stamp, snap.now));
    if has_progressed(snap, counts) || since.is_none() {
        status.progressed_at = Some(snap.now.stamp());
    }
    status.summary = summary(snap, &status, left);
    let state = status.plan.state;
    conditions::set(snap, &mut status, state);
    status
}

fn groups(snap: &Cast<'_>, revisions: &Revisions) -> Vec<GroupStatus> {
    let groups = snap.roster().groups();
    let one = |(ix, group): (GroupIx, &Group)| {
        let counts = counts_of(snap, revisions, ix);
        GroupStatus {
            name: group.name.clone(),
            replicas: counts.exist,
            ready_replicas: counts.ready,
            updated_replicas: counts.updated,
            revision: revisions.target.clone(),
            current_revision: current_revision(snap, revisions, ix, group, counts),
        }
    };
    groups.map(one).collect()
}

/// The revision that last reached everybody in a group.
fn current_revision(
    snap: &Cast<'_>,
    revisions: &Revisions,
    ix: GroupIx,
    group: &Group,
    counts: Counts,
) -> String {
    let all = snap.roster().wanted_in(ix).count();
    let old = snap.ensemble.status.group(&group.name);
    let old = old.map_or("", |g| &g.current_revision);
    let whole = counts.ready as usize == all && counts.updated as usize == all;
    if (whole || old.is_empty()) && revisions.settled() {
        revisions.target.clone()
    } else {
        old.to_owned()
    }
}

fn selector(snap: &Cast<'_>) -> String {
    let labels = render::selector(snap);
    let pairs = labels
        .iter()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

/// How many steps are not done yet.
fn left(steps: &[Step]) -> usize {
    steps.iter().filter(|s| s.state != StepState::Done).count()
}

fn summary(snap: &Cast<'_>, status: &EnsembleStatus, left: usize) -> Summary {
    let replicas = snap.roster().size();
    let waiting = status
        .plan
        .first_blocked()
        .map(|(step, blocker)| match &step.member {
            Some(member) => format!("{} ({member})", blocker.reason),
            None => blocker.reason.to_string(),
        });
    Summary {
        ready: format!("{}/{replicas}", status.ready_replicas),
        primary: primary(snap),
        updated: format!("{}/{replicas}", status.updated_replicas),
        revision: revisions(status),
        step: if left == 0 {
            "-".into()
        } else {
            format!("{left} left")
        },
        waiting: waiting.unwrap_or_else(|| "-".into()),
    }
}

fn revisions(status: &EnsembleStatus) -> String {
    let all: Vec<&str> = status.groups.iter().map(|g| g.revision.as_str()).collect();
    all.join(",")
}

/// Who leads now, else who was last seen to.
fn lead(snap: &Cast<'_>) -> Option<Lead> {
    match snap.lead() {
        engine::Lead::Equals => None,
        engine::Lead::One { who, term } => Some(Lead {
            member: snap.roster().name(*who),
            term: *term,
        }),
        _ => snap.ensemble.status.lead.clone(),
    }
}

fn primary(snap: &Cast<'_>) -> String {
    match snap.lead() {
        engine::Lead::Equals => String::new(),
        engine::Lead::One { who, .. } => snap.roster().name(*who),
        _ => "-".into(),
    }
}

fn in_sync(snap: &Cast<'_>, who: MemberId) -> Option<bool> {
    let runs = snap.engine().standing(who).is_some();
    runs.then(|| snap.in_sync(who).is_ok())
}

fn members(snap: &Cast<'_>, revisions: &Revisions) -> Vec<MemberStatus> {
    let mut members: Vec<MemberId> = snap.roster().wanted().chain(snap.members()).collect();
    members.sort_unstable();
    members.dedup();
    // Those that need attention first, if not all can be listed.
    if members.len() > MEMBERS_MAX {
        let serves = |m: &MemberId| snap.presence(*m) == Presence::Serving;
        members.sort_by_cached_key(|m| (serves(m), *m));
        members.truncate(MEMBERS_MAX);
    }
    let row = |who: MemberId| MemberStatus {
        name: snap.roster().name(who),
        presence: snap.presence(who).word().into(),
        role: engine::word(snap.engine(), who, snap.presence(who)),
        in_sync: in_sync(snap, who),
        node: snap
            .our_pod(who)
            .map(|p| p.node.clone())
            .unwrap_or_default(),
        zone: snap.placement().zone(who).unwrap_or_default().to_owned(),
        updated: is_updated(snap, revisions, who),
        message: evidence::of(snap, who)
            .map(|t| t.message)
            .unwrap_or_default(),
    };
    members.into_iter().map(row).collect()
}
