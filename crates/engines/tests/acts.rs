//! What is sent when something is asked for.

#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod fake;

use ensemble_engines::Access;
use ensemble_engines::patroni::Patroni;
use ensemble_planner::engine::Reply;
use fake::{Fake, Says, says};

fn admin() -> Patroni {
    let access = Access {
        username: Some("admin".into()),
        password: Some("secret".into()),
        ..Access::default()
    };
    Patroni::new(&access).unwrap()
}

#[tokio::test]
async fn a_switchover_names_who_leads_and_who_shall() {
    let text = "Switched over to \"pg-2\" instead of \"pg-1\"";
    let fake = Fake::start(&[("POST /switchover", says(200, text))]).await;
    let reply = admin()
        .switch_over(&fake.target("pg-0"), "pg-0", "pg-1")
        .await;
    assert_eq!(reply, Reply::Taken(text.into()));
    let heard = &fake.heard()[0];
    assert!(
        heard.ends_with(r#"{"candidate":"pg-1","leader":"pg-0"}"#),
        "{heard}"
    );
    assert!(
        heard.contains("authorization: Basic YWRtaW46c2VjcmV0\r\n"),
        "{heard}"
    );
}

#[tokio::test]
async fn a_nudge_removes_what_is_not_there() {
    let fake = Fake::start(&[("PATCH /config", says(200, "{}"))]).await;
    let reply = admin().nudge(&fake.target("pg-0")).await;
    assert_eq!(reply, Reply::Taken("woken".into()));
    assert!(fake.heard()[0].ends_with(r#"{"ensemble":null}"#));
}

#[tokio::test]
async fn parameters_are_set_and_removed() {
    let fake = Fake::start(&[("PATCH /config", says(200, "{}"))]).await;
    let parameters = [
        ("a".to_string(), Some("1".to_string())),
        ("b".to_string(), None),
    ];
    let reply = admin()
        .set_parameters(&fake.target("pg-0"), &parameters.into())
        .await;
    assert_eq!(reply, Reply::Taken("stored".into()));
    let expected = r#"{"postgresql":{"parameters":{"a":"1","b":null}}}"#;
    assert!(fake.heard()[0].ends_with(expected), "{:?}", fake.heard());
}

#[tokio::test]
async fn a_restart_is_asked_for_only_if_one_is_pending_and_whatever_the_role() {
    let fake = Fake::start(&[("POST /restart", says(503, "restart failed"))]).await;
    let reply = admin().restart(&fake.target("pg-0")).await;
    assert_eq!(reply, Reply::Refused("restart failed".into()));
    let body = "\r\n\r\n{\"restart_pending\":true}";
    assert!(fake.heard()[0].ends_with(body), "{:?}", fake.heard());
}

#[tokio::test]
async fn wrong_credentials_and_no_answer_are_told_apart() {
    let fake = Fake::start(&[("POST /restart", says(401, "not authenticated"))]).await;
    let reply = admin().restart(&fake.target("pg-0")).await;
    assert_eq!(reply, Reply::Unauthorised("not authenticated".into()));
    let fake = Fake::start(&[("POST /switchover", Says::Bytes(Vec::new()))]).await;
    let reply = admin()
        .switch_over(&fake.target("pg-0"), "pg-0", "pg-1")
        .await;
    assert!(matches!(reply, Reply::Unknown(_)), "{reply:?}");
}

#[tokio::test]
async fn a_password_does_not_go_along_with_a_look_in_the_clear() {
    let fake = Fake::start(&[]).await;
    admin().look(&fake.target("pg-0")).await;
    assert!(!fake.heard().concat().contains("authorization"));
}
