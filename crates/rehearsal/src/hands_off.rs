//! Scripts about what only a person overrides, and about waiting that has to end: days that went wrong on
//! real nodes.

use crate::model;
use crate::patroni::{self, Patroni};
use crate::roles::{
    ASYNC, CORDON, HEAL, IMAGE_2, SETTLED, SYNC, UNCORDON, UPDATED, found, kill, node_of, request,
    script,
};
use crate::scenario::{Line, Scenario, patch, status, waits_for};
use crate::world::{NAMESPACE, World, container};
use ensemble_api::Reason;
use serde_json::json;

/// All of them.
pub const ALL: &[Scenario] = &[
    script(
        "hands-off-paused",
        "Patroni is paused and PostgreSQL stopped by hand everywhere, then the template changes",
        &[
            ASYNC,
            SETTLED,
            Line::Do("patronictl pause; PostgreSQL is stopped everywhere", |w| {
                patroni::with(w, Patroni::stop_all);
            }),
            Line::Pass(20),
            ARGUMENT,
            Line::Until("EnginePaused", |w| waits_for(w, Reason::EnginePaused)),
            Line::Pass(120),
            UPDATED,
        ],
    ),
    script(
        "hands-off-unapproved",
        "a primary that waits for approval loses its process three times",
        &[
            Line::Do("create, primary: Supervised", |w| {
                found(w, true, json!({"rollout": {"primary": "Supervised"}}))
            }),
            SETTLED,
            ARGUMENT,
            WAITS,
            CRASH,
            Line::Pass(5),
            CRASH,
            Line::Pass(15),
            CRASH,
            Line::Pass(60),
            WAITS,
            Line::Do("ensemble approve orders", |w| {
                let revision = status(w).revision().to_owned();
                request(w, "yes", json!({"approve": {"revision": revision}}));
            }),
            UPDATED,
        ],
    ),
    script(
        "hands-off-rewind",
        "a rewind takes three minutes, and the template changes meanwhile",
        &[
            ASYNC,
            SETTLED,
            Line::Do("a replica is rewound", |w| {
                patroni::with(w, Patroni::rewind_one);
            }),
            Line::Pass(5),
            ARGUMENT,
            UPDATED,
        ],
    ),
    script(
        "hands-off-dead-node",
        "synchronous, a replica's node is dead, then the primary's node is cordoned",
        &[
            SYNC,
            SETTLED,
            Line::Do("the node of the other replica loses its power", |w| {
                let node = node_of(w, |model, pod| {
                    model.leader() != Some(pod) && model.sync_standby() != Some(pod)
                });
                kill(w, node);
            }),
            Line::Pass(60),
            CORDON,
            Line::Until("somebody leads on another node", |w| {
                model::of(w)
                    .and_then(|m| m.leader_node())
                    .is_some_and(|n| !is_cordoned(w, &n))
            }),
            UNCORDON,
            HEAL,
            SETTLED,
            IMAGE_2,
            UPDATED,
        ],
    ),
];

const WAITS: Line = Line::Until("AwaitingApproval", |w| {
    waits_for(w, Reason::AwaitingApproval)
});
/// Whoever waits for approval, and led when it began.
const CRASH: Line = Line::Do("the process of the outdated member is killed", |w| {
    if let Some(pod) = outdated(w) {
        w.cluster.crash_container(NAMESPACE, &pod, "db");
    }
});
const ARGUMENT: Line = Line::Do("another argument", |w| {
    let mut changed = container("1");
    changed["args"] = json!(["--verbose"]);
    patch(w, json!({"template": {"spec": {"containers": [changed]}}}));
});

fn outdated(world: &World) -> Option<String> {
    let pods = world.cluster.objects(simkube::Resource::Pods, NAMESPACE);
    let db = |p: &&simkube::Object| p["spec"]["containers"][0]["name"] == "db";
    let old = |p: &&simkube::Object| p["spec"]["containers"][0]["args"].is_null();
    let found = pods.iter().filter(db).find(old);
    found.and_then(|p| p["metadata"]["name"].as_str().map(str::to_owned))
}

fn is_cordoned(world: &World, node: &str) -> bool {
    let node = world.cluster.get(simkube::Resource::Nodes, "", node);
    node.is_some_and(|n| n["spec"]["unschedulable"] == true)
}
