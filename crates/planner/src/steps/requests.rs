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
use crate::steps::removal;
use crate::succession::{Proposal, Succession};
use crate::view::RequestView;
use crate::waivers;
use crate::write::Write;
use ensemble_api::report::WAIVERS_MAX;
use ensemble_api::request::{AcceptedWaiver, Approve, Rebuild, Switch, Waive};
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
            EnsembleRequestSpec { waive: Some(w), .. } => waive(snap, request, w, sheet),
            EnsembleRequestSpec {
                remove: Some(r), ..
            } => removal::remove(snap, r, safety, &mut lives),
            EnsembleRequestSpec {
                replace: Some(r), ..
            } => removal::replace(snap, r, &mut lives),
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

/// The outcome of a request, once it is known.
pub(super) type Answer = Option<(Outcome, String)>;

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

/// Approval holds until every member runs what was approved: once the lead has moved, the member that
/// had it still has its turn before it.
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
    let updated = |m: MemberId| {
        let pod = snap.our_pod(m);
        pod.is_some_and(|p| revisions.is_current(p.revision()) && !p.meta.deleting)
    };
    snap.wanted().all(updated).then(|| {
        let name = snap.roster().name(leader);
        (
            Outcome::Done,
            format!("all members run {target}; {name} leads"),
        )
    })
}

/// Accepted first, which is written down and read back before it counts; answered when it is over.
fn waive(snap: &Cast<'_>, request: &RequestView, wanted: &Waive, sheet: &mut Sheet<'_>) -> Answer {
    if let Err(why) = waivers::valid(snap, snap.roster(), request, wanted) {
        return Some((Outcome::Refused, why));
    }
    let Some(accepted) = &request.waiver else {
        return accept(snap, request, wanted, sheet);
    };
    let used = match accepted.used_for.is_empty() {
        true => "it was not used".to_owned(),
        false => format!("used for: {}", accepted.used_for.join(", ")),
    };
    if accepted.epoch != snap.epoch {
        let message = format!(
            "ended with the controller that had accepted it; {used}. If it is still needed, create it again"
        );
        return Some((Outcome::Done, message));
    }
    let end = waivers::ends_at(snap, request, wanted, accepted);
    if end <= snap.now {
        return Some((
            Outcome::Done,
            format!("expired at {}; {used}", end.stamp().0),
        ));
    }
    sheet.wake(end);
    write_use(snap, request, wanted, accepted, sheet);
    None
}

fn accept(snap: &Cast<'_>, request: &RequestView, wanted: &Waive, sheet: &mut Sheet<'_>) -> Answer {
    let until = waivers::at_the_latest(snap, request, wanted);
    // Whole seconds are stored.
    if until.stamp().0 <= snap.now.stamp().0 {
        let message = format!(
            "expired at {}, before the controller saw it; by its clock it is {} now. Create it again",
            until.stamp().0,
            snap.now.stamp().0
        );
        return Some((Outcome::Failed, message));
    }
    if waivers::are_too_many(snap) {
        let message =
            format!("{WAIVERS_MAX} waivers are in force already; wait until one has expired");
        return Some((Outcome::Refused, message));
    }
    let accepted = AcceptedWaiver {
        until: until.stamp(),
        epoch: snap.epoch,
        used_for: Vec::new(),
    };
    let message = format!(
        "{} is suspended for {} until {}",
        wanted.rule, wanted.member, accepted.until.0
    );
    sheet.write(Write::Answer {
        pin: request.meta.pin.clone(),
        body: json!({"message": message, "waiver": accepted}),
    });
    None
}

/// What is done by leave of a waiver is written down on it, from what is written down as done.
fn write_use(
    snap: &Cast<'_>,
    request: &RequestView,
    wanted: &Waive,
    accepted: &AcceptedWaiver,
    sheet: &mut Sheet<'_>,
) {
    const MOST: usize = 8;
    let stored = snap.ensemble.status.in_flight.iter();
    let by_leave = stored.filter(|i| i.member == wanted.member && i.waived.contains(&wanted.rule));
    let mut accepted = accepted.clone();
    let known = accepted.used_for.len();
    for intent in by_leave {
        let what = format!(
            "{:?} of pod {} at {}",
            intent.method, intent.uid, intent.since.0
        );
        if !accepted.used_for.contains(&what) && accepted.used_for.len() < MOST {
            accepted.used_for.push(what);
        }
    }
    if accepted.used_for.len() > known {
        let pin = request.meta.pin.clone();
        let body = json!({"waiver": accepted});
        sheet.write(Write::Answer { pin, body });
    }
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
