//! What the controller wrote into a status, as text for people. Pure functions of the status, the
//! time and the paint; they compute nothing that the report does not say.

pub mod age;
pub mod changes;
pub mod explain;
pub mod forecast;
pub mod history;
pub mod list;
pub mod members;
pub mod paint;
pub mod why;

use crate::exit::Exit;
use ensemble_api::{EnsembleStatus, Report, State};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

/// An ensemble as it was read.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// How often its spec was changed.
    pub generation: i64,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// What the controller says about it.
    pub word: Word,
}

/// What the controller says about an ensemble.
#[derive(Clone, Debug)]
pub enum Word {
    /// Nothing yet about the spec as it is now.
    Unseen,
    /// This.
    Said(Box<EnsembleStatus>),
    /// Something that this version cannot read.
    Unreadable(String),
}

impl Seen {
    /// Reads an object. One that cannot be read is still shown.
    pub fn of(object: &DynamicObject) -> Self {
        let generation = object.metadata.generation.unwrap_or(0);
        let word = match object.data.get("status") {
            None => Word::Unseen,
            Some(status) => match serde_json::from_value::<EnsembleStatus>(status.clone()) {
                Err(error) => Word::Unreadable(error.to_string()),
                Ok(status) if status.observed_generation < generation => Word::Unseen,
                Ok(status) => Word::Said(Box::new(status)),
            },
        };
        Self {
            name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            generation,
            created: object
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0),
            word,
        }
    }

    /// What the controller says, if it can be read.
    pub fn status(&self) -> Option<&EnsembleStatus> {
        match &self.word {
            Word::Said(status) => Some(status),
            _ => None,
        }
    }

    /// The plan, if it can be read.
    pub fn report(&self) -> Option<&Report> {
        self.status().map(|status| &status.plan)
    }

    /// In one word, how it stands.
    pub fn state(&self) -> String {
        match &self.word {
            Word::Unseen => "Unseen".into(),
            Word::Said(status) => format!("{:?}", status.plan.state),
            Word::Unreadable(_) => "Unreadable".into(),
        }
    }

    /// How it stands, as an exit code.
    pub fn exit(&self) -> Exit {
        match &self.word {
            Word::Unseen => Exit::of(State::Unknown),
            Word::Said(status) => Exit::of(status.plan.state),
            Word::Unreadable(_) => Exit::Error,
        }
    }

    /// Why nothing can be said, and what to look at.
    pub fn silence(&self) -> String {
        match &self.word {
            Word::Said(_) => String::new(),
            Word::Unseen => format!(
                "{} has not been seen by a controller since its last change (generation {}).\n  \
                 you may   wait a moment; else see whether the controller runs: \
                 kubectl get deployment -A -l app.kubernetes.io/name=ensemble\n",
                self.name, self.generation
            ),
            Word::Unreadable(error) => format!(
                "{} has a status that this version of ensemble cannot read: {error}\n  \
                 you may   use the version that the controller has: ensemble version\n",
                self.name
            ),
        }
    }
}
