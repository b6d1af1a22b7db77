//! What a kubelet says about a pod.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::container::{ContainerSim, Ended, State};
use super::{LocalPod, Stage};
use crate::cluster::Cluster;
use crate::kinds::conditions::{Condition, set_in};
use crate::time::SimTime;
use crate::value::{at, condition_true, int, items, text, text_or_empty};

/// Conditions that the kubelet writes; all others belong to somebody else.
const OWN: [&str; 7] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "PodResizePending",
    "PodResizeInProgress",
];

impl Cluster {
    pub(super) fn status_of(&self, node: &Arc<str>, local: &LocalPod) -> Value {
        let now = self.now();
        let mut status = Map::new();
        let old = local.pod.get("status");
        let address = self.nodes.get(node).map_or("", |n| n.address.as_str());
        if self.tells_generations(node) {
            status.insert("observedGeneration".into(), generation(&local.pod).into());
        }
        status.insert("phase".into(), phase(local).into());
        if let Some(why) = &local.rejected {
            return rejected(status, old, why);
        }
        status.insert("hostIP".into(), address.into());
        status.insert("hostIPs".into(), json!([{"ip": address}]));
        status.insert("startTime".into(), local.started_at.rfc3339().into());
        if let Some(ip) = &local.address {
            status.insert("podIP".into(), ip.as_str().into());
            status.insert("podIPs".into(), json!([{"ip": ip}]));
        }
        for kept in ["qosClass", "reason", "message", "nominatedNodeName"] {
            if let Some(value) = old.and_then(|o| o.get(kept)) {
                status.insert(kept.into(), value.clone());
            }
        }
        let initializing = !local.inits.is_empty() && local.stage != Stage::Main;
        let show = |list: &[ContainerSim], initializing: bool| -> Value {
            list.iter()
                .map(|c| container_status(c, initializing, now))
                .collect()
        };
        if !local.inits.is_empty() {
            status.insert(
                "initContainerStatuses".into(),
                show(&local.inits, initializing),
            );
        }
        status.insert(
            "containerStatuses".into(),
            show(&local.containers, initializing),
        );
        status.insert("conditions".into(), conditions(local, now));
        Value::Object(status)
    }

    /// Whether a node's kubelet says up to which generation it has looked at a pod.
    fn tells_generations(&self, node: &Arc<str>) -> bool {
        let node = self.nodes.get(node);
        node.is_none_or(|n| n.spec.tells_generations())
    }
}

/// Of a pod that it never began with, a kubelet says little.
fn rejected(mut status: Map<String, Value>, old: Option<&Value>, why: &str) -> Value {
    status.insert("reason".into(), "OutOfpods".into());
    status.insert("message".into(), why.into());
    if let Some(class) = old.and_then(|o| o.get("qosClass")) {
        status.insert("qosClass".into(), class.clone());
    }
    Value::Object(status)
}

fn generation(pod: &Value) -> i64 {
    int(pod, "metadata.generation").unwrap_or(0)
}

pub(super) fn phase(local: &LocalPod) -> &'static str {
    if let Some(finished) = local.finished {
        return finished;
    }
    let all_started = local.containers.iter().all(ContainerSim::was_started);
    if local.stage != Stage::Main || !all_started {
        "Pending"
    } else {
        "Running"
    }
}

fn conditions(local: &LocalPod, now: SimTime) -> Value {
    let pod = &local.pod;
    let before = items(pod, "status.conditions");
    let foreign = before
        .iter()
        .filter(|c| !OWN.contains(&text_or_empty(c, "type")));
    let mut list = Value::Array(foreign.cloned().collect());
    let generation = Some(generation(pod));
    let mut put = |condition: Condition<'_>| {
        // The previous entry goes along, so that its transition time is kept.
        if let Some(old) = before
            .iter()
            .find(|c| text(c, "type") == Some(condition.kind))
            && let Value::Array(list) = &mut list
        {
            list.push(old.clone());
        }
        set_in(&mut list, now, &condition.at_generation(generation));
    };
    for condition in local.resize.conditions() {
        put(condition);
    }
    put(Condition::pod(
        "PodReadyToStartContainers",
        local.address.is_some() && local.finished.is_none(),
    ));
    put(initialized(local));
    let unready: Vec<&str> = local
        .containers
        .iter()
        .filter(|c| !c.is_ready(now))
        .map(|c| c.name.as_str())
        .collect();
    let text_unready = format!("containers with unready status: [{}]", unready.join(" "));
    let containers_ready = containers_ready(local, &unready, &text_unready);
    let gates = failing_gates(pod);
    let ready = if containers_ready.status == "True" && !gates.is_empty() {
        Condition::pod("Ready", false).because("ReadinessGatesNotReady", &gates)
    } else {
        Condition {
            kind: "Ready",
            ..containers_ready.clone()
        }
    };
    put(ready);
    put(containers_ready);
    put(Condition::pod("PodScheduled", true));
    list
}

fn initialized(local: &LocalPod) -> Condition<'static> {
    match (
        local.stage == Stage::Main || local.inits.is_empty(),
        local.finished,
    ) {
        (true, Some("Succeeded")) => {
            Condition::pod("Initialized", true).because("PodCompleted", "")
        }
        (true, _) => Condition::pod("Initialized", true),
        (false, _) => Condition::pod("Initialized", false).because("ContainersNotInitialized", ""),
    }
}

fn containers_ready<'a>(local: &LocalPod, unready: &[&str], text: &'a str) -> Condition<'a> {
    match local.finished {
        Some("Succeeded") => Condition::pod("ContainersReady", false).because("PodCompleted", ""),
        Some(_) => Condition::pod("ContainersReady", false).because("PodFailed", ""),
        None if unready.is_empty() && local.stage == Stage::Main => {
            Condition::pod("ContainersReady", true)
        }
        None => Condition::pod("ContainersReady", false).because("ContainersNotReady", text),
    }
}

/// Readiness gates whose condition somebody has yet to set.
fn failing_gates(pod: &Value) -> String {
    let gates = items(pod, "spec.readinessGates")
        .iter()
        .filter_map(|g| text(g, "conditionType"));
    let failing: Vec<String> = gates
        .filter(|g| !condition_true(pod, g))
        .map(|g| format!("the status of pod readiness gate \"{g}\" is not \"True\", but False"))
        .collect();
    failing.join("; ")
}

fn container_status(container: &ContainerSim, initializing: bool, now: SimTime) -> Value {
    let ready = container.is_ready(now);
    let container = container.shown();
    let running = container.is_running();
    let mut status = json!({
        "name": container.name, "image": container.shown_image(), "imageID": "",
        "ready": ready, "started": container.is_started(now),
        "restartCount": container.restarts, "state": state(container, initializing), "lastState": {},
    });
    if let Some(id) = &container.id {
        status["containerID"] = id.as_str().into();
        status["imageID"] = image_id(container.shown_image()).into();
    }
    if let Some(last) = &container.last {
        status["lastState"] = json!({"terminated": terminated(last)});
    }
    let has_resources = |path| at(&container.resources, path).is_some();
    if running && (has_resources("requests") || has_resources("limits")) {
        status["resources"] = container.resources.clone();
        if let Some(requests) = at(&container.resources, "requests") {
            status["allocatedResources"] = requests.clone();
        }
    }
    status
}

fn state(container: &ContainerSim, initializing: bool) -> Value {
    if let Some((reason, message)) = container.waiting(initializing) {
        let mut waiting = json!({"reason": reason});
        if !message.is_empty() {
            waiting["message"] = message.into();
        }
        return json!({"waiting": waiting});
    }
    match &container.state {
        State::Running(running) => json!({"running": {"startedAt": running.since.rfc3339()}}),
        State::Exited { ended, .. } | State::Ended(ended) => {
            json!({"terminated": terminated(ended)})
        }
        _ => json!({}),
    }
}

fn terminated(ended: &Ended) -> Value {
    let mut out = json!({
        "exitCode": ended.code, "reason": ended.reason, "finishedAt": ended.at.rfc3339(),
        "startedAt": ended.started.map(SimTime::rfc3339),
    });
    if let Some(id) = &ended.id {
        out["containerID"] = id.as_str().into();
    }
    out
}

/// A digest that differs from image to image and is the same everywhere.
fn image_id(image: &str) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in image.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let name = image.rsplit_once(':').map_or(image, |(name, _)| name);
    format!("{name}@sha256:{hash:016x}{hash:016x}{hash:016x}{hash:016x}")
}
