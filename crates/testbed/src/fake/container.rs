//! One simulated container: starts, crashes, backs off, as its image says.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as Spec, ContainerStatus};
use serde_json::{Value, json};

use super::behaviour::Behaviour;

/// The first pause between two starts of a crashing container; shorter than a real kubelet's ten
/// seconds, so that tests need not wait.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// How long a failed pull is called an error before it is called a back-off.
const PULL_ERROR: Duration = Duration::from_secs(1);

/// What a simulated container is doing.
#[derive(Clone, Debug, PartialEq)]
enum State {
    PullFailed { since: Timestamp },
    Running { since: Timestamp },
    BackOff { until: Timestamp },
    Ended,
}

/// A simulated container.
#[derive(Clone, Debug)]
pub struct Container {
    image: String,
    /// The image of the last start: one that cannot be pulled never runs.
    started_image: Option<String>,
    resources: Value,
    /// How often it was started; Kubernetes counts the starts after the first.
    starts: u32,
    state: State,
    /// Exit code and time of the run before, if there was one.
    last_end: Option<(i32, Timestamp)>,
}

impl Container {
    /// The first run of a container.
    pub fn begin(spec: &Spec, restarts_always: bool, now: Timestamp) -> Container {
        let mut container = Container {
            image: String::new(),
            started_image: None,
            resources: resources(spec),
            starts: 0,
            state: State::Ended,
            last_end: None,
        };
        container.start(spec, restarts_always, now);
        container
    }

    /// The container that a status speaks of, after the simulation itself was restarted.
    pub fn adopt(spec: &Spec, status: &ContainerStatus) -> Option<Container> {
        let running = status.state.as_ref()?.running.as_ref()?;
        Some(Container {
            image: status.image.clone(),
            started_image: Some(status.image.clone()),
            resources: resources(spec),
            starts: u32::try_from(status.restart_count).ok()?.saturating_add(1),
            state: State::Running {
                since: running.started_at.as_ref()?.0,
            },
            last_end: None,
        })
    }

    /// Lets time pass and follows changes of the spec.
    pub fn advance(&mut self, spec: &Spec, restarts_always: bool, now: Timestamp) {
        let resized = self.resources != resources(spec);
        self.resources = resources(spec);
        let image_changed = spec.image.as_deref() != Some(self.image.as_str());
        let back_off_over = matches!(self.state, State::BackOff { until } if until <= now);
        if image_changed || back_off_over || (resized && restarts_on_resize(spec)) {
            self.start(spec, restarts_always, now);
        }
    }

    fn start(&mut self, spec: &Spec, restarts_always: bool, now: Timestamp) {
        if matches!(self.state, State::Running { .. }) {
            self.last_end = Some((0, now));
        }
        self.image = spec.image.clone().unwrap_or_default();
        let behaviour = Behaviour::of(&self.image);
        if behaviour == Behaviour::Missing {
            self.state = State::PullFailed { since: now };
            return;
        }
        self.starts += 1;
        self.started_image = Some(self.image.clone());
        let exit_code = match behaviour {
            Behaviour::Crash => 1,
            Behaviour::Complete => 0,
            _ => {
                self.state = State::Running { since: now };
                return;
            }
        };
        self.last_end = Some((exit_code, now));
        self.state = match restarts_always {
            true => State::BackOff {
                until: now + back_off(self.starts),
            },
            false => State::Ended,
        };
    }

    /// Ends it because its pod is deleted.
    pub fn end(&mut self, now: Timestamp) {
        if self.state != State::Ended {
            self.last_end = Some((0, now));
            self.state = State::Ended;
        }
    }

    /// Whether it runs and serves.
    pub fn ready(&self, now: Timestamp) -> bool {
        match (&self.state, Behaviour::of(&self.image)) {
            (State::Running { .. }, Behaviour::NotReady) => false,
            (State::Running { since }, Behaviour::Slow(delay)) => *since + delay <= now,
            (State::Running { .. }, _) => true,
            _ => false,
        }
    }

    /// Whether it was ever started.
    pub fn started_once(&self) -> bool {
        self.starts > 0
    }

    /// The exit code, if it has ended for good.
    pub fn exit_code(&self) -> Option<i32> {
        match self.state {
            State::Ended => Some(self.last_end.map_or(0, |(code, _)| code)),
            _ => None,
        }
    }

    /// When it will change by itself.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let when = match (&self.state, Behaviour::of(&self.image)) {
            (State::BackOff { until }, _) => *until,
            (State::PullFailed { since }, _) => *since + PULL_ERROR,
            (State::Running { since }, Behaviour::Slow(delay)) => *since + delay,
            _ => return None,
        };
        (when > now).then_some(when)
    }

    /// Its entry in `status.containerStatuses`.
    pub fn status(&self, pod_uid: &str, name: &str, now: Timestamp) -> Value {
        let id = format!("fake://{pod_uid}/{name}/{}", self.starts);
        let running = matches!(self.state, State::Running { .. });
        let last_end = self.last_end.filter(|_| self.state != State::Ended);
        let image_id = self
            .started_image
            .as_ref()
            .map(|image| format!("fake://{image}"));
        let mut status = json!({
            "name": name,
            "image": self.image,
            "imageID": image_id.unwrap_or_default(),
            "ready": self.ready(now),
            "started": running,
            "restartCount": self.starts.saturating_sub(1),
            "state": self.state_status(&id, now),
            "lastState": last_end.map_or(json!({}), |end| ended(end, &id)),
            "resources": self.resources,
        });
        if self.starts > 0 {
            status["containerID"] = json!(id);
        }
        if running && self.resources["requests"].is_object() {
            status["allocatedResources"] = self.resources["requests"].clone();
        }
        status
    }

    fn state_status(&self, id: &str, now: Timestamp) -> Value {
        match &self.state {
            State::Running { since } => json!({"running": {"startedAt": seconds(*since)}}),
            State::PullFailed { since } if *since + PULL_ERROR > now => {
                waiting("ErrImagePull", &format!("image {} not found", self.image))
            }
            State::PullFailed { .. } => waiting(
                "ImagePullBackOff",
                &format!("Back-off pulling image {:?}", self.image),
            ),
            State::BackOff { .. } => waiting("CrashLoopBackOff", "back-off restarting container"),
            State::Ended => ended(self.last_end.unwrap_or((0, now)), id),
        }
    }
}

fn ended((code, at): (i32, Timestamp), id: &str) -> Value {
    let reason = if code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {"exitCode": code, "reason": reason,
        "startedAt": seconds(at), "finishedAt": seconds(at), "containerID": id}})
}

/// A time as Kubernetes writes it.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

fn resources(spec: &Spec) -> Value {
    // A struct of maps of strings always has a JSON form.
    serde_json::to_value(&spec.resources).unwrap_or_default()
}

fn restarts_on_resize(spec: &Spec) -> bool {
    let mut policies = spec.resize_policy.iter().flatten();
    policies.any(|policy| policy.restart_policy == "RestartContainer")
}

fn back_off(starts: u32) -> Duration {
    let doublings = starts.saturating_sub(1).min(10);
    (FIRST_BACKOFF * 2_u32.pow(doublings)).min(LONGEST_BACKOFF)
}
