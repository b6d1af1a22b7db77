//! Claims, services, config: the rules of single kinds.

use serde_json::json;

use super::Probe;
use super::lab::{Lab, config};
use crate::request::Request;
use crate::resource::Resource::{
    ConfigMaps, ControllerRevisions, PersistentVolumeClaims, PodDisruptionBudgets, Secrets,
    Services, StorageClasses,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::new(
        "A36",
        "a claim grows only when it is bound and its class allows",
        a36,
    ),
    Probe::new("A59", "quantities, empty maps and nulls have one form", a59),
    Probe::new("A64", "what is immutable stays", a64),
];

fn a36(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let (fixed, growing) = (lab.own_name("fixed"), lab.own_name("growing"));
    for (class, allow) in [(&fixed, false), (&growing, true)] {
        let body = json!({
            "metadata": {"name": class}, "provisioner": "example.com/none",
            "allowVolumeExpansion": allow,
        });
        lab.create(StorageClasses, body)
            .ok(201)
            .has("/reclaimPolicy", "Delete");
    }
    let size = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
    for (name, class) in [("a", &fixed), ("b", &growing)] {
        let body = json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "1024Mi"}},
            },
        });
        lab.create(PersistentVolumeClaims, body)
            .ok(201)
            .has("/spec/volumeMode", "Filesystem")
            .has("/spec/resources/requests/storage", "1Gi");
        lab.patch(PersistentVolumeClaims, name, size("2Gi"))
            .refused(422, "Invalid")
            .says("spec is immutable after creation")
            .cause("FieldValueForbidden", "spec");
        lab.patch(
            PersistentVolumeClaims,
            name,
            json!({"spec": {"storageClassName": "other"}}),
        )
        .refused(422, "Invalid");
        lab.patch(
            PersistentVolumeClaims,
            name,
            json!({"spec": {"volumeName": "pv"}}),
        )
        .ok(200);
        lab.patch(
            PersistentVolumeClaims,
            name,
            json!({"spec": {"volumeName": "other"}}),
        )
        .refused(422, "Invalid");
        let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        lab.ask(Request::patch(PersistentVolumeClaims, &ns, name, bound).status())
            .ok(200);
        lab.patch(PersistentVolumeClaims, name, size("512Mi"))
            .refused(422, "Invalid")
            .says("field can not be less than status.capacity");
    }
    lab.patch(PersistentVolumeClaims, "a", size("2Gi"))
        .refused(403, "Forbidden")
        .says(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions \
         the pvc must support resize",
        );
    lab.patch(PersistentVolumeClaims, "b", size("2Gi"))
        .ok(200)
        .has("/spec/resources/requests/storage", "2Gi");
    for class in [fixed, growing] {
        lab.delete(StorageClasses, &class).ok(200);
    }
}

fn a59(lab: &mut Lab<'_>) {
    let body = json!({
        "metadata": {"name": "x", "labels": {}, "annotations": null, "finalizers": []},
        "data": {}, "binaryData": null,
    });
    lab.create(ConfigMaps, body)
        .ok(201)
        .lacks("/metadata/labels")
        .lacks("/metadata/annotations")
        .lacks("/metadata/finalizers")
        .lacks("/data")
        .lacks("/binaryData");
    lab.create(
        ConfigMaps,
        json!({"metadata": {"name": "y"}, "data": {"k": 1}}),
    )
    .refused(400, "BadRequest");
    lab.create(ConfigMaps, json!({"metadata": {"name": "Not_A_Name"}}))
        .refused(422, "Invalid")
        .cause("FieldValueInvalid", "metadata.name");
    lab.create(
        ConfigMaps,
        json!({"metadata": {"name": "y", "labels": {"a": "not a value"}}}),
    )
    .refused(422, "Invalid")
    .cause("FieldValueInvalid", "metadata.labels");
    let secret = json!({"metadata": {"name": "x"}, "stringData": {"k": "v"}});
    lab.create(Secrets, secret)
        .ok(201)
        .has("/type", "Opaque")
        .has("/data/k", "dg==")
        .lacks("/stringData");
    let both = json!({"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}});
    lab.create(PodDisruptionBudgets, both)
        .refused(422, "Invalid")
        .cause("FieldValueInvalid", "spec");
}

fn a64(lab: &mut Lab<'_>) {
    let mut body = config("x");
    body["immutable"] = json!(true);
    lab.create(ConfigMaps, body).ok(201);
    lab.patch(ConfigMaps, "x", json!({"data": {"k": "w"}}))
        .refused(422, "Invalid")
        .says("field is immutable when `immutable` is set");
    lab.patch(ConfigMaps, "x", json!({"metadata": {"labels": {"a": "b"}}}))
        .ok(200);
    let revision = json!({"metadata": {"name": "x"}, "revision": 1, "data": {"a": 1}});
    lab.create(ControllerRevisions, revision).ok(201);
    lab.patch(ControllerRevisions, "x", json!({"data": {"a": 2}}))
        .refused(422, "Invalid")
        .cause("FieldValueInvalid", "data");
    lab.patch(ControllerRevisions, "x", json!({"revision": 2}))
        .ok(200)
        .has("/revision", 2);
    let service = json!({"metadata": {"name": "x"}, "spec": {"clusterIP": "None", "selector": {"a": "a"}, "ports": [{"port": 80}]}});
    lab.create(Services, service)
        .ok(201)
        .has("/spec/type", "ClusterIP")
        .has("/spec/clusterIPs", json!(["None"]))
        .has("/spec/ports/0/targetPort", 80)
        .has("/spec/sessionAffinity", "None");
    lab.patch(
        Services,
        "x",
        json!({"spec": {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"]}}),
    )
    .refused(422, "Invalid")
    .says("may not change once set");
    lab.patch(Services, "x", json!({"spec": {"selector": {"a": "b"}}}))
        .ok(200)
        .has("/spec/clusterIP", "None");
}
