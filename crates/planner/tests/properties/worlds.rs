//! Random worlds: a few members, and things that happen to them.

use crate::common::*;
use ensemble_engines::patroni::{Role, Sighting};
use ensemble_planner::Time;
use ensemble_planner::engine::{Answer, WhyUnknown};
use ensemble_planner::memory::Kind;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

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
    /// A member leads from here on, at a higher term.
    Leads(u32),
    /// Nothing more is heard of a member.
    Silent(u32),
    /// A member follows, and not closely.
    Lags(u32),
    /// A member says that its engine is starting.
    Starts(u32),
    /// A member waits for a restart.
    Pending(u32),
    /// The engine's own high availability is paused.
    HandsOff(u32),
    /// Commits wait for a member.
    Synchronous(u32),
    /// A parameter is asked for, and told to the engine.
    Parameter(&'static str, &'static str),
}

const SPECS: [&str; 17] = [
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
    r#"{"rollout": {"primary": "Restart"}}"#,
    r#"{"rollout": {"primary": "Supervised"}}"#,
    r#"{"rollout": {"order": "PrimaryFirst"}}"#,
    r#"{"rollout": {"method": "Recreate"}}"#,
    r#"{"rollout": {"paused": false}}"#,
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
    let method = prop::sample::select(vec!["Recreate", "Clear", "Remove", "InPlace", "Restart"]);
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

/// Something that happens to members that play roles.
fn role_event() -> impl Strategy<Value = Event> {
    let who = 0..5u32;
    let value = prop::sample::select(vec!["50", "100", "200"]);
    prop_oneof![
        who.clone().prop_map(Event::Leads),
        who.clone().prop_map(Event::Silent),
        who.clone().prop_map(Event::Lags),
        who.clone().prop_map(Event::Starts),
        who.clone().prop_map(Event::Pending),
        who.clone().prop_map(Event::Pending),
        who.clone().prop_map(Event::HandsOff),
        who.prop_map(Event::Synchronous),
        (value.clone(), value).prop_map(|(from, to)| Event::Parameter(from, to)),
    ]
}

/// Members that are equals, and things that happen to them.
fn equals() -> impl Strategy<Value = (World, Vec<Event>)> {
    let start = (0..5u32, 0..3u8).prop_map(|(replicas, kind)| match kind {
        0 => World::begun(replicas),
        _ => World::settled(replicas),
    });
    (start, prop::collection::vec(event(), 0..12))
}

/// Members that play roles, and things that happen to them and to their engine.
fn led() -> impl Strategy<Value = (World, Vec<Event>)> {
    let start = (1..5u32, 0..5u32).prop_map(|(n, leader)| World::led(n, leader % n));
    let events = prop_oneof![event(), role_event(), role_event()];
    (start, prop::collection::vec(events, 0..12))
}

pub fn world() -> impl Strategy<Value = World> {
    prop_oneof![equals(), led()].prop_map(|(mut world, events)| {
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
        Parameter(from, to) => parameter(world, from, to),
        Leads(o) | Silent(o) | Lags(o) | Starts(o) | Pending(o) | HandsOff(o) | Synchronous(o) => {
            to_a_role(world, event, *o);
        }
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

/// Who said last that it leads.
fn leader(world: &World) -> Option<u32> {
    let said = |o: &u32| world.memory.pod(&format!("pod-{o}")).said.as_ref();
    let leads = |a: &Arc<Answer>| a.words::<Sighting>().is_ok_and(|s| s.role == Role::Leader);
    (0..5).find(|o| said(o).is_some_and(leads))
}

fn to_a_role(world: &mut World, event: &Event, ordinal: u32) {
    use Event::*;
    let heard = world.memory.pod(&format!("pod-{ordinal}")).said.is_some();
    if !heard || !has(world, ordinal) {
        return;
    }
    let name = format!("orders-{ordinal}");
    let leader = leader(world).filter(|o| *o != ordinal);
    match event {
        Leads(_) => drop_reference(world.lead(ordinal, 8)),
        Silent(_) => {
            world.silent(ordinal, WhyUnknown::Unreachable("no route".into()));
        }
        Starts(_) => drop_reference(world.silent(ordinal, WhyUnknown::Starting)),
        Pending(_) => drop_reference(world.but(ordinal, |s| s.pending_restart = true)),
        HandsOff(_) => drop_reference(world.but(ordinal, |s| s.paused = true)),
        Lags(_) => {
            world.but(ordinal, |s| s.lag = Some(1 << 30));
            if let Some(leader) = leader {
                world.but(leader, |s| s.attached.retain(|n, _| *n != name));
            }
        }
        Synchronous(_) => {
            if let Some(leader) = leader {
                world.synchronous(leader, Some(ordinal));
            }
        }
        _ => {}
    }
}

fn parameter(world: &mut World, from: &str, to: &str) {
    let Some(leader) = leader(world) else { return };
    world.spec(&json!({"engine": {"patroni": {"parameters": {"max_connections": to}}}}));
    world.keeps(leader, "max_connections", from).store_status();
    world.keeps(leader, "max_connections", to);
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
