//! A definition in the cluster that is older than the controller.

use crate::desk::{Asked, Desk, orders};
use ensemble_conductor::{ApiCall, Input, Kind, Outcome, Verb};
use serde_json::{Value, json};
use std::sync::Arc;

fn writes_status(call: &ApiCall) -> bool {
    *call.verb() == Verb::ReplaceStatus
}

/// The API server stores a status without its progress and its members' nodes.
fn store_without(desk: &mut Desk, (id, call): Asked) {
    let mut status = call.body()["status"].clone();
    status.as_object_mut().unwrap().remove("progressedAt");
    for member in status["members"].as_array_mut().into_iter().flatten() {
        member.as_object_mut().unwrap().remove("node");
    }
    let mut stored = desk.get(Kind::Ensemble, "orders").unwrap();
    let changed = stored["status"] != status;
    stored["status"] = status;
    if changed {
        desk.put(Kind::Ensemble, stored);
    }
    let stored: Value = desk.get(Kind::Ensemble, "orders").unwrap();
    desk.tell(Input::Done(id, Outcome::Done(Arc::new(stored))));
    if changed {
        desk.show(Kind::Ensemble, "orders");
    }
}

/// Plays for so long; how often a status was sent.
fn play(desk: &mut Desk, seconds: i64) -> usize {
    let mut sent = 0;
    for _ in 0..seconds {
        while let Some(asked) = desk.settle_until(writes_status) {
            store_without(desk, asked);
            sent += 1;
            assert!(sent < 100, "it is sent again and again");
        }
        desk.after(1_000);
    }
    sent
}

#[test]
fn a_status_that_the_api_server_prunes_is_said_and_not_sent_again_and_again() {
    let mut desk = Desk::new(orders(3));
    play(&mut desk, 30);
    assert_eq!(play(&mut desk, 120), 0, "at rest nothing is written");
    let plan = desk.status().plan;
    let said = plan.steps.iter().filter_map(|s| s.blocker.as_ref());
    let messages: Vec<&str> = said.map(|b| b.message.as_str()).collect();
    let named = |m: &&str| m.contains("progressedAt") && m.contains("ensemble install");
    assert!(messages.iter().any(named), "{messages:?}");
    assert!(desk.is_ready(), "it holds nothing up");
    // What changes is told all the same.
    desk.image("db:2");
    assert!(play(&mut desk, 30) > 0);
    assert!(desk.is_ready(), "{:?}", desk.status().plan);
    let pod = desk.get(Kind::Pod, "orders-0").unwrap();
    assert_eq!(pod["spec"]["containers"][0]["image"], json!("db:2"));
}
