//! What is worth an event: one for each transition.

use ensemble_api::report::{Action, State};
use ensemble_api::status::EnsembleStatus;
use ensemble_api::{Reason, Step, StepState};
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
            note: format!("{}: {cause}", intent.member),
            member: Some(intent.member.clone()),
        });
    }
    all.extend(blocked(old, new));
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
