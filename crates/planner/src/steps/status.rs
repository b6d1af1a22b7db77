//! What is written back: counts, conditions, members, the plan. Only what changes is written.

use crate::engine;
use crate::evidence;
use crate::memory::Kind;
use crate::plan::{Draft, Plan, Watch};
use crate::presence::Presence;
use crate::render;
use crate::revision;
use crate::roster::{Group, GroupIx, MemberId};
use crate::write::Write;
use ensemble_api::reason::Wait;
use ensemble_api::report::{Action, STEPS_MAX, State};
use ensemble_api::status::{EnsembleStatus, GroupStatus, Lead, MEMBERS_MAX, MemberStatus, Summary};
use ensemble_api::{Reason, Report, Step, StepState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::collections::BTreeSet;

/// The last step: the report, and the status that holds it.
pub fn run(mut draft: Draft<'_>) -> Plan {
    let counts = counts(&draft);
    deadline(&mut draft, counts);
    behind(&mut draft);
    failing(&mut draft);
    let state = state(&draft, counts);
    let status = status(&draft, state, counts);
    finish(draft, status)
}

/// While suspended nothing is written but this.
pub fn suspended(mut draft: Draft<'_>) -> Plan {
    let message = "suspend is true".to_owned();
    let blocker = crate::plan::blocker(draft.snap, Reason::Suspended, message);
    draft.block(Action::Maintain, None, "suspend", blocker);
    let mut status = draft.snap.ensemble.status.clone();
    status.observed_generation = draft.snap.ensemble.meta.generation;
    status.plan = report(&draft, State::Suspended);
    status.summary.waiting = Reason::Suspended.to_string();
    set_conditions(&draft, &mut status, State::Suspended);
    finish(draft, status)
}

/// While it is being deleted, status is written only if something has to be written down.
pub fn deleting(draft: Draft<'_>, write: bool) -> Plan {
    let mut status = draft.snap.ensemble.status.clone();
    status.let_go = draft.let_go.clone();
    let report = report(&draft, State::Deleting);
    if write {
        status.plan = report;
        return finish(draft, status);
    }
    let Draft {
        writes,
        lettings,
        wake,
        ..
    } = draft;
    Plan {
        writes,
        permits: Vec::new(),
        lettings,
        engine: Vec::new(),
        watch: Watch::None,
        report,
        wake_at: wake.0,
    }
}

fn finish(mut draft: Draft<'_>, mut status: EnsembleStatus) -> Plan {
    let report = status.plan.clone();
    let stored = &draft.snap.ensemble;
    // Whose status it is changes only along with something else: a new leader writes nothing.
    status.epoch = stored.status.epoch;
    if (!stored.has_status || stored.status != status) && !draft.mark_first {
        status.epoch = draft.snap.epoch;
        draft.write(Write::Status(Box::new(status)));
    }
    let watch = watch(&draft);
    let Draft {
        writes,
        permits,
        lettings,
        engine,
        wake,
        ..
    } = draft;
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

/// How closely the engine has to be watched from here.
fn watch(draft: &Draft<'_>) -> Watch {
    let roles = draft.snap.roles();
    if !roles.matter() {
        return Watch::None;
    }
    // What is nudged is expected at any moment.
    if draft.switch_is_open() || !draft.engine.is_empty() {
        return Watch::Eagerly;
    }
    let busy = draft.steps.iter().any(|s| !is_advice(s));
    if busy { Watch::Closely } else { Watch::Rest }
}

/// A view that lags is said only if nothing more telling is.
fn behind(draft: &mut Draft<'_>) {
    let stuck = draft
        .snap
        .memory
        .failures
        .get(&(Kind::Ensemble, "behind".into()))
        .cloned();
    if let Some(failure) = stuck {
        let blocker = crate::plan::blocker(draft.snap, Reason::CacheBehind, failure.message);
        draft.block(Action::Maintain, None, "own writes", blocker);
    }
}

/// Writes around the members that fail again and again; those for members speak for themselves.
fn failing(draft: &mut Draft<'_>) {
    let around = [Kind::Revision, Kind::Service, Kind::Budget, Kind::Request];
    let failures = draft.snap.memory.failures.clone();
    for ((kind, name), failure) in failures {
        // A conflict is tried again four times a second, anything else with growing pauses.
        let patience = if failure.reason == Reason::Conflict {
            20
        } else {
            3
        };
        let own = kind == Kind::Ensemble && name != "behind";
        if (around.contains(&kind) || own) && failure.tries >= patience {
            let message = format!("{kind:?} {name}: {}", failure.message);
            let blocker = crate::plan::blocker(draft.snap, failure.reason, message);
            draft.block(Action::Maintain, None, "upkeep", blocker);
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
fn counts(draft: &Draft<'_>) -> Counts {
    let groups = draft.snap.roster().groups();
    let each = groups.map(|(group, _)| counts_of(draft, group));
    each.fold(Counts::default(), Counts::plus)
}

fn counts_of(draft: &Draft<'_>, group: GroupIx) -> Counts {
    let snap = draft.snap;
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let wanted = || snap.roster().wanted_in(group);
    Counts {
        exist: count(snap.members().filter(|m| m.group == group).count()),
        ready: count(wanted().filter(|m| snap.available(*m)).count()),
        updated: count(wanted().filter(|m| is_updated(draft, *m)).count()),
    }
}

fn is_updated(draft: &Draft<'_>, who: MemberId) -> bool {
    let pod = draft.snap.our_pod(who);
    pod.is_some_and(|p| {
        let resized = p.resize.as_ref().is_none_or(|r| r.done);
        draft.revisions.is_current(p.revision()) && resized && !p.meta.deleting
    })
}

/// Whether a step only tells of something that holds nobody up.
fn is_advice(step: &Step) -> bool {
    let blocker = step.blocker.as_ref();
    blocker.is_some_and(|b| b.reason.page().wait == Wait::Advice)
}

/// Whether the goal is new or a count differs from what was last written.
fn has_progressed(draft: &Draft<'_>, counts: Counts) -> bool {
    let old = &draft.snap.ensemble.status;
    let counted = Counts {
        exist: old.replicas,
        ready: old.ready_replicas,
        updated: old.updated_replicas,
    };
    old.observed_generation != draft.snap.ensemble.meta.generation || counts != counted
}

/// No progress for longer than the deadline.
fn deadline(draft: &mut Draft<'_>, counts: Counts) {
    let snap = draft.snap;
    let stored = &snap.ensemble.status;
    let working = draft.steps.iter().any(|s| !is_advice(s)) && !has_progressed(draft, counts);
    let Some(since) = stored.progressed_at.as_ref().filter(|_| working) else {
        return;
    };
    let at = crate::Time::from_stamp(since)
        .plus_seconds(snap.ensemble.spec.rollout.progress_deadline_seconds);
    if at > snap.now {
        return draft.wake.at(at);
    }
    let stalls = |s: &Step| s.blocker.as_ref().is_some_and(|b| b.reason.page().stalls);
    if draft.steps.iter().any(stalls) || snap.ensemble.spec.rollout.paused {
        return;
    }
    let seconds = snap.ensemble.spec.rollout.progress_deadline_seconds;
    let message = format!("no member made progress for {seconds} s");
    let blocker = crate::plan::blocker(snap, Reason::Stalled, message);
    draft.block(Action::Maintain, None, "progressDeadlineSeconds", blocker);
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

fn state(draft: &Draft<'_>, counts: Counts) -> State {
    let reasons: Vec<Reason> = draft
        .steps
        .iter()
        .filter_map(|s| s.blocker.as_ref().map(|b| b.reason))
        .collect();
    let replicas = draft.snap.roster().size();
    let whole = counts.ready == replicas && counts.updated == replicas && draft.permits.is_empty();
    let busy = draft.steps.iter().any(|s| !is_advice(s));
    if whole && !busy {
        return State::Ready;
    }
    if is_stalled(&draft.steps) {
        return State::Stalled;
    }
    if reasons.contains(&Reason::Paused) {
        return State::Paused;
    }
    let moving = draft.steps.iter().any(|s| s.state == StepState::Running);
    if moving || reasons.is_empty() {
        State::Working
    } else {
        State::Waiting
    }
}

fn report(draft: &Draft<'_>, state: State) -> Report {
    let snap = draft.snap;
    let goal = format!(
        "{}/{}/{}",
        snap.ensemble.uid(),
        snap.ensemble.meta.generation,
        draft.revisions.target
    );
    let id = format!("p-{:06x}", revision::fnv64(goal.as_bytes()) & 0xff_ffff);
    let mut report = Report {
        id,
        state,
        steps: draft.steps.iter().take(STEPS_MAX).cloned().collect(),
        more_steps: 0,
        predicates: draft.safety.predicates(),
        tolerance: draft.safety.tolerance(),
    }
    .bound();
    let more = draft.steps.len().saturating_sub(STEPS_MAX);
    report.more_steps = u32::try_from(more).unwrap_or(u32::MAX);
    report
}

fn status(draft: &Draft<'_>, state: State, counts: Counts) -> EnsembleStatus {
    let snap = draft.snap;
    let old = &snap.ensemble.status;
    let replicas = snap.roster().size();
    let mut ledger = old.ledger.clone();
    ledger.extend(draft.ledger.to_status(snap.roster()));
    let kept = old
        .in_flight
        .iter()
        .filter(|i| !draft.over.contains(&i.uid))
        .cloned();
    let mut in_flight: Vec<_> = kept.collect();
    in_flight.extend(draft.permits.iter().map(|p| p.intent(snap)));
    let mut status = EnsembleStatus {
        observed_generation: snap.ensemble.meta.generation,
        replicas: counts.exist,
        ready_replicas: counts.ready,
        updated_replicas: counts.updated,
        selector: selector(draft),
        groups: groups(draft),
        epoch: old.epoch,
        progressed_at: old.progressed_at.clone(),
        summary: Summary::default(),
        conditions: old.conditions.clone(),
        ledger,
        in_flight,
        let_go: draft.let_go.clone(),
        lead: lead(draft),
        switchover: draft.switchover.clone(),
        parameters: draft.parameters.clone(),
        members: members(draft),
        plan: report(draft, state),
    };
    if has_progressed(draft, counts) || status.progressed_at.is_none() {
        status.progressed_at = Some(snap.now.stamp());
    }
    status.summary = summary(draft, &status, replicas);
    set_conditions(draft, &mut status, state);
    status
}

fn groups(draft: &Draft<'_>) -> Vec<GroupStatus> {
    let groups = draft.snap.roster().groups();
    let one = |(ix, group): (GroupIx, &Group)| {
        let counts = counts_of(draft, ix);
        GroupStatus {
            name: group.name.clone(),
            replicas: counts.exist,
            ready_replicas: counts.ready,
            updated_replicas: counts.updated,
            revision: draft.revisions.target.clone(),
            current_revision: current_revision(draft, ix, group, counts),
        }
    };
    groups.map(one).collect()
}

/// The revision that last reached everybody in a group.
fn current_revision(draft: &Draft<'_>, ix: GroupIx, group: &Group, counts: Counts) -> String {
    let all = draft.snap.roster().wanted_in(ix).count();
    let old = draft.snap.ensemble.status.group(&group.name);
    let old = old.map_or("", |g| &g.current_revision);
    let whole = counts.ready as usize == all && counts.updated as usize == all;
    if (whole || old.is_empty()) && draft.revisions.settled() {
        draft.revisions.target.clone()
    } else {
        old.to_owned()
    }
}

fn selector(draft: &Draft<'_>) -> String {
    let labels = render::selector(draft.snap);
    let pairs = labels
        .iter()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

fn summary(draft: &Draft<'_>, status: &EnsembleStatus, replicas: u32) -> Summary {
    let left = draft
        .steps
        .iter()
        .filter(|s| s.state != StepState::Done)
        .count();
    let waiting = status
        .plan
        .first_blocked()
        .map(|(step, blocker)| match &step.member {
            Some(member) => format!("{} ({member})", blocker.reason),
            None => blocker.reason.to_string(),
        });
    Summary {
        ready: format!("{}/{replicas}", status.ready_replicas),
        primary: primary(draft),
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
fn lead(draft: &Draft<'_>) -> Option<Lead> {
    match draft.snap.lead() {
        engine::Lead::Equals => None,
        engine::Lead::One { who, term } => Some(Lead {
            member: draft.snap.roster().name(*who),
            term: *term,
        }),
        _ => draft.snap.ensemble.status.lead.clone(),
    }
}

fn primary(draft: &Draft<'_>) -> String {
    match draft.snap.lead() {
        engine::Lead::Equals => String::new(),
        engine::Lead::One { who, .. } => draft.snap.roster().name(*who),
        _ => "-".into(),
    }
}

fn in_sync(draft: &Draft<'_>, who: MemberId) -> Option<bool> {
    let snap = draft.snap;
    let runs = snap.roles().sighting(who).is_some();
    runs.then(|| snap.in_sync(who).is_ok())
}

fn members(draft: &Draft<'_>) -> Vec<MemberStatus> {
    let snap = draft.snap;
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
        role: engine::word(snap.roles(), who, snap.presence(who)),
        in_sync: in_sync(draft, who),
        node: snap
            .our_pod(who)
            .map(|p| p.node.clone())
            .unwrap_or_default(),
        updated: is_updated(draft, who),
        message: evidence::of(snap, who)
            .map(|t| t.message)
            .unwrap_or_default(),
    };
    members.into_iter().map(row).collect()
}

fn set_conditions(draft: &Draft<'_>, status: &mut EnsembleStatus, state: State) {
    let blocked = status
        .plan
        .first_blocked()
        .map(|(_, b)| (b.reason.to_string(), b.message.clone()));
    let (reason, message) = match (&blocked, state) {
        (_, State::Ready) => (
            "AllServing".to_owned(),
            format!("{} members serve", status.summary.ready),
        ),
        (Some(blocked), _) => blocked.clone(),
        (None, _) => (
            "Progressing".to_owned(),
            format!("{} members serve", status.summary.ready),
        ),
    };
    let replicas = draft.snap.roster().size();
    let enough = replicas.saturating_sub(draft.snap.ensemble.spec.rollout.max_unavailable);
    let serving = draft
        .snap
        .wanted()
        .filter(|m| draft.snap.presence(*m) == Presence::Serving)
        .count();
    let available = serving >= enough as usize && (serving > 0 || replicas == 0);
    let busy = matches!(
        state,
        State::Working | State::Waiting | State::Stalled | State::Deleting
    );
    set(
        draft,
        status,
        "Ready",
        Some(state == State::Ready),
        &reason,
        &message,
    );
    set(
        draft,
        status,
        "Reconciling",
        busy.then_some(true),
        &reason,
        &message,
    );
    set(
        draft,
        status,
        "Stalled",
        (state == State::Stalled).then_some(true),
        &reason,
        &message,
    );
    let serve = format!("{serving} of {replicas} members serve, {enough} are needed");
    set(
        draft,
        status,
        "Available",
        Some(available),
        if available {
            "EnoughServe"
        } else {
            "TooFewServe"
        },
        &serve,
    );
    let held = matches!(state, State::Paused | State::Suspended);
    set(
        draft,
        status,
        "Paused",
        held.then_some(true),
        &reason,
        &message,
    );
}

/// Sets a condition, keeps its time while its status stays, or takes it away.
fn set(
    draft: &Draft<'_>,
    status: &mut EnsembleStatus,
    type_: &str,
    value: Option<bool>,
    reason: &str,
    message: &str,
) {
    let old = status.conditions.iter().position(|c| c.type_ == type_);
    let old = old.map(|at| status.conditions.remove(at));
    let Some(value) = value else { return };
    let value = if value { "True" } else { "False" };
    let since = old
        .filter(|c| c.status == value)
        .map(|c| c.last_transition_time);
    status.conditions.push(Condition {
        type_: type_.into(),
        status: value.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: Some(draft.snap.ensemble.meta.generation),
        last_transition_time: since.unwrap_or_else(|| draft.snap.now.stamp()),
    });
    status.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}
