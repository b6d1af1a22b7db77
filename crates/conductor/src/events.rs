//! What is worth an event: one for each transition.

use ensemble_api::report::{Action, State};
use ensemble_api::status::EnsembleStatus;
use ensemble_api::{Reason, Step, StepState, Waiver};
use std::collections::BTreeSet;

/// Something worth an event on the Ensemble.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Happening {
    /// Whether somebody should look.
    pub warning: bool,
    /// CamelCase: a [`Reason`], or what was done.
    pub reason: String,
    /// What was done, as a verb: `Recreate`.
    pub action: String,
    /// In words.
    pub note: String,
    /// The pod that it concerns.
    pub member: Option<String>,
}

/// What happened between two statuses.
pub fn between(old: &EnsembleStatus, new: &EnsembleStatus) -> Vec<Happening> {
    let mut all = Vec::new();
    let known: BTreeSet<&str> = old.in_flight.iter().map(|i| i.uid.as_str()).collect();
    for intent in new
        .in_flight
        .iter()
        .filter(|i| !known.contains(i.uid.as_str()))
    {
        let step = new
            .plan
            .steps
            .iter()
            .find(|s| s.member.as_ref() == Some(&intent.member));
        let cause = step.map_or("", |s| s.cause.as_str());
        // What is done in the same pod has a word of its own for each of its kinds.
        let in_place = |s: &&Step| matches!(s.action, Action::Resize | Action::Relabel);
        let done = match step.filter(in_place) {
            Some(step) => format!("{:?}", step.action),
            None => format!("{:?}", intent.method),
        };
        all.push(Happening {
            warning: false,
            reason: done.clone(),
            action: done,
            note: match intent.waived.as_slice() {
                [] => format!("{}: {cause}", intent.member),
                waived => format!("{}: {cause}; waived: {}", intent.member, waived.join(", ")),
            },
            member: Some(intent.member.clone()),
        });
    }
    all.extend(blocked(old, new));
    all.extend(waived(old, new));
    all.extend(put_back(old, new));
    if new.plan.state == State::Ready && old.plan.state != State::Ready {
        all.push(Happening {
            warning: false,
            reason: "AllServing".into(),
            action: "Reconcile".into(),
            note: format!(
                "{} members serve at revision {}",
                new.summary.ready, new.summary.revision
            ),
            member: None,
        });
    }
    all
}

/// A rule that is suspended is worth a warning, and so is that it holds again worth knowing.
fn waived(old: &EnsembleStatus, new: &EnsembleStatus) -> Vec<Happening> {
    let (before, now) = (&old.plan.waivers, &new.plan.waivers);
    let happening = |waiver: &Waiver, begins: bool| Happening {
        warning: begins,
        reason: if begins { "RuleWaived" } else { "WaiverEnded" }.into(),
        action: "Waive".into(),
        note: match begins {
            true => format!(
                "{} is suspended for {} until {} by EnsembleRequest {}: {}",
                waiver.rule, waiver.member, waiver.until.0, waiver.request, waiver.reason
            ),
            false => format!("{} holds again for {}", waiver.rule, waiver.member),
        },
        member: Some(waiver.member.clone()),
    };
    let begun = now.iter().filter(|w| !before.contains(w));
    let ended = before.iter().filter(|w| !now.contains(w));
    begun
        .map(|w| happening(w, true))
        .chain(ended.map(|w| happening(w, false)))
        .collect()
}

/// Labels of a pod that somebody changed.
fn put_back(old: &EnsembleStatus, new: &EnsembleStatus) -> Vec<Happening> {
    let of_a_pod = |s: &&Step| {
        s.action == Action::Maintain && s.state == StepState::Running && s.member.is_some()
    };
    let known: Vec<_> = old.plan.steps.iter().filter(of_a_pod).collect();
    let fresh = new.plan.steps.iter().filter(of_a_pod);
    fresh
        .filter(|s| {
            !known
                .iter()
                .any(|k| k.member == s.member && k.cause == s.cause)
        })
        .map(|s| Happening {
            warning: true,
            reason: "LabelsPutBack".into(),
            action: "Maintain".into(),
            note: format!("{}: {}", s.member.as_deref().unwrap_or_default(), s.cause),
            member: s.member.clone(),
        })
        .collect()
}

type Block<'a> = (Reason, Action, Option<&'a str>);

fn blocks(status: &EnsembleStatus) -> impl Iterator<Item = (Block<'_>, &str)> {
    let steps = status
        .plan
        .steps
        .iter()
        .filter(|s| s.state == StepState::Blocked);
    steps.filter_map(|s| {
        let blocker = s.blocker.as_ref()?;
        Some((
            (blocker.reason, s.action, s.member.as_deref()),
            blocker.message.as_str(),
        ))
    })
}

fn blocked(old: &EnsembleStatus, new: &EnsembleStatus) -> Vec<Happening> {
    let known: BTreeSet<Block<'_>> = blocks(old).map(|(block, _)| block).collect();
    let fresh = blocks(new).filter(|(block, _)| !known.contains(block));
    fresh
        .map(|((reason, action, member), message)| Happening {
            warning: reason.page().stalls,
            reason: reason.to_string(),
            action: format!("{action:?}"),
            note: message.to_owned(),
            member: member.map(str::to_owned),
        })
        .collect()
}
