//! Disruptions: written down, looked at again, sent for that very pod.

use crate::desk::{Desk, orders, refused, words};
use ensemble_conductor::{ApiCall, Input, Kind, Outcome, Verb};
use serde_json::json;

const BUDGET: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

#[test]
fn a_disruption_is_one_status_write_a_look_at_pods_and_claims_and_one_eviction_in_this_order() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    desk.settle_until(|c| *c.verb() == Verb::Evict).unwrap();
    let done = desk.done.iter().rev().take(3).collect::<Vec<_>>();
    let look = [
        "list Claim orders",
        "list Pod orders",
        "status Ensemble orders",
    ];
    assert_eq!(done, look);
    let status = desk.status();
    assert_eq!(status.in_flight.len(), 1);
    assert_eq!(status.in_flight[0].member, "orders-2");
}

#[test]
fn a_refused_eviction_is_tried_again_as_soon_as_the_budget_has_room() {
    let mut desk = Desk::serving();
    desk.image("db:2");

    let room = |n: i64| json!({"status": {"disruptionsAllowed": n}});
    desk.edit(Kind::Budget, "orders-members", &room(0));
    // Refused again and again: the pauses grow to a minute.
    for _ in 0..7 {
        let (id, _) = desk.settle_until(evicts).unwrap();
        desk.tell(Input::Done(id, refused(429, "TooManyRequests", BUDGET)));
        desk.after(50_000);
    }
    assert!(desk.settle_until(evicts).is_none());
    desk.edit(Kind::Budget, "orders-members", &room(0));
    assert!(desk.settle_until(evicts).is_none());
    desk.edit(Kind::Budget, "orders-members", &room(1));
    assert!(desk.settle_until(evicts).is_some());
}

#[test]
fn what_only_waits_is_not_asked_twice() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let (_, call) = desk.settle_until(|c| *c.verb() == Verb::Evict).unwrap();
    assert_eq!(words(&call), "evict Pod orders-2");
    desk.after(5_000);
    assert!(desk.settle_until(|c| *c.verb() == Verb::Evict).is_none());
}

fn evicts(call: &ApiCall) -> bool {
    *call.verb() == Verb::Evict
}

#[test]
fn an_intent_that_cannot_be_stored_disrupts_nobody() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let stores = |c: &ApiCall| {
        let intents = c.body().pointer("/status/inFlight");
        *c.verb() == Verb::ReplaceStatus && intents.is_some()
    };
    for _ in 0..5 {
        let Some((id, _)) = desk.settle_until(stores) else {
            continue;
        };
        desk.tell(Input::Done(id, refused(409, "Conflict", "modified")));
        assert!(
            desk.settle_until(|c| evicts(c) || stores(c))
                .is_none_or(|(_, c)| stores(&c))
        );
        desk.after(1_000);
    }
    assert!(!desk.done.iter().any(|d| d.starts_with("evict")));
}

#[test]
fn a_member_that_fell_ill_since_the_plan_is_seen_by_the_list_and_nobody_is_evicted() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let lists = |c: &ApiCall| *c.verb() == Verb::List;
    let (id, call) = desk.settle_until(lists).unwrap();
    // The watch has not told yet; the list knows.
    let ill = json!([{"type": "Ready", "status": "False"}]);
    let mut pod = desk.get(Kind::Pod, "orders-0").unwrap();
    pod["status"]["conditions"] = ill;
    desk.put(Kind::Pod, pod);
    desk.carry_out(id, &call);
    desk.show(Kind::Pod, "orders-0");
    // It goes first now, by its own intent; nobody that serves does.
    let deletes = |c: &ApiCall| *c.verb() == Verb::Delete && c.kind() == Kind::Pod;
    let (_, call) = desk.settle_until(|c| evicts(c) || deletes(c)).unwrap();
    assert_eq!(words(&call), "delete Pod orders-0");
}

#[test]
fn a_claim_that_was_deleted_a_moment_ago_is_seen_by_the_look_and_its_pod_stays() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let lists = |c: &ApiCall| *c.verb() == Verb::List && c.kind() == Kind::Claim;
    let (id, call) = desk.settle_until(lists).unwrap();
    // Nothing but the pod that uses it keeps the data. The watch has not told yet; the list knows.
    let mut claim = desk.get(Kind::Claim, "data-orders-2").unwrap();
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    desk.put(Kind::Claim, claim);
    desk.carry_out(id, &call);
    let evicted = desk.settle_until(evicts);
    assert!(evicted.is_none_or(|(_, call)| call.name() != "orders-2"));
    desk.show(Kind::Claim, "data-orders-2");
    desk.settle();
    assert!(desk.get(Kind::Pod, "orders-2").is_some(), "{:?}", desk.done);
}

#[test]
fn an_intent_that_was_stored_after_a_look_began_is_not_confirmed_by_it() {
    let mut desk = Desk::serving();
    desk.edit(
        Kind::Ensemble,
        "orders",
        &json!({"spec": {"rollout": {"maxUnavailable": 2}}}),
    );
    desk.settle();
    desk.image("db:2");
    let lists = |c: &ApiCall| *c.verb() == Verb::List && c.kind() == Kind::Pod;
    let (pods, list_pods) = desk.settle_until(lists).unwrap();
    let first = desk.status().in_flight;
    // Its list is on the way. Meanwhile another intent is stored, by us.
    let mut more = first[0].clone();
    let other = ["orders-0", "orders-1", "orders-2"];
    let other = other.iter().find(|m| first.iter().all(|i| i.member != **m));
    more.member = (*other.unwrap()).to_owned();
    more.uid = desk.get(Kind::Pod, &more.member).unwrap()["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut stored = first.clone();
    stored.push(more.clone());
    let stored = json!({"status": {"inFlight": stored}});
    let answer = desk.perform(&list_pods);
    desk.edit(Kind::Ensemble, "orders", &stored);
    desk.tell(Input::Done(pods, answer));
    let claims = |c: &ApiCall| *c.verb() == Verb::List && c.kind() == Kind::Claim;
    let (id, call) = desk.settle_until(claims).unwrap();
    desk.carry_out(id, &call);
    let evicted: Vec<String> = desk.calls.iter().map(|(_, c)| words(c)).collect();
    let of_the_other = format!("evict Pod {}", more.member);
    assert!(!evicted.contains(&of_the_other), "{evicted:?}");
    // It has a look of its own.
    assert!(
        evicted.iter().any(|c| c == "list Pod orders"),
        "{evicted:?}"
    );
}

#[test]
fn who_was_superseded_does_nothing_more() {
    let mut desk = Desk::serving();
    desk.edit(Kind::Ensemble, "orders", &json!({"status": {"epoch": 8}}));
    desk.image("db:2");
    desk.remove(Kind::Pod, "orders-1");
    desk.after(50_000);
    assert!(desk.calls.is_empty());
    let said = desk.happenings.iter().filter(|h| h.reason == "Overtaken");
    assert_eq!(said.count(), 1, "{:?}", desk.happenings);
}

#[test]
fn who_was_overtaken_by_one_that_is_gone_takes_over_after_a_minute_of_silence() {
    let mut desk = Desk::serving();
    desk.edit(Kind::Ensemble, "orders", &json!({"status": {"epoch": 8}}));
    desk.after(50_000);
    // Somebody is there after all.
    let wrote = json!({"status": {"summary": {"waiting": "BudgetUsed"}}});
    desk.edit(Kind::Ensemble, "orders", &wrote);
    desk.after(59_000);
    assert!(desk.calls.is_empty());
    desk.remove(Kind::Pod, "orders-1");
    desk.after(1_000);
    let calls: Vec<String> = desk.calls.iter().map(|(_, c)| words(c)).collect();
    assert_eq!(
        calls,
        ["status Ensemble orders"],
        "that it is ours, and nothing else"
    );
    desk.settle();
    assert_eq!(desk.status().epoch, 9);
    assert!(desk.get(Kind::Pod, "orders-1").is_some() && desk.is_ready());
    // Overtaken again, it is not alone, and waits twice as long.
    desk.edit(Kind::Ensemble, "orders", &json!({"status": {"epoch": 10}}));
    desk.after(119_000);
    assert!(desk.calls.is_empty());
    desk.after(1_000);
    assert!(!desk.calls.is_empty());
}

#[test]
fn who_is_not_the_first_to_take_over_stands_down_and_waits_anew() {
    let mut desk = Desk::serving();
    desk.edit(Kind::Ensemble, "orders", &json!({"status": {"epoch": 8}}));
    desk.after(60_000);
    let (id, _) = desk.calls.pop_front().unwrap();
    desk.tell(Input::Done(id, refused(409, "Conflict", "modified")));
    desk.edit(Kind::Ensemble, "orders", &json!({"status": {"epoch": 9}}));
    desk.image("db:2");
    desk.after(59_000);
    assert!(desk.calls.is_empty());
}

#[test]
fn a_successor_waits_for_a_foreign_intent_touches_its_target_and_only_then_goes_on() {
    let mut first = Desk::serving();
    first.image("db:2");
    let (_, late) = first.settle_until(evicts).unwrap();
    let mut second = first.successor(8);
    assert!(second.settle_until(evicts).is_none());
    let harmless = |d: &String| d.starts_with("status") || d.starts_with("try");
    assert!(second.done.iter().all(harmless), "{:?}", second.done);
    second.after(4_000);
    let touches = |c: &ApiCall| *c.verb() == Verb::MergePatch && c.kind() == Kind::Pod;
    let (id, call) = second.settle_until(|c| touches(c) || evicts(c)).unwrap();
    assert_eq!(words(&call), "patch Pod orders-2");
    second.carry_out(id, &call);
    // What the first one sent long ago arrives now, and fails its precondition.
    assert!(matches!(second.perform(&late), Outcome::Refused(e) if e.code == 409));
    // It was entered in the budget all the same, as on a real server; that is taken back.
    second.show(Kind::Budget, "orders-members");
    for _ in 0..10 {
        second.settle();
        second.after(1_000);
    }
    assert!(second.is_ready(), "{:?}", second.status().plan);
}

#[test]
fn a_pod_that_changed_since_it_was_read_is_decided_on_anew() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let (id, call) = desk.settle_until(evicts).unwrap();
    desk.edit(
        Kind::Pod,
        "orders-2",
        &json!({"metadata": {"labels": {"a": "b"}}}),
    );
    let outcome = desk.perform(&call);
    assert!(matches!(&outcome, Outcome::Refused(e) if e.code == 409));
    desk.tell(Input::Done(id, outcome));
    let before = desk.done.len();
    desk.settle_until(evicts).unwrap();
    let again: Vec<&String> = desk.done[before..].iter().collect();
    assert!(again.iter().any(|d| *d == "list Pod orders"), "{again:?}");
}

#[test]
fn an_eviction_is_for_that_very_pod_at_that_very_version() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let (_, call) = desk.settle_until(evicts).unwrap();
    let pod = desk.get(Kind::Pod, "orders-2").unwrap();
    let asked = &call.body()["deleteOptions"]["preconditions"];
    assert_eq!(asked["uid"], pod["metadata"]["uid"]);
    assert_eq!(asked["resourceVersion"], pod["metadata"]["resourceVersion"]);
}

#[test]
fn one_member_after_the_other_is_rolled_and_never_two_at_once() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    desk.settle();
    let evicted: Vec<&String> = desk
        .done
        .iter()
        .filter(|d| d.starts_with("evict"))
        .collect();
    assert_eq!(
        evicted,
        [
            "evict Pod orders-2",
            "evict Pod orders-1",
            "evict Pod orders-0"
        ]
    );
    let order: Vec<&String> = desk
        .done
        .iter()
        .filter(|d| d.contains(" Pod orders-"))
        .collect();
    for pair in order
        .iter()
        .filter(|d| !d.starts_with("try"))
        .collect::<Vec<_>>()
        .chunks(2)
    {
        assert!(
            pair[0].starts_with("evict") && pair[1].starts_with("create"),
            "{order:?}"
        );
    }
    assert!(desk.is_ready());
}

#[test]
fn a_pod_that_was_seen_to_go_before_its_eviction_was_answered_is_not_waited_for() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let (id, call) = desk.settle_until(evicts).unwrap();
    // The watch is faster than the answer.
    let outcome = desk.perform(&call);
    assert!(desk.get(Kind::Pod, "orders-2").is_none());
    desk.tell(Input::Done(id, outcome));
    let creates = |c: &ApiCall| *c.verb() == Verb::Create { dry_run: false };
    let (_, call) = desk.settle_until(creates).unwrap();
    assert_eq!(words(&call), "create Pod orders-2");
}

/// Three members serve with one CPU each, and are to have two.
fn growing() -> Desk {
    let mut ensemble = orders(3);
    ensemble["spec"]["rollout"]["method"] = "InPlaceIfPossible".into();
    let sized = |cpu: &str| json!([{"name": "db", "image": "db:1", "resources": {"requests": {"cpu": cpu}}}]);
    ensemble["spec"]["template"]["spec"]["containers"] = sized("1");
    let mut desk = Desk::new(ensemble);
    desk.settle();
    desk.done.clear();
    let spec = json!({"spec": {"template": {"spec": {"containers": sized("2")}}}});
    desk.edit(Kind::Ensemble, "orders", &spec);
    desk
}

fn resizes(call: &ApiCall) -> bool {
    *call.verb() == Verb::ReplaceResize
}

/// A member's kubelet gives what is asked for.
fn give(desk: &mut Desk, member: &str) {
    let statuses = json!([{"name": "db", "state": {"running": {}},
                           "resources": {"requests": {"cpu": "2"}}}]);
    desk.edit(
        Kind::Pod,
        member,
        &json!({"status": {"containerStatuses": statuses}}),
    );
}

#[test]
fn a_resize_is_looked_at_again_before_its_note_and_before_its_door() {
    let mut desk = growing();
    let (id, call) = desk.settle_until(resizes).unwrap();
    let done: Vec<_> = desk.done.iter().rev().take(4).rev().collect();
    assert_eq!(
        done,
        [
            "status Ensemble orders",
            "list Pod orders",
            "change Pod orders-2",
            "list Pod orders",
        ],
        "{:?}",
        desk.status()
    );
    assert_eq!(desk.status().in_flight.len(), 1, "one intent for both");
    let pod = desk.get(Kind::Pod, "orders-2").unwrap();
    assert_eq!(call.body()["metadata"]["uid"], pod["metadata"]["uid"]);
    let version = &pod["metadata"]["resourceVersion"];
    assert_eq!(call.body()["metadata"]["resourceVersion"], *version);
    desk.carry_out(id, &call);
    assert!(
        desk.settle_until(|c| resizes(c) || *c.verb() == Verb::Replace)
            .is_none(),
        "the next waits for the kubelet"
    );
    for member in ["orders-2", "orders-1", "orders-0"] {
        give(&mut desk, member);
        desk.settle();
    }
    assert!(desk.is_ready(), "{:?}", desk.status().plan);
    assert!(!desk.done.iter().any(|d| d.starts_with("evict")));
    let noted =
        |o: &serde_json::Value| !o["metadata"]["annotations"]["ensemble.dev/resizes"].is_null();
    assert!(!noted(&desk.get(Kind::Pod, "orders-2").unwrap()));
}

#[test]
fn a_resize_that_the_api_server_refuses_becomes_a_new_pod_and_says_why() {
    let mut desk = growing();
    let (id, _) = desk.settle_until(resizes).unwrap();
    let words = "Pod running on node without support for resize";
    desk.tell(Input::Done(id, refused(422, "Invalid", words)));
    let (_, call) = desk.settle_until(|c| evicts(c) || resizes(c)).unwrap();
    assert_eq!(crate::desk::words(&call), "evict Pod orders-2");
    let steps = desk.status().plan.steps;
    assert!(
        steps.iter().any(|s| s.cause.contains("without support")),
        "{steps:?}"
    );
}

#[test]
fn a_resize_without_the_right_to_it_evicts_nobody_and_is_named() {
    let mut desk = growing();
    let words = "pods \"orders-2\" is forbidden: User \"x\" cannot update resource \"pods/resize\"";
    for _ in 0..3 {
        let (id, call) = desk.settle_until(|c| evicts(c) || resizes(c)).unwrap();
        assert_eq!(crate::desk::words(&call), "resize Pod orders-2");
        desk.tell(Input::Done(id, refused(403, "Forbidden", words)));
        let none = desk.settle_until(|c| evicts(c) || resizes(c));
        if let Some(asked) = none {
            desk.calls.push_front(asked);
        } else {
            let report = desk.status().plan;
            let (_, blocker) = report.first_blocked().unwrap();
            assert_eq!(blocker.reason.to_string(), "ApiRefused");
            desk.after(5_000);
        }
    }
}

#[test]
fn a_successor_finishes_a_resize_that_was_noted_and_not_sent() {
    let mut first = growing();
    first.settle_until(resizes).unwrap();
    let mut second = first.successor(8);
    second.settle();
    second.after(4_000);
    let (_, call) = second.settle_until(resizes).unwrap();
    assert_eq!(words(&call), "resize Pod orders-2");
}
