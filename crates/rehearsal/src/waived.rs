//! A person suspends a rule for one member: what happens by that leave, and nothing else.

use crate::roles::{answered, request};
use crate::scenario::{Line, Scenario, create, image, ready, waits_for};
use crate::world::{NAMESPACE, World};
use ensemble_api::{Reason, Rule};
use ensemble_planner::view::{RequestView, View};
use serde_json::json;
use simkube::Resource;

/// Scripts with waivers.
pub const ALL: &[Scenario] = &[Scenario {
    name: "waive",
    about: "a waiver that expires before it is needed, and one that is used: orders-1's node is silent",
    lines: &[
        Line::Do("create, without a budget", |w| {
            create(
                w,
                json!({"disruption": "Unmanaged", "rollout": {"method": "Recreate", "prePull": "Skip"}}),
            )
        }),
        READY,
        Line::Do(
            "waive within-budget for orders-2 while nothing waits",
            |w| waive(w, "early", "orders-2"),
        ),
        // By its time alone, whatever became of it.
        Line::Pass(75),
        // A node that was healed from a fault meanwhile falls silent again.
        Line::Repeat("the node of orders-1 falls silent", silence, |w| {
            waits_for(w, Reason::NodeUnreachable)
        }),
        Line::Do("image db:2", |w| image(w, "2")),
        Line::Pass(90),
        Line::Do("waive within-budget for orders-2", |w| {
            waive(w, "used", "orders-2")
        }),
        Line::Until("that waiver has ended", |w| answered(w, "used")),
        Line::Do("all nodes answer again", |w| {
            for node in ["node-a", "node-b", "node-c"] {
                w.cluster.heal_node(node);
            }
        }),
        READY,
    ],
    without: &[],
}];

const READY: Line = Line::Until("all serve at the newest revision", ready);

fn waive(world: &mut World, name: &str, member: &str) {
    let waive = json!({"rule": Rule::WithinBudget.as_str(), "member": member, "forSeconds": 60});
    request(
        world,
        name,
        json!({"waive": waive, "reason": "a rehearsal"}),
    );
}

fn silence(world: &mut World) {
    if let Some(node) = node_of(world, "orders-1") {
        world.cluster.partition_node(&node);
    }
}

fn node_of(world: &World, pod: &str) -> Option<String> {
    let pod = world.cluster.get(Resource::Pods, NAMESPACE, pod)?;
    pod["spec"]["nodeName"].as_str().map(str::to_owned)
}

/// Whether a person has taken the risk of doing without a rule for that member, by what was asked for
/// and when, whatever became of it.
pub fn by_a_person(world: &World, rule: Rule, member: &str, at_ms: u64) -> bool {
    let requests = world.cluster.objects(world.requests, &world.namespace);
    let requests = requests.iter().filter_map(|r| RequestView::read(r).ok());
    let mut asked = requests.filter_map(|r| Some((r.created?, r.spec.waive?)));
    asked.any(|(created, waive)| {
        // Whole seconds are stored.
        let until = created.plus_seconds(waive.for_seconds + 1).0;
        let now = i64::try_from(at_ms).unwrap_or(i64::MAX);
        waive.rule == rule.as_str() && waive.member == member && now <= until
    })
}
