//! What is put before an engine's judge: those that run, and what counts of what they said.

use super::{Answer, Cohort, EngineView, FRESH_MS, Lead, Standing, WhyUnknown, Words};
use crate::cast::Cast;
use crate::roster::{MemberId, Roster};
use crate::time::Time;
use crate::view::PodView;
use ensemble_api::Rule;
use ensemble_api::engine::Engine;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Makes one view of all that was heard. Pure: the same hearing, the same view.
#[derive(Clone, Copy, Debug)]
pub struct Judge(pub fn(&Hearing<'_>) -> EngineView);

impl PartialEq for Judge {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Judge {}

/// All that was heard, and of whom.
#[derive(Debug)]
pub struct Hearing<'a> {
    /// What the user says of the engine.
    pub engine: &'a Engine,
    /// Who is to be, and by which names members know each other.
    pub roster: &'a Roster,
    /// The time by our clock.
    pub now: Time,
    /// Members that run, or may: whoever is down or absent plays no role.
    pub heard: BTreeMap<MemberId, Heard<'a>>,
    /// All members that are, or are to be.
    pub everybody: BTreeSet<MemberId>,
}

/// What counts of what one member said.
#[derive(Debug)]
pub struct Heard<'a> {
    pod: &'a PodView,
    answer: Arc<Answer>,
}

impl Heard<'_> {
    /// When it was asked.
    pub fn asked(&self) -> Time {
        self.answer.asked
    }

    /// Which run of the engine it is, empty if unknown.
    pub fn run(&self) -> &str {
        &self.answer.run
    }

    /// Its words, if they count.
    pub fn words<W: Words>(&self) -> Result<&W, WhyUnknown> {
        self.answer.words()
    }

    /// What its pod is labelled, empty if it is not.
    pub fn label(&self, key: &str) -> &str {
        self.pod.meta.label(key)
    }
}

impl<'a> Hearing<'a> {
    /// Hears everybody; None where members are equals.
    pub(crate) fn of(cast: &'a Cast<'_>) -> Option<Self> {
        let running = cast.members().filter(|m| !cast.presence(*m).is_down());
        let heard = running.filter_map(|m| {
            let pod = cast.our_pod(m)?;
            let answer = counts(cast, pod);
            Some((m, Heard { pod, answer }))
        });
        Some(Self {
            engine: cast.ensemble.spec.engine.as_ref()?,
            roster: cast.roster(),
            now: cast.now,
            heard: heard.collect(),
            everybody: cast.wanted().chain(cast.members()).collect(),
        })
    }
}

impl Hearing<'_> {
    /// Nobody is known, and any of them may lead.
    pub fn unjudged(&self) -> EngineView {
        let running = self.heard.keys().copied();
        let lead = Lead::Unknown(running.clone().collect());
        let unknown = |who| (who, Standing::unknown(Time(0), WhyUnknown::NotAsked));
        EngineView {
            cohorts: vec![Cohort::led(self.everybody.clone(), lead)],
            standings: running.map(unknown).collect(),
            held: false,
        }
    }
}

/// What a member said, if it is fresh and of this run of its container.
fn counts(cast: &Cast<'_>, pod: &PodView) -> Arc<Answer> {
    let uid = &pod.meta.pin.uid;
    let known = cast.memory.pod(uid);
    let Some(said) = known.said.as_ref().filter(|s| s.asked >= cast.since()) else {
        return Answer::unknown(Time(0), WhyUnknown::NotAsked).into();
    };
    // By a clock that never goes back there is none; whatever made it, it would stay fresh too long.
    if said.asked > cast.now {
        return Answer::unknown(cast.now, WhyUnknown::Stale).into();
    }
    let before_this_run = known.run.as_ref().is_some_and(|run| said.asked < run.since);
    if before_this_run && !crate::mutants::is_off(Rule::SightingOfThisRun) {
        return Answer::unknown(said.asked, WhyUnknown::NotAsked).into();
    }
    if said.asked.plus_ms(FRESH_MS) < cast.now && !crate::mutants::is_off(Rule::SightingFresh) {
        return Answer::unknown(said.asked, WhyUnknown::Stale).into();
    }
    said.clone()
}
