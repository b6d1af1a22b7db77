//! One member's answer, with the time before the question was sent, so that its age cannot be
//! forgotten.

use crate::snapshot::Snapshot;
use crate::time::Time;
use ensemble_api::Reason;
use ensemble_api::status::ParameterState;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// An answer older than this counts as none.
pub const FRESH_MS: i64 = 12_000;

/// Why it cannot be told what a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyUnknown {
    /// It was not asked yet, or not since its container started.
    NotAsked,
    /// It was asked too long ago.
    Stale,
    /// It did not answer, for that cause.
    Unreachable(String),
    /// It wants other credentials.
    Unauthorised(String),
    /// It has no data yet, and waits for somebody to copy it from.
    Empty,
    /// It is on its way up.
    Starting,
    /// It is on its way down, or leads without being entitled to.
    Stopping,
    /// Its answer cannot be read, for that cause.
    Unreadable(String),
    /// Somebody else answers at its address.
    Stranger(String),
    /// It runs in a way that is not handled: which.
    Unsupported(String),
    /// It is cut off from where its cluster keeps who leads, and goes on by agreement with all others.
    CutOff(String),
}

impl WhyUnknown {
    /// The reason that explains it to people.
    pub fn reason(&self) -> Reason {
        match self {
            WhyUnknown::Unauthorised(_) => Reason::EngineUnauthorised,
            WhyUnknown::Unsupported(_) => Reason::EngineUnsupported,
            WhyUnknown::CutOff(_) => Reason::EngineCutOff,
            _ => Reason::RoleUnknown,
        }
    }
}

impl std::fmt::Display for WhyUnknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WhyUnknown::NotAsked => f.write_str("not asked yet"),
            WhyUnknown::Stale => f.write_str("its last answer is too old"),
            WhyUnknown::Unreachable(cause) => write!(f, "it does not answer: {cause}"),
            WhyUnknown::Unauthorised(cause) => write!(f, "it refuses our credentials: {cause}"),
            WhyUnknown::Empty => f.write_str("it has no data yet"),
            WhyUnknown::Starting => f.write_str("it is starting"),
            WhyUnknown::Stopping => f.write_str("it is stopping"),
            WhyUnknown::Unreadable(cause) => write!(f, "its answer cannot be read: {cause}"),
            WhyUnknown::Stranger(who) => write!(f, "{who} answers at its address"),
            WhyUnknown::Unsupported(what) => f.write_str(what),
            WhyUnknown::CutOff(what) => f.write_str(what),
        }
    }
}

/// What a member said, in words that its engine's judge alone understands.
pub trait Words: Any + Debug + Send + Sync {
    /// Whether others say the same.
    fn say_as(&self, others: &dyn Words) -> bool;
}

impl<W: Any + Debug + PartialEq + Send + Sync> Words for W {
    fn say_as(&self, others: &dyn Words) -> bool {
        let others: &dyn Any = others;
        others.downcast_ref::<W>().is_some_and(|o| o == self)
    }
}

/// What one member said, or why it said nothing.
#[derive(Clone, Debug)]
pub struct Answer {
    /// By our clock, before the question was sent: the answer is at least as new.
    pub asked: Time,
    /// Which run of the engine it is, in the engine's own words: another word is another run. Empty if
    /// unknown.
    pub run: String,
    said: Result<Arc<dyn Words>, WhyUnknown>,
}

impl Answer {
    /// It said that, in that run.
    pub fn of(asked: Time, run: impl Into<String>, words: impl Words) -> Self {
        Self {
            asked,
            run: run.into(),
            said: Ok(Arc::new(words)),
        }
    }

    /// Nothing is known of it, but why.
    pub fn unknown(asked: Time, why: WhyUnknown) -> Self {
        Self {
            asked,
            run: String::new(),
            said: Err(why),
        }
    }

    /// Its words, if an engine of that kind said them: another may have been asked before.
    pub fn words<W: Words>(&self) -> Result<&W, WhyUnknown> {
        let said: &dyn Any = match &self.said {
            Ok(words) => &**words,
            Err(why) => return Err(why.clone()),
        };
        said.downcast_ref().ok_or(WhyUnknown::NotAsked)
    }

    /// Whether another says the same, whenever it was asked.
    fn says_as(&self, other: &Self) -> bool {
        self.run == other.run && self.words_as(other)
    }

    fn words_as(&self, other: &Self) -> bool {
        match (&self.said, &other.said) {
            (Ok(one), Ok(other)) => Arc::ptr_eq(one, other) || one.say_as(&**other),
            (Err(one), Err(other)) => one == other,
            _ => false,
        }
    }
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.asked == other.asked && self.says_as(other)
    }
}

/// Whether a member said the same as before, and a plan that was made from that still holds: only
/// when it was asked is new, and no rule that looks at that would now judge otherwise.
pub fn is_no_news(snap: &Snapshot, uid: &str, before: &Answer, said: &Answer) -> bool {
    let changes = snap.ensemble.status.parameters.as_ref();
    let noticing = changes.is_some_and(|c| {
        matches!(
            c.state,
            ParameterState::Applying | ParameterState::RollingBack
        )
    });
    let run = snap.memory.pod(uid).run.as_ref();
    let of_this_run = |s: &Answer| run.is_none_or(|run| s.asked >= run.since);
    let fresh = before.asked.plus_ms(FRESH_MS) >= snap.now;
    !noticing && fresh && of_this_run(before) == of_this_run(said) && before.says_as(said)
}

/// What came of asking an engine for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It took it; whether it came about is seen by looking.
    Taken(String),
    /// It refused: nothing was done. Its own words.
    Refused(String),
    /// It wants other credentials, or the Secret cannot be read.
    Unauthorised(String),
    /// Nobody knows whether it was done.
    Unknown(String),
}
