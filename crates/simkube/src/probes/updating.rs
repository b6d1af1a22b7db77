//! PUT and merge patch.

use serde_json::json;

use super::lab::{Lab, config, pod};
use super::{Probe, crds};
use crate::request::{PatchType, Request, Subresource};
use crate::resource::Resource::{ConfigMaps, Leases, PodDisruptionBudgets, Pods};
use crate::watch::WatchOptions;

pub(super) const PROBES: &[Probe] = &[
    Probe::new("A6", "some kinds demand a version on every PUT", a6),
    Probe::new("A7", "a stale version or another uid loses", a7),
    Probe::new("A8", "a write that changes nothing is no write", a8),
    Probe::new(
        "A9",
        "status and the rest are written through different doors",
        a9,
    ),
    Probe::new("A10", "generation counts what was asked for", a10),
    Probe::new(
        "A11",
        "a patch with a version is a lock, with a uid an identity check",
        a11,
    ),
    Probe::new("A31", "deletionTimestamp is not for clients", a31),
    Probe::new("A60", "of two writers with one version, one wins", a60),
    Probe::new(
        "A70",
        "a dry run of a PUT that creates shows the version that was sent",
        a70,
    ),
    Probe::new("S1", "what simkube does not model, it says so", s1),
];

fn lease(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": "a"},
    })
}

fn a6(lab: &mut Lab<'_>) {
    const DEMAND: &str =
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    let widgets = crds::widgets(lab);
    lab.create(ConfigMaps, config("x")).ok(201);
    let mut other = config("x");
    other["data"]["k"] = json!("w");
    lab.put(ConfigMaps, other).ok(200).has("/data/k", "w");
    lab.create(widgets, crds::widget("x")).ok(201);
    lab.put(widgets, crds::widget("x"))
        .refused(422, "Invalid")
        .says(DEMAND);
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"},
        "spec": {"minAvailable": 1},
    });
    lab.create(PodDisruptionBudgets, budget.clone()).ok(201);
    lab.put(PodDisruptionBudgets, budget)
        .refused(422, "Invalid")
        .says(DEMAND);
    lab.put(Leases, lease("new")).ok(201);
    lab.put(Leases, lease("new")).refused(422, "Invalid");
    let mut gone = lease("gone");
    gone["metadata"]["resourceVersion"] = json!("1");
    lab.put(Leases, gone).ok(201);
    lab.put(ConfigMaps, config("new"))
        .refused(404, "NotFound")
        .says("configmaps \"new\" not found");
}

fn a7(lab: &mut Lab<'_>) {
    let first = lab.create(ConfigMaps, config("x")).ok(201).body();
    lab.patch(ConfigMaps, "x", json!({"data": {"k": "w"}}))
        .ok(200);
    let mut stale = first.clone();
    stale["data"]["k"] = json!("z");
    lab.put(ConfigMaps, stale).refused(409, "Conflict").says(
        "Operation cannot be fulfilled on configmaps \"x\": the object has been modified; \
         please apply your changes to the latest version and try again",
    );
    let mut stranger = config("x");
    stranger["metadata"]["uid"] = json!("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa");
    lab.put(ConfigMaps, stranger)
        .refused(409, "Conflict")
        .says("Precondition failed: UID in precondition: aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa");
    let ns = lab.namespace.clone();
    lab.ask(Request::update(ConfigMaps, &ns, "x", config("y")))
        .refused(400, "BadRequest")
        .says("the name of the object (y) does not match the name on the URL (x)");
}

fn a8(lab: &mut Lab<'_>) {
    let first = lab.create(ConfigMaps, config("x")).ok(201);
    let again = lab.put(ConfigMaps, first.body()).ok(200);
    lab.equal(
        "version after an identical PUT",
        again.version(),
        first.version(),
    );
    let patched = lab
        .patch(ConfigMaps, "x", json!({"data": {"k": "v"}}))
        .ok(200);
    lab.equal(
        "version after an empty patch",
        patched.version(),
        first.version(),
    );
    let from = WatchOptions {
        resource_version: Some(first.revision()),
        ..Default::default()
    };
    let events = lab.events(ConfigMaps, from);
    lab.equal("events", events, Vec::new());
}

fn a9(lab: &mut Lab<'_>) {
    let widgets = crds::widgets(lab);
    let ns = lab.namespace.clone();
    let mut widget = lab
        .create(widgets, crds::widget("x"))
        .ok(201)
        .lacks("/status")
        .body();
    widget["status"] = json!({"ready": 3});
    widget["spec"]["size"] = json!(5);
    let mut widget = lab
        .put(widgets, widget)
        .ok(200)
        .lacks("/status")
        .has("/spec/size", 5)
        .body();
    widget["status"] = json!({"ready": 3});
    widget["spec"]["size"] = json!(7);
    widget["metadata"]["labels"] = json!({"a": "b"});
    lab.ask(Request::update(widgets, &ns, "x", widget).status())
        .ok(200)
        .has("/status/ready", 3)
        .has("/spec/size", 5)
        .lacks("/metadata/labels");

    lab.create(Pods, pod("x")).ok(201);
    let patch = json!({
        "metadata": {"labels": {"a": "b"}}, "status": {"message": "hello"},
        "spec": {"activeDeadlineSeconds": 5},
    });
    lab.ask(Request::patch(Pods, &ns, "x", patch).status())
        .ok(200)
        .has("/status/message", "hello")
        .has("/metadata/labels", json!({"a": "b"}))
        .lacks("/spec/activeDeadlineSeconds");
    lab.patch(Pods, "x", json!({"status": {"message": "other"}}))
        .ok(200)
        .has("/status/message", "hello");
    lab.ask(Request::get(ConfigMaps, &ns, "x").status())
        .refused(404, "NotFound");
}

fn a10(lab: &mut Lab<'_>) {
    let widgets = crds::widgets(lab);
    let ns = lab.namespace.clone();
    lab.create(widgets, crds::widget("x"))
        .ok(201)
        .has("/metadata/generation", 1);
    lab.patch(widgets, "x", json!({"metadata": {"labels": {"a": "b"}}}))
        .ok(200)
        .has("/metadata/generation", 1);
    let status = json!({"status": {"ready": 1}});
    lab.ask(Request::patch(widgets, &ns, "x", status).status())
        .ok(200)
        .has("/metadata/generation", 1);
    lab.patch(widgets, "x", json!({"spec": {"size": 9}}))
        .ok(200)
        .has("/metadata/generation", 2);

    let body = lab
        .create(Pods, pod("x"))
        .ok(201)
        .has("/metadata/generation", 1)
        .body();
    lab.patch(Pods, "x", json!({"metadata": {"labels": {"a": "b"}}}))
        .ok(200)
        .has("/metadata/generation", 1);
    let mut container = body["spec"]["containers"][0].clone();
    container["image"] = json!("example.com/web:2");
    lab.patch(Pods, "x", json!({"spec": {"containers": [container]}}))
        .ok(200)
        .has("/metadata/generation", 2);
    lab.ask(Request::bind(&ns, "x", "no-such-node")).ok(201);
    lab.get(Pods, "x").ok(200).has("/metadata/generation", 2);
    lab.delete(Pods, "x").ok(200).has("/metadata/generation", 3);
    lab.create(ConfigMaps, config("x"))
        .ok(201)
        .lacks("/metadata/generation");
}

fn a11(lab: &mut Lab<'_>) {
    let first = lab.create(ConfigMaps, config("x")).ok(201);
    lab.patch(ConfigMaps, "x", json!({"data": {"k": "w"}}))
        .ok(200);
    let stale = json!({"metadata": {"resourceVersion": first.version()}, "data": {"k": "z"}});
    lab.patch(ConfigMaps, "x", stale).refused(409, "Conflict");
    let stranger = json!({"metadata": {"uid": "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"}});
    lab.patch(ConfigMaps, "x", stranger)
        .refused(422, "Invalid")
        .says("metadata.uid: Invalid value: ")
        .says("field is immutable")
        .cause("FieldValueInvalid", "metadata.uid");
    lab.patch(
        ConfigMaps,
        "x",
        json!({"metadata": {"uid": first.uid()}, "data": {"k": "z"}}),
    )
    .ok(200);
    lab.patch(ConfigMaps, "x", json!({"data": {"k": null, "l": "m"}}))
        .ok(200)
        .has("/data", json!({"l": "m"}));
    lab.patch(ConfigMaps, "missing", json!({"data": {}}))
        .refused(404, "NotFound");
}

fn a70(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let version = lab.create(Leases, lease("x")).ok(201).version();
    lab.delete(Leases, "x").ok(200);
    let mut sent = lease("x");
    sent["metadata"]["resourceVersion"] = version.as_str().into();
    let put = Request::update(Leases, &ns, "x", sent);
    let shown = lab.ask(put.clone().dry_run()).ok(201).version();
    lab.equal("the version of the dry run", shown, version.clone());
    lab.get(Leases, "x").refused(404, "NotFound");
    let stored = lab.ask(put).ok(201).version();
    lab.equal("another version is stored", stored == version, false);
}

fn a31(lab: &mut Lab<'_>) {
    let mut held = config("x");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    lab.create(ConfigMaps, held).ok(201);
    let stamp = json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}});
    lab.patch(ConfigMaps, "x", stamp.clone())
        .refused(422, "Invalid")
        .cause("FieldValueInvalid", "metadata.deletionTimestamp");
    let marked = lab
        .delete(ConfigMaps, "x")
        .ok(200)
        .text("/metadata/deletionTimestamp");
    let after = lab
        .patch(ConfigMaps, "x", stamp)
        .ok(200)
        .text("/metadata/deletionTimestamp");
    lab.equal("deletionTimestamp after a patch", after, marked);

    let ns = lab.namespace.clone();
    lab.create(Pods, pod("x")).ok(201);
    let stamp = json!({
        "metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}, "status": {"message": "hello"},
    });
    lab.patch(Pods, "x", stamp.clone()).refused(422, "Invalid");
    lab.ask(Request::patch(Pods, &ns, "x", stamp.clone()).status())
        .ok(200)
        .has("/status/message", "hello")
        .lacks("/metadata/deletionTimestamp");
    let mut grace = stamp;
    grace["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    lab.ask(Request::patch(Pods, &ns, "x", grace).status())
        .refused(422, "Invalid")
        .says("\"x\" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 0: field is immutable");
}

fn a60(lab: &mut Lab<'_>) {
    let seen = lab.create(Leases, lease("x")).ok(201).body();
    for (who, code) in [("b", 200), ("c", 409)] {
        let mut mine = seen.clone();
        mine["spec"]["holderIdentity"] = json!(who);
        let answer = lab.put(Leases, mine);
        if code == 200 {
            answer.ok(200)
        } else {
            answer.refused(409, "Conflict")
        };
    }
    lab.get(Leases, "x")
        .ok(200)
        .has("/spec/holderIdentity", "b");
}

/// Only asked of simkube: a real server has these verbs.
fn s1(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    lab.create(ConfigMaps, config("x")).ok(201);
    for dialect in [PatchType::Apply, PatchType::Json, PatchType::Strategic] {
        let patch = Request::patch(ConfigMaps, &ns, "x", json!({})).patch_type(dialect);
        lab.ask(patch)
            .refused(501, "NotImplemented")
            .says("simkube does not model");
    }
    lab.ask(Request::get(ConfigMaps, &ns, "x").part(Subresource::Scale))
        .refused(404, "NotFound");
}
