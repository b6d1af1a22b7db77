//! Services that lead to members: ours are kept, somebody's own are named and never touched, and a
//! sidecar takes no primary out of reach.

use crate::common::*;
use ensemble_planner::memory::Kind;
use serde_json::{Value, json};

/// Three members, orders-0 leads, and all Services are as they are to be.
fn served() -> World {
    let mut world = World::led(3, 0);
    let plan = world.plan();
    for name in ["orders-primary", "orders-replicas"] {
        let mut service = body(&plan, Kind::Service, name);
        service["metadata"]["uid"] = format!("uid-{name}").into();
        world.services.insert(name.into(), service);
    }
    for ordinal in 0..3 {
        containers(&mut world, ordinal, true, true);
    }
    assert_eq!(of_services(&world), [""; 0]);
    world
}

fn containers(world: &mut World, ordinal: u32, engine: bool, sidecar: bool) {
    let one = |name: &str, ready: bool| {
        json!({"name": name, "image": "app:1", "containerID": "run-1", "imageID": "sha",
               "restartCount": 0, "ready": ready, "state": {"running": {}}})
    };
    let ready = if engine && sidecar { "True" } else { "False" };
    let conditions =
        json!([{"type": "Ready", "status": ready}, {"type": "PodScheduled", "status": "True"}]);
    let both = json!([one("app", engine), one("exporter", sidecar)]);
    world.pod(
        ordinal,
        &json!({"status": {"containerStatuses": both, "conditions": conditions}}),
    );
}

fn of_services(world: &World) -> Vec<String> {
    let all = written(&world.plan());
    all.into_iter()
        .filter(|w| w.contains(" Service "))
        .collect()
}

fn primary(world: &mut World) -> &mut Value {
    &mut world.services.get_mut("orders-primary").unwrap()["metadata"]
}

#[test]
fn a_foreign_service_of_our_name_is_named_and_left_as_it_is() {
    let foreign = [
        json!([{"uid": "somebody", "controller": true}]),
        Value::Null,
    ];
    for owners in foreign {
        let mut world = served();
        primary(&mut world)["ownerReferences"] = owners;
        primary(&mut world)["annotations"] = Value::Null;
        let plan = world.plan();
        assert_eq!(reasons(&plan), ["NameTaken"]);
        assert!(message(&plan, "NameTaken").contains("Service orders-primary exists"));
        assert_eq!(of_services(&world), [""; 0]);
        world.services.remove("orders-primary");
        assert_eq!(of_services(&world), ["Create Service orders-primary"]);
    }
}

#[test]
fn a_service_that_our_watch_does_not_show_is_looked_at_again() {
    for name in ["orders-primary", "orders-members"] {
        let mut world = served();
        world.services.remove(name);
        world.taken(Kind::Service, name, false);
        let plan = world.plan();
        assert_eq!(reasons(&plan), ["NameTaken"], "{name}");
        let next = plan.report.steps[0].blocker.as_ref().unwrap();
        let expected = format!("kubectl get service {name} -n shop -o yaml");
        assert_eq!(next.next_command, expected);
        assert_eq!(of_services(&world), [""; 0]);
        assert_eq!(
            of_services(world.after(1)),
            [format!("Look Service {name}")]
        );
        world.memory.taken.clear();
        assert_eq!(of_services(&world), [format!("Create Service {name}")]);
    }
}

#[test]
fn a_headless_service_that_the_user_named_and_made_serves_and_is_looked_at_again() {
    let mut world = served();
    world.spec(&json!({"serviceName": "theirs"}));
    world.taken(Kind::Service, "theirs", false);
    assert_eq!(reasons(&world.plan()), [""; 0]);
    assert_eq!(of_services(&world), [""; 0]);
    assert_eq!(of_services(world.after(1)), ["Look Service theirs"]);
}

#[test]
fn only_a_service_that_is_ours_by_its_owner_is_deleted() {
    let none = json!({"services": {"primary": false, "replicas": true}});
    let mut world = served();
    world.spec(&none);
    assert_eq!(of_services(&world), ["Discard Service orders-primary"]);
    // Somebody's copy of ours: the same labels and the same annotation, and no owner.
    primary(&mut world)["ownerReferences"] = Value::Null;
    assert_eq!(of_services(&world), [""; 0]);
    primary(&mut world)["ownerReferences"] = json!([{"uid": "somebody", "controller": true}]);
    assert_eq!(of_services(&world), [""; 0]);
    let mut copied = served();
    let copy = copied.services["orders-primary"].clone();
    copied.services.insert("my-copy".into(), copy);
    assert_eq!(of_services(copied.spec(&json!({"replicas": 2}))), [""; 0]);
}

#[test]
fn a_service_of_a_former_ensemble_of_this_name_is_taken_back() {
    let mut world = served();
    primary(&mut world)["ownerReferences"] = Value::Null;
    assert_eq!(of_services(&world), ["Patch Service orders-primary"]);
    assert_eq!(reasons(&world.plan()), [""; 0]);
}

#[test]
fn a_sidecar_that_is_not_ready_does_not_take_the_primary_out_of_its_service() {
    let mut world = served();
    containers(&mut world, 0, true, false);
    let patch = body(&world.plan(), Kind::Service, "orders-primary");
    assert_eq!(patch["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(of_services(&world), ["Patch Service orders-primary"]);
    let stamp = patch["metadata"]["annotations"].clone();
    primary(&mut world)["annotations"] = stamp;
    assert_eq!(of_services(&world), [""; 0]);
    containers(&mut world, 0, true, true);
    let patch = body(&world.plan(), Kind::Service, "orders-primary");
    assert_eq!(patch["spec"]["publishNotReadyAddresses"], false);
}

#[test]
fn a_primary_whose_engine_is_not_ready_is_not_kept_in_its_service() {
    let mut world = served();
    containers(&mut world, 0, false, false);
    assert_eq!(of_services(&world), [""; 0]);
    // A readiness gate that somebody holds: all containers are ready.
    let mut gated = served();
    gated.pod(
        0,
        &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    );
    assert_eq!(of_services(&gated), [""; 0]);
}

#[test]
fn a_primary_is_not_kept_in_its_service_if_another_pod_carries_its_label() {
    let mut world = served();
    containers(&mut world, 0, true, false);
    world.pod(1, &json!({"metadata": {"labels": {"role": "primary"}}}));
    assert_eq!(of_services(&world), [""; 0]);
    let mut ending = served();
    containers(&mut ending, 0, true, false);
    assert_eq!(of_services(ending.leaving(0, 1)), [""; 0]);
    let mut replica = served();
    containers(&mut replica, 1, true, false);
    assert_eq!(of_services(&replica), [""; 0]);
}
