//! One simulated pod: what its kubelet would report and when it would delete it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::container::{Container, seconds};

/// What the kubelet does next for a pod.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Write this status.
    Report(Value),
    /// Remove the pod: its containers have ended.
    Remove,
    /// Nothing until the pod changes, or until the given time has passed.
    Wait(Option<Duration>),
}

/// The life of one pod on a simulated node.
pub struct Life {
    address: String,
    begin: Option<Timestamp>,
    containers: BTreeMap<String, Container>,
    /// Condition type -> status and since when.
    conditions: BTreeMap<&'static str, (bool, Timestamp)>,
    reported: Option<Value>,
    removed: bool,
}

impl Life {
    /// A pod that was just bound to a node.
    pub fn new(address: String) -> Life {
        Life {
            address,
            begin: None,
            containers: BTreeMap::new(),
            conditions: BTreeMap::new(),
            reported: None,
            removed: false,
        }
    }

    /// Reports again even if nothing changed: others may have written while the node was away.
    pub fn forget_report(&mut self) {
        self.reported = None;
    }

    /// What to do now.
    pub fn next(&mut self, pod: &Pod, now: Timestamp) -> Step {
        let begin = *self.begin.get_or_insert(now);
        if self.removed {
            return Step::Wait(None);
        }
        if let Some(deleted) = &pod.metadata.deletion_timestamp {
            if self.ignores_deletion(pod) && deleted.0 > now {
                return Step::Wait(Some(until(deleted.0, now)));
            }
            self.containers
                .values_mut()
                .for_each(|container| container.end(now));
        } else {
            self.run(pod, now);
        }
        let status = self.status(pod, begin, now);
        if self.reported.as_ref() != Some(&status) {
            self.reported = Some(status.clone());
            return Step::Report(status);
        }
        if pod.metadata.deletion_timestamp.is_some() {
            self.removed = true;
            return Step::Remove;
        }
        let changes = self
            .containers
            .values()
            .filter_map(|container| container.next_change(now));
        Step::Wait(changes.min().map(|when| until(when, now)))
    }

    /// The removal failed and must be tried again.
    pub fn not_removed(&mut self) {
        self.removed = false;
    }

    fn run(&mut self, pod: &Pod, now: Timestamp) {
        let Some(spec) = &pod.spec else { return };
        let restarts_always = spec.restart_policy.as_deref().unwrap_or("Always") == "Always";
        let restarts_failed = spec.restart_policy.as_deref() == Some("OnFailure");
        for container in &spec.containers {
            let crashes =
                Behaviour::of(container.image.as_deref().unwrap_or("")) == Behaviour::Crash;
            let restarts = restarts_always || (restarts_failed && crashes);
            match self.containers.get_mut(&container.name) {
                Some(known) if known.exit_code().is_some() => {}
                Some(known) => known.advance(container, restarts, now),
                None => {
                    let status = pod.status.as_ref().and_then(|status| {
                        let mut all = status.container_statuses.iter().flatten();
                        all.find(|status| status.name == container.name)
                    });
                    let adopted = status.and_then(|status| Container::adopt(container, status));
                    let new = adopted.unwrap_or_else(|| Container::begin(container, restarts, now));
                    self.containers.insert(container.name.clone(), new);
                }
            }
        }
    }

    fn ignores_deletion(&self, pod: &Pod) -> bool {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let mut images = containers.filter_map(|container| container.image.as_deref());
        images.any(|image| Behaviour::of(image) == Behaviour::Stuck)
    }

    fn phase(&self) -> &'static str {
        let codes: Vec<Option<i32>> = self.containers.values().map(Container::exit_code).collect();
        if codes.iter().all(Option::is_some) {
            let failed = codes.iter().flatten().any(|code| *code != 0);
            return if failed { "Failed" } else { "Succeeded" };
        }
        match self.containers.values().all(Container::started_once) {
            true => "Running",
            false => "Pending",
        }
    }

    fn status(&mut self, pod: &Pod, begin: Timestamp, now: Timestamp) -> Value {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let statuses: Vec<Value> = self
            .containers
            .iter()
            .map(|(name, container)| container.status(&uid, name, now))
            .collect();
        let conditions = self.conditions(pod, now);
        json!({
            "phase": self.phase(),
            "startTime": seconds(begin),
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "observedGeneration": pod.metadata.generation,
            "conditions": conditions,
            "containerStatuses": statuses,
            "initContainerStatuses": completed_init_containers(pod, &uid, begin),
        })
    }

    fn conditions(&mut self, pod: &Pod, now: Timestamp) -> Vec<Value> {
        let all_ready = !self.containers.is_empty()
            && self
                .containers
                .values()
                .all(|container| container.ready(now));
        let gates_open = readiness_gates_open(pod);
        let reason = match (all_ready, gates_open) {
            (false, _) => Some("ContainersNotReady"),
            (true, false) => Some("ReadinessGatesNotReady"),
            (true, true) => None,
        };
        let generation = pod.metadata.generation;
        let mut list = Vec::new();
        for (kind, holds, reason) in [
            ("PodReadyToStartContainers", true, None),
            ("Initialized", true, None),
            ("ContainersReady", all_ready, reason.filter(|_| !all_ready)),
            ("Ready", all_ready && gates_open, reason),
        ] {
            let entry = self.conditions.entry(kind).or_insert((holds, now));
            if entry.0 != holds {
                *entry = (holds, now);
            }
            let status = if holds { "True" } else { "False" };
            list.push(json!({"type": kind, "status": status, "reason": reason,
                "observedGeneration": generation, "lastTransitionTime": seconds(entry.1)}));
        }
        list
    }
}

/// Whether everybody who has a say in the pod's readiness has said yes.
fn readiness_gates_open(pod: &Pod) -> bool {
    let conditions: Vec<_> = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .collect();
    let mut gates = pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten());
    gates.all(|gate| {
        let mut own = conditions
            .iter()
            .filter(|one| one.type_ == gate.condition_type);
        own.any(|condition| condition.status == "True")
    })
}

/// Init containers are taken to have done their work at once.
fn completed_init_containers(pod: &Pod, uid: &str, at: Timestamp) -> Vec<Value> {
    let containers = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let entry = |container: &k8s_openapi::api::core::v1::Container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        let id = format!("fake://{uid}/{}/1", container.name);
        let state = match sidecar {
            true => json!({"running": {"startedAt": seconds(at)}}),
            false => json!({"terminated": {"exitCode": 0, "reason": "Completed",
                "startedAt": seconds(at), "finishedAt": seconds(at), "containerID": id}}),
        };
        json!({"name": container.name, "image": container.image,
            "imageID": format!("fake://{}", container.image.as_deref().unwrap_or("")),
            "containerID": id, "ready": true, "started": sidecar, "restartCount": 0,
            "state": state, "lastState": {}})
    };
    containers.map(entry).collect()
}

fn until(when: Timestamp, now: Timestamp) -> Duration {
    when.duration_since(now)
        .try_into()
        .unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(image: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u", "generation": 1},
            "spec": {"containers": [{"name": "main", "image": image}]},
        }))
        .unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn reported(step: Step) -> Value {
        match step {
            Step::Report(status) => status,
            other => panic!("expected a report, got {other:?}"),
        }
    }

    fn condition(status: &Value, kind: &str) -> String {
        let all = status["conditions"].as_array().unwrap();
        let one = all.iter().find(|one| one["type"] == kind).unwrap();
        one["status"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_pod_is_reported_ready_once_and_then_left_alone() {
        let mut life = Life::new("10.0.0.1".into());
        let status = reported(life.next(&pod("app:1"), at(0)));
        assert_eq!(condition(&status, "Ready"), "True");
        assert_eq!(life.next(&pod("app:1"), at(1)), Step::Wait(None));
    }

    #[test]
    fn a_changed_image_restarts_the_container_and_a_missing_one_stops_it() {
        let mut life = Life::new("10.0.0.1".into());
        reported(life.next(&pod("app:1"), at(0)));
        let status = reported(life.next(&pod("app:2"), at(1)));
        assert_eq!(status["containerStatuses"][0]["restartCount"], 1);
        assert_eq!(status["containerStatuses"][0]["imageID"], "fake://app:2");
        let status = reported(life.next(&pod("app:missing"), at(2)));
        assert_eq!(condition(&status, "Ready"), "False");
        assert_eq!(status["containerStatuses"][0]["restartCount"], 1);
        assert_eq!(status["containerStatuses"][0]["imageID"], "fake://app:2");
    }

    #[test]
    fn a_crashing_container_is_started_again_after_its_back_off() {
        let mut life = Life::new("10.0.0.1".into());
        reported(life.next(&pod("app:crash"), at(0)));
        assert_eq!(
            life.next(&pod("app:crash"), at(0)),
            Step::Wait(Some(Duration::from_secs(1)))
        );
        let status = reported(life.next(&pod("app:crash"), at(1)));
        assert_eq!(status["containerStatuses"][0]["restartCount"], 1);
    }

    #[test]
    fn a_pod_with_a_readiness_gate_is_ready_when_the_gate_is_open() {
        let mut life = Life::new("10.0.0.1".into());
        let mut pod = pod("app:1");
        let gate = serde_json::from_value(json!([{"conditionType": "example.org/open"}])).unwrap();
        pod.spec.as_mut().unwrap().readiness_gates = Some(gate);
        let status = reported(life.next(&pod, at(0)));
        assert_eq!(condition(&status, "ContainersReady"), "True");
        assert_eq!(condition(&status, "Ready"), "False");
        let open = json!({"conditions": [{"type": "example.org/open", "status": "True"}]});
        pod.status = Some(serde_json::from_value(open).unwrap());
        assert_eq!(
            condition(&reported(life.next(&pod, at(1))), "Ready"),
            "True"
        );
    }

    #[test]
    fn a_deleted_pod_is_reported_ended_and_then_removed_once() {
        let mut life = Life::new("10.0.0.1".into());
        let mut pod = pod("app:1");
        reported(life.next(&pod, at(0)));
        pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(30)));
        assert_eq!(reported(life.next(&pod, at(1)))["phase"], "Succeeded");
        assert_eq!(life.next(&pod, at(1)), Step::Remove);
        assert_eq!(life.next(&pod, at(2)), Step::Wait(None));
    }

    #[test]
    fn a_stuck_pod_uses_its_whole_grace_period() {
        let mut life = Life::new("10.0.0.1".into());
        let mut pod = pod("app:stuck");
        reported(life.next(&pod, at(0)));
        pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(30)));
        assert_eq!(
            life.next(&pod, at(10)),
            Step::Wait(Some(Duration::from_secs(20)))
        );
        assert_eq!(reported(life.next(&pod, at(30)))["phase"], "Succeeded");
    }
}
