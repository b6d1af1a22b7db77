//! What a pod's status says from creation to the end, without what differs from run to run.
//!
//! [`situations`] are played on real nodes, where the states are recorded, and on simkube, whose
//! states are held against the recorded ones.

mod situations;

use serde_json::Value;

use crate::time::SimTime;
use crate::value::{int, items, terminating, text, text_or_empty};

pub use situations::{Conduct, Image, Situation, Step, situations};

/// The states of one pod, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    states: Vec<String>,
    /// When the last one began, if it says that a container does not run.
    down_since: Option<SimTime>,
}

impl Trace {
    /// Adds the pod as it was seen, unless it looks as before.
    pub fn see(&mut self, now: SimTime, pod: &Value) {
        let down = items(pod, "status.containerStatuses").iter().any(is_down);
        self.add(now, state(pod), down);
    }

    /// The pod is not there any more.
    pub fn gone(&mut self, now: SimTime) {
        self.add(now, "gone".to_owned(), false);
    }

    fn add(&mut self, now: SimTime, state: String, down: bool) {
        if self.states.last() == Some(&state) {
            return;
        }
        if let (Some(since), Some(last)) = (self.down_since, self.states.last_mut()) {
            last.push_str(&rough(now.since_ms(since), " for "));
        }
        self.states.push(state);
        self.down_since = down.then_some(now);
    }

    /// One line for each state. How long a container was said not to run is said roughly.
    #[must_use]
    pub fn states(&self) -> &[String] {
        &self.states
    }
}

/// Whether it ran and does not.
fn is_down(status: &Value) -> bool {
    let running = status.pointer("/state/running").is_some();
    !running && status.get("containerID").is_some()
}

/// A time by the back-off that it is nearest to; kubelets look every now and then. Short ones are
/// not worth a word.
fn rough(ms: u64, word: &str) -> String {
    let class = match ms / 1000 {
        0..=6 => return String::new(),
        7..=16 => "10s",
        17..=34 => "20s",
        35..=70 => "40s",
        _ => "long",
    };
    format!("{word}{class}")
}

/// A pod in one line: phase, generations, deletion, conditions, containers.
#[must_use]
pub fn state(pod: &Value) -> String {
    let number = |path: &str| int(pod, path).map_or("-".to_owned(), |n| n.to_string());
    let mut parts = vec![format!(
        "{} {}/{}",
        text_or_empty(pod, "status.phase"),
        number("status.observedGeneration"),
        number("metadata.generation"),
    )];
    if terminating(pod) {
        parts.push(format!(
            "deleting {}",
            number("metadata.deletionGracePeriodSeconds")
        ));
    }
    let mut conditions: Vec<String> = items(pod, "status.conditions")
        .iter()
        .map(condition)
        .collect();
    conditions.sort();
    parts.push(conditions.join(" "));
    let containers = items(pod, "status.containerStatuses");
    parts.extend(containers.iter().map(container));
    parts.join(" | ")
}

/// Types alone are conditions that are true.
fn condition(condition: &Value) -> String {
    let sign = match text_or_empty(condition, "status") {
        "True" => "",
        "False" => "!",
        _ => "?",
    };
    let kind = text_or_empty(condition, "type");
    match text_or_empty(condition, "reason") {
        "" => format!("{sign}{kind}"),
        reason => format!("{sign}{kind}:{reason}"),
    }
}

fn container(status: &Value) -> String {
    let is = |field: &str, yes: &'static str| {
        let set = status.get(field).is_some_and(|v| *v == true);
        if set { yes } else { "" }
    };
    let image = text_or_empty(status, "image");
    let tag = image.rsplit_once(':').map_or(image, |(_, tag)| tag);
    let restarts = int(status, "restartCount").unwrap_or(0);
    let mut line = format!("{}:{tag} {}", text_or_empty(status, "name"), now(status));
    line.push_str(is("started", " started"));
    line.push_str(is("ready", " ready"));
    line.push_str(&format!(" restarts={restarts}"));
    if let Some(last) = status.pointer("/lastState/terminated") {
        line.push_str(&format!(" before=({})", ended(last)));
    }
    line
}

fn now(status: &Value) -> String {
    if let Some(waiting) = status.pointer("/state/waiting") {
        return text_or_empty(waiting, "reason").to_owned();
    }
    if let Some(terminated) = status.pointer("/state/terminated") {
        return ended(terminated);
    }
    match status.pointer("/state/running") {
        Some(running) => format!("running{}", pause(status, running)),
        None => "nothing".to_owned(),
    }
}

fn ended(terminated: &Value) -> String {
    let code = int(terminated, "exitCode").unwrap_or(0);
    format!("{} {code}", text_or_empty(terminated, "reason"))
}

/// How long it was down before it ran again.
fn pause(status: &Value, running: &Value) -> String {
    let ended = status.pointer("/lastState/terminated/finishedAt");
    let time = |v: Option<&Value>| v.and_then(Value::as_str).and_then(SimTime::parse);
    match (time(ended), time(running.get("startedAt"))) {
        (Some(from), Some(to)) => rough(to.since_ms(from), " after "),
        _ => String::new(),
    }
}

/// Whether a condition of a pod is true.
pub(crate) fn holds(pod: &Value, kind: &str) -> bool {
    let list = items(pod, "status.conditions");
    list.iter()
        .any(|c| text(c, "type") == Some(kind) && text(c, "status") == Some("True"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_one_line_without_times_and_names() {
        let pod = json!({
            "metadata": {"generation": 2},
            "status": {
                "phase": "Running", "observedGeneration": 1,
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
                    {"type": "Initialized", "status": "True"},
                ],
                "containerStatuses": [{
                    "name": "main", "image": "registry.example/toolbox:2", "started": true,
                    "restartCount": 2,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:21Z"}},
                    "lastState": {"terminated": {
                        "exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:10Z",
                    }},
                }],
            },
        });
        assert_eq!(
            state(&pod),
            "Running 1/2 | !Ready:ContainersNotReady Initialized | \
             main:2 running after 10s started restarts=2 before=(Error 3)"
        );
        let mut trace = Trace::default();
        trace.see(SimTime(0), &pod);
        trace.see(SimTime(1000), &pod);
        assert_eq!(trace.states().len(), 1);
    }

    #[test]
    fn how_long_a_container_was_down_is_said_roughly() {
        let down = json!({"status": {"containerStatuses": [{
            "containerID": "x", "state": {"terminated": {"exitCode": 1, "reason": "Error"}},
        }]}});
        let mut trace = Trace::default();
        trace.see(SimTime(0), &down);
        trace.gone(SimTime(12_000));
        assert!(trace.states()[0].ends_with("Error 1 restarts=0 for 10s"));
    }
}
