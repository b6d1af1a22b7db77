//! Errors for people: what is wrong, with which object, and what would be right.

use crate::exit::Exit;
use kube::core::Status;
use std::fmt;

/// Why a command gave up.
#[derive(Debug)]
pub struct Failure {
    /// What the program exits with.
    pub exit: Exit,
    /// What is wrong, and with which object.
    pub message: String,
    /// What would be right, or what to type next.
    pub hint: Option<String>,
}

impl Failure {
    /// An error.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Error,
            message: message.into(),
            hint: None,
        }
    }

    /// An end with another exit code.
    pub fn with_exit(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    /// With what would be right.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A call to the API server that failed, with what it was about: `cannot list ensembles`.
    pub fn of_call(doing: &str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => refused(doing, &status),
            kube::Error::Auth(cause) => Self::error(format!("{doing}: cannot log in: {cause}"))
                .hint("check the user of the current context: kubectl config view --minify"),
            other => Self::error(format!("{doing}: {}", chain(&other)))
                .hint("check that the cluster can be reached: kubectl cluster-info"),
        }
    }
}

/// The definition is missing, not the object: then the API server does not know the path at all.
pub fn kind_is_unknown(status: &Status) -> bool {
    let named = status
        .details
        .as_ref()
        .is_some_and(|details| !details.name.is_empty());
    status.code == 404 && !named
}

fn refused(doing: &str, status: &Status) -> Failure {
    if kind_is_unknown(status) {
        return Failure::error(format!("{doing}: this cluster does not know the kind"))
            .hint("install Ensemble first: ensemble install --apply");
    }
    let failure = Failure::error(format!("{doing}: {}", status.message));
    match status.code {
        401 => failure.hint("check the user of the current context: kubectl config view --minify"),
        403 => failure.hint("ask for that right, or choose another user with --context"),
        409 => failure.hint("somebody else changed it at the same time; try again"),
        _ => failure,
    }
}

/// An error and what lies beneath it, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::error(format!("cannot write the output: {error}"))
    }
}
