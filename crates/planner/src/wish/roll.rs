//! Members that run something else than what is asked for, in the order of their turns: Down first, for
//! they cost nobody anything; then those that are not Ready; then replicas, the most lagging first; the
//! primary last. Equals go from the highest ordinal.

use super::{Act, Cause, Round, Wish};
use crate::cast::Cast;
use crate::ledger::Ledgers;
use crate::method;
use crate::presence::Presence;
use crate::resize::{self, Standing};
use crate::revision::Revisions;
use crate::roster::MemberId;
use ensemble_api::spec::Order;
use ensemble_api::status::SwitchPhase;
use std::cmp::Reverse;

/// One wish for each of them.
pub(super) fn outdated(
    cast: &Cast<'_>,
    ledger: &Ledgers,
    revisions: &Revisions,
) -> impl Iterator<Item = Wish> {
    let first = goes_first(cast, revisions);
    let lag = |who: MemberId| cast.engine().behind(who);
    let wanted = cast.members().filter(|m| cast.roster().wants(*m));
    let outdated = wanted.filter(|m| is_outdated(cast, ledger, revisions, *m));
    let mut members: Vec<MemberId> = outdated.collect();
    members.sort_by_key(|m| (place(cast, first, *m), Reverse(lag(*m)), Reverse(*m)));
    let wish = |who: MemberId| {
        let choice = method::choose(cast, who, &revisions.target);
        let quiet = matches!(choice.act, Act::Relabel { .. } | Act::Resize { .. });
        Wish {
            who,
            act: choice.act,
            cause: Cause::Template {
                from: cast.ensemble.status.current_revision().to_owned(),
                to: revisions.target.clone(),
                surprise: choice.surprise,
                quiet,
            },
            round: Round::Roll,
        }
    };
    let wishes: Vec<Wish> = members.into_iter().map(wish).collect();
    wishes.into_iter()
}

/// How early a member's turn comes.
fn place(cast: &Cast<'_>, first: Option<MemberId>, who: MemberId) -> u8 {
    match cast.presence(who) {
        Presence::Down(_) => 0,
        _ if first == Some(who) => 1,
        _ if cast.engine().leads(who) => 4,
        Presence::Unhealthy | Presence::Starting | Presence::Unreachable => 2,
        _ if cast.in_sync(who).is_err() => 2,
        _ => 3,
    }
}

/// How many replicas the primary waits for; None if it goes first, by the user's wish.
pub(crate) fn replicas_before(
    cast: &Cast<'_>,
    revisions: &Revisions,
    before: usize,
    primary: MemberId,
) -> Option<usize> {
    (goes_first(cast, revisions) != Some(primary)).then_some(before)
}

/// Who goes before all others: a leader that is unfit, or, where the primary is to go first, the one that
/// led when it began. Once it has handed the lead over for that, or has its turn behind it, whoever leads
/// then goes last: else the lead would go round for ever.
fn goes_first(cast: &Cast<'_>, revisions: &Revisions) -> Option<MemberId> {
    if let Some(unfit) = unfit_leader(cast) {
        return Some(unfit);
    }
    if cast.ensemble.spec.rollout.order != Order::PrimaryFirst {
        return None;
    }
    let mut pods = cast.members().filter_map(|m| cast.our_pod(m));
    if pods.any(|p| revisions.is_current(p.revision())) {
        return None;
    }
    let stored = cast.ensemble.status.switchover.as_ref();
    let handed =
        stored.filter(|s| s.phase != SwitchPhase::Abandoned && s.revision == revisions.target);
    let led = handed.and_then(|s| {
        let is_it = |m: &MemberId| {
            let pod = cast.our_pod(*m);
            pod.is_some_and(|p| p.meta.pin.uid == s.from_uid)
        };
        cast.members().find(is_it)
    });
    led.or(cast.engine().leader())
}

/// A leader that does not become Ready for long, while somebody could lead in its place: it uses up the
/// budget that the others would need for their turns before it.
fn unfit_leader(cast: &Cast<'_>) -> Option<MemberId> {
    let leader = cast.engine().leader()?;
    let unwell = matches!(
        cast.presence(leader),
        Presence::Unhealthy | Presence::Starting
    );
    let pod = cast.our_pod(leader).filter(|_| unwell)?;
    let since = cast.memory.pod(&pod.meta.pin.uid).unready_since?;
    let seconds = cast.ensemble.spec.engine.as_ref()?.recover_after_seconds;
    let may_lead = |m: MemberId| {
        let standing = cast.engine().standing(m);
        cast.fit(m) && standing.is_some_and(|s| s.may_lead.is_ok())
    };
    let heirs = cast.heirs();
    let could = heirs.into_iter().any(may_lead);
    (could && since.plus_seconds(seconds) <= cast.now).then_some(leader)
}

fn is_outdated(cast: &Cast<'_>, ledger: &Ledgers, revisions: &Revisions, who: MemberId) -> bool {
    let life = ledger.incarnation(who);
    cast.our_pod(who).is_some_and(|pod| {
        let former = pod.meta.incarnation != Some(life);
        let unfit = resize::standing(cast, pod) == Standing::Unsent
            || resize::gets_a_new_pod(cast, pod)
            || pod.put_back().is_some();
        !pod.meta.deleting && (former || unfit || !revisions.is_current(pod.revision()))
    })
}
