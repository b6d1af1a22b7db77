//! A switchover that is written down: how far it is, and how it ended.

use crate::cast::Cast;
use crate::engine::Lead;
use crate::errand::{Errand, Seen};
use crate::plan::blocker;
use crate::revision::Revisions;
use crate::sheet::Sheet;
use crate::succession::Succession;
use ensemble_api::report::Action;
use ensemble_api::status::{SwitchPhase, Switchover};
use ensemble_api::{Reason, Rule, StepState};

/// Moves an open switchover on, by what is seen. Others may be proposed once none is open.
pub fn follow<'s>(
    snap: &'s Cast<'s>,
    revisions: &'s Revisions,
    sheet: &mut Sheet<'_>,
) -> Succession<'s> {
    let stored = snap.ensemble.status.switchover.clone();
    let Some(open) = stored.clone().filter(|s| s.phase.is_open()) else {
        return Succession::new(snap, revisions, stored);
    };
    let (phase, message) = Errand::of(&open).next(snap, || seen(snap, &open));
    let switch = Switchover {
        phase,
        message,
        ..open
    };
    if phase.is_open() {
        report(snap, &switch, sheet);
    }
    Succession::new(snap, revisions, Some(switch))
}

/// What is seen of a switchover for which the engine was asked.
fn seen(snap: &Cast<'_>, switch: &Switchover) -> Seen {
    let Lead::One { who, term } = snap.lead() else {
        return Seen::Unclear("no leader was seen until the deadline".into());
    };
    let leader = snap.roster().name(*who);
    let uid = snap.our_pod(*who).map(|p| p.meta.pin.uid.as_str());
    let later = *term > switch.term || crate::mutants::is_off(Rule::ArrivedAtAHigherTerm);
    if later && uid == Some(switch.to_uid.as_str()) {
        return Seen::Done(format!("{leader} leads at term {term}"));
    }
    if later && uid != Some(switch.from_uid.as_str()) {
        return Seen::Otherwise(format!("{leader} leads instead, at term {term}"));
    }
    Seen::AsBefore(format!("{leader} still leads at the deadline"))
}

fn report(snap: &Cast<'_>, switch: &Switchover, sheet: &mut Sheet<'_>) {
    sheet.wake(Errand::of(switch).due(snap));
    let member = Some(switch.to.clone());
    if switch.phase == SwitchPhase::Proposed {
        return sheet.step(Action::Switch, member, &switch.cause, StepState::Running);
    }
    let message = format!("{} hands the lead to {}", switch.from, switch.to);
    let mut blocker = blocker(snap, Reason::SwitchingOver, message);
    blocker.observed = match snap.lead() {
        Lead::One { who, term } => {
            format!("{} leads at term {term}", snap.roster().name(*who))
        }
        _ => "nobody is seen to lead".into(),
    };
    blocker.limit = format!("{} at a term above {}", switch.to, switch.term);
    sheet.block(Action::Switch, member, &switch.cause, blocker);
}
