//! What people ask for, once: to rebuild members whose volumes are lost, to hand the lead over, to
//! let a supervised rollout touch the primary.

use crate::claims::ClaimGroup;
use crate::memory::Kind;
use crate::plan::{Draft, Proposal};
use crate::roster::MemberId;
use crate::safety::Sake;
use crate::view::RequestView;
use crate::write::Write;
use ensemble_api::request::{Approve, Rebuild, Switch};
use ensemble_api::status::{LetGo, SwitchPhase};
use ensemble_api::{EnsembleRequestSpec, Outcome, Reason};
use serde_json::json;
use std::collections::BTreeSet;

/// Answers each request that has no outcome, and discards those whose time is over.
pub fn run(draft: &mut Draft<'_>) {
    for request in draft.snap.requests.values() {
        if request.finished {
            discard_when_old(draft, request);
            continue;
        }
        let answer = match &request.spec {
            EnsembleRequestSpec {
                switch: Some(s), ..
            } => switch(draft, request, s),
            EnsembleRequestSpec {
                approve: Some(a), ..
            } => approve(draft, a),
            _ => match rebuild(draft, request) {
                Ok(message) => message.map(|m| (Outcome::Done, m)),
                Err(message) => Some((Outcome::Refused, message)),
            },
        };
        let Some((outcome, message)) = answer else {
            continue;
        };
        let finished_at = draft.snap.now.stamp();
        let status = json!({"outcome": outcome, "message": message, "finishedAt": finished_at});
        let pin = request.meta.pin.clone();
        draft.sheet.write(Write::Answer { pin, body: status });
    }
}

type Answer = Option<(Outcome, String)>;

/// Hands the lead over; answered when that is over.
fn switch(draft: &mut Draft<'_>, request: &RequestView, wanted: &Switch) -> Answer {
    let snap = draft.snap;
    let refused = |message: String| Some((Outcome::Refused, message));
    if !draft.can_switch() {
        return refused(format!(
            "{} has no engine that can hand the lead over; name one in spec.engine",
            snap.name()
        ));
    }
    let own = snap.ensemble.status.switchover.clone();
    if let Some(own) = own.filter(|s| s.request == request.meta.pin.uid) {
        return match own.phase {
            SwitchPhase::Proposed | SwitchPhase::Asked => None,
            SwitchPhase::Arrived => Some((Outcome::Done, own.message)),
            SwitchPhase::Superseded | SwitchPhase::Abandoned => Some((
                Outcome::Failed,
                format!("{} -> {}: {}", own.from, own.to, own.message),
            )),
        };
    }
    if draft.switch_is_open() {
        return None;
    }
    let cause = format!("request {}", request.meta.pin.name);
    let sake = Sake {
        request: &request.meta.pin.uid,
        ..Sake::of(&cause)
    };
    let Some(to) = &wanted.to else {
        return match draft.hand_over_to_best(sake, |_| true) {
            Proposal::Nobody(why) => refused(why),
            Proposal::Made | Proposal::Waits | Proposal::Refused(_) => None,
        };
    };
    let who = match snap.roster().asked_for(to) {
        Ok(who) => who,
        Err(message) => return refused(message),
    };
    if snap.roles().leader() == Some(who) {
        return Some((Outcome::Done, format!("{to} leads already")));
    }
    let Proposal::Refused(refusal) = draft.hand_over(who, sake) else {
        return None;
    };
    // What passes by itself is waited for.
    let passes = [
        Reason::CacheBehind,
        Reason::SwitchingOver,
        Reason::Terminating,
    ];
    if passes.contains(&refusal.reason) {
        return None;
    }
    refused(format!(
        "{} is false: {}; try `ensemble status {}`",
        refusal.predicate,
        refusal.observed,
        snap.name()
    ))
}

/// Approval holds until the primary runs what was approved.
fn approve(draft: &Draft<'_>, approve: &Approve) -> Answer {
    let snap = draft.snap;
    let target = &draft.revisions.target;
    if approve.revision != *target {
        let message = format!(
            "approves {}, and the rollout is to {target}",
            approve.revision
        );
        return Some((Outcome::Refused, message));
    }
    let leader = snap.roles().leader()?;
    let pod = snap.our_pod(leader)?;
    let done = draft.revisions.is_current(pod.revision());
    done.then(|| {
        let name = snap.roster().name(leader);
        (Outcome::Done, format!("{name} leads at {target}"))
    })
}

fn discard_when_old(draft: &mut Draft<'_>, request: &RequestView) {
    let finished_at = request.finished_at.filter(|_| !request.meta.deleting);
    let Some(finished_at) = finished_at else {
        return;
    };
    let at = finished_at.plus_seconds(request.spec.ttl_seconds_after_finished);
    if at <= draft.snap.now {
        let pin = request.meta.pin.clone();
        draft.sheet.write(Write::Discard {
            kind: Kind::Request,
            pin,
        });
    } else {
        draft.sheet.wake(at);
    }
}

/// Consent is stored in the ledger first; the request is answered once that is seen, and only when
/// the answer is seen does the new life begin. So a crash in between loses and repeats nothing.
fn rebuild(draft: &mut Draft<'_>, request: &RequestView) -> Result<Option<String>, String> {
    let Some(Rebuild {
        members,
        accept_data_loss,
    }) = &request.spec.rebuild
    else {
        return Ok(None);
    };
    if !accept_data_loss {
        return Err(
            "spec.rebuild.acceptDataLoss must be true: the data of these members is given \
                    up; set it if that is what you want"
                .into(),
        );
    }
    let mut whom = BTreeSet::new();
    for member in members {
        whom.insert(may_rebuild(draft, member)?);
    }
    let consent = format!("request {}", request.meta.pin.name);
    let mut stored = true;
    for who in whom {
        let first = draft.rebuilding.insert(who);
        if is_given_up(draft, who) {
            continue;
        }
        stored = false;
        if first {
            renew(draft, who, &consent);
        }
    }
    let members = members.join(", ");
    Ok(stored.then(|| format!("{members} will start anew on empty volumes")))
}

/// Whether the stored ledger already has this member at the start of a new life.
fn is_given_up(draft: &Draft<'_>, who: MemberId) -> bool {
    let stored = &draft.stored;
    if stored.incarnation(who) == 0 || stored.is_born(who) {
        return false;
    }
    match draft.snap.group(stored, who) {
        ClaimGroup::Creating { .. } => true,
        ClaimGroup::Taken { claim } => draft.let_go.iter().any(|l| l.claim == claim),
        _ => false,
    }
}

fn may_rebuild(draft: &Draft<'_>, member: &str) -> Result<MemberId, String> {
    let snap = draft.snap;
    let who = snap.roster().asked_for(member)?;
    let group = snap.group(&draft.ledger, who);
    let whole = matches!(group, ClaimGroup::Complete);
    if whole {
        return Err(format!(
            "{member} has all its claims; rebuilding it would throw good data away"
        ));
    }
    Ok(who)
}

/// Starts a new life for a member and writes down which claims of the old one go.
pub fn renew(draft: &mut Draft<'_>, who: MemberId, consent: &str) {
    let snap = draft.snap;
    draft.ledger.renew(who);
    for claim in &snap.ensemble.spec.claims {
        let name = snap.roster().claim(&claim.name, who);
        let Some(found) = snap.claims.get(&name) else {
            continue;
        };
        if snap.roster().owns_claim(found, who, &claim.name) {
            let uid = found.meta.pin.uid.clone();
            draft.let_go.push(LetGo {
                claim: name,
                uid,
                consent: consent.to_owned(),
            });
        }
    }
}
