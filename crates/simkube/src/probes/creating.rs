//! POST.

use serde_json::json;

use super::lab::{Lab, config, pod};
use super::{Probe, crds};
use crate::request::Request;
use crate::resource::Resource::{ConfigMaps, Leases, Pods};

pub(super) const PROBES: &[Probe] = &[
    Probe::new("A1", "a name can be taken only once", a1),
    Probe::new("A2", "a name is taken until a finalizer lets go of it", a2),
    Probe::new("A3", "a new object may not bring a version", a3),
    Probe::new("A4", "what the server sets cannot be brought along", a4),
    Probe::new("A5", "names can be generated", a5),
    Probe::new(
        "A22",
        "unknown fields are dropped, or refused in strict mode",
        a22,
    ),
    Probe::new("A23", "a dry run answers and changes nothing", a23),
    Probe::new(
        "A32",
        "an object has one controller, and each owner once",
        a32,
    ),
    Probe::new(
        "A58",
        "nothing can be created in a namespace that is not there",
        a58,
    ),
];

fn a1(lab: &mut Lab<'_>) {
    lab.create(Pods, pod("x")).ok(201);
    lab.create(Pods, pod("x"))
        .refused(409, "AlreadyExists")
        .says("pods \"x\" already exists")
        .has("/details/kind", "pods")
        .has("/details/name", "x");
    lab.create(
        Pods,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y"}}),
    )
    .refused(400, "BadRequest");
    lab.create(Pods, json!({"metadata": {}, "spec": {}}))
        .refused(422, "Invalid")
        .says("metadata.name: Required value: name or generateName is required");
}

fn a2(lab: &mut Lab<'_>) {
    let mut held = config("x");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    lab.create(ConfigMaps, held).ok(201);
    lab.delete(ConfigMaps, "x").ok(200);
    lab.create(ConfigMaps, config("x"))
        .refused(409, "AlreadyExists")
        .says("object is being deleted: configmaps \"x\" already exists");
}

fn a3(lab: &mut Lab<'_>) {
    let mut body = config("x");
    body["metadata"]["resourceVersion"] = json!("5");
    lab.create(ConfigMaps, body)
        .refused(500, "")
        .says("resourceVersion should not be set on objects to be created");
}

fn a4(lab: &mut Lab<'_>) {
    let widgets = crds::widgets(lab);
    let forged = json!({
        "uid": "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "generation": 9,
        "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z",
    });
    for (resource, mut body) in [(Pods, pod("x")), (widgets, crds::widget("x"))] {
        for (field, value) in forged.as_object().into_iter().flatten() {
            body["metadata"][field] = value.clone();
        }
        let seen = lab
            .create(resource, body)
            .ok(201)
            .has("/metadata/generation", 1)
            .lacks("/metadata/deletionTimestamp");
        let kept = seen.uid().starts_with("aaaaaaaa")
            || seen.text("/metadata/creationTimestamp").starts_with("2001");
        lab.equal("forged metadata", kept, false);
    }
}

fn a5(lab: &mut Lab<'_>) {
    let generate = |base: &str| json!({"metadata": {"generateName": base}});
    let seen = lab.create(ConfigMaps, generate("a-")).ok(201);
    let name = seen.text("/metadata/name");
    lab.equal("length of a generated name", name.len(), 7);
    let letters = name.trim_start_matches("a-").chars();
    let allowed = letters
        .into_iter()
        .all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c));
    lab.equal("alphabet of a generated name", allowed, true);
    let long = "b".repeat(70);
    let seen = lab.create(ConfigMaps, generate(&long)).ok(201);
    lab.equal(
        "length of a cut name",
        seen.text("/metadata/name").len(),
        63,
    );
}

fn a22(lab: &mut Lab<'_>) {
    let widgets = crds::widgets(lab);
    let ns = lab.namespace.clone();
    let mut typo = pod("x");
    typo["spec"]["contaners"] = json!([]);
    typo["spec"]["containers"][0]["imge"] = json!("y");
    lab.ask(Request::create(Pods, &ns, typo.clone()).strict())
        .refused(400, "BadRequest")
        .says("unknown field \"spec.containers[0].imge\"")
        .says("unknown field \"spec.contaners\"");
    lab.create(Pods, typo)
        .ok(201)
        .lacks("/spec/contaners")
        .lacks("/spec/containers/0/imge");

    let mut odd = crds::widget("x");
    odd["spec"]["odd"] = json!(1);
    lab.ask(Request::create(widgets, &ns, odd.clone()).strict())
        .refused(400, "BadRequest")
        .says("unknown field \"spec.odd\"");
    lab.create(widgets, odd).ok(201).lacks("/spec/odd");
    let patch = json!({"spec": {"odd": 1}});
    lab.ask(Request::patch(widgets, &ns, "x", patch.clone()).strict())
        .refused(422, "Invalid")
        .says("strict decoding error: unknown field \"spec.odd\"");
    lab.patch(widgets, "x", patch).ok(200).lacks("/spec/odd");
    lab.create(
        Pods,
        json!({"metadata": {"name": "y"}, "spec": {"containers": "none"}}),
    )
    .refused(400, "BadRequest");
}

fn a23(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    lab.ask(Request::create(ConfigMaps, &ns, config("x")).dry_run())
        .ok(201)
        .lacks("/metadata/resourceVersion");
    lab.get(ConfigMaps, "x").refused(404, "NotFound");
    let before = lab.create(ConfigMaps, config("x")).ok(201);
    lab.ask(Request::create(ConfigMaps, &ns, config("x")).dry_run())
        .refused(409, "AlreadyExists");
    let patch = json!({"data": {"k": "w"}});
    lab.ask(Request::patch(ConfigMaps, &ns, "x", patch).dry_run())
        .ok(200)
        .has("/data/k", "w");
    lab.ask(Request::delete(ConfigMaps, &ns, "x").dry_run())
        .ok(200);
    let after = lab.get(ConfigMaps, "x").ok(200).has("/data/k", "v");
    lab.equal("version after dry runs", after.version(), before.version());
}

fn a32(lab: &mut Lab<'_>) {
    let owner = |name: &str, uid: &str, controller: bool| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": controller});
    let owned = |owners: serde_json::Value| {
        let mut body = config("x");
        body["metadata"]["ownerReferences"] = owners;
        body
    };
    lab.create(
        ConfigMaps,
        owned(json!([owner("a", "1", true), owner("b", "2", true)])),
    )
    .refused(422, "Invalid")
    .cause("FieldValueInvalid", "metadata.ownerReferences");
    lab.create(ConfigMaps, owned(json!([owner("a", "", false)])))
        .refused(422, "Invalid")
        .cause("FieldValueInvalid", "metadata.ownerReferences.uid");
    let seen = lab
        .create(
            ConfigMaps,
            owned(json!([owner("a", "1", true), owner("a", "1", true)])),
        )
        .ok(201);
    let kept = seen
        .body()
        .pointer("/metadata/ownerReferences")
        .and_then(|o| o.as_array())
        .map(Vec::len);
    lab.equal("owners kept", kept, Some(1));
}

fn a58(lab: &mut Lab<'_>) {
    let missing = format!("{}-missing", lab.namespace);
    lab.ask(Request::create(ConfigMaps, &missing, config("x")))
        .refused(404, "NotFound")
        .says(&format!("namespaces \"{missing}\" not found"));
    let mut elsewhere = config("x");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    lab.create(ConfigMaps, elsewhere)
        .refused(400, "BadRequest")
        .says(
            "the namespace of the provided object does not match the namespace sent on the request",
        );
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.123456Z"},
    });
    lab.create(Leases, lease)
        .ok(201)
        .has("/spec/renewTime", "2026-01-01T00:00:00.123456Z");
    lab.ask(Request::delete(
        crate::resource::Resource::Namespaces,
        "",
        "default",
    ))
    .refused(403, "Forbidden");
}
