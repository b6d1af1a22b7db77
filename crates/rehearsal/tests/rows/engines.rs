//! Engines: when they are asked.

use crate::desk::{Desk, orders};
use ensemble_conductor::{EngineOutcome, Input, Kind};
use ensemble_planner::engine::{Answer, WhyUnknown};
use serde_json::{Value, json};

/// A member of an ensemble with an engine, which was just asked and has answered.
fn answered() -> Desk {
    let mut ensemble = orders(1);
    ensemble["spec"]["engine"] = json!({"patroni": {}});
    let mut desk = Desk::new(ensemble);
    desk.settle();
    desk.edit(
        Kind::Pod,
        "orders-0",
        &json!({"status": {"podIP": "10.0.0.1"}}),
    );
    answer(&mut desk);
    desk
}

/// Answers what was asked; how many questions that were.
fn answer(desk: &mut Desk) -> usize {
    let questions = std::mem::take(&mut desk.questions);
    for (id, question) in &questions {
        let said = Answer::unknown(question.asked(), WhyUnknown::Starting);
        let said = EngineOutcome::Saw(said);
        desk.tell(Input::Engine(*id, said));
    }
    questions.len()
}

/// What Patroni writes to its pod.
fn writes(state: &str, position: u32) -> Value {
    let said = json!({"state": state, "role": "replica", "xlog_location": position});
    json!({"metadata": {"annotations": {"status": said.to_string()}}})
}

#[test]
fn a_member_whose_engine_writes_something_new_to_its_pod_is_asked_at_once() {
    let mut desk = answered();
    desk.edit(Kind::Pod, "orders-0", &writes("starting", 1));
    assert_eq!(answer(&mut desk), 1);
    desk.edit(Kind::Pod, "orders-0", &writes("starting", 2));
    assert_eq!(answer(&mut desk), 0, "only a position moved");
    desk.edit(Kind::Pod, "orders-0", &writes("running", 2));
    assert_eq!(answer(&mut desk), 1);
}

#[test]
fn a_member_that_is_no_longer_ready_is_asked_at_once() {
    let mut desk = answered();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    desk.edit(Kind::Pod, "orders-0", &unready);
    assert_eq!(answer(&mut desk), 1);
}
