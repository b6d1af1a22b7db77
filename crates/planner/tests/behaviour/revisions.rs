//! A revision is what the user wrote about a member, under a name made of its content.

use crate::common::*;
use ensemble_planner::memory::Kind;
use serde_json::json;

#[test]
fn a_new_template_gets_the_next_number() {
    let mut world = World::settled(3);
    world.revision("2", 4).image("3");
    let stored = body(&world.plan(), Kind::Revision, &revision_name("3"));
    assert_eq!(stored["revision"], 5);
    assert_eq!(stored["data"]["template"], json!(template("3")));
}

#[test]
fn the_first_template_gets_number_one() {
    let stored = body(&World::new(1).plan(), Kind::Revision, &revision_name("1"));
    assert_eq!(stored["revision"], 1);
}

#[test]
fn going_back_reuses_the_old_revision_under_a_new_number() {
    let mut world = World::settled(3);
    world.prepared("2");
    (0..3).for_each(|o| drop_reference(world.member(o, "2")));
    world.store_status().image("1");
    let plan = world.plan();
    let number = format!("Patch Revision {}", revision_name("1"));
    assert!(written(&plan).contains(&number), "{:?}", written(&plan));
    let patch = body(&plan, Kind::Revision, &revision_name("1"));
    assert_eq!(patch, json!({"revision": 3}));
    assert_eq!(granted(&world), [""; 0], "not before the number is stored");
    world.prepared("1");
    assert_eq!(granted(&world), ["orders-2"]);
}

fn drop_reference(_: &mut World) {}

#[test]
fn a_revision_left_by_a_former_ensemble_is_taken_back() {
    let mut world = World::settled(1);
    let stored = world.revisions.get_mut(&revision_name("1")).unwrap();
    stored["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    assert_eq!(
        written(&world.plan()),
        [format!("Patch Revision {}", revision_name("1"))]
    );
}

#[test]
fn a_chain_of_revisions_that_give_the_same_pod_rolls_nobody() {
    let mut world = World::settled(3);
    world.revision("2", 2).revision("3", 3).image("3");
    let link = |world: &mut World, from: &str, to: &str| {
        let stored = world.revisions.get_mut(&revision_name(from)).unwrap();
        stored["metadata"]["annotations"] = json!({"ensemble.dev/same-as": revision_name(to)});
    };
    link(&mut world, "3", "2");
    link(&mut world, "2", "1");
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(written(&world.plan()), [""; 0]);
    assert_eq!(status(&world.plan()).unwrap().updated_replicas, 3);
    // A circle does no harm.
    link(&mut world, "1", "3");
    assert_eq!(status(&world.plan()).unwrap().updated_replicas, 3);
}

#[test]
fn the_current_revision_is_the_one_that_last_reached_everybody() {
    let mut world = World::settled(2);
    world.prepared("2").member(1, "2").store_status();
    let status = world.snapshot().ensemble.status;
    assert_eq!(status.revision(), revision_name("2"));
    assert_eq!(status.current_revision(), revision_name("1"));
    world.member(0, "2").store_status();
    assert_eq!(
        world.snapshot().ensemble.status.current_revision(),
        revision_name("2")
    );
}

#[test]
fn what_is_rendered_is_not_part_of_a_revision_so_another_version_of_us_rolls_nobody() {
    let mut world = World::settled(3);
    for pod in world.pods.values_mut() {
        pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "ensemble-of-old".into();
        pod["spec"]["containers"][0]["env"] = json!([]);
        pod["spec"]["subdomain"] = "as-it-was".into();
    }
    assert_quiet(&world.plan());
}
