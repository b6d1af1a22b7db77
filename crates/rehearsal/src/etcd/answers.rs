//! What members answer.

use super::{Etcd, Trouble};
use crate::fault::What;
use crate::model::{Answer, Model, Said, replied};
use ensemble_conductor::{Ask, EngineCall, EngineOutcome};
use ensemble_engines::etcd::{Listed, Sighting};
use ensemble_planner::engine::{self, EngineAct, Reply, WhyUnknown};

const TIMEOUT_MS: u64 = 2_000;
const ANSWER_MS: u64 = 10;
/// So many entries of the log stand for one write: busy clients, so that who lacks one lacks too many.
const ENTRIES: u64 = 10_240;
const SLOW_MS: u64 = 1_800;

impl Etcd {
    /// What a member says of itself. One that is not in sync either lacks what was written since, or has
    /// not heard of its leader yet.
    fn sighting(&self, name: &str) -> Sighting {
        let lies = self.lies() && self.liar().as_deref() == Some(name);
        let index = self.members.get(name).map_or(0, |m| m.index);
        let hears = self.in_sync(name) || index < self.acknowledged;
        let leader = self.leader().filter(|_| hears);
        let listed = self.names().map(|name| {
            let listed = Listed {
                name: name.clone(),
                ..Listed::default()
            };
            (self.number(&name), listed)
        });
        Sighting {
            cluster: 1,
            member: self.number(name),
            term: self.term + u64::from(lies),
            leader: match (lies, leader) {
                (true, _) => self.number(name),
                (false, leader) => leader.map_or(0, |l| self.number(l)),
            },
            index: index * ENTRIES,
            applied: index * ENTRIES,
            listed: listed.collect(),
            ..Sighting::default()
        }
    }

    /// The number by which etcd knows a member; 0 is nobody's.
    fn number(&self, name: &str) -> u64 {
        let at = self.names().position(|n| n == name);
        at.map_or(0, |at| 1_000 + at as u64)
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

impl Model for Etcd {
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
        if !run.is_some_and(|r| r.uid == call.uid() && r.up_at <= self.now) {
            return silent("connection refused", ANSWER_MS);
        }
        let after = if self.is(Trouble::Slow) {
            SLOW_MS
        } else {
            ANSWER_MS
        };
        match call.ask() {
            Ask::Observe => {
                let said = self.sighting(call.member()).answers(call.asked());
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
        Etcd::suffer(self, now, what);
    }

    fn leader(&self) -> Option<&str> {
        Etcd::leader(self)
    }

    fn describe(&self) -> String {
        Etcd::describe(self)
    }

    fn leader_node(&self) -> Option<String> {
        let leader = self.leader()?;
        self.run(leader).map(|r| r.node.clone())
    }

    fn troubled_until(&self) -> Option<u64> {
        Etcd::troubled_until(self)
    }

    fn version(&self) -> u64 {
        // A follower catches up by time alone.
        let synced = self.names().filter(|n| self.in_sync(n)).count() as u64;
        self.version * 1000 + synced
    }

    fn changes(&self) -> usize {
        self.changes.len()
    }

    fn longest_pause_ms(&self) -> u64 {
        self.longest_pause_ms
    }

    fn labels_pods(&self) -> bool {
        false
    }

    fn give_lead(&mut self, now: u64, to: &str) {
        self.advance(now);
        if self.in_sync(to) && self.leader() != Some(to) {
            self.elect(to, false);
        }
    }

    fn settled(&self, replicas: usize) -> bool {
        let synced = self.names().filter(|n| self.in_sync(n)).count();
        synced == replicas && self.leader.is_some()
    }
}

impl Etcd {
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
