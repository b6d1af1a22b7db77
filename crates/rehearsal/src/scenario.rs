//! What users do, as scripts: acts and what is waited for between them.

use crate::fault::What;
use crate::hands_off;
use crate::named;
use crate::roles;
use crate::sizes;
use crate::tight;
use crate::votes;
use crate::waived;
use crate::world::{NAMESPACE, World, container, orders};
use crate::zoned;
use ensemble_api::{EnsembleStatus, Reason};
use serde_json::{Value, json};
use simkube::{Propagation, Request, Resource};
use std::sync::LazyLock;

/// One act of a user.
pub type Act = fn(&mut World);
/// What is waited for.
pub type Holds = fn(&World) -> bool;

/// A line of a script.
#[derive(Clone, Copy)]
pub enum Line {
    /// Somebody does something.
    Do(&'static str, Act),
    /// Everybody waits for something.
    Until(&'static str, Holds),
    /// Somebody does something every few seconds until it has come to something.
    Repeat(&'static str, Act, Holds),
    /// Time passes.
    Pass(u64),
}

/// A script with a name.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Its lines.
    pub lines: &'static [Line],
    /// Faults that by design end elsewhere, or that are known not to be defended against yet; each
    /// with its reason beside it.
    pub without: &'static [What],
}

/// All scripts.
pub static ALL: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
    let all = EQUALS
        .iter()
        .chain(sizes::EQUALS)
        .chain(tight::ALL)
        .chain(zoned::ALL)
        .chain(&*roles::ALL)
        .chain(votes::ALL)
        .chain(named::ALL)
        .chain(waived::ALL);
    all.copied().collect()
});

/// Scripts with members that are equals.
pub const EQUALS: &[Scenario] = &[
    Scenario {
        without: &[],
        name: "create",
        about: "three members come up",
        lines: &[CREATE, READY],
    },
    Scenario {
        without: &[],
        name: "roll",
        about: "a new image reaches everybody",
        lines: &[CREATE, READY, IMAGE_2, READY],
    },
    Scenario {
        // A ledger that is lost before a new member is born leaves open whether it was: whoever is
        // asked for then counts as used, and waits for somebody to say otherwise.
        without: &[What::StatusWiped],
        name: "scale",
        about: "out to five, in to two",
        lines: &[
            CREATE,
            READY,
            Line::Do("scale to 5", |w| replicas(w, 5)),
            READY,
            Line::Do("scale to 2", |w| replicas(w, 2)),
            READY,
        ],
    },
    Scenario {
        // A create that arrives half a minute late, after its claim was made, used and deleted, is
        // not defended against yet. A status that is lost while claims go takes the consent with it:
        // the members that still had a pod count as used, and wait for somebody to say otherwise.
        without: &[What::LateWrite, What::StatusWiped],
        name: "scale-and-delete",
        about: "in to one with whenScaled: Delete, then out to two",
        lines: &[
            Line::Do("create, whenScaled: Delete", |w| {
                create(w, json!({"storage": {"whenScaled": "Delete"}}))
            }),
            READY,
            Line::Do("scale to 1", |w| replicas(w, 1)),
            Line::Until("only two claims are left", |w| {
                w.cluster
                    .objects(Resource::PersistentVolumeClaims, NAMESPACE)
                    .len()
                    == 2
            }),
            Line::Do("scale to 2", |w| replicas(w, 2)),
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "missing-image",
        about: "an image that cannot be pulled, then corrected",
        lines: &[
            CREATE,
            READY,
            Line::Do("image db:missing", |w| image(w, "missing")),
            Line::Until("ImageMissing", |w| waits_for(w, Reason::ImageMissing)),
            IMAGE_2,
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "crash-loop",
        about: "an image that crashes, then corrected",
        lines: &[
            CREATE,
            READY,
            Line::Do("image db:crash", |w| image(w, "crash")),
            Line::Until("CrashLooping", |w| waits_for(w, Reason::CrashLooping)),
            IMAGE_2,
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "deaf",
        about: "an image that never becomes Ready, on all members, then corrected",
        lines: &[
            Line::Do("create with db:deaf", |w| {
                create(w, json!({}));
                image(w, "deaf");
            }),
            Line::Pass(90),
            IMAGE_2,
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "undo-midway",
        about: "back to the old image while the new one is half-way",
        lines: &[
            CREATE,
            READY,
            IMAGE_2,
            Line::Until("one is updated", half_way),
            Line::Do("image db:1", |w| image(w, "1")),
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "lost-claim",
        about: "a claim of a used member is deleted",
        lines: &[
            CREATE,
            READY,
            Line::Do("delete claim wal-orders-1 and pod orders-1", lose_claim),
            Line::Until("ClaimMissing or the pod still holds it", claim_settled),
        ],
    },
    Scenario {
        // Whoever has lost its ledger takes what it finds.
        without: &[What::StatusWiped],
        name: "claim-applied-again",
        about: "a claim of a used member is deleted and created again, then accepted",
        lines: &[
            CREATE,
            READY,
            Line::Do("delete claim wal-orders-1 and pod orders-1", lose_claim),
            Line::Until("ClaimMissing", claim_settled),
            Line::Do("apply the claim again", apply_claim_again),
            Line::Until("ClaimReplaced", claim_settled),
            Line::Do("accept it", accept_claim),
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "recreate",
        about: "the Ensemble is deleted and created again at once",
        lines: &[
            CREATE,
            READY,
            Line::Do("delete", |w| delete(w, Propagation::Background)),
            Line::Do("create", |w| create(w, json!({}))),
            READY,
        ],
    },
    Scenario {
        // An orphaned pod without our label is nobody's: it is never touched.
        without: &[What::LabelStripped],
        name: "orphan",
        about: "the Ensemble is orphaned and created again",
        lines: &[
            CREATE,
            READY,
            Line::Do("delete --cascade=orphan", |w| {
                delete(w, Propagation::Orphan)
            }),
            Line::Until("the Ensemble is gone", |w| ensemble(w).is_none()),
            CREATE,
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "resize",
        about: "more CPU, then another label: nothing restarts",
        lines: &[
            CREATE_SIZED,
            READY,
            Line::Do("cpu 2", |w| resources(w, "2", "1Gi", json!([]))),
            READY,
            Line::Do("another label", |w| {
                let labels = json!({"app": "orders", "tier": "gold"});
                patch(w, json!({"template": {"metadata": {"labels": labels}}}));
            }),
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "resize-too-much",
        about: "more CPU than any node has, then corrected",
        lines: &[
            CREATE_SIZED,
            READY,
            Line::Do("cpu 500", |w| resources(w, "500", "1Gi", json!([]))),
            // Whoever is deleted meanwhile is not resized but does not fit.
            Line::Until("ResizeInfeasible or Unschedulable", |w| {
                waits_for(w, Reason::ResizeInfeasible) || waits_for(w, Reason::Unschedulable)
            }),
            Line::Do("cpu 2", |w| resources(w, "2", "1Gi", json!([]))),
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "suspend",
        about: "suspended with a change under way, then resumed",
        lines: &[
            CREATE,
            READY,
            Line::Do("suspend", |w| patch(w, json!({"suspend": true}))),
            Line::Pass(5),
            IMAGE_2,
            Line::Pass(60),
            Line::Do("resume", |w| patch(w, json!({"suspend": false}))),
            READY,
        ],
    },
];

/// Scripts in which nothing but our own rules stands between a member and harm: no disruption
/// budget, somebody else's pod, members that run and do not serve.
pub const ALONE: &[Scenario] = &[
    Scenario {
        without: &[],
        name: "roll-alone",
        about: "a new image reaches everybody, without a disruption budget",
        lines: &[CREATE_ALONE, READY, IMAGE_2, READY],
    },
    Scenario {
        // Nobody keeps the pod of a stripped label apart from the foreign one here.
        without: &[What::LabelStripped],
        name: "foreign",
        about: "somebody else's pod has a member's name and our label, then goes",
        lines: &[
            Line::Do("a foreign pod orders-1", foreign_pod),
            CREATE_ALONE,
            Line::Pass(30),
            Line::Do("the foreign pod is deleted", |w| {
                user(w, Request::delete(Resource::Pods, NAMESPACE, "orders-1"));
            }),
            READY,
        ],
    },
    Scenario {
        without: &[],
        name: "unwell-alone",
        about: "all nodes reboot and no member becomes Ready again, then the image is corrected",
        lines: &[
            CREATE_ALONE,
            READY,
            Line::Do("the image goes bad and all nodes reboot", unwell),
            Line::Pass(10),
            IMAGE_2,
            READY,
        ],
    },
];

const CREATE_ALONE: Line = Line::Do("create, without a budget", |w| {
    create(w, json!({"disruption": "Unmanaged"}))
});
const CREATE: Line = Line::Do("create", |w| create(w, json!({})));
const CREATE_SIZED: Line = Line::Do("create with cpu 1, memory 1Gi", |w| {
    create(w, json!({"rollout": {"method": "InPlaceIfPossible"}}));
    resources(w, "1", "1Gi", json!([]));
});
const IMAGE_2: Line = Line::Do("image db:2", |w| image(w, "2"));
const READY: Line = Line::Until("all serve at the newest revision", ready);

/// The script of that name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    let all = ALL
        .iter()
        .chain(ALONE)
        .chain(tight::ALONE)
        .chain(roles::ALONE)
        .chain(sizes::ALONE)
        .chain(hands_off::ALL)
        .chain(votes::ALONE);
    all.into_iter().find(|s| s.name == name)
}

/// A user's call; one that fails is the user's affair.
pub fn user(world: &mut World, request: Request) {
    let _ = world.cluster.call(&request.client("user"));
}

/// The user creates the Ensemble, with those fields of its spec.
pub fn create(world: &mut World, spec: Value) {
    let mut body = orders();
    for (key, value) in spec.as_object().into_iter().flatten() {
        body["spec"][key] = value.clone();
    }
    user(world, Request::create(world.ensembles, NAMESPACE, body));
}

/// The user changes the spec.
pub fn patch(world: &mut World, spec: Value) {
    let body = json!({"spec": spec});
    user(
        world,
        Request::patch(world.ensembles, NAMESPACE, "orders", body),
    );
}

/// The user changes the image.
pub fn image(world: &mut World, tag: &str) {
    patch(
        world,
        json!({"template": {"spec": {"containers": [container(tag)]}}}),
    );
}

/// The user changes what the container asks for, and what a change of it does.
pub fn resources(world: &mut World, cpu: &str, memory: &str, policy: Value) {
    let mut container = container("1");
    let amounts = json!({"cpu": cpu, "memory": memory});
    container["resources"] = json!({"requests": amounts});
    container["resizePolicy"] = policy;
    patch(
        world,
        json!({"template": {"spec": {"containers": [container]}}}),
    );
}

/// The user scales.
pub fn replicas(world: &mut World, replicas: u32) {
    patch(world, json!({"replicas": replicas}));
}

fn delete(world: &mut World, policy: Propagation) {
    let request = Request::delete(world.ensembles, NAMESPACE, "orders").propagation(policy);
    user(world, request);
}

fn lose_claim(world: &mut World) {
    user(
        world,
        Request::delete(Resource::PersistentVolumeClaims, NAMESPACE, "wal-orders-1"),
    );
    user(
        world,
        Request::delete(Resource::Pods, NAMESPACE, "orders-1"),
    );
}

/// A pod with our label and a member's name that belongs to somebody else.
fn foreign_pod(world: &mut World) {
    let body = json!({
        "metadata": {
            "name": "orders-1",
            "labels": {"ensemble.dev/ensemble": "orders"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other",
                                 "uid": "other", "controller": true}],
        },
        "spec": {"containers": [{"name": "other", "image": "other:1"}]},
    });
    // Nobody collects it: its owner is not modelled.
    world.cluster.pause(simkube::Part::Collector);
    user(world, Request::create(Resource::Pods, NAMESPACE, body));
}

fn unwell(world: &mut World) {
    let deaf = simkube::config::Behaviour::never_ready();
    world.cluster.config_mut().images.set("db:1", deaf);
    for node in ["node-a", "node-b", "node-c"] {
        world.cluster.reboot_node(node);
    }
}

fn claim_settled(world: &World) -> bool {
    let claim = world
        .cluster
        .get(Resource::PersistentVolumeClaims, NAMESPACE, "wal-orders-1");
    let reason = match claim {
        None => Reason::ClaimMissing,
        // A create that arrives late makes an empty one.
        Some(_) => Reason::ClaimReplaced,
    };
    waits_for(world, reason)
}

/// The user applies the claim's manifest again: the same labels, another volume.
fn apply_claim_again(world: &mut World) {
    let claims = Resource::PersistentVolumeClaims;
    let Some(like) = world.cluster.get(claims, NAMESPACE, "wal-orders-0") else {
        return;
    };
    let mut labels = like["metadata"]["labels"].clone();
    labels["ensemble.dev/ordinal"] = "1".into();
    let body = json!({
        "metadata": {"name": "wal-orders-1", "labels": labels},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": like["spec"]["resources"]},
    });
    user(world, Request::create(claims, NAMESPACE, body));
}

/// The user says that the claim holds the member's data.
fn accept_claim(world: &mut World) {
    let claims = Resource::PersistentVolumeClaims;
    let Some(claim) = world.cluster.get(claims, NAMESPACE, "wal-orders-1") else {
        return;
    };
    let uid = claim["metadata"]["uid"].as_str().unwrap_or_default();
    let mark = uid.rsplit('-').next();
    let body = json!({"metadata": {"annotations": {"ensemble.dev/accepted": mark}}});
    user(
        world,
        Request::patch(claims, NAMESPACE, "wal-orders-1", body),
    );
}

/// The Ensemble `orders`.
pub fn ensemble(world: &World) -> Option<simkube::Object> {
    world
        .cluster
        .get(world.ensembles, &world.namespace, &world.name)
}

/// Its status.
pub fn status(world: &World) -> EnsembleStatus {
    let object = ensemble(world);
    let status = object.and_then(|o| o.get("status").cloned());
    status
        .and_then(|s| serde_json::from_value(s).ok())
        .unwrap_or_default()
}

/// Whether some members, not all, are updated.
pub fn half_way(world: &World) -> bool {
    let status = status(world);
    let seen =
        ensemble(world).is_some_and(|e| e["metadata"]["generation"] == status.observed_generation);
    seen && (1..3).contains(&status.updated_replicas)
}

/// Whether a step waits for that reason.
pub fn waits_for(world: &World, reason: Reason) -> bool {
    let blocked = |s: &ensemble_api::Step| s.blocker.as_ref().is_some_and(|b| b.reason == reason);
    status(world).plan.steps.iter().any(blocked)
}

/// Whether status says Ready and the truth agrees: all members asked for are Ready, at the image
/// that is asked for, and no other exists.
pub fn ready(world: &World) -> bool {
    let Some(object) = ensemble(world) else {
        return false;
    };
    // Looked at very often: read in place rather than as a whole.
    let status = &object["status"];
    let seen = object["metadata"]["generation"] == status["observedGeneration"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|c| c["type"] == "Ready");
    let says = conditions.any(|c| c["status"] == "True");
    seen && says && truly_ready(world, &object)
}

fn truly_ready(world: &World, object: &Value) -> bool {
    let replicas = object["spec"]["replicas"].as_u64().unwrap_or(0);
    let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
    let pods = world.cluster.objects(Resource::Pods, &world.namespace);
    let members: Vec<_> = pods
        .iter()
        .filter(|p| !p["metadata"]["labels"]["ensemble.dev/group"].is_null())
        .collect();
    members.len() as u64 == replicas
        && members.iter().all(|pod| {
            let image_is = pod["spec"]["containers"][0]["image"] == *image;
            pod_ready(pod) && image_is && is_labelled(pod, object) && has_resources(pod, object)
        })
}

fn is_labelled(pod: &Value, ensemble: &Value) -> bool {
    let labels = ensemble["spec"]["template"]["metadata"]["labels"].as_object();
    let mut labels = labels.into_iter().flatten();
    labels.all(|(key, value)| pod["metadata"]["labels"][key] == *value)
}

/// Whether the container runs with what is asked for, by its kubelet.
fn has_resources(pod: &Value, ensemble: &Value) -> bool {
    let asked = &ensemble["spec"]["template"]["spec"]["containers"][0]["resources"];
    let given = &pod["status"]["containerStatuses"][0]["resources"];
    let parts = asked.as_object().into_iter().flatten();
    let mut amounts = parts.flat_map(|(part, amounts)| {
        let amounts = amounts.as_object().into_iter().flatten();
        amounts.map(move |(resource, amount)| (part, resource, amount))
    });
    amounts.all(|(part, resource, amount)| given[part][resource] == *amount)
}

/// Whether a pod is Ready and not ending.
pub fn pod_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions
        .into_iter()
        .any(|c| c["type"] == "Ready" && c["status"] == "True");
    ready && pod["metadata"]["deletionTimestamp"].is_null()
}
