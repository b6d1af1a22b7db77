//! One container: pulling, running, failing, waiting, stopping.

mod waiting;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::config::{ImageCatalog, Pull, Run};
use crate::ids::Ids;
use crate::time::SimTime;
use crate::value::{int, text, text_or_empty};
use crate::workload::{ProcessEvent, Readiness};

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub code: i32,
    pub reason: &'static str,
    pub started: Option<SimTime>,
    pub at: SimTime,
    pub id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// About to be started.
    New,
    Pulling(SimTime),
    /// The pull failed; shown as an error first, as a back-off soon after.
    PullFailed {
        shown_until: SimTime,
        retry_at: SimTime,
    },
    /// It ended by itself and is to be started again. Its end is what is said about it until then.
    Exited {
        ended: Ended,
        retry_at: SimTime,
        backs_off: bool,
    },
    /// It waited for its turn after a crash, which is said only now.
    Backoff(SimTime),
    Running(Running),
    Ended(Ended),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub since: SimTime,
    /// When it ends by itself, and how.
    ends: Option<(SimTime, i32)>,
    /// When its probes pass; `None` for never.
    passes: Option<SimTime>,
    stopping: Option<Stopping>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stopping {
    exits_at: Option<SimTime>,
    kill_at: SimTime,
    restart: bool,
}

/// One container of a pod on a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ContainerSim {
    pub name: String,
    /// The image of the present start, not necessarily the one in the spec.
    pub image: String,
    pub state: State,
    pub restarts: u32,
    pub last: Option<Ended>,
    pub id: Option<String>,
    pub overruled: Readiness,
    pub has_probe: bool,
    has_startup_probe: bool,
    /// The image that ran last: what is said about a container whose new image cannot be had.
    ran: Option<String>,
    /// What is said of it while its next start is under way.
    stale: Option<Stale>,
    /// What the node gave it.
    pub resources: Value,
    started_before: bool,
    crash_backoff_ms: u64,
    pull_backoff_ms: u64,
}

/// A kubelet says nothing new about a container until it has tried to start it again.
#[derive(Clone, Debug, PartialEq)]
struct Stale {
    /// The container as it was.
    shown: Box<ContainerSim>,
    /// When the probe has failed often enough, although the container is said to run.
    unready_at: Option<SimTime>,
}

/// What a container needs to know to move on.
pub(super) struct Surroundings<'a> {
    pub now: SimTime,
    pub spec: &'a Value,
    pub policy: &'a str,
    /// It is expected to end by itself: init containers and those of jobs.
    pub finite: bool,
    pub grace_ms: u64,
    pub images: &'a ImageCatalog,
    pub pulled: &'a mut BTreeSet<String>,
    pub ids: &'a mut Ids,
    pub events: &'a mut Vec<ProcessEvent>,
}

const BACKOFF_FIRST_MS: u64 = 10_000;
const BACKOFF_MAX_MS: u64 = 300_000;
/// So long without a failure, and the back-off is forgotten.
const BACKOFF_FORGET_MS: u64 = 600_000;
const PULL_ERROR_SHOWN_MS: u64 = 2000;
const PULL_ERROR_AFTER_MS: u64 = 300;
const FINITE_RUN_MS: u64 = 1000;
/// From the end of a process to the look that finds it.
const RELIST_MS: u64 = 1000;
/// From the end of a back-off to the next start.
const BACKOFF_SHOWN_MS: u64 = 100;

impl ContainerSim {
    pub fn new(spec: &Value) -> ContainerSim {
        ContainerSim {
            name: text_or_empty(spec, "name").to_owned(),
            image: text_or_empty(spec, "image").to_owned(),
            state: State::New,
            restarts: 0,
            last: None,
            id: None,
            overruled: Readiness::Default,
            has_probe: false,
            has_startup_probe: false,
            ran: None,
            stale: None,
            resources: spec.get("resources").cloned().unwrap_or(Value::Null),
            started_before: false,
            crash_backoff_ms: 0,
            pull_backoff_ms: BACKOFF_FIRST_MS,
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    pub fn was_started(&self) -> bool {
        self.started_before
    }

    pub fn exit_code(&self) -> Option<i32> {
        match &self.state {
            State::Ended(ended) => Some(ended.code),
            _ => None,
        }
    }

    /// Whether it started, by its kubelet's word.
    pub fn is_started(&self, now: SimTime) -> bool {
        self.is_running() && (!self.has_startup_probe || self.is_ready(now))
    }

    /// The image that its kubelet names.
    pub fn shown_image(&self) -> &str {
        self.ran.as_deref().unwrap_or(&self.image)
    }

    /// The container that its kubelet speaks of: itself, or itself as it was.
    pub fn shown(&self) -> &ContainerSim {
        self.stale.as_ref().map_or(self, |stale| &stale.shown)
    }

    /// Whether its probes pass at an instant, by its kubelet's word.
    pub fn is_ready(&self, now: SimTime) -> bool {
        if let Some(stale) = &self.stale {
            let failed = stale.unready_at.is_some_and(|at| at <= now);
            return !failed && stale.shown.is_ready(now);
        }
        let State::Running(running) = &self.state else {
            return false;
        };
        match self.overruled {
            Readiness::Ready if self.has_probe => true,
            Readiness::NotReady if self.has_probe => false,
            _ => running.passes.is_some_and(|at| at <= now),
        }
    }

    /// When it changes by itself next.
    pub fn deadline(&self, now: SimTime) -> Option<SimTime> {
        let unready_at = self.stale.as_ref().and_then(|stale| stale.unready_at);
        let unready_at = unready_at.filter(|at| *at > now);
        [self.next_change(now), unready_at]
            .into_iter()
            .flatten()
            .min()
    }

    fn next_change(&self, now: SimTime) -> Option<SimTime> {
        match &self.state {
            State::New | State::Ended(_) => None,
            State::Pulling(at) | State::Backoff(at) => Some(*at),
            State::Exited { retry_at, .. } => Some(*retry_at),
            State::PullFailed {
                shown_until,
                retry_at,
            } => Some((*shown_until).min(*retry_at)),
            State::Running(r) => {
                let stop = r
                    .stopping
                    .map(|s| s.exits_at.map_or(s.kill_at, |e| e.min(s.kill_at)));
                let passes = r.passes.filter(|at| *at > now);
                [r.ends.map(|(at, _)| at), passes, stop]
                    .into_iter()
                    .flatten()
                    .min()
            }
        }
    }

    /// Moves on until nothing is due any more.
    pub fn step(&mut self, around: &mut Surroundings<'_>) {
        self.follow_image(around);
        while self.step_once(around) {}
        self.forget_past_deadlines(around.now);
    }

    /// A new image stops what runs, and makes what waits start over.
    fn follow_image(&mut self, around: &mut Surroundings<'_>) {
        let wanted = text_or_empty(around.spec, "image");
        if wanted == self.image {
            return;
        }
        let exits_after = around.images.of(&self.image).stop_after_ms;
        let pre_stop = int(around.spec, "lifecycle.preStop.sleep.seconds")
            .unwrap_or(0)
            .max(0);
        match &mut self.state {
            State::Running(running) => {
                if running.stopping.is_none() {
                    let kill_at = around.now.plus_ms(around.grace_ms);
                    let exits_at = exits_after
                        .map(|ms| around.now.plus_ms(ms + pre_stop.unsigned_abs() * 1000));
                    running.stopping = Some(Stopping {
                        exits_at,
                        kill_at,
                        restart: true,
                    });
                    around.events.push(ProcessEvent::Stopping { kill_at });
                }
            }
            _ => {
                self.keep_saying(None);
                self.start_over(wanted);
            }
        }
    }

    /// What is said now is said until something comes of the next start.
    fn keep_saying(&mut self, unready_at: Option<SimTime>) {
        if self.stale.is_none() {
            let shown = Box::new(self.clone());
            self.stale = Some(Stale { shown, unready_at });
        }
    }

    fn start_over(&mut self, image: &str) {
        self.remember_end();
        self.image = image.to_owned();
        self.crash_backoff_ms = 0;
        self.pull_backoff_ms = BACKOFF_FIRST_MS;
        self.state = State::New;
    }

    /// The end that was shown as the present one is that of the run before.
    fn remember_end(&mut self) {
        if let State::Exited { ended, .. } = &self.state {
            self.last = Some(ended.clone());
        }
    }

    /// Restarts it with what the spec says now, as a resize may demand.
    pub fn restart(&mut self, now: SimTime, grace_ms: u64, exits_after: Option<u64>) {
        if let State::Running(running) = &mut self.state
            && running.stopping.is_none()
        {
            let kill_at = now.plus_ms(grace_ms);
            let exits_at = exits_after.map(|ms| now.plus_ms(ms));
            running.stopping = Some(Stopping {
                exits_at,
                kill_at,
                restart: true,
            });
        }
    }

    fn step_once(&mut self, around: &mut Surroundings<'_>) -> bool {
        let now = around.now;
        match &self.state {
            State::New => self.pull_or_start(around),
            State::Pulling(at) if *at <= now => self.pulled(around),
            State::PullFailed { retry_at, .. } if *retry_at <= now => {
                self.keep_saying(None);
                self.pull_or_start(around);
            }
            State::Backoff(at) if *at <= now => {
                self.keep_saying(None);
                self.pull_or_start(around);
            }
            State::Exited {
                retry_at,
                backs_off,
                ..
            } if *retry_at <= now => self.try_again(around, *backs_off),
            State::Running(running) => match running.due(now) {
                Some((code, restart)) => self.ended(around, code, restart),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// The next start after a crash is due.
    fn try_again(&mut self, around: &mut Surroundings<'_>, backs_off: bool) {
        if !backs_off {
            self.keep_saying(None);
        }
        self.remember_end();
        if backs_off {
            self.state = State::Backoff(around.now.plus_ms(BACKOFF_SHOWN_MS));
        } else {
            self.pull_or_start(around);
        }
    }

    fn pull_or_start(&mut self, around: &mut Surroundings<'_>) {
        let always = text(around.spec, "imagePullPolicy") == Some("Always");
        if around.pulled.contains(&self.image) && !always {
            self.begin(around);
            return;
        }
        let after = match around.images.of(&self.image).pull {
            Pull::Ok { .. } if around.pulled.contains(&self.image) => 0,
            Pull::Ok { after_ms } => after_ms,
            Pull::Missing => PULL_ERROR_AFTER_MS,
        };
        self.state = State::Pulling(around.now.plus_ms(after));
    }

    fn pulled(&mut self, around: &mut Surroundings<'_>) {
        if around.images.of(&self.image).pull == Pull::Missing {
            let retry_at = around.now.plus_ms(self.pull_backoff_ms);
            let shown_until = around.now.plus_ms(PULL_ERROR_SHOWN_MS);
            self.pull_backoff_ms = (self.pull_backoff_ms * 2).min(BACKOFF_MAX_MS);
            self.stale = None;
            self.state = State::PullFailed {
                shown_until,
                retry_at,
            };
            return;
        }
        around.pulled.insert(self.image.clone());
        self.begin(around);
    }

    fn begin(&mut self, around: &mut Surroundings<'_>) {
        if self.started_before {
            self.restarts += 1;
        }
        self.started_before = true;
        self.ran = Some(self.image.clone());
        self.stale = None;
        self.id = Some(around.ids.container_id());
        self.overruled = Readiness::Default;
        let now = around.now;
        self.has_startup_probe = around.spec.get("startupProbe").is_some();
        self.has_probe = around.spec.get("readinessProbe").is_some() || self.has_startup_probe;
        let run = match around.images.listed(&self.image) {
            None if around.finite => Run::Exit {
                after_ms: FINITE_RUN_MS,
                code: 0,
            },
            Some(behaviour) => behaviour.run,
            None => around.images.unknown.run,
        };
        let initial = int(around.spec, "readinessProbe.initialDelaySeconds").unwrap_or(0);
        let probe_from = initial.max(0).unsigned_abs() * 1000;
        let passes = match run {
            _ if !self.has_probe => Some(now),
            Run::Ok { ready_after_ms } => Some(now.plus_ms(ready_after_ms.max(probe_from))),
            Run::NeverReady | Run::Exit { .. } => None,
        };
        let ends = match run {
            Run::Exit { after_ms, code } => Some((now.plus_ms(after_ms), code)),
            _ => None,
        };
        self.state = State::Running(Running {
            since: now,
            ends,
            passes,
            stopping: None,
        });
        around.events.push(ProcessEvent::Started {
            restarts: self.restarts,
        });
    }

    fn ended(&mut self, around: &mut Surroundings<'_>, code: i32, restart: bool) {
        let now = around.now;
        around.events.push(ProcessEvent::Stopped { code });
        let ended = self.end(now, code);
        if restart {
            self.keep_saying(probe_fails_at(around));
            self.last = Some(ended);
            self.start_over(text_or_empty(around.spec, "image"));
            return;
        }
        let again = match around.policy {
            "Always" => true,
            "OnFailure" => code != 0,
            _ => false,
        };
        if !again {
            self.state = State::Ended(ended);
            return;
        }
        let ran_ms = now.since_ms(ended.started.unwrap_or(now));
        if ran_ms >= BACKOFF_FORGET_MS {
            self.crash_backoff_ms = 0;
        }
        // The first failure is followed by a restart at once.
        let backs_off = self.crash_backoff_ms > 0;
        self.state = State::Exited {
            ended,
            retry_at: now.plus_ms(self.crash_backoff_ms.max(RELIST_MS)),
            backs_off,
        };
        self.crash_backoff_ms = match backs_off {
            true => (self.crash_backoff_ms * 2).min(BACKOFF_MAX_MS),
            false => BACKOFF_FIRST_MS,
        };
    }

    fn end(&mut self, now: SimTime, code: i32) -> Ended {
        let started = match &self.state {
            State::Running(r) => Some(r.since),
            _ => None,
        };
        let reason = if code == 0 { "Completed" } else { "Error" };
        Ended {
            code,
            reason,
            started,
            at: now,
            id: self.id.clone(),
        }
    }

    /// Tells it to stop for good. Returns whether a process was told.
    pub fn stop(&mut self, now: SimTime, kill_at: SimTime, exits_after: Option<u64>) -> bool {
        self.stale = None;
        match &mut self.state {
            State::Ended(_) => false,
            State::Exited { ended, .. } => {
                self.state = State::Ended(ended.clone());
                false
            }
            State::Running(running) => {
                let fresh = running.stopping.is_none();
                let before = running.stopping.and_then(|s| s.exits_at);
                let exits_at = if fresh {
                    exits_after.map(|ms| now.plus_ms(ms))
                } else {
                    before
                };
                running.stopping = Some(Stopping {
                    exits_at,
                    kill_at,
                    restart: false,
                });
                running.ends = None;
                fresh
            }
            _ => {
                // Never started in this round: there is nothing to stop.
                let ended = Ended {
                    code: 137,
                    reason: "ContainerStatusUnknown",
                    started: None,
                    at: now,
                    id: None,
                };
                self.state = State::Ended(ended);
                false
            }
        }
    }

    /// Ends it if its time has come; returns the exit code when it does.
    pub fn finish_stop(&mut self, now: SimTime) -> Option<i32> {
        let State::Running(running) = &self.state else {
            return None;
        };
        let (code, _) = running.due(now)?;
        self.state = State::Ended(self.end(now, code));
        Some(code)
    }

    /// Its process ends at that instant, killed by somebody.
    pub fn crash(&mut self, at: SimTime) {
        if let State::Running(running) = &mut self.state {
            running.ends = Some((at, 137));
        }
    }

    /// The node lost power: whatever ran is gone, and is started again on boot.
    pub fn lose_power(&mut self, now: SimTime) -> bool {
        let ran = self.is_running();
        if ran {
            self.last = Some(Ended {
                reason: "Unknown",
                ..self.end(now, 255)
            });
        }
        self.stale = None;
        self.remember_end();
        if !self.has_ended() {
            self.state = State::New;
        }
        ran
    }

    /// What has passed is no deadline any more.
    fn forget_past_deadlines(&mut self, now: SimTime) {
        if let State::PullFailed {
            shown_until,
            retry_at,
        } = &mut self.state
            && *shown_until <= now
        {
            *shown_until = *retry_at;
        }
    }
}

/// When the readiness probe of a container that has just ended has failed often enough.
fn probe_fails_at(around: &Surroundings<'_>) -> Option<SimTime> {
    let probe = around.spec.get("readinessProbe")?;
    let number = |field: &str, default| int(probe, field).unwrap_or(default).max(1);
    let seconds = number("periodSeconds", 10) * number("failureThreshold", 3);
    Some(around.now.plus_s(seconds.unsigned_abs()))
}

impl Running {
    /// The exit code, and whether a restart was asked for, if it ends by now.
    fn due(&self, now: SimTime) -> Option<(i32, bool)> {
        if let Some(stop) = self.stopping {
            if stop
                .exits_at
                .is_some_and(|at| at <= now && at <= stop.kill_at)
            {
                return Some((0, stop.restart));
            }
            if stop.kill_at <= now {
                return Some((137, stop.restart));
            }
        }
        self.ends
            .filter(|(at, _)| *at <= now)
            .map(|(_, code)| (code, false))
    }
}
