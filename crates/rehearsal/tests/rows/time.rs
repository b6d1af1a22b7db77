//! Clocks that jump, sleep and disagree.

use crate::desk::{Desk, words};
use ensemble_conductor::{ApiCall, Input, Kind, Verb};
use serde_json::json;

fn disrupts(call: &ApiCall) -> bool {
    matches!(call.verb(), Verb::Evict | Verb::Delete) && call.kind() == Kind::Pod
}

/// Two members are not Ready, and a newer revision waits for them: more than the budget allows, until a
/// minute has passed in which they were seen so.
fn unwell() -> Desk {
    let mut desk = Desk::serving();
    let ill = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    for member in ["orders-0", "orders-1"] {
        desk.edit(Kind::Pod, member, &ill);
    }
    desk.image("db:2");
    desk.settle();
    desk.done.clear();
    desk
}

#[test]
fn an_hour_that_was_slept_over_is_not_an_hour_in_which_a_member_was_unwell() {
    let mut desk = unwell();
    desk.after(20_000);
    desk.jump(3_600_000);
    assert!(desk.settle_until(disrupts).is_none(), "{:?}", desk.done);
    desk.after(30_000);
    assert!(desk.settle_until(disrupts).is_none(), "{:?}", desk.done);
    // The minute that was seen is over now.
    desk.after(15_000);
    assert!(desk.settle_until(disrupts).is_some());
}

#[test]
fn a_clock_that_is_set_back_stands_still_and_makes_nobody_wait() {
    let mut desk = unwell();
    let real = desk.now;
    desk.now = real.plus_ms(-3_600_000);
    desk.tell(Input::Tick);
    assert_eq!(desk.conductor.snapshot().now, real, "it does not go back");
    let wake = desk.wake.unwrap();
    assert!(wake > real, "{wake:?} is no time to be woken");
    desk.now = real;
    desk.after(61_000);
    assert!(desk.settle_until(disrupts).is_some());
}

#[test]
fn nobody_is_woken_in_the_past_whatever_the_clock_does() {
    let mut desk = unwell();
    for ms in [0, 1, 3_600_000, 86_400_000, 0, 5] {
        desk.jump(ms);
        let soonest = desk.now.plus_ms(100);
        assert!(desk.wake.is_none_or(|at| at >= soonest), "{:?}", desk.wake);
    }
}

#[test]
fn a_look_that_was_slept_over_is_begun_anew() {
    let mut desk = Desk::serving();
    desk.image("db:2");
    let lists = |c: &ApiCall| *c.verb() == Verb::List && c.kind() == Kind::Claim;
    let (id, call) = desk.settle_until(lists).unwrap();
    desk.jump(60_000);
    desk.carry_out(id, &call);
    let next: Vec<String> = desk.calls.iter().map(|(_, c)| words(c)).collect();
    assert!(!next.iter().any(|c| c.starts_with("evict")), "{next:?}");
    let (_, call) = desk.settle_until(|c| *c.verb() == Verb::Evict).unwrap();
    assert_eq!(words(&call), "evict Pod orders-2");
    let looks = desk.done.iter().filter(|d| *d == "list Pod orders");
    assert_eq!(looks.count(), 2);
}
