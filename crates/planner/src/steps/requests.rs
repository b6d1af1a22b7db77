//! What people ask for, once: to rebuild members whose volumes are lost, to hand the lead over, to
//! let a supervised rollout touch the primary.

use crate::cast::Cast;
use crate::claims::ClaimGroup;
use crate::lives::Lives;
use crate::memory::Kind;
use crate::revision::Revisions;
use crate::roster::MemberId;
use crate::safety::{Safety, Sake};
use crate::sheet::Sheet;
use crate::succession::{Proposal, Succession};
use crate::view::RequestView;
use crate::write::Write;
use ensemble_api::request::{Approve, Rebuild, Switch};
use ensemble_api::status::SwitchPhase;
use ensemble_api::{EnsembleRequestSpec, Outcome, Reason};
use serde_json::json;
use std::collections::BTreeSet;

/// What answering leaves behind.
#[must_use]
pub struct Answered {
    /// With a new one for whoever is rebuilt.
    pub lives: Lives,
}

/// Answers each request that has no outcome, and discards those whose time is over.
pub fn answer(
    snap: &Cast<'_>,
    revisions: &Revisions,
    safety: &mut Safety<'_>,
    succession: &mut Succession<'_>,
    sheet: &mut Sheet<'_>,
) -> Answered {
    let mut lives = Lives::of(snap);
    for request in snap.requests.values() {
        if request.finished {
            discard_when_old(snap, request, sheet);
            continue;
        }
        let answer = match &request.spec {
            EnsembleRequestSpec {
                switch: Some(s), ..
            } => switch(snap, request, s, safety, succession, sheet),
            EnsembleRequestSpec {
                approve: Some(a), ..
            } => approve(snap, revisions, a),
            _ => match rebuild(snap, request, &mut lives) {
                Ok(message) => message.map(|m| (Outcome::Done, m)),
                Err(message) => Some((Outcome::Refused, message)),
            },
        };
        let Some((outcome, message)) = answer else {
            continue;
        };
        let finished_at = snap.now.stamp();
        let status = json!({"outcome": outcome, "message": message, "finishedAt": finished_at});
        let pin = request.meta.pin.clone();
        sheet.write(Write::Answer { pin, body: status });
    }
    Answered { lives }
}

type Answer = Option<(Outcome, String)>;

/// Hands the lead over; answered when that is over.
fn switch(
    snap: &Cast<'_>,
    request: &RequestView,
    wanted: &Switch,
    safety: &mut Safety<'_>,
    succession: &mut Succession<'_>,
    sheet: &mut Sheet<'_>,
) -> Answer {
    let refused = |message: String| Some((Outcome::Refused, message));
    if !snap.abilities.can_switch {
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
    if succession.is_open() {
        return None;
    }
    let cause = format!("request {}", request.meta.pin.name);
    let sake = Sake {
        request: &request.meta.pin.uid,
        ..Sake::of(&cause)
    };
    let Some(to) = &wanted.to else {
        return match succession.propose_best(sake, |_| true, safety, sheet) {
            Proposal::Nobody(why) => refused(why),
            Proposal::Made | Proposal::Waits | Proposal::Refused(_) => None,
        };
    };
    let who = match snap.roster().asked_for(to) {
        Ok(who) => who,
        Err(message) => return refused(message),
    };
    if snap.engine().leads(who) {
        return Some((Outcome::Done, format!("{to} leads already")));
    }
    let Proposal::Refused(refusal) = succession.propose(who, sake, safety, sheet) else {
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
fn approve(snap: &Cast<'_>, revisions: &Revisions, approve: &Approve) -> Answer {
    let target = &revisions.target;
    if approve.revision != *target {
        let message = format!(
            "approves {}, and the rollout is to {target}",
            approve.revision
        );
        return Some((Outcome::Refused, message));
    }
    let leader = snap.engine().leader()?;
    let pod = snap.our_pod(leader)?;
    let done = revisions.is_current(pod.revision());
    done.then(|| {
        let name = snap.roster().name(leader);
        (Outcome::Done, format!("{name} leads at {target}"))
    })
}

fn discard_when_old(snap: &Cast<'_>, request: &RequestView, sheet: &mut Sheet<'_>) {
    let finished_at = request.finished_at.filter(|_| !request.meta.deleting);
    let Some(finished_at) = finished_at else {
        return;
    };
    let at = finished_at.plus_seconds(request.spec.ttl_seconds_after_finished);
    if at <= snap.now {
        let pin = request.meta.pin.clone();
        sheet.write(Write::Discard {
            kind: Kind::Request,
            pin,
        });
    } else {
        sheet.wake(at);
    }
}

/// Consent is stored in the ledger first; the request is answered once that is seen, and only when
/// the answer is seen does the new life begin. So a crash in between loses and repeats nothing.
fn rebuild(
    snap: &Cast<'_>,
    request: &RequestView,
    lives: &mut Lives,
) -> Result<Option<String>, String> {
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
        whom.insert(may_rebuild(snap, lives, member)?);
    }
    let consent = format!("request {}", request.meta.pin.name);
    let mut stored = true;
    for who in whom {
        let first = lives.hold_up(who);
        if lives.is_given_up(snap, who) {
            continue;
        }
        stored = false;
        if first {
            lives.renew(snap, who, &consent);
        }
    }
    let members = members.join(", ");
    Ok(stored.then(|| format!("{members} will start anew on empty volumes")))
}

fn may_rebuild(snap: &Cast<'_>, lives: &Lives, member: &str) -> Result<MemberId, String> {
    let who = snap.roster().asked_for(member)?;
    let group = snap.group(&lives.ledgers, who);
    let whole = matches!(group, ClaimGroup::Complete);
    if whole {
        return Err(format!(
            "{member} has all its claims; rebuilding it would throw good data away"
        ));
    }
    Ok(who)
}
