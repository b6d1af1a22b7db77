//! Scripts with zones: members are spread when they are created and stay where they are, whatever happens to
//! their pods and nodes.

use crate::invariants::Broken;
use crate::outcomes::broken;
use crate::scenario::{Line, Scenario, create, ensemble, image, patch, ready, replicas};
use crate::world::{NAMESPACE, World};
use serde_json::{Value, json};
use simkube::Resource;
use std::collections::BTreeMap;

const fn script(name: &'static str, about: &'static str, lines: &'static [Line]) -> Scenario {
    Scenario {
        name,
        about,
        lines,
        without: &[],
    }
}

/// Scripts that end well whatever goes wrong.
pub const ALL: &[Scenario] = &[
    script(
        "zones",
        "three members in three zones, a new image, then five of them",
        &[
            CREATE,
            SPREAD,
            Line::Do("image db:2", |w| image(w, "2")),
            SPREAD,
            Line::Do("scale to 5", |w| replicas(w, 5)),
            SPREAD,
        ],
    ),
    script(
        "zones-later",
        "zones are asked for once the members run: nobody moves",
        &[
            Line::Do("create", |w| create(w, json!({}))),
            Line::Until("all serve", ready),
            Line::Do("ask for zones", |w| {
                patch(w, json!({"zones": {"names": ["a", "b", "c"]}}))
            }),
            Line::Until("all serve", ready),
            Line::Do("image db:2", |w| image(w, "2")),
            Line::Until("all serve", ready),
        ],
    ),
];

const CREATE: Line = Line::Do("create in zones a, b and c", |w| {
    create(w, json!({"zones": {"names": ["a", "b", "c"]}}));
});
const SPREAD: Line = Line::Until("all serve, spread evenly", |w| ready(w) && is_even(w));

fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The zone of a node, by the truth.
fn zone_of_node(world: &World, node: &str) -> Option<String> {
    let nodes = world.cluster.objects(Resource::Nodes, "");
    let node = nodes.iter().find(|n| text(n, "/metadata/name") == node)?;
    let zone = &node["metadata"]["labels"]["topology.kubernetes.io/zone"];
    zone.as_str().map(str::to_owned)
}

/// The members that are on a node, each with its zone.
fn placed(world: &World) -> Vec<(String, String)> {
    let pods = world.cluster.objects(Resource::Pods, NAMESPACE);
    let members = pods.iter().filter(|p| {
        p["metadata"]["labels"]
            .get("ensemble.dev/ordinal")
            .is_some()
    });
    let placed = members.filter_map(|p| {
        let zone = zone_of_node(world, text(p, "/spec/nodeName"))?;
        Some((text(p, "/metadata/name").to_owned(), zone))
    });
    placed.collect()
}

fn is_even(world: &World) -> bool {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for zone in ["a", "b", "c"] {
        counts.insert(zone.to_owned(), 0);
    }
    for (_, zone) in placed(world) {
        *counts.entry(zone).or_default() += 1;
    }
    let (fewest, most) = (counts.values().min(), counts.values().max());
    most.zip(fewest)
        .is_some_and(|(most, fewest)| most - fewest <= 1)
}

/// No member whose zone is required ever runs in another zone than before. A member that has lost its volumes
/// has nothing to stay with.
#[derive(Clone, Debug, Default)]
pub struct Stays {
    seen: BTreeMap<String, String>,
}

impl Stays {
    /// Looks where everybody is.
    pub fn check(&mut self, world: &World) -> Result<(), Broken> {
        let zoned = ensemble(world).is_some_and(|e| e["spec"].get("zones").is_some());
        if !zoned {
            return Ok(());
        }
        for (member, zone) in placed(world) {
            let before = self
                .seen
                .entry(member.clone())
                .or_insert_with(|| zone.clone());
            if *before != zone {
                let seen = format!("{member} was in zone {before} and is in zone {zone}");
                return broken("stays-in-its-zone", seen);
            }
        }
        Ok(())
    }
}
