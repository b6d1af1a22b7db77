//! One ensemble's life, sans I/O.
//!
//! A [`Conductor`] folds watch events, outcomes of calls and the passing of time into a snapshot,
//! runs the planner, and turns its plan into calls. Production and simulation are two drivers of
//! the same conductor. It holds back what a lagging view would get wrong (the read-your-writes
//! gate), looks again before it disrupts, and remembers what the API server does not store.

pub mod call;
mod conductor;
mod confirm;
#[cfg(doctest)]
mod consent;
pub mod engine;
mod events;
mod fold;
mod gate;
mod outcome;
mod overtaken;
mod pruned;
mod send;
mod taken;
mod whose;

pub use call::{ApiCall, ApiError, CallId, Outcome, Verb};
pub use conductor::Conductor;
pub use engine::{Ask, EngineCall, EngineOutcome};
pub use ensemble_planner::kinds::{Belongs, KINDS, Kind, KindInfo, LOOK};
pub use ensemble_planner::snapshot::Nodes;
pub use ensemble_planner::time::Time;
pub use events::Happening;
pub use whose::{ensemble_of, owner_of};

use ensemble_api::Report;
use serde_json::Value;
use std::sync::Arc;

/// What a conductor is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// An object of this ensemble, or the Ensemble itself, was created or changed.
    Applied(Kind, Arc<Value>),
    /// An object is gone, or no longer carries our label. The object as last seen.
    Deleted(Kind, Arc<Value>),
    /// All objects of a kind that belong to this ensemble, after a list or a re-list, and when that
    /// list was asked for: it says nothing of what was written since.
    Listed(Kind, Vec<Arc<Value>>, Time),
    /// All nodes; None if they cannot be read. Only sent when a node's view changed.
    Nodes(Option<Arc<Nodes>>),
    /// What came of a call.
    Done(CallId, Outcome),
    /// What came of a question to an engine.
    Engine(CallId, EngineOutcome),
    /// We lead, at that epoch (transitions of the Lease), or no longer.
    Lead(Option<i64>),
    /// Time has passed.
    Tick,
}

/// What a conductor wants.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this call and bring back its outcome.
    Call(CallId, ApiCall),
    /// Ask this of a member's engine and bring back its outcome.
    Engine(CallId, EngineCall),
    /// Send a Tick at that time, at the latest. Each replaces the one before.
    Wake(Time),
    /// What the plan says, whenever it changed.
    Publish(Arc<Report>),
    /// Something worth an event.
    Happened(Happening),
    /// List all objects of that kind again: the watch seems to be behind.
    Relist(Kind),
}

/// The kinds that a conductor must have seen listed before it plans: all that live in a namespace.
pub const WATCHED: [Kind; namespaced()] = {
    let mut watched = [Kind::Ensemble; namespaced()];
    let (mut row, mut place) = (0, 0);
    while row < KINDS.len() {
        if KINDS[row].is_namespaced() {
            watched[place] = KINDS[row].kind;
            place += 1;
        }
        row += 1;
    }
    watched
};

/// How many kinds live in a namespace.
const fn namespaced() -> usize {
    let (mut row, mut count) = (0, 0);
    while row < KINDS.len() {
        if KINDS[row].is_namespaced() {
            count += 1;
        }
        row += 1;
    }
    count
}
