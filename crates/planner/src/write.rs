//! What a plan wants written: only what hurts nobody. What may hurt needs a permit.

use crate::memory::{Key, Kind};
use crate::view::Pinned;
use ensemble_api::EnsembleStatus;
use serde_json::Value;

/// A write that disrupts nobody.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create an object.
    Create {
        /// Its kind.
        kind: Kind,
        /// The whole object.
        body: Value,
    },
    /// Merge into an object, if it is still the one that was seen.
    Patch {
        /// Its kind.
        kind: Kind,
        /// The object.
        pin: Pinned,
        /// What to merge, without uid and version, which are added.
        body: Value,
    },
    /// Take pods that live out of those that a budget of ours counts as evicted, if the budget is
    /// still as it was seen.
    Uncount {
        /// The budget.
        budget: Pinned,
        /// The pods' names.
        pods: Vec<String>,
    },
    /// Delete an object that holds no data and that nobody uses: a helper pod, an old revision, our
    /// own budget.
    Discard {
        /// Its kind.
        kind: Kind,
        /// The object.
        pin: Pinned,
    },
    /// Ask the API server what pod it would make of a revision.
    Check {
        /// The revision.
        revision: String,
        /// The pod.
        body: Value,
    },
    /// Look at an object that stands where one of ours should.
    Look {
        /// It.
        key: Key,
    },
    /// Store the status, from the version that this plan was made of.
    Status(Box<EnsembleStatus>),
    /// Store the outcome of a request.
    Answer {
        /// The request.
        pin: Pinned,
        /// Its status.
        body: Value,
    },
}

impl Write {
    /// What it is about; one call at a time is made about the same thing.
    pub fn key(&self) -> Key {
        match self {
            Write::Create { kind, body } => (
                *kind,
                body["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            ),
            Write::Patch { kind, pin, .. } | Write::Discard { kind, pin } => {
                (*kind, pin.name.clone())
            }
            Write::Uncount { budget, .. } => uncount_key(&budget.name),
            Write::Check { revision, .. } => (Kind::Revision, format!("check/{revision}")),
            Write::Look { key } => key.clone(),
            Write::Status(_) => (Kind::Ensemble, "status".into()),
            Write::Answer { pin, .. } => (Kind::Request, pin.name.clone()),
        }
    }
}

/// What [`Write::Uncount`] is about: not the budget's spec, whose upkeep must not wait for it.
pub fn uncount_key(budget: &str) -> Key {
    (Kind::Budget, format!("evicted/{budget}"))
}
