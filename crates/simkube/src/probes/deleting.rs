//! DELETE.

use serde_json::{Value, json};

use super::lab::{Lab, config, pod, scheduled_pod};
use super::{Probe, crds};
use crate::request::{Propagation, Request};
use crate::resource::Resource::{
    self, ConfigMaps, ControllerRevisions, Leases, PersistentVolumeClaims, PodDisruptionBudgets,
    Pods, Secrets, Services,
};
use crate::watch::WatchOptions;

pub(super) const PROBES: &[Probe] = &[
    Probe::new("A24", "a delete can name what it means", a24),
    Probe::new("A25", "an unscheduled pod goes at once, in two writes", a25),
    Probe::new(
        "A26",
        "a scheduled pod gets its grace, which can only shrink",
        a26,
    ),
    Probe::new("A27", "a finished pod goes at once", a27),
    Probe::new("A28", "a finalizer holds even a force-deleted pod", a28),
    Probe::new("A29", "an object with finalizers is marked once", a29),
    Probe::new(
        "A30",
        "some kinds answer a delete with the object, others with a status",
        a30,
    ),
    Probe::new("A62", "a collection is deleted by selector", a62),
    Probe::new(
        "A68",
        "a delete that takes the last finalizer away forgets what it read",
        a68,
    ),
];

fn a24(lab: &mut Lab<'_>) {
    let stranger = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
    let first = lab.create(Pods, pod("x")).ok(201);
    let request = lab.deletion(Pods, "x").uid(stranger);
    lab.ask(request)
        .refused(409, "Conflict")
        .says(&format!(
            "Operation cannot be fulfilled on Pod \"x\": the UID in the precondition ({stranger}) \
             does not match the UID in record"
        ))
        .says("The object might have been deleted and then recreated")
        .has("/details/kind", "Pod");
    let request = lab.deletion(Pods, "x").resource_version("1");
    lab.ask(request).refused(409, "Conflict").says(
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record",
    );
    let request = lab
        .deletion(Pods, "x")
        .uid(&first.uid())
        .resource_version(&first.version());
    lab.ask(request).ok(200);
    lab.delete(Pods, "x")
        .refused(404, "NotFound")
        .says("pods \"x\" not found");
}

fn after(revision: u64) -> WatchOptions {
    WatchOptions {
        resource_version: Some(revision),
        ..WatchOptions::default()
    }
}

fn a25(lab: &mut Lab<'_>) {
    let first = lab.create(Pods, pod("x")).ok(201);
    lab.delete(Pods, "x")
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 0);
    lab.get(Pods, "x").refused(404, "NotFound");
    let events = lab.events(Pods, after(first.revision()));
    lab.equal(
        "events",
        events,
        vec!["MODIFIED x".to_owned(), "DELETED x".to_owned()],
    );
}

fn a26(lab: &mut Lab<'_>) {
    lab.create(Pods, scheduled_pod("x")).ok(201);
    let marked = lab
        .delete(Pods, "x")
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 30)
        .has("/metadata/generation", 2);
    lab.wait();
    let request = lab.deletion(Pods, "x").grace(60);
    let longer = lab
        .ask(request)
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 30);
    lab.equal(
        "version after a longer grace",
        longer.version(),
        marked.version(),
    );
    let request = lab.deletion(Pods, "x").grace(5);
    let shorter = lab
        .ask(request)
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 5);
    let sooner =
        shorter.text("/metadata/deletionTimestamp") < marked.text("/metadata/deletionTimestamp");
    lab.equal("a shorter grace ends sooner", sooner, true);
    let request = lab.deletion(Pods, "x").grace(0);
    lab.ask(request).ok(200);
    let events = lab.events(Pods, after(shorter.revision()));
    lab.equal(
        "events",
        events,
        vec!["MODIFIED x".to_owned(), "DELETED x".to_owned()],
    );

    lab.create(Pods, scheduled_pod("late")).ok(201);
    lab.delete(Pods, "late").ok(200);
    (0..4).for_each(|_| lab.wait());
    let request = lab.deletion(Pods, "late").grace(2);
    lab.ask(request)
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 1);
}

fn a27(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    lab.create(Pods, scheduled_pod("x")).ok(201);
    let failed = json!({"status": {"phase": "Failed"}});
    lab.ask(Request::patch(Pods, &ns, "x", failed).status())
        .ok(200);
    lab.delete(Pods, "x").ok(200);
    lab.get(Pods, "x").refused(404, "NotFound");
}

fn a28(lab: &mut Lab<'_>) {
    let mut held = scheduled_pod("x");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    lab.create(Pods, held).ok(201);
    let request = lab.deletion(Pods, "x").grace(0);
    lab.ask(request)
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 0);
    let body = lab.get(Pods, "x").ok(200);
    let revision = body.revision();
    let mut freed = body.body();
    freed["metadata"]["finalizers"] = json!([]);
    lab.put(Pods, freed).ok(200).lacks("/metadata/finalizers");
    lab.get(Pods, "x").refused(404, "NotFound");
    let events = lab.events(Pods, after(revision));
    lab.equal("events", events, vec!["DELETED x".to_owned()]);
}

fn a29(lab: &mut Lab<'_>) {
    let widgets = crds::widgets(lab);
    let mut held = crds::widget("x");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    lab.create(widgets, held).ok(201);
    let marked = lab
        .delete(widgets, "x")
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 0)
        .has("/metadata/generation", 2);
    let again = lab.delete(widgets, "x").ok(200);
    lab.equal(
        "version after a second delete",
        again.version(),
        marked.version(),
    );
    lab.patch(widgets, "x", json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}))
        .refused(422, "Invalid")
        .says("metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted")
        .cause("FieldValueForbidden", "metadata.finalizers");
    let request = lab
        .deletion(widgets, "x")
        .propagation(Propagation::Foreground);
    lab.ask(request).ok(200).has(
        "/metadata/finalizers",
        json!(["example.com/hold", "foregroundDeletion"]),
    );
    lab.patch(widgets, "x", json!({"metadata": {"finalizers": null}}))
        .ok(200);
    lab.get(widgets, "x").refused(404, "NotFound");
}

fn a30(lab: &mut Lab<'_>) {
    let widgets = crds::widgets(lab);
    lab.create(ConfigMaps, config("x")).ok(201);
    lab.delete(ConfigMaps, "x")
        .ok(200)
        .has("/kind", "Status")
        .has("/status", "Success")
        .has("/details/kind", "configmaps")
        .has("/details/name", "x");
    lab.create(widgets, crds::widget("x")).ok(201);
    lab.delete(widgets, "x")
        .ok(200)
        .has("/kind", "Status")
        .has("/details/group", "probe.example")
        .has("/details/kind", "widgets");
    lab.create(Secrets, json!({"metadata": {"name": "x"}}))
        .ok(201);
    lab.delete(Secrets, "x").ok(200).has("/kind", "Status");
    lab.create(Leases, json!({"metadata": {"name": "x"}, "spec": {}}))
        .ok(201);
    lab.delete(Leases, "x").ok(200).has("/kind", "Status");
    let service = json!({"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}});
    lab.create(Services, service).ok(201);
    lab.delete(Services, "x").ok(200).has("/kind", "Service");
    let claim = json!({
        "metadata": {"name": "x"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    lab.create(PersistentVolumeClaims, claim)
        .ok(201)
        .has(
            "/metadata/finalizers",
            json!(["kubernetes.io/pvc-protection"]),
        )
        .has("/status", json!({"phase": "Pending"}));
    lab.delete(PersistentVolumeClaims, "x")
        .ok(200)
        .has("/kind", "PersistentVolumeClaim");
}

fn a62(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1")] {
        let mut body = config(name);
        body["metadata"]["labels"] = json!({"l": label});
        lab.create(ConfigMaps, body).ok(201);
    }
    lab.ask(Request::delete_collection(ConfigMaps, &ns).labels("l=1"))
        .ok(200);
    let left = lab.ask(Request::list(ConfigMaps, &ns).fields("metadata.name!=kube-root-ca.crt"));
    lab.equal("names left", left.names(), vec!["b".to_owned()]);
}

/// What a rehearsed delete answers for a kind when it would take the last finalizer away.
fn nothing_read(lab: &mut Lab<'_>, resource: Resource, mut body: Value, shown: Value) {
    body["metadata"] = json!({"name": "x", "finalizers": ["orphan"]});
    let first = lab.create(resource, body).ok(201);
    if resource == PersistentVolumeClaims {
        // Admission gave it one more.
        lab.patch(
            resource,
            "x",
            json!({"metadata": {"finalizers": ["orphan"]}}),
        )
        .ok(200);
    }
    let background = lab
        .deletion(resource, "x")
        .propagation(Propagation::Background);
    let mut expected = shown;
    for field in ["apiVersion", "kind"] {
        expected[field] = first.body()[field].clone();
    }
    if !resource.is_custom() {
        expected["metadata"] = json!({});
    }
    lab.ask(background.clone().dry_run())
        .ok(200)
        .has("", expected);
    let current = lab.get(resource, "x").ok(200).version();
    lab.ask(background.clone().resource_version(&current))
        .refused(409, "Conflict")
        .says("ResourceVersion in precondition: , ResourceVersion in object meta: ");
    lab.ask(background).ok(200);
    lab.get(resource, "x").refused(404, "NotFound");
}

fn a68(lab: &mut Lab<'_>) {
    let widgets = crds::widgets(lab);
    nothing_read(lab, ConfigMaps, config("x"), json!({}));
    nothing_read(lab, widgets, crds::widget("x"), json!({}));
    let lease = json!({"spec": {"holderIdentity": "h"}});
    nothing_read(lab, Leases, lease, json!({"spec": {}}));
    let revision = json!({"revision": 1, "data": {"a": 1}});
    nothing_read(
        lab,
        ControllerRevisions,
        revision,
        json!({"revision": 0, "data": null}),
    );
    let service = json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
    let shown = json!({"spec": {}, "status": {"loadBalancer": {}}});
    nothing_read(lab, Services, service, shown);
    let claim = json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let shown = json!({"spec": {"resources": {}}, "status": {}});
    nothing_read(lab, PersistentVolumeClaims, claim, shown);
    let budget = json!({"spec": {"minAvailable": 1}});
    let shown = json!({"spec": {}, "status": {
        "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
    }});
    nothing_read(lab, PodDisruptionBudgets, budget, shown);
    pods_are_marked_first(lab);
}

/// A pod with time left is marked before it goes, so what was read is still known.
fn pods_are_marked_first(lab: &mut Lab<'_>) {
    let background = lab
        .deletion(Pods, "x")
        .propagation(Propagation::Background)
        .grace(0);
    let mut held = scheduled_pod("x");
    held["metadata"]["finalizers"] = json!(["orphan"]);
    let first = lab.create(Pods, held.clone()).ok(201);
    lab.ask(background.clone().resource_version(&first.version()))
        .ok(200)
        .has("/metadata/deletionGracePeriodSeconds", 0);
    lab.get(Pods, "x").refused(404, "NotFound");

    lab.create(Pods, held).ok(201);
    let request = lab.deletion(Pods, "x").grace(0);
    let marked = lab.ask(request).ok(200);
    let shown = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": null}, "status": {},
    });
    lab.ask(background.clone().dry_run()).ok(200).has("", shown);
    lab.ask(background.clone().resource_version(&marked.version()))
        .refused(409, "Conflict");
    lab.ask(background).ok(200);
    lab.get(Pods, "x").refused(404, "NotFound");
}
