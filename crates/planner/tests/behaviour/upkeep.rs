//! What stands around the members: Service, disruption budget, old revisions, marks.

use crate::common::*;
use ensemble_planner::memory::Kind;
use serde_json::{Value, json};

#[test]
fn the_headless_service_is_created_once_with_the_ports_of_the_template() {
    let mut world = World::settled(1);
    world.services.clear();
    world.ensemble["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([
        {"containerPort": 5432, "name": "sql"}, {"containerPort": 5432}, {"containerPort": 53, "protocol": "UDP"}]);
    let service = body(&world.plan(), Kind::Service, "orders-members");
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
    let selector = json!({"ensemble.dev/ensemble": "orders", "ensemble.dev/group": "members"});
    assert_eq!(service["spec"]["selector"], selector);
    let ports: Vec<&Value> = service["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(ports.len(), 2);
    assert_eq!(
        (&ports[0]["name"], &ports[0]["port"]),
        (&json!("sql"), &json!(5432))
    );
}

#[test]
fn a_service_without_an_owner_is_taken_back() {
    let mut world = World::settled(1);
    let service = world.services.get_mut("orders-members").unwrap();
    service["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    assert_eq!(written(&world.plan()), ["Patch Service orders-members"]);
}

#[test]
fn the_budget_keeps_as_many_as_the_rollout_must_keep() {
    let mut world = World::settled(3);
    world.budgets.clear();
    let budget = body(&world.plan(), Kind::Budget, "orders-members");
    assert_eq!(budget["spec"]["minAvailable"], 2);
    let mut world = World::settled(3);
    world.spec(&json!({"rollout": {"maxUnavailable": 2}}));
    let patch = body(&world.plan(), Kind::Budget, "orders-members");
    assert_eq!(patch["spec"]["minAvailable"], 1);
}

#[test]
fn a_budget_that_somebody_changed_is_put_right() {
    let mut world = World::settled(3);
    let budget = world.budgets.get_mut("orders-members").unwrap();
    budget["spec"] = json!({"maxUnavailable": 3, "selector": budget["spec"]["selector"]});
    let patch = body(&world.plan(), Kind::Budget, "orders-members");
    let spec = &patch["spec"];
    assert_eq!(spec["minAvailable"], 2);
    assert_eq!(spec["maxUnavailable"], json!(null));
}

#[test]
fn a_single_member_can_be_drained() {
    let mut world = World::settled(1);
    world.budgets.clear();
    assert_eq!(written(&world.plan()), [""; 0], "no budget keeps it");
}

fn foreign_budget(world: &mut World, selector: Value) {
    let budget = json!({"metadata": {"name": "theirs", "uid": "theirs"},
                        "spec": {"minAvailable": 1, "selector": selector}});
    world.budgets.insert("theirs".into(), budget);
}

#[test]
fn a_foreign_budget_on_our_members_makes_ours_stand_down_and_is_reported() {
    let selectors = [
        json!({}),
        json!({"matchLabels": {"ensemble.dev/ensemble": "orders"}}),
        json!({"matchExpressions": [{"key": "ensemble.dev/group", "operator": "Exists"}]}),
        json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}),
        json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["y"]}]}),
        json!({"matchExpressions": [{"key": "x", "operator": "FromTheFuture"}]}),
    ];
    for selector in selectors {
        let mut world = World::settled(3);
        foreign_budget(&mut world, selector.clone());
        let plan = world.plan();
        assert_eq!(
            written(&plan),
            ["Discard Budget orders-members"],
            "{selector}"
        );
        assert_eq!(reasons(&plan), ["ForeignBudget"]);
        assert!(message(&plan, "ForeignBudget").contains("theirs"));
    }
}

#[test]
fn a_foreign_budget_on_others_is_nobodys_business() {
    let selectors = [
        json!({"matchLabels": {"app": "other"}}),
        json!({"matchExpressions": [{"key": "ensemble.dev/ensemble", "operator": "In", "values": ["x"]}]}),
        json!({"matchExpressions": [{"key": "ensemble.dev/group", "operator": "DoesNotExist"}]}),
    ];
    for selector in selectors {
        let mut world = World::settled(3);
        foreign_budget(&mut world, selector);
        assert_quiet(&world.plan());
    }
}

#[test]
fn a_foreign_budget_is_advice_and_never_makes_an_ensemble_unready() {
    let mut world = World::settled(3);
    foreign_budget(&mut world, json!({}));
    world.budgets.remove("orders-members");
    world.store_status().after(3600);
    let plan = world.plan();
    assert_eq!(reasons(&plan), ["ForeignBudget"]);
    assert_eq!(plan.report.state, ensemble_api::State::Ready);
    assert!(plan.writes.is_empty());
}

#[test]
fn an_unmanaged_ensemble_keeps_no_budget() {
    let mut world = World::settled(3);
    world.spec(&json!({"disruption": "Unmanaged"}));
    assert_eq!(written(&world.plan()), ["Discard Budget orders-members"]);
    world.budgets.clear();
    foreign_budget(&mut world, json!({}));
    assert_eq!(reasons(&world.plan()), [""; 0]);
}

#[test]
fn a_cordoned_node_alone_changes_nothing() {
    let mut world = World::settled(3);
    world.node("n1", &json!({"spec": {"unschedulable": true}}));
    assert_quiet(&world.plan());
}

#[test]
fn revisions_beyond_the_limit_go_the_oldest_first_but_none_that_is_used() {
    let mut world = World::settled(3);
    world.spec(&json!({"revisionHistoryLimit": 2}));
    for number in 2..=6 {
        world.revision(&number.to_string(), number);
    }
    // 1 is current and oldest, 6 is the target, 2 still runs somewhere.
    world.image("6").member(1, "2").prepared("6");
    let discarded: Vec<String> = written(&world.plan())
        .into_iter()
        .filter(|w| w.starts_with("Discard"))
        .collect();
    assert_eq!(
        discarded,
        [format!("Discard Revision {}", revision_name("3"))]
    );
}

#[test]
fn somebody_elses_revision_is_not_discarded() {
    let mut world = World::settled(1);
    world.spec(&json!({"revisionHistoryLimit": 1}));
    for number in 2..=3 {
        world.revision(&number.to_string(), -number);
    }
    let other = world.revisions.get_mut(&revision_name("3")).unwrap();
    other["metadata"]["ownerReferences"][0]["uid"] = "x".into();
    assert_eq!(written(&world.plan()), [""; 0]);
}

#[test]
fn that_somebody_was_born_is_marked_before_it_is_stored_in_status() {
    let mut world = World::begun(1);
    world.member(0, "1");
    let plan = world.plan();
    let patch = body(&plan, Kind::Ensemble, "orders");
    assert_eq!(
        patch["metadata"]["annotations"]["ensemble.dev/born"],
        "true"
    );
    assert!(status(&plan).is_none());
    world.meta(&json!({"annotations": {"ensemble.dev/born": "true"}}));
    assert!(status(&world.plan()).is_some());
}

#[test]
fn a_mark_that_cannot_be_written_does_not_silence_the_status() {
    let mut world = World::begun(1);
    world
        .member(0, "1")
        .failure(Kind::Ensemble, "orders", ensemble_api::Reason::ApiRefused);
    assert!(status(&world.plan()).is_some());
}

#[test]
fn a_mark_that_another_write_overtook_still_comes_before_the_status() {
    let mut world = World::begun(1);
    world
        .member(0, "1")
        .failure(Kind::Ensemble, "orders", ensemble_api::Reason::Conflict);
    assert!(status(&world.plan()).is_none());
}

#[test]
fn the_finalizer_follows_the_deletion_policy() {
    let mut world = World::settled(1);
    world.spec(&json!({"storage": {"whenDeleted": "Delete"}}));
    world.meta(&json!({"finalizers": ["theirs"]}));
    let patch = body(&world.plan(), Kind::Ensemble, "orders");
    assert_eq!(
        patch["metadata"]["finalizers"],
        json!(["theirs", "ensemble.dev/claims"])
    );
    let mut world = World::settled(1);
    world.meta(&json!({"finalizers": ["ensemble.dev/claims", "theirs"]}));
    let patch = body(&world.plan(), Kind::Ensemble, "orders");
    assert_eq!(patch["metadata"]["finalizers"], json!(["theirs"]));
}

#[test]
fn what_was_made_of_a_spec_does_not_outlive_it() {
    let mut world = World::led(3, 0);
    let old = world.snapshot();
    world.prepared("2");
    let mut snap = world.snapshot();
    let fresh = ensemble_planner::plan(&snap);
    snap.from_spec = Some(old.from_spec());
    let held = ensemble_planner::plan(&snap);
    assert_ne!(snap.from_spec().revision, old.from_spec().revision);
    assert_eq!(format!("{held:?}"), format!("{fresh:?}"));
}
