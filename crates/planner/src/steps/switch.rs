//! A switchover that is written down: how far it is, and how it ended.

use crate::cast::Cast;
use crate::engine::Lead;
use crate::errand::{Errand, Seen};
use crate::plan::{Draft, blocker};
use crate::time::Time;
use ensemble_api::report::Action;
use ensemble_api::status::{SwitchPhase, Switchover};
use ensemble_api::{Reason, Rule, StepState};

/// Moves an open switchover on, by what is seen.
pub fn run(draft: &mut Draft<'_>) {
    let Some(stored) = draft.switchover.clone().filter(|s| s.phase.is_open()) else {
        return;
    };
    let cast = draft.snap;
    let (phase, message) = Errand::of(&stored).next(cast, || seen(cast, &stored));
    let switch = Switchover {
        phase,
        message,
        ..stored
    };
    if phase.is_open() {
        report(draft, &switch);
    }
    draft.switchover = Some(switch);
}

/// What is seen of a switchover for which the engine was asked.
fn seen(cast: &Cast<'_>, switch: &Switchover) -> Seen {
    let Lead::One { who, term } = cast.lead() else {
        return Seen::Unclear("no leader was seen until the deadline".into());
    };
    let leader = cast.roster().name(*who);
    let uid = cast.our_pod(*who).map(|p| p.meta.pin.uid.as_str());
    let later = *term > switch.term || crate::mutants::is_off(Rule::ArrivedAtAHigherTerm);
    if later && uid == Some(switch.to_uid.as_str()) {
        return Seen::Done(format!("{leader} leads at term {term}"));
    }
    if later && uid != Some(switch.from_uid.as_str()) {
        return Seen::Otherwise(format!("{leader} leads instead, at term {term}"));
    }
    Seen::AsBefore(format!("{leader} still leads at the deadline"))
}

fn report(draft: &mut Draft<'_>, switch: &Switchover) {
    draft.wake.at(Time::from_stamp(&switch.deadline));
    let member = Some(switch.to.clone());
    if switch.phase == SwitchPhase::Proposed {
        return draft.step(Action::Switch, member, &switch.cause, StepState::Running);
    }
    let message = format!("{} hands the lead to {}", switch.from, switch.to);
    let mut blocker = blocker(draft.snap, Reason::SwitchingOver, message);
    blocker.observed = match draft.snap.lead() {
        Lead::One { who, term } => {
            format!("{} leads at term {term}", draft.snap.roster().name(*who))
        }
        _ => "nobody is seen to lead".into(),
    };
    blocker.limit = format!("{} at a term above {}", switch.to, switch.term);
    draft.block(Action::Switch, member, &switch.cause, blocker);
}
