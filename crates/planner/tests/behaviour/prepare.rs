//! Before anybody is touched, a new template is stored, tried at the API server, and its images are
//! pulled on the nodes concerned.

use crate::common::*;
use ensemble_planner::Time;
use ensemble_planner::memory::{Check, Kind};
use ensemble_planner::render;
use serde_json::json;

fn helper(tag: &str, node: &str) -> String {
    render::prefetch_name("orders", &revision_name(tag), node)
}

#[test]
fn a_new_template_is_stored_tried_and_pulled_before_the_first_member_is_touched() {
    let mut world = World::settled(3);
    world.image("2");
    let plan = world.plan();
    assert_eq!(
        written(&plan),
        [format!("Create Revision {}", revision_name("2"))]
    );
    assert_eq!(granted(&world), [""; 0]);

    world.revision("2", 2);
    assert_eq!(
        written(&world.plan()),
        [format!("Check {}", revision_name("2"))]
    );
    assert_eq!(granted(&world), [""; 0]);

    world.passed("2");
    assert_eq!(
        written(&world.plan()),
        [format!("Check {}", revision_name("1"))]
    );
    assert_eq!(granted(&world), [""; 0]);

    world.passed("1");
    let plan = world.plan();
    let pulls = ["n0", "n1", "n2"].map(|n| format!("Create Pod {}", helper("2", n)));
    assert_eq!(written(&plan), pulls);
    assert!(message(&plan, "Pulling").starts_with("pulling app:2 for orders-0 on n0"));
    assert_eq!(granted(&world), [""; 0]);

    for node in ["n0", "n1"] {
        world
            .memory
            .pulled
            .insert((revision_name("2"), node.into()));
    }
    assert_eq!(granted(&world), [""; 0]);
    world
        .memory
        .pulled
        .insert((revision_name("2"), "n2".into()));
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn a_helper_runs_nothing_on_the_nodes_of_members_and_no_service_selects_it() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).passed("2").passed("1");
    let pod = body(&world.plan(), Kind::Pod, &helper("2", "n1"));
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod["spec"]["containers"][0]["image"], "app:2");
    assert_eq!(
        pod["spec"]["containers"][0]["command"],
        json!([render::PREFETCH_COMMAND])
    );
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    assert_eq!(pod["metadata"]["labels"].get("ensemble.dev/group"), None);
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], UID);
}

#[test]
fn pulling_ahead_can_be_skipped() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).passed("2").passed("1");
    world.spec(&json!({"rollout": {"prePull": "Skip"}}));
    assert_eq!(granted(&world), ["orders-2"]);
    assert_eq!(written(&world.plan()), [""; 0]);
}

#[test]
fn a_change_without_a_new_image_pulls_nothing() {
    let mut world = World::settled(3);
    let mut template = template("1");
    template.insert("metadata".into(), json!({"labels": {"tier": "db"}}));
    let name = ensemble_planner::revision::name("orders", &template);
    let mut stored = world.revisions[&revision_name("1")].clone();
    stored["metadata"]["name"] = name.clone().into();
    stored["data"]["template"] = template.clone().into();
    stored["revision"] = 2.into();
    world.revisions.insert(name.clone(), stored);
    world.spec(&json!({"template": template})).passed("1");
    world
        .memory
        .checks
        .insert(name, Check::Passed("other".into()));
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn a_refused_template_touches_nobody_and_says_what_the_api_server_said() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).refused("2", 5);
    let plan = world.plan();
    assert_eq!((granted(&world), written(&plan)), (vec![], vec![]));
    assert_eq!(reasons(&plan)[0], "TemplateRefused");
    let blocker = plan.report.first_blocked().unwrap().1;
    assert_eq!(blocker.message, "spec.containers[0].image: bad");
    assert_eq!(blocker.next_command, "ensemble undo orders");
    assert_eq!(plan.wake_at, Some(Time(NOW + 5000)));
    let again = written(&world.after(5).plan());
    assert_eq!(again, [format!("Check {}", revision_name("2"))]);
}

#[test]
fn an_amount_that_the_api_server_cannot_read_is_named_by_its_field() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).refused("2", 5);
    let stored = world.revisions.get_mut(&revision_name("2")).unwrap();
    let container = &mut stored["data"]["template"]["spec"]["containers"][0];
    container["name"] = "db".into();
    container["resources"] = json!({"requests": {"memory": "lots"}});
    let plan = world.plan();
    let message = &plan.report.first_blocked().unwrap().1.message;
    assert_eq!(
        message,
        "spec.template.spec.containers[db].resources.requests.memory: 'lots' is no amount; \
         write for example '512Mi'; spec.containers[0].image: bad"
    );
}

#[test]
fn while_a_template_is_refused_members_are_repaired_at_the_old_revision() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).refused("2", 5);
    let plan = world.gone(1).ended(0, "Evicted").plan();
    let pod = body(&plan, Kind::Pod, "orders-1");
    assert_eq!(
        pod["metadata"]["labels"]["controller-revision-hash"],
        revision_name("1")
    );
    assert_eq!(pod["spec"]["containers"][0]["image"], "app:1");
    assert_eq!(granted(&world), ["orders-0"]);
}

#[test]
fn a_missing_image_touches_nobody_and_names_image_node_and_remedy() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).passed("2").passed("1");
    for node in ["n0", "n1", "n2"] {
        world.helper("2", node, "ErrImagePull");
    }
    let plan = world.plan();
    assert_eq!((granted(&world), written(&plan)), (vec![], vec![]));
    let (_, blocker) = plan.report.first_blocked().unwrap();
    assert_eq!(blocker.reason.as_str(), "ImageMissing");
    assert!(blocker.message.contains("app:2") && blocker.message.contains("n0"));
    assert_eq!(blocker.next_command, "ensemble undo orders");
    assert_eq!(status(&plan).unwrap().ready_replicas, 3);
}

#[test]
fn one_node_that_cannot_pull_is_enough_to_touch_nobody() {
    let mut world = World::settled(3);
    world.prepared("2");
    world
        .memory
        .pulled
        .remove(&(revision_name("2"), "n1".into()));
    world.helper("2", "n1", "ImagePullBackOff");
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(reasons(&world.plan())[0], "ImageMissing");
}

#[test]
fn while_an_image_is_missing_members_are_repaired_at_the_old_revision() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).passed("2").passed("1");
    world.helper("2", "n0", "ErrImagePull").gone(1);
    let pod = body(&world.plan(), Kind::Pod, "orders-1");
    assert_eq!(pod["spec"]["containers"][0]["image"], "app:1");
}

#[test]
fn a_helper_that_cannot_be_created_is_reported() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).passed("2").passed("1");
    world.failure(
        Kind::Pod,
        &helper("2", "n1"),
        ensemble_api::Reason::QuotaExceeded,
    );
    let plan = world.plan();
    assert!(message(&plan, "PullRefused").contains("said the API server"));
    assert_eq!(granted(&world), [""; 0]);
}

#[test]
fn a_helper_that_has_pulled_is_cleared_away() {
    let mut world = World::settled(3);
    world.prepared("2").helper("2", "n1", "RunContainerError");
    assert_eq!(
        written(&world.plan()),
        [format!("Discard Pod {}", helper("2", "n1"))]
    );
}

#[test]
fn helpers_of_a_former_target_are_cleared_away() {
    let mut world = World::settled(3);
    world
        .prepared("2")
        .helper("2", "n1", "ErrImagePull")
        .image("1");
    let writes = written(&world.plan());
    assert!(writes.contains(&format!("Discard Pod {}", helper("2", "n1"))));
}

#[test]
fn nodes_of_members_that_are_down_and_nodes_that_do_not_answer_are_not_waited_for() {
    let mut world = World::settled(3);
    world.image("2").revision("2", 2).passed("2").passed("1");
    world.waiting(0, "CrashLoopBackOff").unreachable_node("n1");
    let plan = world.plan();
    assert_eq!(
        written(&plan),
        [format!("Create Pod {}", helper("2", "n2"))]
    );
}

#[test]
fn what_some_member_already_runs_needs_no_trial() {
    let mut world = World::settled(3);
    world.prepared("2").member(2, "2");
    world.memory.checks.clear();
    assert_eq!(granted(&world), ["orders-1"]);
}

#[test]
fn a_template_of_which_the_api_server_makes_the_same_pod_rolls_nobody() {
    let mut world = World::settled(3);
    world.prepared("2");
    world
        .memory
        .checks
        .insert(revision_name("2"), Check::Passed("same".into()));
    world
        .memory
        .checks
        .insert(revision_name("1"), Check::Passed("same".into()));
    let plan = world.plan();
    assert_eq!(granted(&world), [""; 0]);
    assert_eq!(
        written(&plan),
        [format!("Patch Revision {}", revision_name("2"))]
    );
    let patch = body(&plan, Kind::Revision, &revision_name("2"));
    assert_eq!(
        patch["metadata"]["annotations"]["ensemble.dev/same-as"],
        revision_name("1")
    );

    let stored = world.revisions.get_mut(&revision_name("2")).unwrap();
    stored["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
    world.store_status();
    assert_quiet(&world.plan());
    let status = world.snapshot().ensemble.status;
    assert_eq!(status.updated_replicas, 3);
    assert_eq!(status.current_revision(), revision_name("2"));
}

#[test]
fn a_paused_rollout_touches_nobody_but_repairs_at_the_old_revision() {
    let mut world = World::settled(3);
    world
        .prepared("2")
        .spec(&json!({"rollout": {"paused": true}}));
    let plan = world.gone(1).ended(0, "Evicted").plan();
    let pod = body(&plan, Kind::Pod, "orders-1");
    assert_eq!(pod["spec"]["containers"][0]["image"], "app:1");
    assert_eq!(granted(&world), ["orders-0"]);
    assert!(reasons(&plan).contains(&"Paused".to_owned()));
    world
        .member(0, "1")
        .member(1, "1")
        .spec(&json!({"rollout": {"paused": false}}));
    assert_eq!(granted(&world), ["orders-2"]);
}

#[test]
fn a_paused_ensemble_is_still_created() {
    let mut world = World::begun(3);
    world.spec(&json!({"rollout": {"paused": true}}));
    assert_eq!(created_members(&world.plan()).len(), 6);
}
