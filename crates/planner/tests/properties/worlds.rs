//! Random worlds: a few members, and things that happen to them.

use crate::common::*;
use ensemble_planner::Time;
use ensemble_planner::memory::Kind;
use proptest::prelude::*;
use serde_json::json;

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Event {
    Gone(u32),
    Ended(u32),
    Leaving(u32),
    Unhealthy(u32, i64),
    Waiting(u32, &'static str),
    Unscheduled(u32),
    Updated(u32),
    Foreign(u32),
    Orphan(u32),
    Mislabelled(u32),
    LoseClaim(u32, &'static str),
    ChangeClaim(u32, &'static str),
    Intent(u32, &'static str, i64),
    Image(&'static str),
    Prepared(&'static str),
    Refused(&'static str),
    Spec(&'static str),
    Request(u32),
    NodeUnreachable(u32),
    NodeGone(u32),
    NoNodes,
    LoseStatus,
    LoseMemory,
    Behind,
    Failure(u32),
    Taken(u32),
    Deleting,
    Passes(i64),
    Stored,
}

const SPECS: [&str; 12] = [
    r#"{"replicas": 0}"#,
    r#"{"replicas": 2}"#,
    r#"{"replicas": 6}"#,
    r#"{"rollout": {"maxUnavailable": 1}}"#,
    r#"{"rollout": {"maxUnavailable": 2}}"#,
    r#"{"rollout": {"maxUnavailable": 9}}"#,
    r#"{"rollout": {"paused": true}}"#,
    r#"{"rollout": {"prePull": "Skip"}}"#,
    r#"{"minReadySeconds": 30}"#,
    r#"{"storage": {"whenScaled": "Delete", "whenDeleted": "Delete"}}"#,
    r#"{"suspend": true}"#,
    r#"{"disruption": "Unmanaged"}"#,
];

pub fn event() -> impl Strategy<Value = Event> {
    let who = 0..5u32;
    let tag = prop::sample::select(vec!["1", "2", "3"]);
    let claim = prop::sample::select(vec!["data", "wal"]);
    let waiting = prop::sample::select(vec![
        "CrashLoopBackOff",
        "ErrImagePull",
        "ContainerCreating",
    ]);
    let method = prop::sample::select(vec!["Recreate", "Replace", "Remove"]);
    prop_oneof![
        who.clone().prop_map(Event::Gone),
        who.clone().prop_map(Event::Ended),
        who.clone().prop_map(Event::Leaving),
        (who.clone(), 0..120i64).prop_map(|(o, s)| Event::Unhealthy(o, s)),
        (who.clone(), waiting).prop_map(|(o, r)| Event::Waiting(o, r)),
        who.clone().prop_map(Event::Unscheduled),
        who.clone().prop_map(Event::Updated),
        who.clone().prop_map(Event::Foreign),
        who.clone().prop_map(Event::Orphan),
        who.clone().prop_map(Event::Mislabelled),
        (who.clone(), claim.clone()).prop_map(|(o, c)| Event::LoseClaim(o, c)),
        (who.clone(), claim).prop_map(|(o, c)| Event::ChangeClaim(o, c)),
        (who.clone(), method, 6..8i64).prop_map(|(o, m, e)| Event::Intent(o, m, e)),
        tag.clone().prop_map(Event::Image),
        tag.clone().prop_map(Event::Prepared),
        tag.clone().prop_map(Event::Prepared),
        tag.prop_map(Event::Refused),
        prop::sample::select(SPECS.to_vec()).prop_map(Event::Spec),
        prop::sample::select(SPECS.to_vec()).prop_map(Event::Spec),
        who.clone().prop_map(Event::Request),
        (0..3u32).prop_map(Event::NodeUnreachable),
        (0..3u32).prop_map(Event::NodeGone),
        Just(Event::NoNodes),
        Just(Event::LoseStatus),
        Just(Event::LoseMemory),
        Just(Event::Behind),
        who.clone().prop_map(Event::Failure),
        who.prop_map(Event::Taken),
        Just(Event::Deleting),
        (1..100i64).prop_map(Event::Passes),
        Just(Event::Stored),
    ]
}

pub fn world() -> impl Strategy<Value = World> {
    let start = (0..5u32, 0..3u8).prop_map(|(replicas, kind)| match kind {
        0 => World::begun(replicas),
        _ => World::settled(replicas),
    });
    (start, prop::collection::vec(event(), 0..12)).prop_map(|(mut world, events)| {
        events.iter().for_each(|e| happen(&mut world, e));
        world
    })
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#?}", self.snapshot())
    }
}

fn has(world: &World, ordinal: u32) -> bool {
    world.pods.contains_key(&format!("orders-{ordinal}"))
}

/// Lets it happen, where it can.
pub fn happen(world: &mut World, event: &Event) {
    use Event::*;
    match event {
        Gone(o) => drop_reference(world.gone(*o)),
        Updated(o) => drop_reference(world.member(*o, "2")),
        Intent(o, method, epoch) => intent(world, *o, method, *epoch),
        Image(tag) => drop_reference(world.image(tag)),
        Prepared(tag) => drop_reference(world.prepared(tag)),
        Refused(tag) => drop_reference(world.refused(tag, 5)),
        Spec(patch) => drop_reference(world.spec(&serde_json::from_str(patch).unwrap())),
        Request(o) => {
            world.request("r", &[&format!("orders-{o}")], true);
        }
        NodeUnreachable(n) if node_known(world, *n) => {
            world.unreachable_node(&format!("n{n}"));
        }
        NodeGone(n) if node_known(world, *n) => node_gone(world, &format!("n{n}")),
        NoNodes => world.nodes = None,
        LoseStatus => drop_reference(world.lose_status()),
        LoseMemory => world.memory = Default::default(),
        Behind => world.behind.push(Kind::Pod),
        Failure(o) => {
            world.failure(
                Kind::Pod,
                &format!("orders-{o}"),
                ensemble_api::Reason::ApiFailing,
            );
        }
        Taken(o) => drop_reference(world.taken(Kind::Pod, &format!("orders-{o}"), o % 2 == 0)),
        Deleting => {
            world.meta(&json!({"deletionTimestamp": "x", "finalizers": ["ensemble.dev/claims"]}));
        }
        Passes(seconds) => drop_reference(world.after(*seconds)),
        Stored => drop_reference(world.store_status()),
        LoseClaim(o, claim) => drop(world.claims.remove(&format!("{claim}-orders-{o}"))),
        ChangeClaim(o, claim) => change_claim(world, *o, claim),
        other => to_a_pod(world, other),
    }
}

fn drop_reference(_: &mut World) {}

fn to_a_pod(world: &mut World, event: &Event) {
    use Event::*;
    match event {
        Ended(o) if has(world, *o) => drop_reference(world.ended(*o, "Evicted")),
        Leaving(o) if has(world, *o) => drop_reference(world.leaving(*o, 3)),
        Unhealthy(o, ago) if has(world, *o) => {
            world.unhealthy(*o, NOW - ago * 1000);
        }
        Waiting(o, reason) if runs(world, *o) => drop_reference(world.waiting(*o, reason)),
        Unscheduled(o) if has(world, *o) => drop_reference(world.unscheduled(*o, "no node")),
        Foreign(o) if has(world, *o) => {
            let owner = json!([{"uid": "x", "controller": true}]);
            world.pod(*o, &json!({"metadata": {"ownerReferences": owner}}));
        }
        Orphan(o) if has(world, *o) => {
            world.pod(*o, &json!({"metadata": {"ownerReferences": null}}));
        }
        Mislabelled(o) if has(world, *o) => {
            world.pod(
                *o,
                &json!({"metadata": {"labels": {"ensemble.dev/incarnation": "x"}}}),
            );
        }
        _ => {}
    }
}

fn runs(world: &World, ordinal: u32) -> bool {
    let pod = world.pods.get(&format!("orders-{ordinal}"));
    pod.is_some_and(|p| p["status"]["containerStatuses"].is_array())
}

fn node_known(world: &World, node: u32) -> bool {
    let name = format!("n{node}");
    world.nodes.as_ref().is_some_and(|n| n.contains_key(&name))
}

fn node_gone(world: &mut World, name: &str) {
    world.nodes.as_mut().unwrap().remove(name);
    let since = Time(NOW - 41_000);
    world.memory.node_missing_since.insert(name.into(), since);
}

fn change_claim(world: &mut World, ordinal: u32, claim: &str) {
    if world
        .claims
        .contains_key(&format!("{claim}-orders-{ordinal}"))
    {
        let ending = json!({"metadata": {"deletionTimestamp": "x"}});
        world.change_claim(claim, ordinal, &ending);
    }
}

fn intent(world: &mut World, ordinal: u32, method: &str, epoch: i64) {
    if world.ensemble.get("status").is_none() {
        world.ensemble["status"] = json!({});
    }
    world.intent(ordinal, method, epoch);
}
