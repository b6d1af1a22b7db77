//! Scripts about the member that somebody names: taken out, put back, removed, replaced.

use crate::fault::What;
use crate::roles::{ASYNC, LEADS, QUIET, SETTLED, SYNC, request, script};
use crate::scenario::{Line, Scenario, create, patch, ready, replicas, user};
use crate::world::{NAMESPACE, World};
use serde_json::{Value, json};
use simkube::{Request, Resource};

/// A ledger that is lost before a new member is born leaves open whether it was: whoever is asked for
/// then counts as used, and waits for somebody to say otherwise. Whoever loses its label while nobody
/// asks for it is not found.
const BACK_FILLED: &[What] = &[What::StatusWiped, What::LabelStripped];

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        without: BACK_FILLED,
        ..script(
            "offline",
            "the middle one of three equals is taken out, and put back",
            &[
                Line::Do("create", |w| create(w, json!({}))),
                READY,
                OFFLINE_1,
                WITHOUT_1,
                ONLINE,
                WITH_1,
            ],
        )
    },
    Scenario {
        // See scale-and-delete.
        without: &[What::StatusWiped, What::LabelStripped, What::LateWrite],
        ..script(
            "offline-and-delete",
            "the same with whenScaled: Delete: the claims of an offline member stay",
            &[
                Line::Do("create, whenScaled: Delete", |w| {
                    create(w, json!({"storage": {"whenScaled": "Delete"}}))
                }),
                READY,
                OFFLINE_1,
                WITHOUT_1,
                Line::Pass(30),
                ONLINE,
                WITH_1,
                Line::Until("the claims of orders-3 are gone", |w| !has_claim(w, 3)),
            ],
        )
    },
    Scenario {
        without: BACK_FILLED,
        ..script(
            "roles-offline",
            "orders-1 is taken out while it leads, and put back",
            &[
                ASYNC,
                SETTLED,
                LEADS[1],
                SETTLED,
                QUIET,
                OFFLINE_1,
                SETTLED_WITHOUT_1,
                ONLINE,
                SETTLED_WITH_1,
            ],
        )
    },
    Scenario {
        without: BACK_FILLED,
        ..script(
            "roles-offline-replica",
            "orders-1 is taken out while it follows and commits wait for a replica, and put back",
            &[
                SYNC,
                SETTLED,
                LEADS[0],
                SETTLED,
                QUIET,
                OFFLINE_1,
                SETTLED_WITHOUT_1,
                ONLINE,
                SETTLED_WITH_1,
            ],
        )
    },
    Scenario {
        without: BACK_FILLED,
        ..script(
            "remove",
            "the middle one of three equals is removed for good, then two more are asked for",
            &[
                Line::Do("create", |w| create(w, json!({}))),
                READY,
                REMOVE_1,
                DONE,
                WITHOUT_1,
                Line::Do("scale to 5", |w| replicas(w, 5)),
                Line::Until("five serve without orders-1", |w| {
                    ready(w) && !has_pod(w, 1) && has_pod(w, 5)
                }),
            ],
        )
    },
    Scenario {
        without: BACK_FILLED,
        ..script(
            "roles-remove",
            "orders-1 is removed for good while it leads",
            &[
                ASYNC,
                SETTLED,
                LEADS[1],
                SETTLED,
                QUIET,
                REMOVE_1,
                DONE,
                SETTLED_WITHOUT_1,
            ],
        )
    },
    Scenario {
        without: BACK_FILLED,
        ..script(
            "replace",
            "the middle one of three equals is replaced under the next ordinal",
            &[
                Line::Do("create", |w| create(w, json!({}))),
                READY,
                REPLACE_1,
                DONE,
                WITHOUT_1,
            ],
        )
    },
    Scenario {
        without: BACK_FILLED,
        ..script(
            "roles-replace",
            "orders-1 is replaced while it leads and commits wait for a replica",
            &[
                SYNC,
                SETTLED,
                LEADS[1],
                SETTLED,
                QUIET,
                REPLACE_1,
                DONE,
                SETTLED_WITHOUT_1,
            ],
        )
    },
];

const REMOVE_1: Line = Line::Do("ensemble remove orders orders-1", |w| {
    request(w, "ask", json!({"remove": {"member": "orders-1"}}))
});
const REPLACE_1: Line = Line::Do("ensemble replace orders orders-1", |w| {
    request(w, "ask", json!({"replace": {"member": "orders-1"}}))
});
/// A removal that is refused for what goes wrong just then is asked for once more.
const DONE: Line = Line::Repeat("ask again if it was refused", ask_again, |w| {
    outcome(w).is_none_or(|o| o == "Done")
});
const READY: Line = Line::Until("all serve at the newest revision", ready);
const OFFLINE_1: Line = Line::Do("offline: [1]", |w| patch(w, json!({"offline": [1]})));
const ONLINE: Line = Line::Do("offline: []", |w| patch(w, json!({"offline": []})));
const WITHOUT_1: Line = Line::Until("all serve without orders-1", |w| {
    ready(w) && !has_pod(w, 1) && has_pod(w, 3)
});
const WITH_1: Line = Line::Until("all serve with orders-1", |w| {
    ready(w) && has_pod(w, 1) && !has_pod(w, 3)
});
const SETTLED_WITHOUT_1: Line =
    Line::Until("one leads, all others stream, without orders-1", |w| {
        crate::roles::settled(w) && !has_pod(w, 1) && has_pod(w, 3)
    });
const SETTLED_WITH_1: Line = Line::Until("one leads, all others stream, with orders-1", |w| {
    crate::roles::settled(w) && has_pod(w, 1) && !has_pod(w, 3)
});

/// The outcome of the request; none if it is not there any more.
fn outcome(world: &World) -> Option<Value> {
    let asked = world.cluster.get(world.requests, NAMESPACE, "ask")?;
    Some(asked["status"]["outcome"].clone())
}

fn ask_again(world: &mut World) {
    let refused = outcome(world).is_some_and(|o| o == "Refused");
    let asked = world.cluster.get(world.requests, NAMESPACE, "ask");
    if let Some(asked) = asked.filter(|_| refused) {
        let mut spec = asked["spec"].clone();
        user(world, Request::delete(world.requests, NAMESPACE, "ask"));
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|key, _| ["remove", "replace"].contains(&key.as_str()));
        }
        request(world, "ask", spec);
    }
}

fn has_pod(world: &World, ordinal: u32) -> bool {
    let name = format!("orders-{ordinal}");
    let pod = world.cluster.get(Resource::Pods, NAMESPACE, &name);
    pod.is_some()
}

fn has_claim(world: &World, ordinal: u32) -> bool {
    let name = format!("data-orders-{ordinal}");
    let claims = Resource::PersistentVolumeClaims;
    world.cluster.get(claims, NAMESPACE, &name).is_some()
}
