//! What engines are told.

use crate::view::Pinned;
use std::collections::{BTreeMap, BTreeSet};

/// What an engine can be told to do. That an act is here does not say that every engine can do it:
/// its abilities do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineAct {
    /// Hand the lead from one to the other; refuse if somebody else leads.
    SwitchOver {
        /// Who leads now.
        leader: String,
        /// Who is to lead.
        candidate: String,
    },
    /// Look at your cluster now, rather than in your next round.
    Nudge,
    /// Keep these parameters; None removes one.
    Configure(BTreeMap<String, Option<String>>),
    /// Restart in your container.
    Restart,
}

/// Something that a member's engine is told and that disrupts nobody: it can be told without consent,
/// and nothing else can be made one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tell {
    member: String,
    uid: String,
    act: EngineAct,
    sake: BTreeSet<String>,
}

impl Tell {
    fn of(pod: &Pinned, act: EngineAct) -> Self {
        Self {
            member: pod.name.clone(),
            uid: pod.uid.clone(),
            act,
            sake: BTreeSet::new(),
        }
    }

    /// That member is to look at its cluster now, for the sake of these changes, each by a name of its
    /// own.
    pub fn nudge(pod: &Pinned, sake: BTreeSet<String>) -> Self {
        Self {
            sake,
            ..Self::of(pod, EngineAct::Nudge)
        }
    }

    /// That member is to keep these parameters.
    pub fn configure(pod: &Pinned, parameters: BTreeMap<String, Option<String>>) -> Self {
        Self::of(pod, EngineAct::Configure(parameters))
    }

    /// Who is told.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Which pod of that name.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// For the sake of which changes: with a new one, it is worth being told quickly again.
    pub fn sake(&self) -> &BTreeSet<String> {
        &self.sake
    }

    /// What.
    pub fn act(&self) -> &EngineAct {
        &self.act
    }
}
