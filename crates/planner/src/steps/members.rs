//! Members: create what is missing, clear what has ended, take back what is ours, and say of each
//! that does not serve why it does not.

use crate::cast::Cast;
use crate::claims::ClaimGroup;
use crate::evidence::{self, Trouble};
use crate::ledger::Ledgers;
use crate::lives::Lives;
use crate::memory::{Key, Kind};
use crate::plan::blocker;
use crate::presence::{Presence, ProofOfDown};
use crate::quota::Full;
use crate::render::{self, Member};
use crate::roster::{MemberId, Whose};
use crate::safety::{self, Starts};
use crate::sheet::Sheet;
use crate::steps::claims::Claimed;
use crate::steps::growth::Growth;
use crate::steps::prepare::Prepared;
use crate::view::{Meta, PodView};
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::{Blocker, Reason, Rule, StepState};
use serde_json::{Map, Value, json};

/// Looks at each member that is asked for, and takes back those that are not.
pub fn run(snap: &Cast<'_>, prepared: &Prepared, claimed: &Claimed, sheet: &mut Sheet<'_>) {
    let mut growth = Growth::of(snap, &claimed.lives.ledgers);
    for who in snap.wanted() {
        one(snap, prepared, claimed, who, &mut growth, sheet);
    }
    for who in snap.surplus() {
        put_right(snap, &claimed.lives.ledgers, who, sheet);
    }
}

fn one(
    snap: &Cast<'_>,
    prepared: &Prepared,
    claimed: &Claimed,
    who: MemberId,
    growth: &mut Growth,
    sheet: &mut Sheet<'_>,
) {
    put_back(snap, who, sheet);
    if snap.fit(who) && snap.whose(who) == Some(Whose::Ours) {
        return;
    }
    let member = snap.roster().name(who);
    if snap.whose(who) == Some(Whose::Foreign) {
        let message = format!("a pod {member} exists that is not ours");
        let blocker = blocker(snap, Reason::NameTaken, message);
        return sheet.block(Action::Create, Some(member), "asked for", blocker);
    }
    put_right(snap, &claimed.lives.ledgers, who, sheet);
    match snap.presence(who) {
        Presence::Absent => create(snap, prepared, claimed, who, growth, sheet),
        // That it makes way is wished for elsewhere.
        Presence::Down(ProofOfDown::Ended) => {}
        Presence::Serving => settling(snap, who, member, sheet),
        _ => trouble(snap, who, member, sheet),
    }
}

fn create(
    snap: &Cast<'_>,
    prepared: &Prepared,
    claimed: &Claimed,
    who: MemberId,
    growth: &mut Growth,
    sheet: &mut Sheet<'_>,
) {
    if claimed.halted {
        return;
    }
    let member = snap.roster().name(who);
    let lives = &claimed.lives;
    let complete = snap.group(&lives.ledgers, who) == ClaimGroup::Complete;
    if !complete && !crate::mutants::is_off(Rule::ClaimsBeforePod) {
        // The step of its claims speaks for it.
        return;
    }
    let revision = prepared.usable.as_ref().and_then(|r| snap.revisions.get(r));
    let Some(revision) = revision.filter(|_| lives.covers(who)) else {
        return sheet.step(Action::Create, Some(member), "asked for", StepState::Next);
    };
    let key = (Kind::Pod, member.clone());
    if name_is_taken(snap, lives, &key, &member, sheet) || comes_later(snap, who, &member, sheet) {
        return;
    }
    if still_counted(snap, &member, sheet) {
        return sheet.step(
            Action::Create,
            Some(member),
            "asked for",
            StepState::Running,
        );
    }
    if growth.holds_back(snap, &lives.ledgers, who, sheet) {
        return;
    }
    let rendered = Member {
        who,
        incarnation: lives.ledgers.incarnation(who),
        revision: &revision.meta.pin.name,
        number: revision.number,
        template: &revision.template,
    };
    let body = render::pod(snap, rendered);
    sheet.write(Write::Create {
        kind: Kind::Pod,
        body,
    });
    if !report_failure(snap, &key, &member, sheet) {
        sheet.step(
            Action::Create,
            Some(member),
            "asked for",
            StepState::Running,
        );
    }
}

/// Another member has to start first.
fn comes_later(snap: &Cast<'_>, who: MemberId, member: &str, sheet: &mut Sheet<'_>) -> bool {
    let Err(Starts { refusal, at, next }) = safety::may_start(snap, who) else {
        return false;
    };
    if let Some(at) = at {
        sheet.wake(at);
    }
    let mut blocker = blocker(snap, refusal.reason, refusal.observed.clone());
    blocker.observed = refusal.observed;
    blocker.limit = refusal.limit;
    blocker.next_command = next;
    let member = Some(member.to_owned());
    sheet.block(Action::Create, member, "asked for", blocker);
    true
}

/// For how long a successor waits until its predecessor is no longer counted as evicted.
const COUNTED_MS: i64 = 5_000;

/// Budgets remember evictions by name: a successor that comes before its predecessor is forgotten
/// counts as evicted for two minutes, and nobody else may be evicted meanwhile.
fn still_counted(snap: &Cast<'_>, member: &str, sheet: &mut Sheet<'_>) -> bool {
    let Some(since) = snap.memory.counted_since.get(member) else {
        return false;
    };
    let until = since.plus_ms(COUNTED_MS);
    let waits = until > snap.now;
    if waits {
        sheet.wake(until);
    }
    waits
}

/// Somebody else's object stands where ours should: it is looked at again from time to time. One
/// that is ours by its owner, though its labels were changed, is put right.
pub fn name_is_taken(
    snap: &Cast<'_>,
    lives: &Lives,
    key: &Key,
    member: &str,
    sheet: &mut Sheet<'_>,
) -> bool {
    let Some(taken) = snap.memory.taken.get(key) else {
        return false;
    };
    if taken.ours_by_owner && key.0 == Kind::Pod {
        let who = snap.roster().named(&key.1).unwrap_or_default();
        let labels = render::pod_labels(snap, who, lives.ledgers.incarnation(who));
        let body = json!({"metadata": {"labels": labels}});
        sheet.write(Write::Patch {
            kind: Kind::Pod,
            pin: taken.pin.clone(),
            body,
        });
        let label = ensemble_api::labels::ENSEMBLE;
        let cause = format!("the label {label} was removed from the pod; Ensemble puts it back");
        labels_put_back(snap, key, member, &cause, sheet);
        return true;
    }
    if taken.retry_at <= snap.now {
        sheet.write(Write::Look { key: key.clone() });
    }
    if taken.pin.uid.is_empty() {
        // Nobody has looked yet whether anything has the name.
        report_failure(snap, key, member, sheet);
        return true;
    }
    sheet.wake(taken.retry_at);
    let message = format!(
        "{:?} {} exists and is not ours (uid {})",
        key.0, key.1, taken.pin.uid
    );
    let blocker = blocker(snap, Reason::NameTaken, message);
    sheet.block(
        Action::Create,
        Some(member.to_owned()),
        "asked for",
        blocker,
    );
    true
}

/// Says why the API server does not take what was written.
pub fn report_failure(snap: &Cast<'_>, key: &Key, member: &str, sheet: &mut Sheet<'_>) -> bool {
    let Some(failure) = snap.memory.failures.get(key) else {
        return false;
    };
    let message = format!("{:?} {}: {}", key.0, key.1, failure.message);
    let mut blocker = blocker(snap, failure.reason, message);
    blocker.observed = format!("tried {} times", failure.tries);
    if let Some(full) = Full::read(&failure.message) {
        full.explain(&snap.ensemble.namespace, &mut blocker);
    }
    sheet.block(
        Action::Create,
        Some(member.to_owned()),
        "asked for",
        blocker,
    );
    true
}

/// Takes back a pod that lost its owner, and gives back labels that somebody changed.
fn put_right(snap: &Cast<'_>, ledgers: &Ledgers, who: MemberId, sheet: &mut Sheet<'_>) {
    let Some(pod) = snap.our_pod(who).filter(|p| !p.meta.deleting) else {
        return;
    };
    let body = match snap.whose(who) {
        Some(Whose::Orphan) => json!({"metadata": {"ownerReferences": [render::owner(snap)]}}),
        Some(Whose::Mislabelled) => {
            let labels = render::pod_labels(snap, who, ledgers.incarnation(who));
            let key = (Kind::Pod, pod.meta.pin.name.clone());
            let cause = format!("{}; Ensemble puts it back", edited(&labels, &pod.meta));
            labels_put_back(snap, &key, &pod.meta.pin.name, &cause, sheet);
            json!({"metadata": {"labels": labels}})
        }
        Some(Whose::Ours | Whose::Foreign) | None => return,
    };
    sheet.write(Write::Patch {
        kind: Kind::Pod,
        pin: pod.meta.pin.clone(),
        body,
    });
}

/// An image that was written in place and did not stay: nobody waits for its container.
fn put_back(snap: &Cast<'_>, who: MemberId, sheet: &mut Sheet<'_>) {
    let Some(put_back) = snap.our_pod(who).and_then(PodView::put_back) else {
        return;
    };
    let member = snap.roster().name(who);
    let message = format!("{member}: {put_back}");
    let mut blocker = blocker(snap, Reason::ImagePutBack, message);
    blocker.observed = put_back.image;
    sheet.block(Action::InPlace, Some(member), "a new image", blocker);
}

/// Which labels of a pod somebody changed.
fn edited(wanted: &Map<String, Value>, meta: &Meta) -> String {
    let different = wanted.iter().filter_map(|(label, value)| {
        let has = meta.labels.get(label);
        if has.map(String::as_str) == value.as_str() {
            return None;
        }
        let value = value.as_str().unwrap_or_default();
        Some(match has {
            Some(has) => format!("the label {label} was changed from '{value}' to '{has}'"),
            None => format!("the label {label}={value} was removed"),
        })
    });
    different.collect::<Vec<_>>().join(", ")
}

/// Says that labels are put back, or why they cannot be.
fn labels_put_back(snap: &Cast<'_>, key: &Key, member: &str, cause: &str, sheet: &mut Sheet<'_>) {
    let who = Some(member.to_owned());
    match snap.memory.failures.get(key) {
        Some(failure) if failure.reason != Reason::Conflict => {
            sheet.failed(Action::Maintain, member.to_owned(), cause, failure);
        }
        _ => sheet.step(Action::Maintain, who, cause, StepState::Running),
    }
}

fn settling(snap: &Cast<'_>, who: MemberId, member: String, sheet: &mut Sheet<'_>) {
    if snap.available(who) {
        return not_in_sync(snap, who, member, sheet);
    }
    let Some(pod) = snap.our_pod(who) else {
        return;
    };
    if pod.is_changing() {
        let cause = "changed in place";
        return sheet.step(Action::Start, Some(member), cause, StepState::Running);
    }
    sheet.wake(snap.settled_at(pod));
    let seconds = snap.ensemble.spec.min_ready_seconds;
    let message = format!("{member} is Ready, but not yet for {seconds} s");
    let blocker = blocker(snap, Reason::Settling, message);
    sheet.block(Action::Start, Some(member), "minReadySeconds", blocker);
}

/// Ready is not in sync: said of a replica once somebody leads, or the step of the lead speaks.
fn not_in_sync(snap: &Cast<'_>, who: MemberId, member: String, sheet: &mut Sheet<'_>) {
    let Err(why) = snap.in_sync(who) else {
        return;
    };
    let Some(leader) = snap.engine().leader() else {
        return;
    };
    let leader = snap.roster().name(leader);
    let message = format!("{member} is Ready and not in sync with {leader}: {why}");
    let mut blocker = blocker(snap, Reason::NotInSync, message);
    blocker.observed = why;
    sheet.block(Action::Start, Some(member), "roles", blocker);
}

fn trouble(snap: &Cast<'_>, who: MemberId, member: String, sheet: &mut Sheet<'_>) {
    let Some(trouble) = evidence::of(snap, who) else {
        return;
    };
    wake_for_changes(snap, who, sheet);
    if trouble.reason == Reason::Starting {
        return sheet.step(Action::Start, Some(member), "created", StepState::Running);
    }
    let mut blocker = in_trouble(snap, trouble);
    if let Some(pod) = snap.our_pod(who).filter(|p| !p.node.is_empty()) {
        blocker.observed = format!("on node {}", pod.node);
    }
    let cause = if snap.presence(who) == Presence::Leaving {
        "told to end"
    } else {
        "created"
    };
    sheet.block(Action::Start, Some(member), cause, blocker);
}

/// What keeps a member from serving, with what can be done about it.
pub fn in_trouble(snap: &Cast<'_>, trouble: Trouble) -> Blocker {
    let (choices, next) = (trouble.choices(), trouble.next_command());
    let mut blocker = blocker(snap, trouble.reason, trouble.message);
    blocker.clears_when = choices.unwrap_or(blocker.clears_when);
    blocker.next_command = next.unwrap_or(blocker.next_command);
    blocker
}

/// When a member's trouble changes its name, or its remedy, by time alone.
fn wake_for_changes(snap: &Cast<'_>, who: MemberId, sheet: &mut Sheet<'_>) {
    let Some(pod) = snap.our_pod(who) else {
        return;
    };
    let memory = &snap.memory;
    if let Some(since) = memory.pod(&pod.meta.pin.uid).leaving_since {
        let stuck = since.plus_seconds(pod.grace_seconds + evidence::STUCK_AFTER_GRACE_SECONDS);
        if stuck > snap.now {
            sheet.wake(stuck);
        }
    }
    if let Some(since) = memory.node_missing_since.get(&pod.node) {
        let gone = since.plus_seconds(crate::presence::NODE_GONE_AFTER_SECONDS);
        if gone > snap.now {
            sheet.wake(gone);
        }
    }
}
