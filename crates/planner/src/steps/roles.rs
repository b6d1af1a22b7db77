//! Roles: who leads, who follows closely enough, and a lead that has to move for another reason than
//! a rollout.

use crate::cast::Cast;
use crate::engine::{Commits, Lead, Tell};
use crate::plan::blocker;
use crate::render;
use crate::roster::MemberId;
use crate::safety::{Safety, Sake};
use crate::sheet::Sheet;
use crate::succession::{Succession, is_cordoned};
use crate::time::Time;
use crate::wish::Cause;
use ensemble_api::Reason;
use ensemble_api::report::Action;

/// Says what is wrong with the roles, and moves the lead away from where it cannot stay.
pub fn run(
    snap: &Cast<'_>,
    safety: &mut Safety<'_>,
    succession: &mut Succession<'_>,
    sheet: &mut Sheet<'_>,
) {
    if !snap.engine().matter() {
        return;
    }
    lead(snap, safety, sheet);
    labelled(snap, sheet);
    grace(snap, sheet);
    nudge(snap, sheet);
    move_away(snap, safety, succession, sheet);
}

/// For how long after a change the engine is nudged rather than waited for.
const NUDGE_FOR_MS: i64 = 30_000;

/// An engine's leader looks at its cluster in rounds; what waits for that look (a slot for a new
/// follower, another synchronous standby) need not wait so long. How often it is nudged is for
/// whoever tells it: quickly after each change, then seldom, as every nudge costs a round.
fn nudge(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    let Some(leader) = snap.engine().leader().filter(|_| snap.abilities.can_nudge) else {
        return;
    };
    let others: Vec<MemberId> = snap.members().filter(|m| *m != leader).collect();
    let stopping = stopping(snap, &others);
    let changed = changed(snap, &others);
    let follows = |m: &MemberId| snap.in_sync(*m).is_ok();
    let unfollowed = others.iter().any(|m| !follows(m) && snap.available(*m));
    let commits = snap.engine().cohort().map(|c| c.commits);
    let unnamed = commits == Some(Commits::Await { named: false }) && !others.is_empty();
    let arrives = !changed.is_empty() && (unfollowed || unnamed);
    if stopping.is_empty() && !arrives {
        return;
    }
    let Some(pod) = snap.our_pod(leader) else {
        return;
    };
    let sake = stopping.into_iter().chain(changed).collect();
    sheet.tell(Tell::nudge(&pod.meta.pin, sake));
}

/// Members that end or change in place while commits may wait for them, by what they are.
fn stopping(snap: &Cast<'_>, others: &[MemberId]) -> Vec<String> {
    if !snap.engine().synchronous() {
        return Vec::new();
    }
    let pods = others.iter().filter_map(|m| snap.our_pod(*m));
    let stops = pods.filter(|p| p.meta.deleting || p.is_changing());
    stops
        .map(|p| format!("{} at {}", p.meta.pin.uid, p.meta.generation))
        .collect()
}

/// What is new: who leads, and which runs of members' engines.
fn changed(snap: &Cast<'_>, others: &[MemberId]) -> Vec<String> {
    let recent = |since: Time| since.plus_ms(NUDGE_FOR_MS) > snap.now;
    let led = snap.memory.led_since.filter(|since| recent(*since));
    let led = led.map(|_| snap.memory.led_by.clone().unwrap_or_default());
    let pods = others.iter().filter_map(|m| snap.our_pod(*m));
    let runs = pods.filter_map(|p| snap.memory.pod(&p.meta.pin.uid).run.as_ref());
    let runs = runs.filter(|run| recent(run.since));
    led.into_iter()
        .chain(runs.map(|run| run.container.clone()))
        .collect()
}

/// That nobody, or more than one, is known to lead.
fn lead(snap: &Cast<'_>, safety: &Safety<'_>, sheet: &mut Sheet<'_>) {
    if snap.members().next().is_none() {
        return;
    }
    if let Some(at) = safety.in_recovery_at().filter(|at| *at > snap.now) {
        sheet.wake(at);
    }
    let Some(refusal) = safety.lead_trouble() else {
        return;
    };
    let mut blocker = blocker(snap, refusal.reason, refusal.observed.clone());
    blocker.observed = refusal.observed;
    blocker.limit = refusal.limit;
    sheet.block(Action::Follow, None, "roles", blocker);
}

/// The leader's pod must carry the label by which the primary Service finds it, where roles are told by one.
fn labelled(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    let (Some(engine), Lead::One { who, .. }) = (&snap.ensemble.spec.engine, snap.lead()) else {
        return;
    };
    let (Some(label), Some(pod)) = (engine.role_label(), snap.our_pod(*who)) else {
        return;
    };
    let found = pod.meta.label(label.key);
    // While a lead arrives, its label may come a moment later.
    let settled = snap
        .memory
        .led_since
        .is_some_and(|since| since.plus_ms(10_000) <= snap.now);
    if render::primary_values(snap).contains(&found) {
        return;
    }
    if !settled {
        return sheet.wake(snap.now.plus_ms(2_000));
    }
    let name = snap.roster().name(*who);
    let message = format!(
        "{name} leads and its label {} is {found:?}, not {:?}",
        label.key, label.primary
    );
    let blocker = blocker(snap, Reason::RoleLabelMissing, message);
    sheet.block(Action::Maintain, Some(name), "roles", blocker);
}

/// A stopping synchronous standby waits for its successor, for some rounds of its engine.
fn grace(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    let said = snap.engine().cohort().and_then(|c| c.round_seconds);
    let Some((wait, rounds)) = said.zip(snap.abilities.rounds) else {
        return;
    };
    let spec = snap.ensemble.spec.template.0.get("spec");
    let grace = spec.and_then(|s| s.get("terminationGracePeriodSeconds"));
    let grace = grace.and_then(serde_json::Value::as_u64).unwrap_or(30);
    let needed = u64::from(rounds.before_stop) * u64::from(wait);
    if grace > needed || !snap.engine().synchronous() {
        return;
    }
    let message = format!(
        "terminationGracePeriodSeconds is {grace}, and {} is {wait}: more than {needed} is needed",
        rounds.setting
    );
    let blocker = blocker(snap, Reason::GraceTooShort, message);
    sheet.block(Action::Maintain, None, "engine", blocker);
}

/// The lead leaves a node that takes no new pods, so that a drain ends; and a member that scaling in
/// removes.
fn move_away(
    snap: &Cast<'_>,
    safety: &mut Safety<'_>,
    succession: &mut Succession<'_>,
    sheet: &mut Sheet<'_>,
) {
    let Some(leader) = snap.engine().leader() else {
        return;
    };
    if !snap.abilities.can_switch {
        return;
    }
    if !snap.roster().wants(leader) {
        return leave(snap, leader, safety, succession, sheet);
    }
    let name = snap.roster().name(leader);
    let Some(node) = snap.our_pod(leader).map(|p| p.node.as_str()) else {
        return;
    };
    if !is_cordoned(snap, leader) {
        return;
    }
    let elsewhere = snap
        .roster()
        .wanted()
        .any(|m| m != leader && !is_cordoned(snap, m));
    if elsewhere {
        let cause = format!("{name} leads on {node}, which is cordoned");
        let cordoned: Vec<MemberId> = snap
            .roster()
            .wanted()
            .filter(|m| is_cordoned(snap, *m))
            .collect();
        let will_do = |m| !cordoned.contains(&m);
        succession.propose_best(Sake::of(&cause), will_do, safety, sheet);
    }
}

/// The leader leaves: the lead goes to a member that stays. Where nobody is to stay, it goes
/// to the lowest ordinal if that one can take it, so that whatever number is asked for later includes
/// the member with the newest data; nobody waits for that.
fn leave(
    snap: &Cast<'_>,
    leader: MemberId,
    safety: &mut Safety<'_>,
    succession: &mut Succession<'_>,
    sheet: &mut Sheet<'_>,
) {
    let size = snap.roster().size();
    let cause = Cause::of_leaving(snap.roster(), leader).to_string();
    if size > 0 {
        succession.propose_best(Sake::of(&cause), |_| true, safety, sheet);
        return;
    }
    let heirs = snap.heirs();
    if let Some(heir) = heirs.iter().find(|m| safety.may_succeed(**m).is_ok()) {
        succession.propose(*heir, Sake::of(&cause), safety, sheet);
    }
}
