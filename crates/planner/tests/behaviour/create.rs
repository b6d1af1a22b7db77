//! Ledger first, then a member's claims, then its pod; all members concurrently.

use crate::common::*;
use ensemble_api::Reason;
use ensemble_planner::Time;
use ensemble_planner::memory::Kind;
use serde_json::{Value, json};

#[test]
fn nothing_of_a_member_is_created_before_the_ledger_is_stored() {
    let mut world = World::new(3);
    world.revision("1", 1).passed("1");
    let plan = world.plan();
    assert_eq!(created_members(&plan), [""; 0]);
    let status = status(&plan).unwrap();
    assert_eq!(status.ledger["members"].next, 3);
    assert_eq!(status.ledger["members"].born, "");
}

#[test]
fn a_ledger_that_is_too_short_covers_only_its_own() {
    let mut world = World::begun(3);
    world.ledger(2, "");
    let created = created_members(&world.plan());
    assert_eq!(
        created,
        [
            "Claim data-orders-0",
            "Claim wal-orders-0",
            "Claim data-orders-1",
            "Claim wal-orders-1"
        ]
    );
}

#[test]
fn nothing_of_a_member_is_created_before_the_template_was_tried() {
    let mut world = World::new(3);
    world.revision("1", 1).ledger(3, "");
    let plan = world.plan();
    assert_eq!(created_members(&plan), [""; 0]);
    assert!(written(&plan).contains(&format!("Check {}", revision_name("1"))));
    assert!(reasons(&plan).contains(&"Checking".to_owned()));
}

#[test]
fn nothing_of_a_member_is_created_from_a_refused_template() {
    let mut world = World::begun(3);
    world.refused("1", 5);
    let plan = world.plan();
    assert_eq!(created_members(&plan), [""; 0]);
    assert!(message(&plan, "TemplateRefused").contains("containers[0].image: bad"));
}

#[test]
fn the_claims_of_all_members_are_created_at_once_and_no_pod_before_them() {
    let created = created_members(&World::begun(3).plan());
    let wanted: Vec<String> = (0..3)
        .flat_map(|o| {
            [
                format!("Claim data-orders-{o}"),
                format!("Claim wal-orders-{o}"),
            ]
        })
        .collect();
    assert_eq!(created, wanted);
}

#[test]
fn a_pod_follows_when_all_claims_of_its_own_are_there() {
    let mut world = World::begun(3);
    world.claim("data", 0).claim("wal", 0).claim("data", 1);
    let created = created_members(&world.plan());
    assert_eq!(
        created,
        [
            "Claim wal-orders-1",
            "Claim data-orders-2",
            "Claim wal-orders-2",
            "Pod orders-0"
        ]
    );
}

#[test]
fn the_pods_of_all_members_are_created_at_once() {
    let mut world = World::begun(3);
    (0..3).for_each(|o| {
        world.claim("data", o).claim("wal", o);
    });
    let created = created_members(&world.plan());
    assert_eq!(created, ["Pod orders-0", "Pod orders-1", "Pod orders-2"]);
}

#[test]
fn a_member_without_claims_is_its_pod() {
    let mut world = World::begun(2);
    world.spec(&json!({"claims": []}));
    let created = created_members(&world.plan());
    assert_eq!(created, ["Pod orders-0", "Pod orders-1"]);
}

fn first_pod(world: &mut World) -> Value {
    world.claim("data", 1).claim("wal", 1);
    body(&world.plan(), Kind::Pod, "orders-1")
}

#[test]
fn a_pod_is_named_and_labelled_as_a_statefulset_would() {
    let pod = first_pod(&mut World::begun(3));
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "orders-1");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(labels["controller-revision-hash"], revision_name("1"));
    assert_eq!(labels["app.kubernetes.io/managed-by"], "ensemble");
    assert_eq!(pod["spec"]["hostname"], "orders-1");
    assert_eq!(pod["spec"]["subdomain"], "orders-members");
    let volume = &pod["spec"]["volumes"][0];
    assert_eq!(volume["name"], "data");
    assert_eq!(
        volume["persistentVolumeClaim"]["claimName"],
        "data-orders-1"
    );
    assert_eq!(pod["spec"]["volumes"][1]["name"], "wal");
}

#[test]
fn a_pod_says_whose_it_is_by_labels_and_owner() {
    let pod = first_pod(&mut World::begun(3));
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["ensemble.dev/ensemble"], "orders");
    assert_eq!(labels["ensemble.dev/group"], "members");
    assert_eq!(labels["ensemble.dev/ordinal"], "1");
    assert_eq!(labels["ensemble.dev/incarnation"], "0");
    assert_eq!(labels["ensemble.dev/revision"], "1");
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["controller"]),
        (&json!(UID), &json!(true))
    );
}

#[test]
fn every_container_knows_its_ensemble_member_and_ordinal() {
    let mut world = World::begun(3);
    let containers = json!([{"name": "app", "image": "app:1",
        "env": [{"name": "MINE", "value": "$(ENSEMBLE_MEMBER)"}]}]);
    let init = json!([{"name": "init", "image": "app:1"}]);
    let name = revision_name("1");
    world.revisions.get_mut(&name).unwrap()["data"]["template"]["spec"] =
        json!({"containers": containers, "initContainers": init});
    let pod = first_pod(&mut world);
    let environment = |path: &str| -> Vec<(String, String)> {
        let env = pod.pointer(path).unwrap().as_array().unwrap();
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        env.iter()
            .map(|e| (text(&e["name"]), text(&e["value"])))
            .collect()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let ours = [
        pair("ENSEMBLE_NAME", "orders"),
        pair("ENSEMBLE_MEMBER", "orders-1"),
        pair("ENSEMBLE_ORDINAL", "1"),
    ];
    assert_eq!(environment("/spec/initContainers/0/env"), ours);
    // First, so that the user's own may refer to them.
    let all = environment("/spec/containers/0/env");
    assert_eq!(all[..3], ours);
    assert_eq!(all[3], pair("MINE", "$(ENSEMBLE_MEMBER)"));
}

#[test]
fn what_the_user_sets_in_the_environment_wins() {
    let mut world = World::begun(3);
    let name = revision_name("1");
    world.revisions.get_mut(&name).unwrap()["data"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "ENSEMBLE_MEMBER", "value": "me"}]);
    let pod = first_pod(&mut world);
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let mine: Vec<_> = env
        .iter()
        .filter(|e| e["name"] == "ENSEMBLE_MEMBER")
        .collect();
    assert_eq!(mine, [&json!({"name": "ENSEMBLE_MEMBER", "value": "me"})]);
}

#[test]
fn fields_of_the_template_that_we_do_not_know_reach_the_pod() {
    let mut world = World::begun(3);
    let name = revision_name("1");
    world.revisions.get_mut(&name).unwrap()["data"]["template"]["spec"]["fromTheFuture"] =
        json!({"deep": [1, 2]});
    assert_eq!(
        first_pod(&mut world)["spec"]["fromTheFuture"],
        json!({"deep": [1, 2]})
    );
}

#[test]
fn a_claim_has_no_owner_and_carries_its_deletion_policy() {
    let mut world = World::begun(1);
    world.spec(&json!({"storage": {"whenDeleted": "Delete"}}));
    world.meta(&json!({"finalizers": ["ensemble.dev/claims"]}));
    let claim = body(&world.plan(), Kind::Claim, "data-orders-0");
    assert_eq!(claim["metadata"].get("ownerReferences"), None);
    assert_eq!(
        claim["metadata"]["annotations"]["ensemble.dev/when-deleted"],
        "Delete"
    );
    assert_eq!(claim["metadata"]["labels"]["ensemble.dev/claim"], "data");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
}

#[test]
fn a_refused_pod_is_named_with_its_cause_and_holds_up_nobody_else() {
    let mut world = World::begun(2);
    (0..2).for_each(|o| {
        world.claim("data", o).claim("wal", o);
    });
    world.failure(Kind::Pod, "orders-0", Reason::QuotaExceeded);
    let plan = world.plan();
    assert_eq!(created_members(&plan), ["Pod orders-1"]);
    assert!(reasons(&plan).contains(&"QuotaExceeded orders-0".to_owned()));
    assert!(message(&plan, "QuotaExceeded").contains("said the API server"));
    assert_eq!(plan.wake_at, Some(Time(NOW + 1000)));
    let again = created_members(&world.after(1).plan());
    assert_eq!(again, ["Pod orders-0", "Pod orders-1"]);
}

#[test]
fn a_refused_claim_holds_back_the_pod_of_its_member_alone() {
    let mut world = World::begun(2);
    world.claim("data", 0).claim("data", 1).claim("wal", 1);
    world.failure(Kind::Claim, "wal-orders-0", Reason::CreateRefused);
    let plan = world.plan();
    assert_eq!(created_members(&plan), ["Pod orders-1"]);
    assert!(reasons(&plan).contains(&"CreateRefused orders-0".to_owned()));
}
