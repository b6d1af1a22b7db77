//! Members: create what is missing, clear what has ended, take back what is ours, and say of each
//! that does not serve why it does not.

use crate::claims::ClaimGroup;
use crate::evidence;
use crate::memory::{Key, Kind};
use crate::plan::{Draft, blocker};
use crate::presence::{Presence, ProofOfDown};
use crate::render::{self, Member};
use crate::roster::{MemberId, Whose};
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::{Reason, StepState};
use serde_json::json;

/// Looks at each member that is asked for, and takes back those that are not.
pub fn run(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    for who in snap.wanted() {
        one(draft, who);
    }
    for who in snap.surplus() {
        put_right(draft, who);
    }
}

fn one(draft: &mut Draft<'_>, who: MemberId) {
    let snap = draft.snap;
    if snap.fit(who) && snap.whose(who) == Some(Whose::Ours) {
        return;
    }
    let member = snap.roster().name(who);
    if snap.whose(who) == Some(Whose::Foreign) {
        let message = format!("a pod {member} exists that is not ours");
        let blocker = blocker(snap, Reason::NameTaken, message);
        return draft
            .sheet
            .block(Action::Create, Some(member), "asked for", blocker);
    }
    put_right(draft, who);
    match snap.presence(who) {
        Presence::Absent => create(draft, who, member),
        // That it makes way is wished for elsewhere.
        Presence::Down(ProofOfDown::Ended) => {}
        Presence::Serving => settling(draft, who, member),
        _ => trouble(draft, who, member),
    }
}

fn create(draft: &mut Draft<'_>, who: MemberId, member: String) {
    let snap = draft.snap;
    if draft.halted {
        return;
    }
    let complete = snap.group(&draft.ledger, who) == ClaimGroup::Complete;
    if !complete && !crate::mutants::is_off("claims-before-pod") {
        // The step of its claims speaks for it.
        return;
    }
    let revision = draft.usable.as_ref().and_then(|r| snap.revisions.get(r));
    let Some(revision) = revision.filter(|_| super::claims::ledger_covers(draft, who)) else {
        return draft
            .sheet
            .step(Action::Create, Some(member), "asked for", StepState::Next);
    };
    let key = (Kind::Pod, member.clone());
    if name_is_taken(draft, &key, &member) {
        return;
    }
    if still_counted(draft, &member) {
        return draft.sheet.step(
            Action::Create,
            Some(member),
            "asked for",
            StepState::Running,
        );
    }
    let rendered = Member {
        who,
        incarnation: draft.ledger.incarnation(who),
        revision: &revision.meta.pin.name,
        number: revision.number,
        template: &revision.template,
    };
    let body = render::pod(snap, rendered);
    draft.sheet.write(Write::Create {
        kind: Kind::Pod,
        body,
    });
    if !report_failure(draft, &key, &member) {
        draft.sheet.step(
            Action::Create,
            Some(member),
            "asked for",
            StepState::Running,
        );
    }
}

/// For how long a successor waits until its predecessor is no longer counted as evicted.
const COUNTED_MS: i64 = 5_000;

/// Budgets remember evictions by name: a successor that comes before its predecessor is forgotten
/// counts as evicted for two minutes, and nobody else may be evicted meanwhile.
fn still_counted(draft: &mut Draft<'_>, member: &str) -> bool {
    let Some(since) = draft.snap.memory.counted_since.get(member) else {
        return false;
    };
    let until = since.plus_ms(COUNTED_MS);
    let waits = until > draft.snap.now;
    if waits {
        draft.sheet.wake(until);
    }
    waits
}

/// Somebody else's object stands where ours should: it is looked at again from time to time. One
/// that is ours by its owner, though its labels were changed, is put right.
pub fn name_is_taken(draft: &mut Draft<'_>, key: &Key, member: &str) -> bool {
    let snap = draft.snap;
    let Some(taken) = snap.memory.taken.get(key) else {
        return false;
    };
    if taken.ours_by_owner && key.0 == Kind::Pod {
        let who = snap.roster().named(&key.1).unwrap_or_default();
        let labels = render::pod_labels(snap, who, draft.ledger.incarnation(who));
        let body = json!({"metadata": {"labels": labels}});
        draft.sheet.write(Write::Patch {
            kind: Kind::Pod,
            pin: taken.pin.clone(),
            body,
        });
        return true;
    }
    if taken.retry_at <= snap.now {
        draft.sheet.write(Write::Look { key: key.clone() });
    }
    draft.sheet.wake(taken.retry_at);
    let message = format!(
        "{:?} {} exists and is not ours (uid {})",
        key.0, key.1, taken.pin.uid
    );
    let blocker = blocker(snap, Reason::NameTaken, message);
    draft.sheet.block(
        Action::Create,
        Some(member.to_owned()),
        "asked for",
        blocker,
    );
    true
}

/// Says why the API server does not take what was written.
pub fn report_failure(draft: &mut Draft<'_>, key: &Key, member: &str) -> bool {
    let Some(failure) = draft.snap.memory.failures.get(key) else {
        return false;
    };
    let message = format!("{:?} {}: {}", key.0, key.1, failure.message);
    let mut blocker = blocker(draft.snap, failure.reason, message);
    blocker.observed = format!("tried {} times", failure.tries);
    draft.sheet.block(
        Action::Create,
        Some(member.to_owned()),
        "asked for",
        blocker,
    );
    true
}

/// Takes back a pod that lost its owner, and gives back labels that somebody changed.
fn put_right(draft: &mut Draft<'_>, who: MemberId) {
    let snap = draft.snap;
    let Some(pod) = snap.our_pod(who).filter(|p| !p.meta.deleting) else {
        return;
    };
    let body = match snap.whose(who) {
        Some(Whose::Orphan) => json!({"metadata": {"ownerReferences": [render::owner(snap)]}}),
        Some(Whose::Mislabelled) => {
            let labels = render::pod_labels(snap, who, draft.ledger.incarnation(who));
            json!({"metadata": {"labels": labels}})
        }
        Some(Whose::Ours | Whose::Foreign) | None => return,
    };
    draft.sheet.write(Write::Patch {
        kind: Kind::Pod,
        pin: pod.meta.pin.clone(),
        body,
    });
}

fn settling(draft: &mut Draft<'_>, who: MemberId, member: String) {
    let snap = draft.snap;
    if snap.available(who) {
        return not_in_sync(draft, who, member);
    }
    let Some(pod) = snap.our_pod(who) else {
        return;
    };
    if pod.is_changing() {
        let cause = "changed in place";
        return draft
            .sheet
            .step(Action::Start, Some(member), cause, StepState::Running);
    }
    draft.sheet.wake(snap.settled_at(pod));
    let seconds = snap.ensemble.spec.min_ready_seconds;
    let message = format!("{member} is Ready, but not yet for {seconds} s");
    let blocker = blocker(snap, Reason::Settling, message);
    draft
        .sheet
        .block(Action::Start, Some(member), "minReadySeconds", blocker);
}

/// Ready is not in sync: said of a replica once somebody leads, or the step of the lead speaks.
fn not_in_sync(draft: &mut Draft<'_>, who: MemberId, member: String) {
    let snap = draft.snap;
    let Err(why) = snap.in_sync(who) else {
        return;
    };
    let Some(leader) = snap.roles().leader() else {
        return;
    };
    let leader = snap.roster().name(leader);
    let message = format!("{member} is Ready and not in sync with {leader}: {why}");
    let mut blocker = blocker(snap, Reason::NotInSync, message);
    blocker.observed = why;
    draft
        .sheet
        .block(Action::Start, Some(member), "roles", blocker);
}

fn trouble(draft: &mut Draft<'_>, who: MemberId, member: String) {
    let snap = draft.snap;
    let Some(trouble) = evidence::of(snap, who) else {
        return;
    };
    wake_for_changes(draft, who);
    if trouble.reason == Reason::Starting {
        return draft
            .sheet
            .step(Action::Start, Some(member), "created", StepState::Running);
    }
    let mut blocker = blocker(snap, trouble.reason, trouble.message);
    if let Some(pod) = snap.our_pod(who).filter(|p| !p.node.is_empty()) {
        blocker.observed = format!("on node {}", pod.node);
    }
    let cause = if snap.presence(who) == Presence::Leaving {
        "told to end"
    } else {
        "created"
    };
    draft
        .sheet
        .block(Action::Start, Some(member), cause, blocker);
}

/// When a member's trouble changes its name, or its remedy, by time alone.
fn wake_for_changes(draft: &mut Draft<'_>, who: MemberId) {
    let snap = draft.snap;
    let Some(pod) = snap.our_pod(who) else {
        return;
    };
    let memory = &snap.memory;
    if let Some(since) = memory.pod(&pod.meta.pin.uid).leaving_since {
        let stuck = since.plus_seconds(pod.grace_seconds + evidence::STUCK_AFTER_GRACE_SECONDS);
        if stuck > snap.now {
            draft.sheet.wake(stuck);
        }
    }
    if let Some(since) = memory.node_missing_since.get(&pod.node) {
        let gone = since.plus_seconds(crate::presence::NODE_GONE_AFTER_SECONDS);
        if gone > snap.now {
            draft.sheet.wake(gone);
        }
    }
}
