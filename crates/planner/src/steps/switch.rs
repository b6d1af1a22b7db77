//! A switchover that is written down: how far it is, and how it ended.

use crate::cast::Cast;
use crate::engine::Lead;
use crate::memory::SwitchNews;
use crate::plan::blocker;
use crate::revision::Revisions;
use crate::sheet::Sheet;
use crate::succession::Succession;
use crate::time::Time;
use ensemble_api::report::Action;
use ensemble_api::status::{SwitchPhase, Switchover};
use ensemble_api::{Reason, StepState};

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
    let (phase, message) = next(snap, &open);
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

fn next(snap: &Cast<'_>, switch: &Switchover) -> (SwitchPhase, String) {
    let late = Time::from_stamp(&switch.deadline) <= snap.now
        && !crate::mutants::is_off("switch-has-a-deadline");
    let news = snap.memory.switches.get(&switch.id);
    match (switch.phase, news) {
        (SwitchPhase::Proposed, _)
            if switch.epoch != snap.epoch && !crate::mutants::is_off("switch-by-its-author") =>
        {
            (
                SwitchPhase::Abandoned,
                "another controller wrote it down and never asked".into(),
            )
        }
        (SwitchPhase::Proposed, Some(SwitchNews::Confirmed)) if !late => {
            (SwitchPhase::Asked, String::new())
        }
        (SwitchPhase::Proposed, Some(SwitchNews::Refused(cause))) => {
            (SwitchPhase::Abandoned, cause.clone())
        }
        (SwitchPhase::Proposed, _) if late => (
            SwitchPhase::Abandoned,
            "it could not be confirmed in time".into(),
        ),
        (SwitchPhase::Asked, _) => asked(snap, switch, late),
        (phase, _) => (phase, switch.message.clone()),
    }
}

/// The engine was asked: only what is seen of its members tells how it ended.
fn asked(snap: &Cast<'_>, switch: &Switchover, late: bool) -> (SwitchPhase, String) {
    let open = (SwitchPhase::Asked, switch.message.clone());
    if let Lead::One { who, term } = snap.lead() {
        let leader = snap.roster().name(*who);
        let uid = snap.our_pod(*who).map(|p| p.meta.pin.uid.as_str());
        let later = *term > switch.term || crate::mutants::is_off("arrived-at-a-higher-term");
        if later && uid == Some(switch.to_uid.as_str()) {
            return (
                SwitchPhase::Arrived,
                format!("{leader} leads at term {term}"),
            );
        }
        if later && uid != Some(switch.from_uid.as_str()) {
            return (
                SwitchPhase::Superseded,
                format!("{leader} leads instead, at term {term}"),
            );
        }
        let refused = snap.memory.switches.get(&switch.id);
        if let Some(SwitchNews::Refused(cause)) = refused {
            return (SwitchPhase::Abandoned, cause.clone());
        }
        if late {
            let message = format!("{leader} still leads at the deadline");
            return (SwitchPhase::Abandoned, message);
        }
        return open;
    }
    if late {
        let message = "no leader was seen until the deadline".to_owned();
        return (SwitchPhase::Abandoned, message);
    }
    open
}

fn report(snap: &Cast<'_>, switch: &Switchover, sheet: &mut Sheet<'_>) {
    sheet.wake(Time::from_stamp(&switch.deadline));
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
