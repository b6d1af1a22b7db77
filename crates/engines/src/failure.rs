//! Why a question has no answer.

use ensemble_planner::engine::WhyUnknown;
use std::error::Error;
use std::io;

/// Why a question has no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nobody answered.
    Unreachable(String),
    /// We are not let in, or do not trust who answers.
    Unauthorised(String),
    /// Somebody answered, and it makes no sense.
    Unreadable(String),
}

impl Failure {
    /// As the planner says it.
    pub(crate) fn why(self) -> WhyUnknown {
        match self {
            Failure::Unreachable(cause) => WhyUnknown::Unreachable(cause),
            Failure::Unauthorised(cause) => WhyUnknown::Unauthorised(cause),
            Failure::Unreadable(cause) => WhyUnknown::Unreadable(cause),
        }
    }

    /// Says which question it was.
    pub(crate) fn of(self, question: &str) -> Self {
        let with = |cause: String| format!("{question}: {cause}");
        match self {
            Failure::Unreachable(cause) => Failure::Unreachable(with(cause)),
            Failure::Unauthorised(cause) => Failure::Unauthorised(with(cause)),
            Failure::Unreadable(cause) => Failure::Unreadable(with(cause)),
        }
    }
}

/// Finds the cause at the root of what TCP, TLS and HTTP complain of.
impl From<&(dyn Error + 'static)> for Failure {
    fn from(error: &(dyn Error + 'static)) -> Self {
        let mut cause = error;
        loop {
            if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
                return of_tls(tls);
            }
            if cause.is::<http_body_util::LengthLimitError>() {
                return Failure::Unreadable("its answer is too long".into());
            }
            if cause.downcast_ref().is_some_and(hyper::Error::is_parse) {
                return Failure::Unreadable("it does not speak HTTP".into());
            }
            match inside(cause) {
                Some(next) => cause = next,
                None => return Failure::Unreachable(in_words(cause)),
            }
        }
    }
}

/// The next cause. An error of I/O hides what it wraps from `source`.
fn inside<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn of_tls(error: &rustls::Error) -> Failure {
    match error {
        rustls::Error::InvalidMessage(_) => Failure::Unreadable("it does not speak TLS".into()),
        _ => Failure::Unauthorised(format!("TLS: {error}")),
    }
}

/// "connection refused" rather than the number of an error.
fn in_words(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref::<io::Error>() {
        Some(io) => io.kind().to_string(),
        None => error.to_string(),
    }
}
