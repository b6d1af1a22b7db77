//! `pods/eviction`.

use serde_json::{Value, json};

use super::Probe;
use super::lab::{Lab, scheduled_pod};
use crate::request::Request;
use crate::resource::Resource::{PodDisruptionBudgets, Pods};

pub(super) const PROBES: &[Probe] = &[
    Probe::new("A57", "an eviction asks the budget, and charges it", a57),
    Probe::new(
        "A65",
        "pods that are not healthy may be evicted by policy",
        a65,
    ),
    Probe::new("A66", "two budgets on one pod make it unevictable", a66),
    Probe::new(
        "A67",
        "an eviction of a pod that has changed is entered in its budget, and refused",
        a67,
    ),
    Probe::new(
        "A69",
        "an eviction that names an older version is refused of a healthy pod, and granted of one that is not",
        a69,
    ),
];

fn running(lab: &mut Lab<'_>, name: &str, ready: bool) -> String {
    let ns = lab.namespace.clone();
    let mut body = scheduled_pod(name);
    body["metadata"]["labels"] = json!({"app": "web"});
    lab.create(Pods, body).ok(201);
    let ready = if ready { "True" } else { "False" };
    let status =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    lab.ask(Request::patch(Pods, &ns, name, status).status())
        .ok(200)
        .uid()
}

fn budget(lab: &mut Lab<'_>, name: &str, spec: Value, status: Value) {
    let ns = lab.namespace.clone();
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    lab.create(
        PodDisruptionBudgets,
        json!({"metadata": {"name": name}, "spec": spec}),
    )
    .ok(201);
    lab.ask(Request::patch(PodDisruptionBudgets, &ns, name, json!({"status": status})).status())
        .ok(200);
}

fn numbers(allowed: i64, current: i64, desired: i64) -> Value {
    json!({
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": current,
        "desiredHealthy": desired, "expectedPods": 3,
    })
}

const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

fn a57(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    for name in ["a", "b", "c"] {
        running(lab, name, true);
    }
    lab.ask(Request::evict(&ns, "missing"))
        .refused(404, "NotFound");
    budget(lab, "web", json!({"minAvailable": 2}), numbers(1, 3, 2));
    lab.ask(Request::evict(&ns, "a").dry_run()).ok(201);
    lab.get(PodDisruptionBudgets, "web")
        .ok(200)
        .has("/status/disruptionsAllowed", 1);
    lab.ask(Request::evict(&ns, "a"))
        .ok(201)
        .has("/status", "Success");
    lab.get(Pods, "a")
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 30)
        .has("/status/conditions/1/type", "DisruptionTarget")
        .has("/status/conditions/1/reason", "EvictionByEvictionAPI");
    let after = lab
        .get(PodDisruptionBudgets, "web")
        .ok(200)
        .has("/status/disruptionsAllowed", 0);
    lab.equal(
        "disrupted",
        after.text("/status/disruptedPods/a").is_empty(),
        false,
    );
    lab.ask(Request::evict(&ns, "b"))
        .refused(429, "TooManyRequests")
        .says(REFUSAL)
        .cause("DisruptionBudget", "");
    lab.ask(Request::evict(&ns, "a")).ok(201);
    let behind = json!({"spec": {"minAvailable": 1}});
    lab.patch(PodDisruptionBudgets, "web", behind)
        .ok(200)
        .has("/metadata/generation", 2);
    lab.ask(Request::evict(&ns, "b"))
        .refused(429, "TooManyRequests")
        .says(REFUSAL)
        .has("/details/retryAfterSeconds", 10);
    lab.delete(PodDisruptionBudgets, "web").ok(200);
    let stranger = Request::evict(&ns, "b").uid("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa");
    lab.ask(stranger).refused(409, "Conflict");
    let uid = lab.get(Pods, "b").uid();
    lab.ask(Request::evict(&ns, "b").uid(&uid).grace(5)).ok(201);
    lab.get(Pods, "b")
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 5);
}

fn a65(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    for name in ["a", "b", "c"] {
        running(lab, name, false);
    }
    let mut pending = scheduled_pod("p");
    pending["metadata"]["labels"] = json!({"app": "web"});
    lab.create(Pods, pending).ok(201);
    budget(lab, "web", json!({"minAvailable": 2}), numbers(0, 1, 2));
    lab.ask(Request::evict(&ns, "p")).ok(201);
    lab.ask(Request::evict(&ns, "a"))
        .refused(429, "TooManyRequests");
    let enough = json!({"status": numbers(0, 2, 2)});
    lab.ask(Request::patch(PodDisruptionBudgets, &ns, "web", enough).status())
        .ok(200);
    lab.ask(Request::evict(&ns, "a")).ok(201);
    let few = json!({"status": numbers(0, 1, 2)});
    lab.ask(Request::patch(PodDisruptionBudgets, &ns, "web", few).status())
        .ok(200);
    lab.ask(Request::evict(&ns, "b"))
        .refused(429, "TooManyRequests");
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    lab.patch(PodDisruptionBudgets, "web", always).ok(200);
    lab.ask(Request::evict(&ns, "b")).ok(201);
}

fn a66(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    running(lab, "a", true);
    budget(lab, "one", json!({"minAvailable": 0}), numbers(1, 1, 0));
    budget(lab, "two", json!({"minAvailable": 0}), numbers(1, 1, 0));
    lab.ask(Request::evict(&ns, "a"))
        .refused(500, "")
        .says("This pod has more than one PodDisruptionBudget");
}

fn a67(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let uid = running(lab, "a", true);
    budget(lab, "web", json!({"minAvailable": 0}), numbers(1, 1, 0));
    let seen = lab.get(Pods, "a").ok(200).version();
    let touched = json!({"metadata": {"annotations": {"somebody": "was here"}}});
    lab.patch(Pods, "a", touched).ok(200);
    let old = Request::evict(&ns, "a").uid(&uid).resource_version(&seen);
    lab.ask(old).refused(409, "Conflict");
    lab.get(Pods, "a")
        .ok(200)
        .lacks("/metadata/deletionTimestamp");
    let left = lab
        .get(PodDisruptionBudgets, "web")
        .ok(200)
        .has("/status/disruptionsAllowed", 0);
    let entered = !left.text("/status/disruptedPods/a").is_empty();
    lab.equal("entered", entered, true);
    lab.ask(Request::evict(&ns, "a").uid(&uid))
        .refused(429, "TooManyRequests");
    // Whoever may write the status can take it back; the numbers are the controller's business.
    let back = json!({
        "metadata": {"uid": left.uid(), "resourceVersion": left.version()},
        "status": {"disruptedPods": {"a": null}},
    });
    let back = Request::patch(PodDisruptionBudgets, &ns, "web", back).status();
    lab.ask(back.clone())
        .ok(200)
        .lacks("/status/disruptedPods/a")
        .has("/status/disruptionsAllowed", 0);
    lab.ask(back).refused(409, "Conflict");
}

/// The version just read takes the place of the one in the call, if the pod is not Ready and its budget
/// spares it. The uid counts always.
fn a69(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let policy = json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
    budget(lab, "web", policy, numbers(0, 1, 2));
    let stranger = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
    let outdated = |lab: &mut Lab<'_>, name: &str, ready: bool| {
        let uid = running(lab, name, ready);
        let seen = lab.get(Pods, name).ok(200).version();
        let touched = json!({"metadata": {"annotations": {"somebody": "was here"}}});
        lab.patch(Pods, name, touched).ok(200);
        Request::evict(&ns, name).uid(&uid).resource_version(&seen)
    };
    let (healthy, always) = (outdated(lab, "a", true), outdated(lab, "b", false));
    let enough = json!({"status": numbers(1, 2, 2)});
    lab.ask(Request::patch(PodDisruptionBudgets, &ns, "web", enough).status())
        .ok(200);
    lab.ask(healthy).refused(409, "Conflict");
    lab.ask(always.clone().uid(stranger))
        .refused(409, "Conflict");
    lab.ask(always.clone().dry_run()).ok(201);
    lab.ask(always).ok(201);
    let by_default = json!({"spec": {"unhealthyPodEvictionPolicy": null}});
    lab.patch(PodDisruptionBudgets, "web", by_default).ok(200);
    let suffices = outdated(lab, "c", false);
    lab.ask(suffices).ok(201);
    lab.delete(PodDisruptionBudgets, "web").ok(200);
    let alone = outdated(lab, "d", false);
    lab.ask(alone).refused(409, "Conflict");
}
