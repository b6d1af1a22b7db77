//! Errands: what an engine does that takes time. An errand is written down before it is begun, so that
//! whoever comes after us knows of it; the engine is asked at most once; and how it ended is told by
//! what is seen, never by what was answered.

use crate::cast::Cast;
use crate::engine::EngineAct;
use crate::memory::ErrandNews;
use crate::time::Time;
use ensemble_api::Rule;
use ensemble_api::status::{EnsembleStatus, SwitchPhase as Phase, Switchover};

/// One errand as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Errand {
    /// Its name, new for each.
    pub id: String,
    /// What the engine is to do.
    pub act: EngineAct,
    /// What it was written down for, and holds for no other.
    pub guard: Guard,
    /// How far it is.
    pub phase: Phase,
    /// Which leadership of a controller wrote it down.
    pub epoch: i64,
    /// Until then it must have come about, by the clock of whoever wrote it down.
    pub deadline: Time,
}

/// The very pods and the term that an errand was written down for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The pod that is told.
    pub from_uid: String,
    /// The pod that it is about.
    pub to_uid: String,
    /// The term at which it was decided.
    pub term: u64,
}

/// What is seen of an errand for which the engine was asked.
pub(crate) enum Seen {
    /// What was wanted, in words.
    Done(String),
    /// Something else came about, in words.
    Otherwise(String),
    /// All is as it was, in words.
    AsBefore(String),
    /// It cannot be told yet, in words.
    Unclear(String),
}

impl Errand {
    /// A switchover is one.
    pub fn of(switch: &Switchover) -> Self {
        Self {
            id: switch.id.clone(),
            act: EngineAct::SwitchOver {
                leader: switch.from.clone(),
                candidate: switch.to.clone(),
            },
            guard: Guard {
                from_uid: switch.from_uid.clone(),
                to_uid: switch.to_uid.clone(),
                term: switch.term,
            },
            phase: switch.phase,
            epoch: switch.epoch,
            deadline: Time::from_stamp(&switch.deadline),
        }
    }

    /// All that are written down.
    pub fn stored(status: &EnsembleStatus) -> impl Iterator<Item = Self> {
        status.switchover.iter().map(Self::of)
    }

    /// Whether it is ours to begin: written down by this very leadership.
    pub fn is_by(&self, epoch: i64) -> bool {
        self.epoch == epoch || crate::mutants::is_off(Rule::SwitchByItsAuthor)
    }

    /// Until when it must have come about by our clock: as long as it may take after we first knew of
    /// it. What is stored may be by a clock that is an hour off: one errand would never end, another
    /// would be given up while the engine is at it.
    pub(crate) fn due(&self, cast: &Cast<'_>) -> Time {
        let engine = cast.ensemble.spec.engine.as_ref();
        let seconds = engine.map_or(60, |e| e.switchover_timeout_seconds);
        let known = cast.memory.errands_since.get(&self.id);
        known.map_or(self.deadline, |since| since.plus_seconds(seconds))
    }

    /// The phase that comes next, and why. Before the engine is asked, what counts is what became of
    /// looking again; afterwards, what is seen.
    pub(crate) fn next(&self, cast: &Cast<'_>, seen: impl FnOnce() -> Seen) -> (Phase, String) {
        let late = self.due(cast) <= cast.now && !crate::mutants::is_off(Rule::SwitchHasADeadline);
        let news = cast.memory.errands.get(&self.id);
        let abandoned = |cause: &str| (Phase::Abandoned, cause.to_owned());
        match (self.phase, news) {
            (Phase::Proposed, _) if !self.is_by(cast.epoch) => {
                abandoned("another controller wrote it down and never asked")
            }
            (Phase::Proposed, Some(ErrandNews::Confirmed)) if !late => {
                (Phase::Asked, String::new())
            }
            (Phase::Proposed, Some(ErrandNews::Refused(cause))) => abandoned(cause),
            (Phase::Proposed, _) if late => abandoned("it could not be confirmed in time"),
            (Phase::Asked, news) => asked(news, late, seen()),
            (phase, _) => (phase, String::new()),
        }
    }
}

/// The engine was asked: only what is seen of its members tells how it ended.
fn asked(news: Option<&ErrandNews>, late: bool, seen: Seen) -> (Phase, String) {
    match (seen, news) {
        (Seen::Done(words), _) => (Phase::Arrived, words),
        (Seen::Otherwise(words), _) => (Phase::Superseded, words),
        (Seen::AsBefore(_), Some(ErrandNews::Refused(cause))) => (Phase::Abandoned, cause.clone()),
        (Seen::AsBefore(words) | Seen::Unclear(words), _) if late => (Phase::Abandoned, words),
        _ => (Phase::Asked, String::new()),
    }
}
