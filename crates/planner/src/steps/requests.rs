//! What people ask for, once: today, to rebuild members whose volumes are lost.

use crate::claims::{self, ClaimGroup};
use crate::memory::Kind;
use crate::plan::Draft;
use crate::view::RequestView;
use crate::write::Write;
use ensemble_api::request::Rebuild;
use ensemble_api::status::LetGo;
use ensemble_api::{Outcome, names};
use serde_json::json;

/// Answers each request that has no outcome, and discards those whose time is over.
pub fn run(draft: &mut Draft<'_>) {
    for request in draft.snap.requests.values() {
        if request.finished {
            discard_when_old(draft, request);
            continue;
        }
        let answer = rebuild(draft, request);
        let (outcome, message) = match answer {
            Ok(message) => (Outcome::Done, message),
            Err(message) => (Outcome::Refused, message),
        };
        let finished_at = draft.snap.now.stamp();
        let status = json!({"outcome": outcome, "message": message, "finishedAt": finished_at});
        let pin = request.meta.pin.clone();
        draft.write(Write::Answer { pin, body: status });
    }
}

fn discard_when_old(draft: &mut Draft<'_>, request: &RequestView) {
    let Some(finished_at) = request.finished_at else { return };
    let at = finished_at.plus_seconds(request.spec.ttl_seconds_after_finished);
    if at <= draft.snap.now && !request.meta.deleting {
        let pin = request.meta.pin.clone();
        draft.write(Write::Discard { kind: Kind::Request, pin });
    } else {
        draft.wake.at(at);
    }
}

/// The consent is stored in the ledger by the same status write that every other decision needs; a
/// request is answered with what the ledger already says, so that a crash in between repeats
/// nothing.
fn rebuild(draft: &mut Draft<'_>, request: &RequestView) -> Result<String, String> {
    let Rebuild { members, accept_data_loss } = &request.spec.rebuild;
    if !accept_data_loss {
        return Err("spec.rebuild.acceptDataLoss must be true: the data of these members is given \
                    up; set it if that is what you want"
            .into());
    }
    let mut ordinals = Vec::new();
    for member in members {
        ordinals.push(may_rebuild(draft, member)?);
    }
    for ordinal in &ordinals {
        let consent = format!("request {}", request.meta.pin.name);
        let already = draft.let_go.iter().any(|l| l.consent == consent);
        if !already {
            renew(draft, *ordinal, &consent);
        }
    }
    Ok(format!("{} will start anew on empty volumes", members.join(", ")))
}

fn may_rebuild(draft: &Draft<'_>, member: &str) -> Result<u32, String> {
    let snap = draft.snap;
    let ordinal = names::ordinal_of(snap.name(), member).filter(|o| *o < snap.replicas());
    let Some(ordinal) = ordinal else {
        let last = snap.replicas().saturating_sub(1);
        let name = snap.name();
        return Err(format!("{member} is no member of {name}; its members are {name}-0 to {name}-{last}"));
    };
    let group = claims::group(snap, &draft.ledger, ordinal);
    let whole = matches!(group, ClaimGroup::Complete);
    if whole {
        return Err(format!("{member} has all its claims; rebuilding it would throw good data away"));
    }
    Ok(ordinal)
}

/// Starts a new life for an ordinal and writes down which claims of the old one go.
pub fn renew(draft: &mut Draft<'_>, ordinal: u32, consent: &str) {
    let snap = draft.snap;
    draft.ledger.renew(ordinal);
    for claim in &snap.ensemble.spec.claims {
        let name = names::claim(&claim.name, snap.name(), ordinal);
        let Some(found) = snap.claims.get(&name) else { continue };
        if snap.owns_claim(found, ordinal, &claim.name) {
            let uid = found.meta.pin.uid.clone();
            draft.let_go.push(LetGo { claim: name, uid, consent: consent.to_owned() });
        }
    }
}
