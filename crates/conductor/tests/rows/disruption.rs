//! Disruptions: written down, looked at again, sent for that very pod.

use crate::desk::{Desk, refused, words};
use ensemble_conductor::{ApiCall, Input, Kind, Verb};
use serde_json::json;

const BUDGET: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

#[test]
fn a_disruption_is_one_status_write_one_list_and_one_eviction_in_this_order() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    desk.settle_until(|c| *c.verb() == Verb::Evict).unwrap();
    let done = desk.done.iter().rev().take(2).collect::<Vec<_>>();
    assert_eq!(done, ["list Pod orders", "status Ensemble orders"]);
    let status = desk.status();
    assert_eq!(status.in_flight.len(), 1);
    assert_eq!(status.in_flight[0].member, "orders-2");
}

#[test]
fn a_refused_eviction_is_tried_again_as_soon_as_the_budget_has_room() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let evicts = |c: &ApiCall| *c.verb() == Verb::Evict;
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
