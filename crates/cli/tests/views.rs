//! What people see, as golden files: each is the rendering of a status and of nothing else.
#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod support;

use ensemble_api::Report;
use ensemble_cli::view::history::{Revision, history};
use ensemble_cli::view::paint::Paint;
use ensemble_cli::view::{Seen, list, members, why};
use insta::assert_snapshot;
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn seen(object: Value) -> Seen {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    Seen::of(&object)
}

fn ask(report: Value) -> String {
    let report: Report = serde_json::from_value(report).unwrap();
    why::why("orders", &report, now(), Paint::OFF)
}

fn rules() -> Value {
    json!([
        {"name": "within-budget", "holds": true, "observed": "0 unavailable", "limit": "maxUnavailable 1"},
        {"name": "claims-intact", "holds": true, "observed": "all complete"},
        {"name": "data-present", "holds": true, "observed": "yes"},
        {"name": "one-change-at-a-time", "holds": true, "observed": "0 in flight", "limit": "maxUnavailable 1"},
    ])
}

fn image_missing() -> Value {
    let recreate = |member: &str| {
        json!({
            "action": "Recreate", "member": member, "cause": "template changed", "state": "Idle",
        })
    };
    json!({
        "id": "p-7f3c21", "state": "Stalled", "tolerance": 1, "predicates": rules(),
        "steps": [
            {
                "action": "Pull", "cause": "a new image", "state": "Blocked",
                "since": "2026-03-01T11:57:50Z",
                "blocker": {
                    "reason": "ImageMissing",
                    "message": "redis:7.22 cannot be pulled on node-2 for orders-1: not found",
                    "observed": "no member was touched",
                    "clearsWhen": "The image can be pulled, the template names another, or the change is undone.",
                    "nextCommand": "ensemble undo orders",
                },
            },
            recreate("orders-2"), recreate("orders-1"), recreate("orders-0"),
        ],
    })
}

fn orders(plan: Value) -> Value {
    let mut object = support::ensemble("orders", "Ready");
    object["metadata"]["creationTimestamp"] = json!("2026-02-01T12:00:00Z");
    object["status"] = json!({
        "observedGeneration": 3,
        "groups": [{"name": "members", "revision": "orders-6f1c9b2d4e", "currentRevision": "orders-0a44be9d51"}],
        "summary": {"ready": "3/3", "updated": "0/3", "revision": "orders-6f1c9b2d4e", "step": "4 left", "waiting": "ImageMissing"},
        "members": [
            {"name": "orders-0", "presence": "Serving", "node": "node-1", "updated": false},
            {"name": "orders-1", "presence": "Serving", "node": "node-2", "updated": false},
            {"name": "orders-2", "presence": "Serving", "node": "node-1", "updated": false},
        ],
        "plan": plan,
    });
    object
}

#[test]
fn why_names_the_image_the_members_and_the_remedy_while_all_are_up() {
    let text = ask(image_missing());
    assert_snapshot!("why-image-missing", text);
}

#[test]
fn why_says_that_there_is_nothing_to_wait_for() {
    let report = json!({"id": "p-1", "state": "Ready", "tolerance": 1, "predicates": rules()});
    assert_snapshot!("why-ready", ask(report));
}

#[test]
fn why_of_a_ready_ensemble_still_tells_of_what_deserves_a_look() {
    let report = json!({
        "id": "p-1", "state": "Ready", "tolerance": 1, "predicates": rules(),
        "steps": [{
            "action": "Maintain", "cause": "disruption: Managed", "state": "Blocked",
            "since": "2026-03-01T11:00:00Z",
            "blocker": {
                "reason": "ForeignBudget", "message": "PodDisruptionBudget team-a/all selects the members",
                "clearsWhen": "The other budget is deleted.",
            },
        }],
    });
    assert_snapshot!("why-ready-with-a-note", ask(report));
}

#[test]
fn why_shows_the_limit_that_was_met_and_the_rule_that_fails() {
    let report = json!({
        "id": "p-1", "state": "Waiting", "tolerance": 0, "moreSteps": 3,
        "predicates": [
            {"name": "within-budget", "holds": false, "observed": "2 unavailable", "limit": "maxUnavailable 1"},
            {"name": "claims-intact", "holds": true, "observed": "all complete"},
        ],
        "steps": [
            {
                "action": "Recreate", "member": "orders-2", "cause": "template changed", "state": "Blocked",
                "since": "2026-03-01T11:59:30Z",
                "blocker": {
                    "reason": "BudgetUsed",
                    "message": "within-budget is false: 2 unavailable: orders-0, orders-1",
                    "observed": "2 unavailable: orders-0, orders-1", "limit": "maxUnavailable 1",
                    "clearsWhen": "An unavailable member becomes Ready.",
                },
            },
            {
                "action": "Start", "member": "orders-0", "cause": "created", "state": "Blocked",
                "since": "2026-03-01T11:58:00Z",
                "blocker": {
                    "reason": "NotReady", "message": "orders-0 runs and is not Ready",
                    "clearsWhen": "It becomes Ready.",
                },
            },
        ],
    });
    assert_snapshot!("why-budget-used", ask(report));
}

#[test]
fn why_of_a_stalled_ensemble_speaks_of_what_will_not_pass_by_itself() {
    let report = json!({
        "id": "p-1", "state": "Stalled", "tolerance": 0, "predicates": [],
        "steps": [
            {
                "action": "Start", "member": "orders-0", "cause": "created", "state": "Blocked",
                "blocker": {"reason": "Starting", "message": "orders-0 is starting", "clearsWhen": "It becomes Ready."},
            },
            {
                "action": "Start", "member": "orders-1", "cause": "created", "state": "Blocked",
                "since": "2026-03-01T11:00:00Z",
                "blocker": {
                    "reason": "CrashLooping", "message": "orders-1: container redis ended 6 times (Error, exit code 1)",
                    "clearsWhen": "The container stays up, or the template is corrected or undone.",
                    "nextCommand": "ensemble undo orders",
                },
            },
        ],
    });
    assert_snapshot!("why-stalled", ask(report));
}

#[test]
fn why_of_a_paused_ensemble_speaks_of_the_pause_before_what_passes_by_itself() {
    let blocked = |action: &str, reason: &str, message: &str| {
        json!({
            "action": action, "cause": "template changed", "state": "Blocked",
            "since": "2026-03-01T11:59:00Z",
            "blocker": {"reason": reason, "message": message, "clearsWhen": "The time has passed."},
        })
    };
    let report = json!({
        "id": "p-1", "state": "Paused", "tolerance": 0, "predicates": [],
        "steps": [
            blocked("Start", "Settling", "orders-2 is Ready, but not yet for 2 s"),
            blocked("Recreate", "Paused", "2 members wait: the rollout is paused"),
        ],
    });
    assert_snapshot!("why-paused", ask(report));
}

#[test]
fn why_says_wait_where_nothing_is_to_be_done() {
    let report = json!({
        "id": "p-1", "state": "Waiting", "tolerance": 0, "predicates": [],
        "steps": [{
            "action": "Start", "member": "orders-2", "cause": "minReadySeconds", "state": "Blocked",
            "blocker": {
                "reason": "Settling", "message": "orders-2 is Ready, but not yet for 2 s",
                "clearsWhen": "The time has passed.",
            },
        }],
    });
    let text = ask(report);
    assert!(text.contains("you may   wait."), "{text}");
}

#[test]
fn why_of_one_at_work_says_at_which_step() {
    let report = json!({
        "id": "p-1", "state": "Working", "tolerance": 0, "predicates": rules(),
        "steps": [{
            "action": "Recreate", "member": "orders-2", "cause": "template changed",
            "state": "Running", "since": "2026-03-01T11:59:48Z",
        }],
    });
    assert_snapshot!("why-working", ask(report));
}

#[test]
fn one_ensemble_is_shown_with_its_members_by_node_and_its_plan() {
    let text = members::picture(&seen(orders(image_missing())), now(), Paint::OFF);
    assert_snapshot!("status-one", text);
}

#[test]
fn the_list_has_a_row_for_everyone_also_for_those_that_cannot_be_read() {
    let mut unseen = support::ensemble("queue", "Ready");
    unseen["status"] = Value::Null;
    unseen.as_object_mut().unwrap().remove("status");
    let mut odd = support::ensemble("odd", "Ready");
    odd["status"]["plan"]["state"] = json!("Ecstatic");
    let mut done = orders(json!({"id": "p-2", "state": "Ready", "tolerance": 1}));
    done["metadata"]["name"] = json!("carts");
    done["status"]["summary"] =
        json!({"ready": "3/3", "updated": "3/3", "step": "-", "waiting": "-"});
    let all = [orders(image_missing()), unseen, odd, done].map(seen);
    assert_snapshot!("status-list", list::list(&all, false, now(), Paint::OFF));
    let first = list::list(&all[..1], true, now(), Paint::OFF);
    assert!(first.starts_with("NAMESPACE   NAME"), "{first}");
}

#[test]
fn a_change_is_one_line_where_nothing_can_be_redrawn() {
    let line = members::transition(&seen(orders(image_missing())), now());
    assert_snapshot!("status-line", line);
}

#[test]
fn revisions_are_listed_newest_first() {
    let revisions: Vec<Revision> = [(1, "redis:7.2"), (2, "redis:7.22")]
        .map(|(number, image)| support::revision("orders", number, image).1)
        .into_iter()
        .map(|object| Revision::of(&serde_json::from_value(object).unwrap()))
        .collect();
    assert_snapshot!(
        "history",
        history(&revisions, "orders-2", "orders-1", now())
    );
}

#[test]
fn colour_is_never_the_only_signal() {
    let plain = members::picture(&seen(orders(image_missing())), now(), Paint::OFF);
    let paint = Paint::choose(ensemble_cli::args::Color::Always);
    let mut coloured = members::picture(&seen(orders(image_missing())), now(), paint);
    assert_ne!(plain, coloured);
    while let Some(start) = coloured.find('\x1b') {
        let end = coloured[start..].find('m').unwrap();
        coloured.replace_range(start..=start + end, "");
    }
    assert_eq!(plain, coloured);
}

/// The screen in the README is this one.
#[test]
fn the_readme_shows_what_the_program_prints() {
    let readme = include_str!("../../../README.md");
    assert!(
        readme.contains(&ask(image_missing())),
        "put this into README.md:\n{}",
        ask(image_missing())
    );
}
