//! Pods that admission made something else of than was sent: only what a change changes is written, and
//! what restarts is told by the pod that is there.

use crate::common::*;
use ensemble_api::report::Action;
use ensemble_api::{Step, labels};
use ensemble_planner::memory::Check;
use ensemble_planner::method::{InPlace, in_place};
use ensemble_planner::{Plan, render, revision};
use serde_json::{Map, Value, json};

fn with(image: &str, tier: &str) -> Value {
    json!({
        "metadata": {"labels": {"tier": tier}},
        "spec": {"containers": [{"name": "app", "image": image},
                                {"name": "exporter", "image": "exporter:1"}]},
    })
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn name_of(template: &Value) -> String {
    revision::name("orders", &map(template))
}

/// Three members of the first template whose images come from a mirror; orders-0 leads. The second is
/// asked for, and the API server was asked what it makes of it.
fn mirrored(from: &Value, to: &Value) -> World {
    let mut world = World::led(3, 0);
    world.spec(&json!({"rollout": {"method": "InPlaceIfPossible", "prePull": "Skip"}}));
    for (template, number) in [(from, 2), (to, 3)] {
        let name = name_of(template);
        let mut body = render::revision(&world.snapshot(), &name, number);
        body["data"]["template"] = template.clone();
        body["metadata"]["uid"] = format!("rev-{number}").into();
        world.revisions.insert(name.clone(), body);
        let passed = Check::Passed(number.to_string());
        world.memory.checks.insert(name.clone(), passed);
        let mirror = |c: &Value| {
            let image = format!("mirror/{}", c["image"].as_str().unwrap());
            (c["name"].as_str().unwrap().to_owned(), image)
        };
        let containers = template["spec"]["containers"].as_array().unwrap();
        let images = containers.iter().map(mirror).collect();
        world.memory.admitted.insert(name, images);
    }
    for ordinal in 0..3 {
        let pod = world.pods.get_mut(&format!("orders-{ordinal}")).unwrap();
        pod["spec"]["containers"] = json!([
            {"name": "app", "image": format!("mirror/{}", from["spec"]["containers"][0]["image"].as_str().unwrap())},
            {"name": "exporter", "image": "mirror/exporter:1"},
            // A sidecar that admission put in.
            {"name": "mesh", "image": "mesh:7"},
        ]);
        let run = |name: &str| {
            json!({"name": name, "restartCount": 0, "containerID": format!("{name}-run-1"),
                   "state": {"running": {}}})
        };
        pod["status"]["containerStatuses"] = json!([run("app"), run("exporter"), run("mesh")]);
        let labels = json!({"controller-revision-hash": name_of(from), "tier": "silver"});
        world.pod(ordinal, &json!({"metadata": {"labels": labels}}));
    }
    world.ensemble["spec"]["template"] = to.clone();
    world.ensemble["metadata"]["generation"] = 2.into();
    world.reached(&name_of(from));
    world
}

fn write(world: &World, ordinal: u32, from: &Value, to: &Value) -> Value {
    let pod = &world.pods[&format!("orders-{ordinal}")];
    let images = world.memory.images(&name_of(to));
    match in_place(pod, &name_of(to), 3, &map(from), &map(to), images).unwrap() {
        InPlace::Pod(pod) | InPlace::Resize(pod) => pod,
    }
}

fn images(pod: &Value) -> Vec<String> {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let image = |c: &Value| c["image"].as_str().unwrap().to_owned();
    containers.iter().map(image).collect()
}

fn step(plan: &Plan, member: &str) -> Step {
    let mut steps = plan.report.steps.iter();
    let found = steps.find(|s| s.member.as_deref() == Some(member) && s.blocker.is_none());
    found
        .cloned()
        .unwrap_or_else(|| panic!("{:?}", plan.report))
}

#[test]
fn a_label_leaves_images_that_admission_rewrote_as_they_are() {
    let (from, to) = (with("app:1", "silver"), with("app:1", "gold"));
    let mut world = mirrored(&from, &to);
    assert_eq!(granted(&world), ["orders-2"]);
    let step = step(&world.plan(), "orders-2");
    assert_eq!(step.action, Action::Relabel);
    assert!(step.cause.contains("nothing restarts"), "{}", step.cause);
    let pod = write(&world, 2, &from, &to);
    assert_eq!(
        images(&pod),
        ["mirror/app:1", "mirror/exporter:1", "mesh:7"]
    );
    assert_eq!(pod["metadata"]["labels"]["tier"], "gold");
    world.pods.insert("orders-2".into(), pod);
    assert_eq!(granted(&world), ["orders-1"], "and nobody is waited for");
}

#[test]
fn a_label_moves_no_leader_though_the_leaders_image_was_rewritten() {
    let (from, to) = (with("app:1", "silver"), with("app:1", "gold"));
    let mut world = mirrored(&from, &to);
    for ordinal in [2, 1] {
        let pod = write(&world, ordinal, &from, &to);
        world.pods.insert(format!("orders-{ordinal}"), pod);
    }
    assert_eq!(granted(&world), ["orders-0"]);
    assert_eq!(switchover(&world.plan()), None);
}

#[test]
fn a_new_image_is_written_as_the_api_server_makes_it_and_restarts_that_container_alone() {
    let (from, to) = (with("app:1", "silver"), with("app:2", "silver"));
    let mut world = mirrored(&from, &to);
    assert_eq!(step(&world.plan(), "orders-2").action, Action::InPlace);
    let mut pod = write(&world, 2, &from, &to);
    assert_eq!(
        images(&pod),
        ["mirror/app:2", "mirror/exporter:1", "mesh:7"]
    );
    let replaces = &pod["metadata"]["annotations"][labels::REPLACES];
    assert_eq!(replaces, "app=app-run-1");
    pod["metadata"]["generation"] = 2.into();
    pod["status"]["observedGeneration"] = 2.into();
    world.pods.insert("orders-2".into(), pod);
    assert!(granted(&world).is_empty(), "its container has to restart");
    world.pods.get_mut("orders-2").unwrap()["status"]["containerStatuses"][0]["containerID"] =
        "app-run-2".into();
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn an_image_that_the_pod_has_already_restarts_nothing() {
    let (from, to) = (with("app:1", "silver"), with("mirror/app:1", "silver"));
    let mut world = mirrored(&from, &to);
    world
        .memory
        .admitted
        .insert(name_of(&to), [("app".into(), "mirror/app:1".into())].into());
    assert_eq!(step(&world.plan(), "orders-2").action, Action::Relabel);
    let pod = write(&world, 2, &from, &to);
    assert_eq!(pod["metadata"]["annotations"][labels::REPLACES], "");
}

#[test]
fn the_api_server_is_asked_again_for_the_images_if_nobody_remembers() {
    let (from, to) = (with("app:1", "silver"), with("app:2", "silver"));
    let mut world = mirrored(&from, &to);
    let mut pod = write(&world, 2, &from, &to);
    pod["status"]["containerStatuses"][0]["containerID"] = "app-run-2".into();
    world.pods.insert("orders-2".into(), pod);
    world.memory.checks.clear();
    world.memory.admitted.clear();
    assert!(granted(&world).is_empty());
    let asks = format!("Check {}", name_of(&to));
    assert!(written(&world.plan()).contains(&asks));
    // One that is missing meanwhile still comes at the newest revision.
    let mut missing = World::led(3, 0);
    std::mem::swap(&mut missing, &mut world);
    let plan = missing.gone(1).plan();
    let body = body(&plan, ensemble_planner::memory::Kind::Pod, "orders-1");
    assert_eq!(
        body["metadata"]["labels"]["controller-revision-hash"],
        name_of(&to)
    );
}

/// The write to orders-2 was answered with the old image.
fn put_back() -> (World, Value, Value) {
    let (from, to) = (with("app:1", "silver"), with("app:2", "silver"));
    let mut world = mirrored(&from, &to);
    let mut pod = write(&world, 2, &from, &to);
    pod["spec"]["containers"][0]["image"] = "mirror/app:1".into();
    world.pods.insert("orders-2".into(), pod);
    (world, from, to)
}

#[test]
fn an_image_that_admission_put_back_is_named_and_its_member_recreated() {
    let (world, _, to) = put_back();
    let plan = world.plan();
    let words =
        "orders-2: an admission rule changed the image of container app back to mirror/app:1";
    assert_eq!(message(&plan, "ImagePutBack"), words);
    assert_eq!(granted(&world), ["orders-2"], "nobody waits for a restart");
    let step = step(&plan, "orders-2");
    assert_eq!(step.action, Action::Recreate);
    assert!(step.cause.contains("an admission rule"), "{}", step.cause);
    assert_eq!(status(&plan).unwrap().updated_replicas, 0);
    assert_eq!(world.snapshot().pods["orders-2"].revision(), name_of(&to));
}

#[test]
fn an_image_that_somebody_changes_later_is_theirs() {
    let (mut world, ..) = put_back();
    let status = &mut world.pods.get_mut("orders-2").unwrap()["status"];
    status["containerStatuses"][0]["containerID"] = "app-run-2".into();
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn a_restart_that_is_waited_for_is_not_forgotten_for_a_label() {
    let (from, to) = (with("app:1", "silver"), with("app:2", "silver"));
    let world = mirrored(&from, &to);
    let pod = write(&world, 2, &from, &to);
    let next = with("app:2", "gold");
    let again = in_place(
        &pod,
        &name_of(&next),
        4,
        &map(&to),
        &map(&next),
        &Default::default(),
    );
    let Some(InPlace::Pod(pod)) = again else {
        panic!("nothing is resized");
    };
    assert_eq!(
        pod["metadata"]["annotations"][labels::REPLACES],
        "app=app-run-1"
    );
    assert_eq!(images(&pod)[0], "mirror/app:2");
}

#[test]
fn where_a_kubelet_does_not_tell_generations_members_are_recreated() {
    let (from, to) = (with("app:1", "silver"), with("app:2", "silver"));
    let mut world = mirrored(&from, &to);
    world.pod(2, &json!({"status": {"observedGeneration": null}}));
    let step_ = step(&world.plan(), "orders-2");
    assert_eq!(step_.action, Action::Recreate);
    assert!(step_.cause.contains("the kubelet of n2"), "{}", step_.cause);
    // A stale number of somebody else's does not help an old kubelet.
    let mut world = mirrored(&from, &to);
    let info = json!({"status": {"nodeInfo": {"kubeletVersion": "v1.32.7+k3s1"}}});
    world.node("n2", &info);
    let step_ = step(&world.plan(), "orders-2");
    assert!(step_.cause.contains("(version 1.32)"), "{}", step_.cause);
}

#[test]
fn a_label_needs_no_word_of_a_kubelet() {
    let (from, to) = (with("app:1", "silver"), with("app:1", "gold"));
    let mut world = mirrored(&from, &to);
    world.pod(2, &json!({"status": {"observedGeneration": null}}));
    assert_eq!(step(&world.plan(), "orders-2").action, Action::Relabel);
    let pod = write(&world, 2, &from, &to);
    world.pods.insert("orders-2".into(), pod);
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn an_image_that_nobody_knows_the_mirror_of_comes_with_a_new_pod() {
    let (from, to) = (with("app:1", "silver"), with("app:2", "silver"));
    let mut world = mirrored(&from, &to);
    world.memory.admitted.clear();
    let step = step(&world.plan(), "orders-2");
    assert_eq!(step.action, Action::Recreate);
    assert!(step.cause.contains("mirror/app:1"), "{}", step.cause);
}
