//! What members answer.

use super::{Raft, Trouble};
use crate::fault::What;
use crate::model::{Answer, Model, Said, replied};
use ensemble_conductor::{Ask, EngineCall, EngineOutcome};
use ensemble_planner::engine::{self, EngineAct, Reply, WhyUnknown};
use std::collections::BTreeSet;

/// What one member says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Whether it leads.
    pub leads: bool,
    /// At which term it is.
    pub term: u64,
    /// Who leads, as it has heard.
    pub leader: Option<String>,
    /// Who votes.
    pub voters: BTreeSet<String>,
    /// How many entries of the log it lacks, as far as it knows.
    pub missing: u64,
}

const TIMEOUT_MS: u64 = 2_000;
const ANSWER_MS: u64 = 10;
const SLOW_MS: u64 = 1_800;

impl Raft {
    fn word(&self, name: &str) -> Word {
        let lies = self.lies() && self.liar().as_deref() == Some(name);
        let index = self.members.get(name).map_or(0, |m| m.index);
        Word {
            leads: lies || self.leader() == Some(name),
            term: self.term + u64::from(lies),
            leader: if lies {
                Some(name.to_owned())
            } else {
                self.leader.clone()
            },
            voters: self.names().collect(),
            missing: if self.in_sync(name) {
                0
            } else {
                self.acknowledged.saturating_sub(index).max(1)
            },
        }
    }

    fn hand_over(&mut self, now: u64, from: &str, to: &str) -> Answer {
        let at = now + 2 * ANSWER_MS;
        if self.leader() != Some(from) || self.is(Trouble::Refuses) {
            return Answer::now(at, replied(Reply::Refused("not the leader".into())));
        }
        if !self.in_sync(to) {
            let cause = format!("{to} is not caught up");
            return Answer::now(at, replied(Reply::Refused(cause)));
        }
        let other = |n: &String| n != from && n != to && self.in_sync(n);
        let elsewhere = self
            .names()
            .find(other)
            .filter(|_| self.is(Trouble::Elsewhere));
        let to = elsewhere.unwrap_or_else(|| to.to_owned());
        self.elect(&to, true);
        if self.is(Trouble::AnswerLost) {
            let lost = Reply::Unknown("the connection was lost".into());
            return Answer::now(now + 10_000, replied(lost));
        }
        Answer::now(at, replied(Reply::Taken(String::new())))
    }
}

impl Model for Raft {
    fn ask(&mut self, now: u64, call: &EngineCall, reachable: bool) -> Answer {
        self.advance(now);
        let silent = |cause: &str, after: u64| {
            let what = match call.ask() {
                Ask::Observe => {
                    let why = WhyUnknown::Unreachable(cause.to_owned());
                    EngineOutcome::Saw(engine::Answer::unknown(call.asked(), why))
                }
                Ask::Do(_) => replied(Reply::Unknown(cause.to_owned())),
            };
            Answer::now(now + after, what)
        };
        if !reachable || self.is(Trouble::Silent) {
            return silent("timed out", TIMEOUT_MS);
        }
        let run = self.run(call.member());
        let Some(run) = run.filter(|r| r.uid == call.uid() && r.up_at <= self.now) else {
            return silent("connection refused", ANSWER_MS);
        };
        let start = format!("start {}", run.start);
        let after = if self.is(Trouble::Slow) {
            SLOW_MS
        } else {
            ANSWER_MS
        };
        match call.ask() {
            Ask::Observe => {
                let said = engine::Answer::of(call.asked(), start, self.word(call.member()));
                Answer::now(now + after, EngineOutcome::Saw(said))
            }
            Ask::Do(EngineAct::SwitchOver { leader, candidate }) => {
                self.hand_over(now, leader, candidate)
            }
            Ask::Do(other) => {
                let cause = format!("{other:?} is not known here");
                Answer::now(now + after, replied(Reply::Refused(cause)))
            }
        }
    }

    fn switched(&self, _: &str) -> EngineOutcome {
        replied(Reply::Taken(String::new()))
    }

    fn suffer(&mut self, now: u64, what: What) {
        Raft::suffer(self, now, what);
    }

    fn leader(&self) -> Option<&str> {
        Raft::leader(self)
    }

    fn describe(&self) -> String {
        Raft::describe(self)
    }

    fn leader_node(&self) -> Option<String> {
        let leader = self.leader()?;
        self.run(leader).map(|r| r.node.clone())
    }

    fn troubled_until(&self) -> Option<u64> {
        Raft::troubled_until(self)
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn changes(&self) -> usize {
        self.changes.len()
    }

    fn longest_pause_ms(&self) -> u64 {
        self.longest_pause_ms
    }

    fn settled(&self, replicas: usize) -> bool {
        let synced = self.names().filter(|n| self.in_sync(n)).count();
        synced == replicas && self.leader.is_some()
    }
}

impl Raft {
    /// All changes of leader so far; the first is the first leader.
    pub fn history(&self) -> &[super::Change] {
        &self.changes
    }
}

/// What is said is known at once: messages take no time.
impl Answer {
    fn now(at: u64, what: EngineOutcome) -> Self {
        Self {
            at,
            what: Said::Now(what),
        }
    }
}
