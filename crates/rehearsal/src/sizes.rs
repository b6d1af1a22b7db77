//! Scripts about small ensembles: none, one and two members, equals and under Patroni.

use crate::fault::What;
use crate::model;
use crate::patroni::{self, Patroni};
use crate::roles::{
    ASYNC, CORDON, DRAIN, HEAL, IMAGE_2, LEADS, QUIET, SETTLED, SYNC, UNCORDON, found, script,
};
use crate::scenario::{Line, Scenario, create, image, ready, replicas, waits_for};
use crate::world::{NAMESPACE, World};
use ensemble_api::Reason;
use serde_json::json;
use simkube::Resource;

/// With members that are equals.
pub const EQUALS: &[Scenario] = &[
    Scenario {
        // Whoever loses its label is looked for by its name, if it is asked for. One that nobody asks
        // for any more just then is not found: not defended against yet.
        without: &[What::LabelStripped],
        ..script(
            "equals-none",
            "none, out to two, and in to none again",
            &[
                Line::Do("create none", |w| create(w, json!({"replicas": 0}))),
                READY,
                TO[2],
                READY,
                TO[0],
                READY,
                TO[1],
                READY,
            ],
        )
    },
    script(
        "equals-one",
        "a single member gets a new image, and its node is drained",
        &[
            Line::Do("create one", |w| create(w, json!({"replicas": 1}))),
            READY,
            IMAGE_2,
            READY,
            CORDON_FIRST,
            DRAIN,
            UNCORDON,
            READY,
        ],
    ),
    script(
        "equals-two",
        "two members get an image that never becomes Ready, then a good one; then a node is drained",
        &[
            Line::Do("create two", |w| create(w, json!({"replicas": 2}))),
            READY,
            DEAF,
            Line::Pass(90),
            IMAGE_2,
            READY,
            CORDON_FIRST,
            DRAIN,
            UNCORDON,
            READY,
        ],
    ),
];

/// Who leads when three are scaled in, and in which mode. In to one, and in to none and back.
const SCALED_IN: &[(&str, bool, usize)] = &[
    ("roles-to-one-0", false, 0),
    ("roles-to-one-1", false, 1),
    ("roles-to-one-2", false, 2),
    ("roles-to-one-sync-0", true, 0),
    ("roles-to-one-sync-2", true, 2),
];
const TO_NONE: &[(&str, bool, usize)] = &[
    ("roles-to-none-0", false, 0),
    ("roles-to-none-2", false, 2),
    ("roles-to-none-sync-1", true, 1),
];

/// With members that play roles. Made once, and kept for as long as the program runs.
pub fn roles() -> Vec<Scenario> {
    let in_to_one = SCALED_IN.iter().map(|(name, sync, leads)| {
        let lines = led(*sync, *leads, &[TO[1], SETTLED]);
        script(name, "three are scaled in to one", lines)
    });
    let to_none = TO_NONE.iter().map(|(name, sync, leads)| {
        let lines = led(*sync, *leads, &[TO[0], READY, TO[3], SETTLED]);
        let about = "three are scaled in to none, and out to three again";
        Scenario {
            // With the status goes who led last: the lowest ordinal is taken for it then. Who loses its
            // label when nobody asks for it any more is not found, see `equals-none`.
            without: &[What::StatusWiped, What::LabelStripped],
            ..script(name, about, lines)
        }
    });
    in_to_one
        .chain(to_none)
        .chain(OTHERS.iter().copied())
        .collect()
}

fn led(sync: bool, leads: usize, then: &[Line]) -> &'static [Line] {
    let mut lines = vec![if sync { SYNC } else { ASYNC }, SETTLED];
    if leads > 0 {
        lines.extend([LEADS[leads], SETTLED, QUIET]);
    }
    lines.extend_from_slice(then);
    lines.leak()
}

const OTHERS: &[Scenario] = &[
    script(
        "roles-one",
        "a single member's node is drained; then there are two",
        &[
            Line::Do("create one", |w| found(w, false, json!({"replicas": 1}))),
            SETTLED,
            CORDON,
            DRAIN,
            UNCORDON,
            SETTLED,
            TO[2],
            SETTLED,
        ],
    ),
    script(
        "roles-two",
        "two members get a new image, and the leader's node is drained",
        &[
            TWO, SETTLED, IMAGE_2, SETTLED, CORDON, DRAIN, UNCORDON, SETTLED,
        ],
    ),
    script(
        "roles-two-bad-change",
        "two members get an image that never becomes Ready, then a good one",
        &[TWO, SETTLED, DEAF, Line::Pass(120), IMAGE_2, SETTLED],
    ),
    script(
        "roles-two-bad-probe",
        "two members get a probe that never passes, then a good one",
        &[
            Line::Do("create two", |w| {
                let spec = json!({"replicas": 2, "rollout": {"method": "Recreate"}});
                found(w, false, spec);
            }),
            SETTLED,
            Line::Do("image db:unready", |w| image(w, "unready")),
            Line::Pass(120),
            IMAGE_2,
            SETTLED,
        ],
    ),
    script(
        "roles-two-never-ready",
        "two members are created with a probe that never passes, then a good one",
        &[
            Line::Do("create two with db:unready", |w| {
                found(w, true, json!({"replicas": 2}));
                image(w, "unready");
            }),
            Line::Pass(90),
            IMAGE_2,
            SETTLED,
        ],
    ),
    script(
        "roles-cut-off",
        "three are scaled in to two while orders-1 is cut off from its peers",
        &[
            ASYNC,
            SETTLED,
            Line::Do("orders-1 is cut off from its peers", |w| {
                cut_off(w, Some("orders-1"))
            }),
            QUIET,
            TO[2],
            // One that is no copy, as it lags, may go.
            Line::Until(
                "LastInSync, or somebody else leads, or it was no copy",
                |w| {
                    let pod = w.cluster.get(Resource::Pods, NAMESPACE, "orders-2");
                    waits_for(w, Reason::LastInSync)
                        || pod.is_none()
                        || model::of(w).is_some_and(|m| m.leader() != Some("orders-0"))
                },
            ),
            Line::Pass(60),
            Line::Do("orders-1 is back", |w| cut_off(w, None)),
            SETTLED,
        ],
    ),
];

/// Scripts in which nothing but the rules about small ensembles stands between data and harm.
pub const ALONE: &[Scenario] = &[
    script(
        "roles-to-none-slowly",
        "three with few writes are scaled to none, and the one that led last is slow to come back",
        &[
            ASYNC,
            SETTLED,
            Line::Do("clients write once a second", |w| {
                patroni::with(w, |model, now| model.write_every(now, 1_000));
            }),
            TO[0],
            READY,
            Line::Do(
                "the node of orders-0 reboots, and all are wanted back",
                |w| {
                    w.cluster.kill_node("node-a");
                    replicas(w, 3);
                },
            ),
            // The lock of the one that led last is kept for 30 s, and the others wait for a minute.
            Line::Pass(45),
            HEAL,
            SETTLED,
        ],
    ),
    script(
        "roles-to-none-careless",
        "three are scaled to none, all of which may be down at once",
        &[
            Line::Do("create, maxUnavailable: 3", |w| {
                found(w, false, json!({"rollout": {"maxUnavailable": 3}}))
            }),
            SETTLED,
            TO[0],
            READY,
        ],
    ),
];

const READY: Line = Line::Until("all serve at the newest revision", ready);
const DEAF: Line = Line::Do("image db:deaf", |w| image(w, "deaf"));
const TWO: Line = Line::Do("create two", |w| found(w, false, json!({"replicas": 2})));
const TO: [Line; 4] = [
    Line::Do("scale to 0", |w| replicas(w, 0)),
    Line::Do("scale to 1", |w| replicas(w, 1)),
    Line::Do("scale to 2", |w| replicas(w, 2)),
    Line::Do("scale to 3", |w| replicas(w, 3)),
];
const CORDON_FIRST: Line = Line::Do("kubectl cordon, the node of orders-0", |w| {
    crate::roles::cordon_node_of(w, "orders-0");
});

fn cut_off(world: &mut World, member: Option<&str>) {
    patroni::with(world, |model: &mut Patroni, now| model.cut_off(now, member));
}
