//! Scripts with members that play roles: PostgreSQL under Patroni, as the model has it.

use crate::fault::What;
use crate::model;
use crate::patroni::{self, Patroni};
use crate::rolls;
use crate::scenario::{
    Line, Scenario, create, ensemble, half_way, image, patch, ready, replicas, resources, status,
    user, waits_for,
};
use crate::settings;
use crate::sizes;
use crate::world::{NAMESPACE, World, container};
use ensemble_api::Reason;
use serde_json::{Value, json};
use simkube::{Object, Request, Resource};
use std::sync::LazyLock;

pub(crate) const fn script(
    name: &'static str,
    about: &'static str,
    lines: &'static [Line],
) -> Scenario {
    Scenario {
        name,
        about,
        lines,
        without: &[],
    }
}

/// All scripts about roles: those of the tables of [`rolls`] and [`sizes`], and those that are about something else.
pub static ALL: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
    let mut all = rolls::all();
    all.extend_from_slice(OTHERS);
    all.extend(sizes::roles());
    all.extend_from_slice(settings::ALL);
    all
});

const OTHERS: &[Scenario] = &[
    Scenario {
        name: "roles-primary-first",
        about: "a new image in place, the primary is to go first",
        lines: &[
            Line::Do("create, order: PrimaryFirst", |w| {
                found(w, false, json!({"rollout": {"order": "PrimaryFirst"}}))
            }),
            SETTLED,
            IMAGE_2,
            UPDATED,
        ],
        // With the status goes who led when it began: the one that leads now goes first then.
        without: &[What::StatusWiped],
    },
    script(
        "roles-template",
        "more than the image changes",
        &[
            ASYNC,
            SETTLED,
            Line::Do("another argument", |w| {
                let mut changed = container("1");
                changed["args"] = json!(["--verbose"]);
                patch(w, json!({"template": {"spec": {"containers": [changed]}}}));
            }),
            UPDATED,
        ],
    ),
    script(
        "roles-resize",
        "more CPU in place: nothing restarts and nobody hands over",
        &[
            SIZED,
            SETTLED,
            Line::Do("cpu 2", |w| resources(w, "2", "1Gi", memory_restarts())),
            UPDATED,
        ],
    ),
    script(
        "roles-resize-restart",
        "more memory in place, for which the container restarts, orders-1 leads",
        &[
            SIZED,
            SETTLED,
            LEADS[1],
            SETTLED,
            QUIET,
            Line::Do("memory 2Gi", |w| {
                resources(w, "1", "2Gi", memory_restarts())
            }),
            UPDATED,
        ],
    ),
    script(
        "roles-restart",
        "a new image, and the primary is restarted as it is",
        &[
            Line::Do("create, primary: Restart", |w| {
                found(w, false, json!({"rollout": {"primary": "Restart"}}))
            }),
            SETTLED,
            IMAGE_2,
            UPDATED,
        ],
    ),
    script(
        "roles-switch",
        "the lead is asked to go to orders-1",
        &[
            ASYNC,
            SETTLED,
            Line::Do("ensemble switch orders --to orders-1", |w| {
                request(w, "go", json!({"switch": {"to": "orders-1"}}))
            }),
            Line::Until("the request is answered", |w| answered(w, "go")),
            SETTLED,
        ],
    ),
    script(
        "roles-supervised",
        "the primary waits for approval",
        &[
            Line::Do("create, primary: Supervised", |w| {
                found(w, true, json!({"rollout": {"primary": "Supervised"}}))
            }),
            SETTLED,
            IMAGE_2,
            Line::Until("AwaitingApproval", |w| {
                waits_for(w, Reason::AwaitingApproval)
            }),
            Line::Do("ensemble approve orders", |w| {
                let revision = status(w).revision().to_owned();
                request(w, "yes", json!({"approve": {"revision": revision}}));
            }),
            UPDATED,
        ],
    ),
    script(
        "roles-replica-dies",
        "a replica's node dies while an image is rolled out",
        &[
            ASYNC,
            SETTLED,
            IMAGE_2,
            Line::Until("one is updated", half_way),
            Line::Do("a replica's node loses its power", |w| {
                let node = node_of(w, |model, pod| model.leader() != Some(pod));
                kill(w, node);
            }),
            Line::Pass(90),
            HEAL,
            UPDATED,
        ],
    ),
    script(
        "roles-leader-dies",
        "the leader's node dies while an image is rolled out",
        &[
            ASYNC,
            SETTLED,
            IMAGE_2,
            Line::Until("one is updated", half_way),
            Line::Do("the leader's node loses its power", |w| {
                let node = patroni::of(w).and_then(Patroni::leader_node);
                kill(w, node);
            }),
            Line::Pass(90),
            HEAL,
            UPDATED,
        ],
    ),
    script(
        "roles-taken-back",
        "a new image is taken back before the kubelet of the first member saw it, whose node is cut off",
        &[
            ASYNC,
            SETTLED,
            IMAGE_2,
            Line::Until("one is to run it", |w| !to_run_2(w).is_empty()),
            Line::Do("its node is cut off, and image db:1", |w| {
                for node in to_run_2(w) {
                    w.cluster.partition_node(&node);
                }
                image(w, "1");
            }),
            Line::Pass(20),
            HEAL,
            UPDATED,
        ],
    ),
    script(
        "roles-bad-start",
        "a configuration with which nobody starts, then corrected",
        &[
            Line::Do("create with db:deaf", |w| {
                found(w, false, json!({}));
                image(w, "deaf");
            }),
            Line::Pass(90),
            IMAGE_2,
            UPDATED,
        ],
    ),
    script(
        "roles-bad-change",
        "an image that never comes up, then corrected",
        &[
            SYNC,
            SETTLED,
            Line::Do("image db:deaf", |w| image(w, "deaf")),
            Line::Pass(120),
            IMAGE_2,
            UPDATED,
        ],
    ),
    script(
        "roles-single",
        "a single member: downtime is unavoidable",
        &[
            Line::Do("create one", |w| found(w, false, json!({"replicas": 1}))),
            SETTLED,
            IMAGE_2,
            UPDATED,
        ],
    ),
    script(
        "roles-scale-in",
        "in to two while orders-2 leads",
        &[
            ASYNC,
            SETTLED,
            LEADS[2],
            SETTLED,
            QUIET,
            Line::Do("scale to 2", |w| replicas(w, 2)),
            UPDATED,
        ],
    ),
    Scenario {
        // See scale-and-delete.
        without: &[What::LateWrite, What::StatusWiped],
        ..script(
            "roles-scale-and-delete",
            "in to one with whenScaled: Delete while orders-0 leads, then out to two",
            &[
                Line::Do("create, whenScaled: Delete", |w| {
                    found(w, false, json!({"storage": {"whenScaled": "Delete"}}))
                }),
                SETTLED,
                Line::Do("scale to 1", |w| replicas(w, 1)),
                Line::Until("only two claims are left", |w| {
                    let claims = Resource::PersistentVolumeClaims;
                    w.cluster.objects(claims, NAMESPACE).len() == 2
                }),
                Line::Do("scale to 2", |w| replicas(w, 2)),
                SETTLED,
            ],
        )
    },
    script(
        "roles-agent",
        "a rollout brings agents that call a primary by another name, and the spec names the new one",
        &[
            AGENT_3,
            SETTLED,
            Line::Do("image db:agent-4, primaryValue: primary", |w| {
                patch(
                    w,
                    json!({"engine": {"patroni": {"primaryValue": "primary"}}}),
                );
                image(w, "agent-4");
            }),
            UPDATED,
        ],
    ),
    script(
        "roles-agent-unnamed",
        "the same, and nobody says so in the spec",
        &[
            AGENT_3,
            SETTLED,
            Line::Do("image db:agent-4", |w| image(w, "agent-4")),
            UPDATED,
        ],
    ),
];

/// Scripts in which nothing but the rules about roles stands between a member and harm: a budget
/// that allows everything, a lead that is handed over while something else is to change.
pub const ALONE: &[Scenario] = &[
    script(
        "roles-careless",
        "a new image, all members may be down at once, orders-2 leads",
        &[
            Line::Do("create, maxUnavailable: 3", |w| {
                found(w, false, json!({"rollout": {"maxUnavailable": 3}}))
            }),
            SETTLED,
            LEADS[2],
            SETTLED,
            QUIET,
            IMAGE_2,
            UPDATED,
        ],
    ),
    script(
        "roles-careless-restart",
        "the same, and the primary is restarted as it is",
        &[
            Line::Do("create, primary: Restart, maxUnavailable: 3", |w| {
                found(
                    w,
                    false,
                    json!({"rollout": {"primary": "Restart", "maxUnavailable": 3}}),
                )
            }),
            SETTLED,
            IMAGE_2,
            UPDATED,
        ],
    ),
    script(
        "roles-rewind",
        "a new image while the data of a former leader is rewound",
        &[
            ASYNC,
            SETTLED,
            Line::Do("the leader's node loses its power", |w| {
                let node = patroni::of(w).and_then(Patroni::leader_node);
                kill(w, node);
            }),
            Line::Pass(60),
            HEAL,
            Line::Until("somebody's data is rewound", |w| {
                patroni::of(w).is_some_and(Patroni::anybody_rewinds)
            }),
            Line::Pass(5),
            IMAGE_2,
            UPDATED,
        ],
    ),
    script(
        "roles-switch-unnamed",
        "the lead is asked to go to one that commits do not wait for",
        &[
            SYNC,
            SETTLED,
            Line::Do("ensemble switch orders --to the other replica", |w| {
                let to = unnamed(w);
                request(w, "go", json!({"switch": {"to": to}}))
            }),
            Line::Until("the request is answered", |w| answered(w, "go")),
            SETTLED,
        ],
    ),
    script(
        "roles-switch-and-image",
        "a new image that waited goes on while the lead is being handed over",
        &[
            Line::Do("create, primary: Restart", |w| {
                found(w, false, json!({"rollout": {"primary": "Restart"}}))
            }),
            SETTLED,
            Line::Do("image db:2, the rollout paused", |w| {
                patch(w, json!({"rollout": {"paused": true}}));
                image(w, "2");
            }),
            Line::Pass(60),
            Line::Do("ensemble switch orders --to orders-1", |w| {
                request(w, "go", json!({"switch": {"to": "orders-1"}}))
            }),
            Line::Until("the engine is asked, or that was refused", |w| {
                let object = ensemble(w);
                let asked = |e: &Object| e["status"]["switchover"]["phase"] == "Asked";
                object.as_ref().is_some_and(asked) || answered(w, "go")
            }),
            Line::Do("the rollout goes on", |w| {
                patch(w, json!({"rollout": {"paused": false}}));
            }),
            UPDATED,
        ],
    ),
];

const AGENT_3: Line = Line::Do("create with db:agent-3", |w| {
    found(w, false, json!({}));
    patch(
        w,
        json!({"engine": {"patroni": {"primaryValue": "master"}}}),
    );
    image(w, "agent-3");
});
pub(crate) const ASYNC: Line = Line::Do("create", |w| found(w, false, json!({})));
pub(crate) const SYNC: Line = Line::Do("create, synchronous", |w| found(w, true, json!({})));
const SIZED: Line = Line::Do("create with cpu 1, memory 1Gi", |w| {
    found(w, false, json!({}));
    resources(w, "1", "1Gi", memory_restarts());
});
pub(crate) const IMAGE_2: Line = Line::Do("image db:2", |w| image(w, "2"));
/// Somebody moves the lead, by ordinal.
pub(crate) const LEADS: [Line; 3] = [
    Line::Do("somebody moves the lead to orders-0", |w| {
        lead_to(w, "orders-0")
    }),
    Line::Do("somebody moves the lead to orders-1", |w| {
        lead_to(w, "orders-1")
    }),
    Line::Do("somebody moves the lead to orders-2", |w| {
        lead_to(w, "orders-2")
    }),
];
/// The one that leads may have been told to hand over: its loop comes round.
pub(crate) const QUIET: Line = Line::Pass(15);
pub(crate) const SETTLED: Line = Line::Until("one leads and all others stream", settled);
pub(crate) const UPDATED: Line = SETTLED;
pub(crate) const HEAL: Line = Line::Do("the node is back", |w| {
    for node in ["node-a", "node-b", "node-c"] {
        w.cluster.heal_node(node);
    }
});
pub(crate) const CORDON: Line = Line::Do("kubectl cordon, the leader's node", |w| {
    let node = model::of(w).and_then(|m| m.leader_node());
    cordon(w, &node.unwrap_or_default(), true);
});
pub(crate) const DRAIN: Line =
    Line::Repeat("kubectl drain", evict_all, |w| on_cordoned(w).is_empty());
pub(crate) const UNCORDON: Line = Line::Do("kubectl uncordon", |w| {
    for node in ["node-a", "node-b", "node-c"] {
        cordon(w, node, false);
    }
});

/// New memory restarts the container, new CPU does not.
fn memory_restarts() -> Value {
    json!([
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
    ])
}

/// The user creates an Ensemble of PostgreSQL under Patroni.
pub fn found(world: &mut World, synchronous: bool, mut spec: Value) {
    world
        .cluster
        .attach_workload(Box::new(Patroni::new(synchronous)));
    let mut template = crate::world::orders()["spec"]["template"].clone();
    // More than twice loop_wait.
    template["spec"]["terminationGracePeriodSeconds"] = 30.into();
    spec["engine"] = json!({"patroni": {}});
    spec["template"] = template;
    if spec["rollout"].is_null() {
        spec["rollout"] = json!({});
    }
    create(world, spec);
}

/// Somebody other than us hands the lead over.
fn lead_to(world: &mut World, member: &str) {
    patroni::with(world, |model, now| model.fail_over(now, Some(member)));
}

/// All members serve at the newest revision, one leads, the others stream from it.
pub fn settled(world: &World) -> bool {
    let Some(object) = ensemble(world) else {
        return false;
    };
    let replicas = object["spec"]["replicas"].as_u64().unwrap_or(0) as usize;
    let open = ["Proposed", "Asked"].contains(
        &object["status"]["switchover"]["phase"]
            .as_str()
            .unwrap_or(""),
    );
    let model = model::of(world).is_some_and(|model| model.settled(replicas));
    model && !open && ready(world)
}

/// A user asks for something, once.
pub(crate) fn request(world: &mut World, name: &str, spec: Value) {
    let mut body = json!({
        "apiVersion": "ensemble.dev/v1alpha1",
        "kind": "EnsembleRequest",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    });
    body["spec"]["ensemble"] = "orders".into();
    user(world, Request::create(world.requests, NAMESPACE, body));
}

/// The replica that is not the synchronous standby.
fn unnamed(world: &World) -> String {
    let others = ["orders-0", "orders-1", "orders-2"].into_iter();
    let model = patroni::of(world);
    let taken =
        |n: &&str| model.is_some_and(|m| m.leader() != Some(n) && m.sync_standby() != Some(n));
    others
        .into_iter()
        .find(taken)
        .unwrap_or_default()
        .to_owned()
}

/// Whether a request has its outcome.
pub(crate) fn answered(world: &World, name: &str) -> bool {
    let request = world.cluster.get(world.requests, NAMESPACE, name);
    request.is_none_or(|r| !r["status"]["outcome"].is_null())
}

pub(crate) fn node_of(world: &World, which: impl Fn(&Patroni, &str) -> bool) -> Option<String> {
    let model = patroni::of(world)?;
    let pods = world.cluster.objects(Resource::Pods, NAMESPACE);
    let mut pods = pods
        .iter()
        .filter(|p| !p["metadata"]["labels"]["ensemble.dev/group"].is_null());
    let found = pods.find(|p| which(model, p["metadata"]["name"].as_str().unwrap_or_default()))?;
    found["spec"]["nodeName"].as_str().map(str::to_owned)
}

/// The user cordons the node that a member runs on.
pub fn cordon_node_of(world: &mut World, member: &str) {
    let pod = world.cluster.get(Resource::Pods, NAMESPACE, member);
    let node = pod.and_then(|p| p["spec"]["nodeName"].as_str().map(str::to_owned));
    if let Some(node) = node {
        cordon(world, &node, true);
    }
}

/// The nodes of members whose pods ask for the second image.
fn to_run_2(world: &World) -> Vec<String> {
    let pods = world.cluster.objects(Resource::Pods, NAMESPACE);
    let asks = |p: &&Object| {
        let ours = !p["metadata"]["labels"]["ensemble.dev/ordinal"].is_null();
        ours && p["spec"]["containers"][0]["image"] == "db:2"
    };
    let nodes = pods.iter().filter(asks);
    let nodes = nodes.filter_map(|p| p["spec"]["nodeName"].as_str());
    nodes.map(str::to_owned).collect()
}

pub(crate) fn kill(world: &mut World, node: Option<String>) {
    if let Some(node) = node {
        world.cluster.kill_node(&node);
    }
}

fn cordon(world: &mut World, node: &str, cordoned: bool) {
    let body = json!({"spec": {"unschedulable": cordoned}});
    user(world, Request::patch(Resource::Nodes, "", node, body));
}

/// Pods of members on nodes that take no more.
fn on_cordoned(world: &World) -> Vec<String> {
    let nodes = world.cluster.objects(Resource::Nodes, "");
    let cordoned: Vec<&str> = nodes
        .iter()
        .filter(|n| n["spec"]["unschedulable"] == true)
        .filter_map(|n| n["metadata"]["name"].as_str())
        .collect();
    let pods = world.cluster.objects(Resource::Pods, NAMESPACE);
    pods.iter()
        .filter(|p| cordoned.contains(&p["spec"]["nodeName"].as_str().unwrap_or_default()))
        .filter_map(|p| p["metadata"]["name"].as_str().map(str::to_owned))
        .collect()
}

fn evict_all(world: &mut World) {
    for pod in on_cordoned(world) {
        let request = Request::evict(NAMESPACE, &pod).client("drainer");
        let _ = world.cluster.call(&request);
    }
}
