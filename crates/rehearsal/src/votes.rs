//! Scripts with members that vote: etcd.

use crate::etcd::Etcd;
use crate::model;
use crate::roles::{CORDON, DRAIN, IMAGE_2, QUIET, SETTLED, UNCORDON, UPDATED, script};
use crate::scenario::{Line, Scenario, create, half_way};
use crate::world::World;
use serde_json::{Value, json};

/// All of them.
pub const ALL: &[Scenario] = &[
    script(
        "votes-image",
        "a new image in place for three that vote",
        &[THREE, SETTLED, IMAGE_2, UPDATED],
    ),
    script(
        "votes-recreate",
        "a new image in new pods for five that vote, two at a time",
        &[
            Line::Do("create five, method: Recreate, maxUnavailable: 2", |w| {
                let rollout = json!({"method": "Recreate", "maxUnavailable": 2});
                found(w, 5, json!({"rollout": rollout}));
            }),
            SETTLED,
            IMAGE_2,
            UPDATED,
        ],
    ),
    script(
        "votes-leader-dies",
        "the leader's node dies while an image is rolled out",
        &[
            THREE,
            SETTLED,
            IMAGE_2,
            Line::Until("one is updated", half_way),
            Line::Do("the leader's node loses its power", |w| {
                if let Some(node) = model::of(w).and_then(|m| m.leader_node()) {
                    w.cluster.kill_node(&node);
                }
            }),
            Line::Pass(90),
            crate::roles::HEAL,
            UPDATED,
        ],
    ),
    script(
        "votes-drain",
        "the leader's node is drained",
        &[THREE, SETTLED, CORDON, DRAIN, UNCORDON, SETTLED],
    ),
    script(
        "votes-pair",
        "a new image for two that vote: while one is away nothing is written, and it ends all the same",
        &[
            Line::Do("create two", |w| found(w, 2, json!({}))),
            SETTLED,
            IMAGE_2,
            UPDATED,
        ],
    ),
];

/// Nothing but the rule about the quorum stands between its members and harm.
pub const ALONE: &[Scenario] = &[script(
    "votes-careless",
    "a new image for five that vote, all of which may be down at once",
    &[
        Line::Do("create five, maxUnavailable: 5", |w| {
            found(w, 5, json!({"rollout": {"maxUnavailable": 5}}))
        }),
        SETTLED,
        QUIET,
        IMAGE_2,
        UPDATED,
    ],
)];

const THREE: Line = Line::Do("create three", |w| found(w, 3, json!({})));

/// The user creates an Ensemble of so many that vote.
fn found(world: &mut World, voters: u32, mut spec: Value) {
    let model = Etcd::new(&world.name, voters);
    world.cluster.attach_workload(Box::new(model));
    spec["replicas"] = voters.into();
    spec["engine"] = json!({"etcd": {}});
    if spec["rollout"].is_null() {
        spec["rollout"] = json!({});
    }
    create(world, spec);
}
