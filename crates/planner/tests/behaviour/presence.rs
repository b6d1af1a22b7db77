//! What is known of a member's pod. Down is proven, never guessed.

use crate::common::*;
use ensemble_planner::Time;
use ensemble_planner::cast::Cast;
use ensemble_planner::presence::{Presence, ProofOfDown};
use serde_json::json;

fn presence(change: impl Fn(&mut World)) -> Presence {
    let mut world = World::converged(3);
    change(&mut world);
    let snap = world.snapshot();
    Cast::of(&snap).presence(member(0))
}

fn down(proof: ProofOfDown) -> Presence {
    Presence::Down(proof)
}

fn waiting(world: &mut World) {
    world.waiting(0, "CrashLoopBackOff");
}

fn node_missing(world: &mut World, seconds: i64) {
    world.nodes.as_mut().unwrap().remove("n0");
    world
        .memory
        .node_missing_since
        .insert("n0".into(), Time(NOW - seconds * 1000));
}

#[test]
fn a_member_whose_pod_is_ready_serves() {
    assert_eq!(presence(|_| {}), Presence::Serving);
}

#[test]
fn a_member_without_a_pod_is_absent() {
    assert_eq!(
        presence(|w| {
            w.gone(0);
        }),
        Presence::Absent
    );
}

#[test]
fn a_foreign_pod_of_its_name_is_not_its_pod() {
    let foreign = json!({"metadata": {"ownerReferences": [{"uid": "x", "controller": true}]}});
    assert_eq!(
        presence(|w| {
            w.pod(0, &foreign);
        }),
        Presence::Absent
    );
}

#[test]
fn a_pod_told_to_end_is_leaving_whatever_else_it_is() {
    assert_eq!(
        presence(|w| {
            w.leaving(0, 1);
        }),
        Presence::Leaving
    );
    assert_eq!(
        presence(|w| {
            w.ended(0, "").leaving(0, 1);
        }),
        Presence::Leaving
    );
}

#[test]
fn a_pod_that_runs_and_is_not_ready_is_unhealthy_and_not_down() {
    assert_eq!(
        presence(|w| {
            w.unhealthy(0, 0);
        }),
        Presence::Unhealthy
    );
}

#[test]
fn a_pod_in_its_first_run_is_starting() {
    let first_run = |w: &mut World| {
        w.unhealthy(0, NOW);
        w.memory.pods.clear();
    };
    assert_eq!(presence(first_run), Presence::Starting);
}

#[test]
fn an_unscheduled_pod_is_down() {
    let unscheduled = |w: &mut World| {
        w.unscheduled(0, "0/3 nodes fit");
    };
    assert_eq!(presence(unscheduled), down(ProofOfDown::Unscheduled));
}

#[test]
fn an_ended_pod_is_down() {
    for reason in ["Evicted", "", "NodeShutdown"] {
        let ended = |w: &mut World| {
            w.ended(0, reason);
        };
        assert_eq!(presence(ended), down(ProofOfDown::Ended), "{reason}");
    }
    let done = |w: &mut World| {
        w.pod(0, &json!({"status": {"phase": "Succeeded"}}));
    };
    assert_eq!(presence(done), down(ProofOfDown::Ended));
}

#[test]
fn a_pod_of_which_a_living_kubelet_says_that_nothing_runs_is_down() {
    for reason in [
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "CreateContainerConfigError",
    ] {
        let waiting = |w: &mut World| {
            w.waiting(0, reason);
        };
        assert_eq!(
            presence(waiting),
            down(ProofOfDown::NothingRuns),
            "{reason}"
        );
    }
}

#[test]
fn a_container_that_is_being_created_proves_nothing() {
    for reason in ["ContainerCreating", "PodInitializing", ""] {
        let creating = |w: &mut World| {
            w.waiting(0, reason);
        };
        assert_eq!(presence(creating), Presence::Unhealthy, "{reason}");
    }
}

#[test]
fn one_running_container_is_enough_not_to_be_down() {
    let sidecar = |w: &mut World| {
        waiting(w);
        let pod = w.pods.get_mut("orders-0").unwrap();
        let list = pod["status"]["containerStatuses"].as_array_mut().unwrap();
        list.push(json!({"name": "sidecar", "state": {"running": {}}}));
    };
    assert_eq!(presence(sidecar), Presence::Unhealthy);
}

#[test]
fn a_kubelet_that_has_not_seen_the_newest_spec_proves_nothing() {
    let newer = |w: &mut World| {
        waiting(w);
        w.pod(0, &json!({"metadata": {"generation": 2}}));
    };
    assert_eq!(presence(newer), Presence::Unhealthy);
}

#[test]
fn a_kubelet_that_has_said_nothing_yet_proves_nothing() {
    let silent = |w: &mut World| {
        waiting(w);
        w.pod(0, &json!({"status": {"startTime": null}}));
    };
    assert_eq!(presence(silent), Presence::Unhealthy);
}

#[test]
fn an_unreachable_node_is_no_proof_of_down() {
    assert_eq!(
        presence(|w| {
            w.unreachable_node("n0");
        }),
        Presence::Unreachable
    );
    let waiting_there = |w: &mut World| {
        waiting(w);
        w.unreachable_node("n0");
    };
    assert_eq!(presence(waiting_there), Presence::Unreachable);
}

#[test]
fn a_node_is_gone_only_after_forty_seconds() {
    assert_eq!(presence(|w| node_missing(w, 0)), Presence::Unreachable);
    assert_eq!(presence(|w| node_missing(w, 39)), Presence::Unreachable);
    assert_eq!(
        presence(|w| node_missing(w, 40)),
        down(ProofOfDown::NodeGone)
    );
}

#[test]
fn a_missing_node_that_nobody_remembers_missing_is_not_gone() {
    let forgotten = |w: &mut World| {
        w.nodes.as_mut().unwrap().remove("n0");
    };
    assert_eq!(presence(forgotten), Presence::Unreachable);
}

#[test]
fn a_node_that_was_declared_off_proves_down() {
    let taint = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]}});
    let off = |w: &mut World| {
        w.unreachable_node("n0").node("n0", &taint);
    };
    assert_eq!(presence(off), down(ProofOfDown::NodeOutOfService));
}

#[test]
fn without_the_right_to_read_nodes_no_kubelet_is_believed() {
    let blind = |w: &mut World| {
        waiting(w);
        w.nodes = None;
    };
    assert_eq!(presence(blind), Presence::Unhealthy);
    assert_eq!(presence(|w| w.nodes = None), Presence::Serving);
}

#[test]
fn the_plan_wakes_when_a_missing_node_will_be_gone() {
    let mut world = World::settled(3);
    node_missing(&mut world, 10);
    let plan = world.plan();
    assert_eq!(plan.wake_at, Some(Time(NOW + 30_000)));
    assert!(reasons(&plan).contains(&"NodeUnreachable orders-0".to_owned()));
}
