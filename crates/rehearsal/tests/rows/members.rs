//! Members: created in order, recreated on their own claims, never on empty ones.

use crate::desk::{Desk, claim, orders, refused, words};
use ensemble_api::Reason;
use ensemble_conductor::{ApiCall, Input, Kind, Outcome, Verb};
use serde_json::{Value, json};
use std::sync::Arc;

fn creates(kind: Kind) -> impl Fn(&ApiCall) -> bool {
    move |c| *c.verb() == Verb::Create { dry_run: false } && c.kind() == kind
}

fn reasons(desk: &Desk) -> Vec<Reason> {
    let steps = desk.status().plan.steps;
    steps
        .iter()
        .filter_map(|s| Some(s.blocker.as_ref()?.reason))
        .collect()
}

#[test]
fn the_ledger_comes_first_then_a_members_claims_then_its_pod() {
    let mut desk = Desk::new(orders(1));
    desk.settle();
    let at = |what: &str| desk.done.iter().position(|d| d == what).unwrap();
    assert!(at("status Ensemble orders") < at("create Claim data-orders-0"));
    assert!(at("create Claim data-orders-0") < at("create Pod orders-0"));
}

#[test]
fn a_controller_that_died_between_two_claims_is_finished_by_the_next_as_if_nothing_had_happened() {
    let mut ensemble = orders(1);
    ensemble["spec"]["claims"] = json!([claim("data"), claim("wal")]);
    let mut first = Desk::new(ensemble);
    let (_, call) = first.settle_until(creates(Kind::Claim)).unwrap();
    assert!(matches!(first.perform(&call), Outcome::Done(_)));
    let mut second = first.successor(8);
    second.settle();
    assert!(second.is_ready(), "{:?}", second.done);
    assert!(second.done.contains(&"create Claim wal-orders-0".into()));
}

#[test]
fn a_pod_that_still_ends_has_no_successor_yet() {
    let mut desk = Desk::serving();
    let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    desk.edit(Kind::Pod, "orders-1", &ending);
    assert!(desk.settle_until(creates(Kind::Pod)).is_none());
    desk.remove(Kind::Pod, "orders-1");
    let (_, call) = desk.settle_until(creates(Kind::Pod)).unwrap();
    assert_eq!(words(&call), "create Pod orders-1");
}

#[test]
fn a_used_member_whose_claim_is_gone_gets_no_empty_one() {
    let mut desk = Desk::serving();
    desk.remove(Kind::Claim, "data-orders-1");
    desk.remove(Kind::Pod, "orders-1");
    desk.settle();
    assert!(desk.get(Kind::Claim, "data-orders-1").is_none());
    assert!(desk.get(Kind::Pod, "orders-1").is_none());
    assert!(reasons(&desk).contains(&Reason::ClaimMissing));
}

#[test]
fn without_any_claim_left_nothing_is_created_at_all() {
    let mut desk = Desk::serving();
    for ordinal in 0..3 {
        desk.remove(Kind::Claim, &format!("data-orders-{ordinal}"));
        desk.remove(Kind::Pod, &format!("orders-{ordinal}"));
    }
    desk.done.clear();
    desk.settle();
    assert!(!desk.done.iter().any(|d| d.starts_with("create")));
    assert!(reasons(&desk).contains(&Reason::DataMissing));
}

#[test]
fn a_foreign_pod_of_our_name_is_looked_at_and_left_alone_until_it_is_gone() {
    let mut desk = Desk::new(orders(1));
    // Without our label, so no watch of ours shows it.
    desk.put(Kind::Pod, json!({"metadata": {"name": "orders-0"}}));
    let foreign = desk.get(Kind::Pod, "orders-0");
    let looks = |c: &ApiCall| *c.verb() == Verb::Get;
    let (id, call) = desk.settle_until(looks).unwrap();
    desk.tell(Input::Done(
        id,
        Outcome::Done(foreign.clone().unwrap().into()),
    ));
    assert_eq!(words(&call), "get Pod orders-0");
    desk.settle();
    assert_eq!(desk.get(Kind::Pod, "orders-0"), foreign);
    assert!(reasons(&desk).contains(&Reason::NameTaken));
    desk.vanish(Kind::Pod, "orders-0");
    for _ in 0..40 {
        desk.after(1_000);
        desk.settle();
    }
    assert!(desk.is_ready(), "{:?} {:?}", reasons(&desk), desk.done);
}

#[test]
fn a_pod_whose_label_was_edited_is_put_right_and_then_rolled_like_any_other() {
    let mut desk = Desk::serving();
    let label = json!({"metadata": {"labels": {"ensemble.dev/ensemble": "other"}}});
    // Its owner says whose it is, so we are told of it still.
    desk.edit(Kind::Pod, "orders-2", &label);
    desk.done.clear();
    desk.settle();
    assert!(
        desk.done.contains(&"patch Pod orders-2".to_owned()),
        "{:?}",
        desk.done
    );
    let pod = desk.get(Kind::Pod, "orders-2").unwrap();
    assert_eq!(pod["metadata"]["labels"]["ensemble.dev/ensemble"], "orders");
    desk.image("db:2");
    for _ in 0..60 {
        desk.settle();
        desk.after(1_000);
    }
    assert!(desk.is_ready(), "{:?} {:?}", reasons(&desk), desk.done);
}

#[test]
fn a_lost_status_is_rebuilt_and_nobody_is_touched() {
    let mut desk = Desk::serving();
    let ledger = desk.status().ledger;
    desk.edit(Kind::Ensemble, "orders", &json!({"status": null}));
    desk.settle();
    assert_eq!(desk.status().ledger, ledger);
    assert!(
        desk.done.iter().all(|d| d.starts_with("status")),
        "{:?}",
        desk.done
    );
}

#[test]
fn a_report_in_the_words_of_another_version_does_not_lose_the_ledger() {
    let mut desk = Desk::serving();
    let words =
        json!({"status": {"plan": {"state": "Dancing"}, "ledger": {"members": {"next": 9}}}});
    desk.edit(Kind::Ensemble, "orders", &words);
    desk.settle();
    assert_eq!(desk.status().ledger["members"].next, 9);
}

#[test]
fn an_ensemble_that_cannot_be_read_is_complained_about_once_and_left_alone() {
    let mut desk = Desk::serving();
    let broken = json!({"spec": {"replicas": "three"}});
    desk.edit(Kind::Ensemble, "orders", &broken);
    for _ in 0..3 {
        desk.after(10_000);
        desk.settle();
    }
    assert!(desk.done.is_empty(), "{:?}", desk.done);
    let complaints = desk.happenings.iter().filter(|h| h.reason == "Invalid");
    assert_eq!(complaints.count(), 1);
    desk.edit(Kind::Ensemble, "orders", &json!({"spec": {"replicas": 4}}));
    desk.settle();
    assert!(desk.is_ready() && desk.get(Kind::Pod, "orders-3").is_some());
}

#[test]
fn a_converged_ensemble_costs_no_call_however_often_it_is_looked_at() {
    let mut desk = Desk::serving();
    for kind in ensemble_conductor::WATCHED {
        desk.list(kind);
        desk.after(60_000);
    }
    let mut next = desk.successor(8);
    next.after(60_000);
    assert!(desk.calls.is_empty() && next.calls.is_empty());
}

#[test]
fn a_suspended_ensemble_is_written_nothing_but_its_condition() {
    let mut desk = Desk::serving();
    desk.edit(
        Kind::Ensemble,
        "orders",
        &json!({"spec": {"suspend": true, "replicas": 1}}),
    );
    desk.remove(Kind::Pod, "orders-0");
    desk.settle();
    assert!(
        desk.done.iter().all(|d| d == "status Ensemble orders"),
        "{:?}",
        desk.done
    );
}

#[test]
fn who_does_not_lead_asks_for_nothing() {
    let mut desk = Desk::idle(orders(3));
    desk.after(60_000);
    assert!(desk.calls.is_empty());
}

#[test]
fn a_write_whose_answer_was_lost_is_looked_up_before_anything_else_is_done() {
    let mut desk = Desk::new(orders(1));
    let (id, call) = desk.settle_until(creates(Kind::Pod)).unwrap();
    desk.perform(&call);
    desk.tell(Input::Done(id, Outcome::Unknown("no answer".into())));
    assert_eq!(desk.relists, [Kind::Pod]);
    desk.after(5_000);
    assert!(desk.settle_until(creates(Kind::Pod)).is_none());
    desk.list(Kind::Pod);
    desk.settle();
    assert!(desk.is_ready());
    assert_eq!(
        desk.done
            .iter()
            .filter(|d| *d == "create Pod orders-0")
            .count(),
        0
    );
}

#[test]
fn a_refused_call_is_tried_again_with_pauses_and_the_others_go_on() {
    let mut desk = Desk::new(orders(2));
    let quota = "exceeded quota: small";
    let mut tries = 0;
    let zero = |c: &ApiCall| creates(Kind::Pod)(c) && c.name() == "orders-0";
    while let Some((id, _)) = desk.settle_until(zero) {
        tries += 1;
        assert!(tries < 4, "it is tried without a pause");
        desk.tell(Input::Done(id, refused(403, "Forbidden", quota)));
    }
    assert!(desk.get(Kind::Pod, "orders-1").is_some());
    assert!(reasons(&desk).contains(&Reason::QuotaExceeded));
    desk.after(60_000);
    desk.settle();
    assert!(desk.is_ready());
}

#[test]
fn a_watch_that_shows_an_object_again_as_it_was_changes_nothing() {
    let mut desk = Desk::serving();
    let pod: Value = desk.get(Kind::Pod, "orders-1").unwrap();
    desk.tell(Input::Applied(Kind::Pod, Arc::new(pod)));
    assert!(desk.calls.is_empty());
}
