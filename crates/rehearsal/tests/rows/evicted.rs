//! An eviction that came to nothing: its entry in our budget is taken back, and the roll goes on.
#![allow(clippy::unwrap_used)]

use crate::desk::{Desk, refused, words};
use ensemble_conductor::{ApiCall, Input, Kind, Verb};
use serde_json::{Value, json};

const BUDGET: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

fn evicts(call: &ApiCall) -> bool {
    *call.verb() == Verb::Evict
}

fn uncounts(call: &ApiCall) -> bool {
    *call.verb() == Verb::MergePatchStatus && call.kind() == Kind::Budget
}

/// The API server enters the pod, finds it changed, and deletes nothing.
fn cut_off(desk: &mut Desk) {
    let (id, call) = desk.settle_until(evicts).unwrap();
    assert_eq!(words(&call), "evict Pod orders-2");
    enter(desk);
    desk.tell(Input::Done(id, refused(409, "Conflict", "modified")));
}

/// The watches show the entry and a pod that was touched.
fn enter(desk: &mut Desk) {
    let entry = json!({"orders-2": "2026-11-16T00:19:50Z"});
    let status = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": entry}});
    desk.edit(Kind::Budget, "orders-members", &status);
    let touched = json!({"metadata": {"annotations": {"engine": "was here"}}});
    desk.edit(Kind::Pod, "orders-2", &touched);
}

/// Refuses evictions for a while.
fn refuse(desk: &mut Desk, seconds: i64) -> Option<(ensemble_conductor::CallId, ApiCall)> {
    let until = desk.now.plus_ms(seconds * 1000);
    while desk.now < until {
        match desk.settle_until(|c| evicts(c) || uncounts(c)) {
            Some((id, call)) if evicts(&call) => {
                desk.tell(Input::Done(id, refused(429, "TooManyRequests", BUDGET)));
            }
            Some(found) => return Some(found),
            None => desk.after(100),
        }
    }
    None
}

#[test]
fn an_eviction_that_ended_in_a_conflict_is_taken_back_and_tried_again() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    cut_off(&mut desk);
    assert!(refuse(&mut desk, 2).is_none(), "too soon");
    let report = desk.status().plan;
    let (_, blocker) = report.first_blocked().unwrap();
    assert_eq!(blocker.reason.to_string(), "EvictionRefused");
    assert!(blocker.message.contains("is taken back"), "{blocker:?}");
    let (id, call) = refuse(&mut desk, 2).unwrap();
    let budget = desk.get(Kind::Budget, "orders-members").unwrap();
    let meta = &budget["metadata"];
    let pinned = json!({"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]});
    let body = json!({"metadata": pinned, "status": {"disruptedPods": {"orders-2": null}}});
    assert_eq!((call.name(), call.body()), ("orders-members", &body));
    desk.carry_out(id, &call);
    let room = json!({"status": {"disruptionsAllowed": 1}});
    desk.edit(Kind::Budget, "orders-members", &room);
    let (id, call) = desk.settle_until(evicts).unwrap();
    assert_eq!(words(&call), "evict Pod orders-2");
    desk.carry_out(id, &call);
    desk.settle();
    assert!(desk.is_ready(), "{:?}", desk.status().plan);
}

#[test]
fn while_our_own_eviction_is_not_answered_its_entry_stays() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let (id, _) = desk.settle_until(evicts).unwrap();
    enter(&mut desk);
    for _ in 0..20 {
        desk.after(1_000);
        assert!(desk.settle_until(uncounts).is_none());
    }
    desk.tell(Input::Done(id, refused(409, "Conflict", "modified")));
    assert!(desk.settle_until(uncounts).is_some());
}

#[test]
fn a_budget_that_changed_meanwhile_is_looked_at_again() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    cut_off(&mut desk);
    let (id, _) = refuse(&mut desk, 5).unwrap();
    let entry = json!({"status": {"disruptedPods": {"orders-2": "2026-11-16T00:20:01Z"}}});
    desk.edit(Kind::Budget, "orders-members", &entry);
    desk.tell(Input::Done(id, refused(409, "Conflict", "modified")));
    assert!(refuse(&mut desk, 2).is_none(), "another eviction's entry");
    assert!(refuse(&mut desk, 2).is_some());
}

#[test]
fn what_could_not_be_taken_back_is_forgotten_once_kubernetes_forgets_it() {
    let mut desk = Desk::serving();
    enter(&mut desk);
    let words = "User \"x\" cannot patch resource \"poddisruptionbudgets/status\"";
    for _ in 0..4 {
        let (id, _) = refuse(&mut desk, 20).unwrap();
        desk.tell(Input::Done(id, refused(403, "Forbidden", words)));
    }
    desk.settle();
    let reason = |d: &Desk| {
        let report = d.status().plan;
        report.first_blocked().map(|(_, b)| b.reason.to_string())
    };
    assert_eq!(reason(&desk).as_deref(), Some("ApiRefused"));
    let forgotten = json!({"status": {"disruptedPods": Value::Null}});
    desk.edit(Kind::Budget, "orders-members", &forgotten);
    desk.settle();
    assert_eq!(reason(&desk), None);
}
