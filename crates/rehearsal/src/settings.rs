//! Scripts about the engine's parameters.

use crate::fault::What;
use crate::patroni::{self, Patroni, SLOW, TOO_MUCH};
use crate::roles::{ASYNC, SETTLED, settled};
use crate::scenario::{Line, Scenario, patch, status, waits_for};
use crate::world::World;
use ensemble_api::Reason;
use ensemble_api::status::ParameterState;
use serde_json::{Value, json};

const fn script(name: &'static str, about: &'static str, lines: &'static [Line]) -> Scenario {
    Scenario {
        name,
        about,
        lines,
        // With the status goes which way a value changed: who waits for a restart is left to people.
        without: &[What::StatusWiped],
    }
}

/// All of them.
pub const ALL: &[Scenario] = &[
    script(
        "roles-parameters",
        "a parameter is raised, replicas first, and then lowered, the primary first",
        &[
            ASYNC,
            SETTLED,
            CONNECTIONS_200,
            CONFIGURED,
            CONNECTIONS_150,
            CONFIGURED,
            SETTLED,
        ],
    ),
    script(
        "roles-parameters-paused",
        "a parameter that needs a restart while the rollout is paused: it waits, and writes nothing",
        &[ASYNC, SETTLED, PAUSE, CONNECTIONS_200, PAUSED],
    ),
    script(
        "roles-parameters-resumed",
        "the same, and the rollout goes on",
        &[
            ASYNC,
            SETTLED,
            PAUSE,
            CONNECTIONS_200,
            PAUSED,
            Line::Pass(30),
            Line::Do("the rollout goes on", |w| {
                patch(w, json!({"rollout": {"paused": false}}));
            }),
            CONFIGURED,
            SETTLED,
        ],
    ),
    script(
        "roles-parameters-removed",
        "a parameter is removed from the spec while members restart for it",
        &[
            ASYNC,
            SETTLED,
            CONNECTIONS_200,
            HALF_WAY,
            Line::Do("no parameters", |w| set(w, Value::Null)),
            CONFIGURED,
            SETTLED,
        ],
    ),
    script(
        "roles-parameters-between",
        "another value is wanted while members restart: above what the primary has, below what replicas have",
        &[
            ASYNC,
            SETTLED,
            CONNECTIONS_200,
            HALF_WAY,
            CONNECTIONS_150,
            CONFIGURED,
            SETTLED,
        ],
    ),
    script(
        "roles-parameters-refused",
        "a value with which PostgreSQL does not come up is put back; the next one is not blamed for it",
        &[
            ASYNC,
            SETTLED,
            Line::Do("shared_buffers: 7000GB", |w| {
                set(w, json!({"shared_buffers": TOO_MUCH}))
            }),
            Line::Until("it is put back", |w| is(w, ParameterState::Refused)),
            Line::Do("shared_buffers: 128MB", |w| {
                set(w, json!({"shared_buffers": "128MB"}))
            }),
            CONFIGURED,
            SETTLED,
        ],
    ),
    script(
        "roles-parameters-slow",
        "a value with which PostgreSQL takes minutes to come up",
        &[
            ASYNC,
            SETTLED,
            Line::Do("shared_buffers: 1GB", |w| {
                set(w, json!({"shared_buffers": SLOW}))
            }),
            CONFIGURED,
            SETTLED,
        ],
    ),
];

const CONNECTIONS_200: Line = Line::Do("max_connections: 200", |w| {
    set(w, json!({"max_connections": "200"}))
});
const CONNECTIONS_150: Line = Line::Do("max_connections: 150", |w| {
    set(w, json!({"max_connections": "150"}))
});
const PAUSE: Line = Line::Do("the rollout is paused", |w| {
    patch(w, json!({"rollout": {"paused": true}}));
});
const PAUSED: Line = Line::Until("Paused", |w| waits_for(w, Reason::Paused));
const HALF_WAY: Line = Line::Until("one runs with it", |w| {
    patroni::of(w).is_some_and(Patroni::parameters_half_way)
});
const CONFIGURED: Line = Line::Until("everybody runs with the new parameters", |w| {
    let applied = patroni::of(w).is_some_and(Patroni::parameters_applied);
    applied && is(w, ParameterState::Applied) && settled(w)
});

/// Whether the newest change of parameters is that far.
fn is(world: &World, state: ParameterState) -> bool {
    status(world).parameters.is_some_and(|p| p.state == state)
}

/// The user changes parameters.
fn set(world: &mut World, parameters: Value) {
    patch(
        world,
        json!({"engine": {"patroni": {"parameters": parameters}}}),
    );
}
