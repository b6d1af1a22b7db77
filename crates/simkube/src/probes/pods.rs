//! Pods: what may change, binding, resizing, status.

use serde_json::{Value, json};

use super::Probe;
use super::lab::{Lab, pod, scheduled_pod};
use crate::request::{Request, Subresource};
use crate::resource::Resource::Pods;

pub(super) const PROBES: &[Probe] = &[
    Probe::new("A33", "little of a pod may change", a33),
    Probe::new("A34", "resources change through their own door", a34),
    Probe::new(
        "A35",
        "a pod is bound once, while it lives and is not gated",
        a35,
    ),
    Probe::new("A37", "a finished container stays finished", a37),
    Probe::new("A63", "a pod's defaults are written into it", a63),
];

fn a33(lab: &mut Lab<'_>) {
    let body = lab.create(Pods, pod("x")).ok(201).body();
    let change = |edit: &dyn Fn(&mut Value)| {
        let mut spec = body["spec"].clone();
        edit(&mut spec);
        json!({"spec": spec})
    };
    let allowed: [(&str, Value); 3] = [
        (
            "an image",
            change(&|s| s["containers"][0]["image"] = json!("example.com/web:2")),
        ),
        (
            "a deadline",
            json!({"spec": {"activeDeadlineSeconds": 100}}),
        ),
        (
            "a shorter deadline",
            json!({"spec": {"activeDeadlineSeconds": 50}}),
        ),
    ];
    for (_, patch) in allowed {
        lab.patch(Pods, "x", patch).ok(200);
    }
    const ONLY: &str = "pod updates may not change fields other than";
    for patch in [
        change(&|s| s["containers"][0]["command"] = json!(["sh"])),
        change(&|s| s["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}})),
        json!({"spec": {"terminationGracePeriodSeconds": 5}}),
        json!({"spec": {"nodeSelector": {"a": "b"}}}),
        json!({"spec": {"hostname": "h"}}),
    ] {
        lab.patch(Pods, "x", patch)
            .refused(422, "Invalid")
            .says(ONLY)
            .cause("FieldValueForbidden", "spec");
    }
    lab.patch(Pods, "x", json!({"spec": {"activeDeadlineSeconds": 500}}))
        .refused(422, "Invalid")
        .cause("FieldValueInvalid", "spec.activeDeadlineSeconds");
    // Those that every pod has come back by themselves.
    lab.patch(Pods, "x", json!({"spec": {"tolerations": []}}))
        .ok(200);
    let two = change(&|s| {
        let first = s["containers"][0].clone();
        let mut second = first.clone();
        second["name"] = json!("second");
        s["containers"] = json!([first, second]);
    });
    lab.patch(Pods, "x", two)
        .refused(422, "Invalid")
        .says("pod updates may not add or remove containers");
    let live = lab.get(Pods, "x").ok(200).body();
    let mut more = live["spec"]["tolerations"].clone();
    if let Value::Array(list) = &mut more {
        list.push(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}));
    }
    lab.patch(Pods, "x", json!({"spec": {"tolerations": more}}))
        .ok(200);
    lab.patch(Pods, "x", json!({"spec": {"tolerations": []}}))
        .refused(422, "Invalid")
        .cause("FieldValueForbidden", "spec.tolerations");
}

fn a34(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let mut sized = pod("x");
    sized["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}});
    let body = lab.create(Pods, sized).ok(201).body();
    let resize = |edit: &dyn Fn(&mut Value)| {
        let mut containers = body["spec"]["containers"].clone();
        edit(&mut containers[0]);
        let patch = json!({"spec": {"containers": containers}});
        Request::patch(Pods, &ns, "x", patch).part(Subresource::Resize)
    };
    lab.ask(resize(&|c| {
        c["resources"]["requests"]["cpu"] = json!("200m")
    }))
    .ok(200)
    .has("/metadata/generation", 2)
    .has("/spec/containers/0/resources/requests/cpu", "200m");
    lab.ask(resize(&|c| {
        c["image"] = json!("example.com/web:2");
        c["resources"]["requests"]["cpu"] = json!("200m");
    }))
    .ok(200)
    .has("/spec/containers/0/image", "example.com/web:1")
    .has("/metadata/generation", 2);
    lab.ask(resize(&|c| c["resources"]["limits"] = json!({})))
        .refused(422, "Invalid");
    lab.ask(resize(&|c| {
        c["resources"]["requests"] = json!({"cpu": "1", "memory": "128Mi"});
        c["resources"]["limits"] = json!({"cpu": "1", "memory": "128Mi"});
    }))
    .refused(422, "Invalid")
    .says("Pod QOS Class may not change as a result of resizing");
    // As a controller writes it: the whole pod, as it was read. Nothing else of it is taken.
    let mut whole = lab.get(Pods, "x").ok(200).body();
    whole["metadata"]["labels"] = json!({"app": "other"});
    whole["metadata"]["annotations"] = json!({"note": "other"});
    whole["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("300m");
    whole["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("1");
    let put =
        |body: &Value| Request::update(Pods, &ns, "x", body.clone()).part(Subresource::Resize);
    lab.ask(put(&whole))
        .ok(200)
        .has("/spec/containers/0/resources/requests/cpu", "300m")
        .has("/spec/containers/0/resources/limits/cpu", "1")
        .has("/metadata/generation", 3)
        .lacks("/metadata/annotations/note");
    lab.ask(put(&whole)).refused(409, "Conflict");
    let mut stranger = lab.get(Pods, "x").ok(200).body();
    stranger["metadata"]["uid"] = json!("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa");
    lab.ask(put(&stranger)).refused(409, "Conflict");
    let mut other = lab.get(Pods, "x").ok(200).body();
    other["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = json!("1Gi");
    lab.ask(put(&other)).refused(422, "Invalid");
}

fn a35(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    lab.create(Pods, pod("x")).ok(201);
    let mut stranger = Request::bind(&ns, "x", "n");
    stranger = stranger.body(json!({
        "apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n"},
        "metadata": {"name": "x", "uid": "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"},
    }));
    lab.ask(stranger).refused(409, "Conflict");
    lab.ask(Request::bind(&ns, "x", "n"))
        .ok(201)
        .has("/status", "Success");
    lab.get(Pods, "x")
        .ok(200)
        .has("/spec/nodeName", "n")
        .has("/metadata/generation", 1);
    lab.ask(Request::bind(&ns, "x", "m"))
        .refused(409, "Conflict")
        .says("pod x is already assigned to node \"n\"");
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    lab.create(Pods, gated).ok(201);
    lab.ask(Request::bind(&ns, "gated", "n"))
        .refused(409, "Conflict");
    let mut leaving = pod("leaving");
    leaving["metadata"]["finalizers"] = json!(["example.com/hold"]);
    lab.create(Pods, leaving).ok(201);
    lab.delete(Pods, "leaving").ok(200);
    lab.ask(Request::bind(&ns, "leaving", "n"))
        .refused(409, "Conflict")
        .says("is being deleted, cannot be assigned to a host");
    lab.ask(Request::bind(&ns, "missing", "n"))
        .refused(404, "NotFound");
    lab.patch(Pods, "leaving", json!({"metadata": {"finalizers": null}}))
        .ok(200);
}

fn a37(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let mut once = scheduled_pod("x");
    once["spec"]["restartPolicy"] = json!("Never");
    lab.create(Pods, once)
        .ok(201)
        .has("/status/qosClass", "BestEffort");
    let state = |state: Value| {
        let status = json!({"status": {"containerStatuses": [{
            "name": "main", "image": "example.com/web:1", "imageID": "", "ready": false,
            "restartCount": 0, "state": state,
        }]}});
        Request::patch(Pods, &ns, "x", status).status()
    };
    lab.ask(state(json!({"terminated": {"exitCode": 0}})))
        .ok(200);
    lab.ask(state(json!({"running": {}})))
        .refused(422, "Invalid");
    let class = json!({"status": {"qosClass": "Guaranteed"}});
    lab.ask(Request::patch(Pods, &ns, "x", class).status())
        .refused(422, "Invalid");
}

fn a63(lab: &mut Lab<'_>) {
    let mut body = pod("x");
    body["spec"]["containers"][0]["image"] = json!("web");
    body["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 80}});
    body["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1000m"}});
    lab.create(Pods, body)
        .ok(201)
        .has("/spec/restartPolicy", "Always")
        .has("/spec/dnsPolicy", "ClusterFirst")
        .has("/spec/schedulerName", "default-scheduler")
        .has("/spec/terminationGracePeriodSeconds", 30)
        .has("/spec/securityContext", json!({}))
        .has("/spec/containers/0/imagePullPolicy", "Always")
        .has("/spec/containers/0/readinessProbe/periodSeconds", 10)
        .has("/spec/containers/0/readinessProbe/httpGet/path", "/")
        .has("/spec/containers/0/resources/limits/cpu", "1")
        .has("/spec/containers/0/resources/requests/cpu", "1")
        .has("/status/phase", "Pending")
        .has("/status/qosClass", "Burstable");
    let mut bad = pod("y");
    bad["spec"]["containers"] = json!([]);
    lab.create(Pods, bad)
        .refused(422, "Invalid")
        .cause("FieldValueRequired", "spec.containers");
    let mut unmounted = pod("y");
    unmounted["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    lab.create(Pods, unmounted)
        .refused(422, "Invalid")
        .says("spec.containers[0].volumeMounts[0].name: Not found: \"v\"")
        .cause(
            "FieldValueNotFound",
            "spec.containers[0].volumeMounts[0].name",
        );
}
