//! Members are spread over zones when they are created, and stay where they are.

use crate::common::*;
use ensemble_api::labels;
use ensemble_planner::memory::Kind;
use serde_json::{Value, json};

const KEY: &str = "topology.kubernetes.io/zone";
const REQUIRED: &str =
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

fn zoned(mut world: World, names: &[&str]) -> World {
    world.spec(&json!({"zones": {"names": names}}));
    for (node, zone) in [("n0", "a"), ("n1", "b"), ("n2", "c")] {
        world.node(node, &json!({"metadata": {"labels": {KEY: zone}}}));
    }
    world
}

/// An ensemble whose members are all still to be created.
fn begun(replicas: u32, names: &[&str]) -> World {
    let mut world = World::new(replicas);
    world.revision("1", 1).passed("1").ledger(replicas, "");
    zoned(world, names)
}

fn zone_of(object: &Value) -> &str {
    object["metadata"]["labels"][labels::ZONE]
        .as_str()
        .unwrap_or_default()
}

/// The zones of the claims `data` that are created, by member.
fn claims(world: &World, replicas: u32) -> Vec<String> {
    let plan = world.plan();
    let claim = |n: u32| body(&plan, Kind::Claim, &format!("data-orders-{n}"));
    (0..replicas)
        .map(|n| zone_of(&claim(n)).to_owned())
        .collect()
}

#[test]
fn new_members_go_to_the_zone_with_the_fewest_members() {
    let world = begun(5, &["a", "b", "c"]);
    assert_eq!(claims(&world, 5), ["a", "b", "c", "a", "b"]);
}

#[test]
fn a_zone_that_is_fuller_than_the_others_gets_no_new_member() {
    let mut world = zoned(World::converged(3), &["a", "b", "c"]);
    world.spec(&json!({"replicas": 5})).ledger(5, "0-2");
    for node in ["n0", "n1"] {
        world.node(node, &json!({"metadata": {"labels": {KEY: "a"}}}));
    }
    let plan = world.plan();
    let zones: Vec<String> = [3, 4]
        .map(|n| zone_of(&body(&plan, Kind::Claim, &format!("data-orders-{n}"))).to_owned())
        .to_vec();
    assert_eq!(zones, ["b", "b"], "two are in a, one is in c");
}

#[test]
fn a_member_that_is_made_anew_stays_in_the_zone_of_its_claims() {
    let mut world = zoned(World::settled(3), &["a", "b", "c"]);
    for claim in ["data", "wal"] {
        world.change_claim(
            claim,
            1,
            &json!({"metadata": {"labels": {labels::ZONE: "c"}}}),
        );
    }
    world.gone(1);
    let pod = body(&world.plan(), Kind::Pod, "orders-1");
    assert_eq!(zone_of(&pod), "c");
    assert_eq!(
        pod.pointer(REQUIRED),
        Some(&json!([{"matchExpressions": [{"key": KEY, "operator": "In", "values": ["c"]}]}]))
    );
    let env = pod["spec"]["containers"][0]["env"].to_string();
    assert!(
        env.contains(r#"{"name":"ENSEMBLE_ZONE","value":"c"}"#),
        "{env}"
    );
    assert!(
        env.contains(r#"{"name":"ENSEMBLE_ZONE_INDEX","value":"2"}"#),
        "{env}"
    );
}

#[test]
fn a_zone_is_required_in_each_of_the_users_own_terms() {
    let mut world = zoned(World::settled(3), &["a", "b", "c"]);
    let term = |disk: &str| json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [term("ssd"), term("nvme")]}}});
    let name = revision_name("1");
    world.revisions.get_mut(&name).unwrap()["data"]["template"]["spec"]["affinity"] = affinity;
    world.change_claim(
        "data",
        1,
        &json!({"metadata": {"labels": {labels::ZONE: "b"}}}),
    );
    world.gone(1);
    let plan = world.plan();
    let terms = body(&plan, Kind::Pod, "orders-1");
    let terms = terms.pointer(REQUIRED).unwrap().as_array().unwrap().clone();
    assert_eq!(terms.len(), 2, "{terms:?}");
    for term in terms {
        let rules = term["matchExpressions"].as_array().unwrap();
        assert_eq!(
            (&rules[0]["key"], &rules[1]["key"]),
            (&json!("disk"), &json!(KEY))
        );
    }
}

#[test]
fn a_preferred_zone_leaves_the_scheduler_another_choice() {
    let mut world = begun(1, &["b"]);
    world.spec(&json!({"zones": {"mode": "Prefer"}}));
    world.claim("data", 0).claim("wal", 0);
    world.change_claim(
        "data",
        0,
        &json!({"metadata": {"labels": {labels::ZONE: "b"}}}),
    );
    let pod = body(&world.plan(), Kind::Pod, "orders-0");
    assert_eq!(pod.pointer(REQUIRED), None);
    let preferred =
        "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/weight";
    assert_eq!(pod.pointer(preferred), Some(&json!(100)));
}

#[test]
fn volumes_whose_zone_nobody_knows_are_not_pinned_to_one() {
    let mut world = zoned(World::settled(3), &["a", "b", "c"]);
    world.gone(1);
    let pod = body(&world.plan(), Kind::Pod, "orders-1");
    assert_eq!((pod.pointer("/spec/affinity"), zone_of(&pod)), (None, ""));
}

#[test]
fn zones_that_are_asked_for_later_restart_nobody_and_claims_remember_where_their_members_run() {
    let world = zoned(World::settled(3), &["a", "b", "c"]);
    let plan = world.plan();
    assert_eq!(disrupted(&plan), [""; 0]);
    let marked = written(&plan);
    assert_eq!(marked.len(), 6, "{marked:?}");
    assert!(marked.iter().all(|w| w.contains("-orders-")), "{marked:?}");
}

#[test]
fn claims_that_remember_the_right_zone_are_not_written_again() {
    let mut world = zoned(World::settled(3), &["a", "b", "c"]);
    for (ordinal, zone) in [(0, "a"), (1, "b"), (2, "c")] {
        for claim in ["data", "wal"] {
            world.change_claim(
                claim,
                ordinal,
                &json!({"metadata": {"labels": {labels::ZONE: zone}}}),
            );
        }
    }
    world.store_status();
    assert_quiet(&world.plan());
}

#[test]
fn a_zone_that_no_node_is_in_is_named_with_those_that_there_are() {
    let mut world = zoned(World::settled(3), &["a", "b", "d"]);
    world.change_claim(
        "data",
        2,
        &json!({"metadata": {"labels": {labels::ZONE: "d"}}}),
    );
    world.unscheduled(2, "0/3 nodes are available");
    let said = message(&world.plan(), "Unschedulable");
    assert!(
        said.ends_with(
            "no node is labelled topology.kubernetes.io/zone=d; zones of the nodes: a, b, c"
        ),
        "{said}"
    );
}

#[test]
fn a_zone_that_is_down_is_named() {
    let mut world = zoned(World::settled(3), &["a", "b", "c"]);
    world.unreachable_node("n1");
    let said = message(&world.plan(), "NodeUnreachable");
    assert!(
        said.ends_with("zone b is down: none of its 1 nodes is Ready"),
        "{said}"
    );
}
