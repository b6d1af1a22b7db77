//! A pod deleted, evicted, Failed or Succeeded is created again on its own claims once the old one
//! is really gone; never two pods for one identity; never by force.

use crate::common::*;
use ensemble_api::status::Method;
use ensemble_planner::Time;
use ensemble_planner::memory::Kind;
use serde_json::json;

#[test]
fn a_deleted_pod_is_created_again_on_its_own_claims() {
    let mut world = World::settled(3);
    let plan = world.gone(1).plan();
    assert_eq!(created(&plan), ["Pod orders-1"]);
    let pod = body(&plan, Kind::Pod, "orders-1");
    let claim = &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
    assert_eq!(claim, "data-orders-1");
}

#[test]
fn all_deleted_pods_are_created_again_at_once() {
    let mut world = World::settled(3);
    let plan = world.passed("1").gone(0).gone(1).gone(2).plan();
    assert_eq!(
        created(&plan),
        ["Pod orders-0", "Pod orders-1", "Pod orders-2"]
    );
}

#[test]
fn a_pod_that_has_ended_makes_way_before_its_successor_comes() {
    for reason in ["Evicted", "", "NodeShutdown"] {
        let mut world = World::settled(3);
        let plan = world.ended(1, reason).plan();
        assert_eq!(granted(&world), ["orders-1"], "{reason}");
        assert_eq!(created(&plan), [""; 0], "{reason}");
        let intent = &status(&plan).unwrap().in_flight[0];
        assert_eq!(
            (intent.method, intent.uid.as_str()),
            (Method::Clear, "pod-1")
        );
    }
}

#[test]
fn all_pods_that_have_ended_make_way_at_once() {
    let mut world = World::settled(3);
    world
        .ended(0, "Evicted")
        .ended(1, "Evicted")
        .ended(2, "Evicted");
    assert_eq!(granted(&world), ["orders-0", "orders-1", "orders-2"]);
}

#[test]
fn while_a_pod_is_ending_no_second_one_is_created() {
    let mut world = World::settled(3);
    let plan = world.leaving(1, 5).plan();
    assert_eq!(created(&plan), [""; 0]);
    assert_eq!(granted(&world), [""; 0]);
    assert!(reasons(&plan).contains(&"Terminating orders-1".to_owned()));
}

#[test]
fn the_plan_wakes_when_an_ending_pod_will_count_as_stuck() {
    let mut world = World::settled(3);
    let plan = world.leaving(1, 5).plan();
    assert_eq!(plan.wake_at, Some(Time(NOW + 55_000)));
}

#[test]
fn a_pod_stuck_ending_is_reported_with_its_node_and_not_forced() {
    let mut world = World::settled(3);
    let plan = world.leaving(1, 61).plan();
    assert!(message(&plan, "StuckTerminating").contains("orders-1 on node n1"));
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(written(&plan), [""; 0]);
}

fn blocked(plan: &ensemble_planner::Plan, reason: &str) -> ensemble_api::Blocker {
    let blockers = plan.report.steps.iter().filter_map(|s| s.blocker.clone());
    let mut same = blockers.filter(|b| b.reason.as_str() == reason);
    same.next()
        .unwrap_or_else(|| panic!("no {reason} in {:?}", reasons(plan)))
}

#[test]
fn a_pod_that_ends_on_a_node_that_does_not_answer_names_the_node_and_the_choices() {
    for (seconds, reason) in [(5, "NodeUnreachable"), (61, "StuckTerminating")] {
        let mut world = World::settled(3);
        let plan = world.leaving(1, seconds).unreachable_node("n1").plan();
        let blocker = blocked(&plan, reason);
        assert!(
            blocker.message.contains("its node n1 does not answer"),
            "{blocker:?}"
        );
        let taint =
            "kubectl taint node n1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
        for choice in [taint, "kubectl delete node n1", "answers again"] {
            assert!(blocker.clears_when.contains(choice), "{blocker:?}");
        }
        assert_eq!(blocker.next_command, "kubectl describe node n1");
        assert!(!format!("{:?}", plan.report).contains("--force"));
        assert_eq!(granted(&world), [""; 0]);
    }
}

#[test]
fn a_member_that_leaves_on_a_node_that_does_not_answer_says_so() {
    let mut world = World::settled(3);
    world.spec(&json!({"replicas": 2})).leaving(2, 5);
    assert_eq!(reasons(&world.plan()), [""; 0]);
    let plan = world.unreachable_node("n2").plan();
    assert_eq!(reasons(&plan), ["NodeUnreachable orders-2"]);
}

#[test]
fn a_pod_with_a_long_grace_period_is_given_it() {
    let mut world = World::settled(3);
    let plan = world
        .leaving(1, 61)
        .pod(1, &json!({"metadata": {"deletionGracePeriodSeconds": 600}}));
    assert!(reasons(&plan.plan()).contains(&"Terminating orders-1".to_owned()));
}

type Trouble = (&'static str, fn(&mut World));

#[test]
fn a_member_at_the_newest_revision_that_is_in_trouble_is_left_alone() {
    let trouble: [Trouble; 6] = [
        ("NotReady", |w| {
            w.unhealthy(1, 0);
        }),
        ("CrashLooping", |w| {
            w.waiting(1, "CrashLoopBackOff");
        }),
        ("CrashLooping", |w| {
            w.ended_again(1, 2);
        }),
        ("ImagePullFailing", |w| {
            w.waiting(1, "ImagePullBackOff");
        }),
        ("ContainerFailing", |w| {
            w.waiting(1, "CreateContainerConfigError");
        }),
        ("Unschedulable", |w| {
            w.unscheduled(1, "0/3 nodes fit");
        }),
    ];
    for (reason, change) in trouble {
        let mut world = World::settled(3);
        change(&mut world);
        let plan = world.plan();
        assert_eq!(granted(&world), [""; 0], "{reason}");
        assert_eq!(written(&plan), [""; 0], "{reason}");
        assert_eq!(reasons(&plan), [format!("{reason} orders-1")]);
    }
}

#[test]
fn a_container_that_ended_once_is_not_said_to_crash_again_and_again() {
    let mut world = World::settled(3);
    world.ended_again(1, 0);
    let found = reasons(&world.plan());
    assert!(
        !found.contains(&"CrashLooping orders-1".to_owned()),
        "{found:?}"
    );
    world.ended_again(1, 1);
    let crash = message(&world.plan(), "CrashLooping");
    assert_eq!(
        crash,
        "orders-1: container app ended 2 times (Error, exit code 3)"
    );
}

#[test]
fn an_image_that_cannot_be_pulled_is_named_also_when_the_kubelet_names_the_one_before() {
    let mut world = World::settled(3);
    world.waiting(1, "ErrImagePull").pod(
        1,
        &json!({"status": {"containerStatuses": [{
            "name": "app", "image": "orders:older", "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}},
        }]}}),
    );
    let pull = message(&world.plan(), "ImagePullFailing");
    assert!(!pull.contains("orders:older"), "{pull}");
}

#[test]
fn trouble_is_named_with_member_container_and_cause() {
    let mut world = World::settled(3);
    world
        .waiting(0, "CrashLoopBackOff")
        .waiting(1, "ErrImagePull");
    world.unscheduled(2, "0/3 nodes are available: 3 Insufficient cpu");
    let plan = world.plan();
    let crash = message(&plan, "CrashLooping");
    assert_eq!(
        crash,
        "orders-0: container app ended 4 times (Error, exit code 1)"
    );
    let pull = message(&plan, "ImagePullFailing");
    assert_eq!(
        pull,
        "orders-1 cannot pull app:1 on n1: ErrImagePull said the kubelet"
    );
    assert!(message(&plan, "Unschedulable").contains("3 Insufficient cpu"));
}

#[test]
fn a_pod_that_waits_for_its_volumes_says_so() {
    let mut world = World::settled(1);
    world.unscheduled(0, "pod has unbound immediate PersistentVolumeClaims");
    assert_eq!(reasons(&world.plan()), ["ClaimPending orders-0"]);
}

#[test]
fn a_member_on_an_unreachable_node_is_neither_replaced_nor_created_twice() {
    let mut world = World::settled(3);
    let plan = world.unreachable_node("n1").plan();
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(created(&plan), [""; 0]);
    assert_eq!(reasons(&plan), ["NodeUnreachable orders-1"]);
}

#[test]
fn a_pod_that_lost_its_owner_is_taken_back() {
    let mut world = World::settled(3);
    world.pod(1, &json!({"metadata": {"ownerReferences": null}}));
    let plan = world.plan();
    assert_eq!(written(&plan), ["Patch Pod orders-1"]);
    let patch = body(&plan, Kind::Pod, "orders-1");
    assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], UID);
}

#[test]
fn labels_of_a_pod_that_somebody_changed_are_given_back() {
    for label in [
        "ensemble.dev/ordinal",
        "ensemble.dev/group",
        "ensemble.dev/incarnation",
    ] {
        let mut world = World::settled(3);
        world.pod(1, &json!({"metadata": {"labels": {label: "x"}}}));
        let plan = world.plan();
        assert_eq!(written(&plan), ["Patch Pod orders-1"], "{label}");
        let labels = &body(&plan, Kind::Pod, "orders-1")["metadata"]["labels"];
        assert_eq!(labels["ensemble.dev/ordinal"], "1");
        assert_eq!(labels["ensemble.dev/group"], "members");
        assert_eq!(labels["ensemble.dev/incarnation"], "0");
    }
}

#[test]
fn a_failed_repair_of_labels_waits_before_it_is_tried_again() {
    let mut world = World::settled(3);
    world.pod(
        1,
        &json!({"metadata": {"labels": {"ensemble.dev/group": "x"}}}),
    );
    world.failure(Kind::Pod, "orders-1", ensemble_api::Reason::ApiRefused);
    let plan = world.plan();
    assert_eq!(written(&plan), [""; 0]);
    assert_eq!(plan.wake_at, Some(Time(NOW + 1000)));
}

#[test]
fn a_successor_waits_a_moment_until_its_predecessor_is_no_longer_counted_as_evicted() {
    let mut world = World::settled(3);
    world.gone(1);
    let now = ensemble_planner::Time(NOW);
    world.memory.counted_since.insert("orders-1".into(), now);
    let plan = world.plan();
    assert!(created(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(ensemble_planner::Time(NOW + 5_000)));
    assert_eq!(created(&world.after(5).plan()), ["Pod orders-1"]);
}
