//! What members answer when they are asked.

use super::{LOOP_WAIT_MS, Patroni, Run, State, Trouble, WRITE_BYTES};
use crate::fault::What;
use crate::model::{self, Answer, Model, Said};
use ensemble_conductor::{Ask, EngineCall, EngineOutcome};
use ensemble_engines::patroni::{Role, Sighting, Stream, Synchronous};
use ensemble_planner::engine::{EngineAct, Reply, WhyUnknown};

/// After so long a question is given up.
const TIMEOUT_MS: u64 = 2_000;
/// How long an answer takes.
const ANSWER_MS: u64 = 10;
/// How long it takes when answers are slow.
const SLOW_MS: u64 = 1_800;
/// How long a switchover takes to be answered.
const SWITCH_MS: u64 = 2_070;

fn replied(reply: Reply) -> Said {
    Said::Now(model::replied(reply))
}

impl Patroni {
    /// A member is asked; `reachable` says whether its node can be reached.
    pub fn ask(&mut self, now: u64, call: &EngineCall, reachable: bool) -> Answer {
        self.advance(now);
        let observes = *call.ask() == Ask::Observe;
        let unanswered = |cause: &str, after: u64| {
            let what = if observes {
                let why = WhyUnknown::Unreachable(cause.to_owned());
                let said = Sighting::unknown(why);
                Said::Now(EngineOutcome::Saw(said.answers(call.asked())))
            } else {
                replied(Reply::Unknown(cause.to_owned()))
            };
            Answer {
                at: now + after,
                what,
            }
        };
        if !reachable || self.is_unheard(call.member()) {
            return unanswered("timed out", TIMEOUT_MS);
        }
        let run = self.run(call.member());
        if run.is_none_or(|r| r.uid != call.uid()) {
            return unanswered("connection refused", ANSWER_MS);
        }
        let after = if self.is(Trouble::Slow) {
            SLOW_MS
        } else {
            ANSWER_MS
        };
        let answer = |what: Said| Answer {
            at: now + after,
            what,
        };
        self.next_look = self.now;
        match call.ask() {
            Ask::Observe => {
                let said = self.sighting(call.member());
                answer(Said::Now(EngineOutcome::Saw(said.answers(call.asked()))))
            }
            Ask::Do(EngineAct::SwitchOver { leader, candidate }) => {
                self.switch_over(now, leader, candidate)
            }
            Ask::Do(EngineAct::Nudge) => {
                self.nudge();
                answer(replied(Reply::Taken(String::new())))
            }
            Ask::Do(EngineAct::Configure(wanted)) => {
                self.set_parameters(wanted);
                answer(replied(Reply::Taken(String::new())))
            }
            Ask::Do(EngineAct::Restart) => {
                let (later, reply) = self.asked_to_restart(call.member());
                Answer {
                    at: now + after + later,
                    what: replied(reply),
                }
            }
        }
    }

    fn switch_over(&mut self, now: u64, from: &str, to: &str) -> Answer {
        let refused = |cause: String| Answer {
            at: now + 2 * ANSWER_MS,
            what: replied(Reply::Refused(cause)),
        };
        if self.is(Trouble::Refuses) {
            return refused("no good candidates have been found".into());
        }
        let mut to = to.to_owned();
        if self.is(Trouble::Elsewhere) {
            let other = |n: &&String| n.as_str() != from && **n != to && self.in_sync(n);
            to = self.members.keys().find(other).cloned().unwrap_or(to);
        }
        if let Err(cause) = self.hand_over(from, &to, true) {
            return refused(cause);
        }
        if self.is(Trouble::AnswerLost) {
            return Answer {
                at: now + 20_000,
                what: replied(Reply::Unknown("the connection was lost".into())),
            };
        }
        Answer {
            at: now + SWITCH_MS,
            what: Said::Switched(to),
        }
    }

    /// What a switchover is answered with, once it is.
    pub fn switched(&self, to: &str) -> EngineOutcome {
        EngineOutcome::Replied(match self.leader() {
            Some(leader) if leader == to => {
                Reply::Taken(format!("Successfully switched over to {to:?}"))
            }
            Some(leader) => Reply::Taken(format!("Switched over to {leader:?} instead of {to:?}")),
            None => Reply::Unknown("Switchover status unknown".into()),
        })
    }

    fn sighting(&self, name: &str) -> Sighting {
        let Some(run) = self.run(name) else {
            let why = WhyUnknown::Unreachable("connection refused".into());
            return Sighting::unknown(why);
        };
        // Whoever answers knows of a pause, whatever its PostgreSQL does.
        let unknown = |why| Sighting {
            paused: self.is(Trouble::Paused),
            ..Sighting::unknown(why)
        };
        match run.state {
            State::Starting(_) => return unknown(WhyUnknown::Starting),
            State::Stopping | State::Halted(_) => return unknown(WhyUnknown::Stopping),
            State::Failing => {
                let state = "PostgreSQL is \"start failed\"".to_owned();
                return unknown(WhyUnknown::Unreadable(state));
            }
            State::Up => {}
        }
        let leads = self.leader() == Some(name);
        if run.leads && !leads {
            return unknown(WhyUnknown::Stopping);
        }
        let lies = self.claims_wrongly(name);
        let mut said = Sighting {
            role: if leads || lies {
                Role::Leader
            } else {
                Role::Follower
            },
            cluster: "7000000000000000000".into(),
            lock: self.holder.clone(),
            pending_restart: self.pending(name, run),
            started: format!("start {}", run.start),
            version: "4.1.5".into(),
            ..unknown(WhyUnknown::NotAsked)
        };
        let end = self.members.get(name).map_or(0, |m| m.log.end());
        said.term = if leads && run.promoted_at > self.now {
            self.term.saturating_sub(1)
        } else if leads || run.streams() {
            self.term
        } else {
            self.members.get(name).map_or(0, |m| m.log.term())
        };
        if leads {
            self.leader_adds(run, &mut said);
        } else {
            // Positions are as old as the loop that wrote them down.
            let behind = match run.old_term {
                Some((_, behind)) => behind,
                None => self.writer.acknowledged.end().saturating_sub(end),
            };
            said.lag = Some(behind * WRITE_BYTES);
        }
        if lies {
            said.lock = Some(name.to_owned());
            said.term = self.term + 1;
        }
        said
    }

    fn leader_adds(&self, run: &Run, said: &mut Sighting) {
        let standby = self.sync.1.as_deref();
        let streaming = self.members.iter().filter(|(n, m)| {
            let streams = m.run.as_ref().is_some_and(|r| r.streams_since.is_some());
            run.slots.contains(*n) && streams
        });
        said.attached = streaming
            .map(|(name, _)| {
                let stream = Stream {
                    streaming: true,
                    synchronous: standby == Some(name.as_str()),
                };
                (name.clone(), stream)
            })
            .collect();
        said.sync_standbys = standby.map(str::to_owned).into_iter().collect();
        said.synchronous = if self.synchronous {
            Synchronous::On
        } else {
            Synchronous::Off
        };
        said.loop_wait = u32::try_from(LOOP_WAIT_MS / 1000).ok();
        said.parameters = Some(self.kept().clone());
    }
}

impl Model for Patroni {
    fn ask(&mut self, now: u64, call: &EngineCall, reachable: bool) -> Answer {
        Patroni::ask(self, now, call, reachable)
    }

    fn switched(&self, to: &str) -> EngineOutcome {
        Patroni::switched(self, to)
    }

    fn suffer(&mut self, now: u64, what: What) {
        if what == What::FailsOver {
            self.fail_over(now, None);
        } else if what == What::EngineStopped {
            self.stop_all(now);
        } else if what == What::SlowRewind {
            self.rewind_one(now);
        } else if let Some(trouble) = Trouble::by(what) {
            self.trouble(now, trouble);
        }
    }

    fn leader(&self) -> Option<&str> {
        Patroni::leader(self)
    }

    fn describe(&self) -> String {
        Patroni::describe(self)
    }

    fn leader_node(&self) -> Option<String> {
        Patroni::leader_node(self)
    }

    fn troubled_until(&self) -> Option<u64> {
        Patroni::troubled_until(self)
    }

    fn version(&self) -> u64 {
        Patroni::version(self)
    }

    fn changes(&self) -> usize {
        Patroni::changes(self).len()
    }

    fn longest_pause_ms(&self) -> u64 {
        Patroni::longest_pause_ms(self)
    }

    fn labels_pods(&self) -> bool {
        true
    }

    fn give_lead(&mut self, now: u64, to: &str) {
        self.fail_over(now, Some(to));
    }

    fn settled(&self, replicas: usize) -> bool {
        Patroni::settled(self, replicas)
    }
}
