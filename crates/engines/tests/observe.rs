//! What members say, as recorded of real ones: Patroni 3.0.2 and 4.1.5 with PostgreSQL 15, three
//! members in synchronous mode, in peace and during a switchover.

#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod fake;

use ensemble_engines::Access;
use ensemble_engines::patroni::{Patroni, Role, Sighting, Synchronous};
use ensemble_planner::engine::WhyUnknown;
use fake::{Fake, Says, says};

async fn look(fake: &Fake, member: &str) -> Sighting {
    let patroni = Patroni::new(&Access::default()).unwrap();
    patroni.look(&fake.target(member)).await
}

fn recorded(version: &str, file: &str) -> String {
    let manifest = env!("CARGO_MANIFEST_DIR");
    std::fs::read_to_string(format!("{manifest}/tests/recorded/{version}/{file}.json")).unwrap()
}

async fn of_recorded(version: &str, file: &str, member: &str) -> Sighting {
    let ok = |file: &str| says(200, &recorded(version, file));
    let fake = Fake::start(&[
        ("GET /health", ok(&format!("patroni-{file}"))),
        ("GET /cluster", ok(&format!("cluster-{file}"))),
        ("GET /config", ok("config")),
    ])
    .await;
    look(&fake, member).await
}

/// The answers of a leader of 3.0.2, with some replaced.
async fn with(replaced: &[(&str, Says)]) -> Sighting {
    let mut answers = vec![
        ("GET /health", says(200, &recorded("3.0.2", "patroni-1"))),
        ("GET /cluster", says(200, &recorded("3.0.2", "cluster-1"))),
        ("GET /config", says(200, &recorded("3.0.2", "config"))),
    ];
    answers.extend_from_slice(replaced);
    look(&Fake::start(&answers).await, "pg-0").await
}

#[tokio::test]
async fn a_leader_is_seen_with_its_replicas_and_its_configuration() {
    for version in ["3.0.2", "4.1.5"] {
        let said = of_recorded(version, "1", "pg-0").await;
        assert_eq!(said.role, Role::Leader);
        assert_eq!(said.term, 1);
        assert_eq!(said.version, version);
        assert_eq!(said.lock.as_deref(), Some("pg-0"));
        assert!(said.attached["pg-1"].streaming && said.attached["pg-1"].synchronous);
        assert!(said.attached["pg-2"].streaming && !said.attached["pg-2"].synchronous);
        assert_eq!(said.sync_standbys, ["pg-1".to_string()].into());
        assert_eq!(said.synchronous, Synchronous::On);
        assert_eq!(said.loop_wait, Some(10));
        assert_eq!(said.parameters.unwrap()["hot_standby_feedback"], "on");
        assert!(said.started.starts_with("2026-11-16 00:53"));
        assert!(!said.cluster.is_empty() && !said.paused && !said.pending_restart);
    }
}

#[tokio::test]
async fn replicas_are_seen_with_their_lag_and_whether_they_may_lead() {
    for version in ["3.0.2", "4.1.5"] {
        for (file, member, electable) in [("2", "pg-1", true), ("3", "pg-2", false)] {
            let said = of_recorded(version, file, member).await;
            assert_eq!(said.role, Role::Follower);
            assert_eq!((said.term, said.lag), (1, Some(0)));
            assert_eq!(said.lock.as_deref(), Some("pg-0"));
            assert_eq!(said.electable, electable);
            assert_eq!((said.loop_wait, said.parameters), (None, None));
        }
    }
}

#[tokio::test]
async fn a_switchover_is_seen_as_it_goes() {
    use WhyUnknown::{Starting, Stopping};
    for (version, file, member, role) in [
        ("3.0.2", "stopping", "pg-0", Role::Unknown(Stopping)),
        ("3.0.2", "demoted", "pg-0", Role::Unknown(Stopping)),
        ("3.0.2", "promoting", "pg-1", Role::Unknown(Starting)),
        ("4.1.5", "promoting", "pg-1", Role::Unknown(Starting)),
        ("3.0.2", "promoted", "pg-1", Role::Leader),
    ] {
        let said = of_recorded(version, file, member).await;
        assert_eq!(said.role, role, "{version} {file}");
    }
}

#[tokio::test]
async fn somebody_else_at_the_address_is_a_stranger() {
    let said = of_recorded("4.1.5", "2", "pg-0").await;
    assert_eq!(
        said.role,
        Role::Unknown(WhyUnknown::Stranger("pg-1".into()))
    );
    let said = of_recorded("3.0.2", "2", "other-0").await;
    assert!(matches!(said.role, Role::Unknown(WhyUnknown::Stranger(_))));
}

#[tokio::test]
async fn a_postgresql_that_does_not_start_is_named() {
    let failed = says(200, &recorded("3.0.2", "patroni-start-failed"));
    let said = with(&[("GET /health", failed)]).await;
    assert!(
        format!("{:?}", said.role).contains("start failed"),
        "{said:?}"
    );
}

#[tokio::test]
async fn a_member_whose_postgresql_does_not_run_yet_is_heard_although_it_is_not_well() {
    let starting = says(503, r#"{"state": "starting", "role": "replica"}"#);
    let said = with(&[("GET /health", starting)]).await;
    assert_eq!(said.role, Role::Unknown(WhyUnknown::Starting));
}

#[tokio::test]
async fn what_is_no_answer_is_unknown_with_its_cause() {
    let redirect = b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n".to_vec();
    for (question, answer, expected) in [
        (
            "GET /health",
            says(401, "who are you"),
            "Unauthorised(\"GET /health: who are you",
        ),
        (
            "GET /health",
            says(403, "Access is denied"),
            "Unauthorised(\"GET /health: Access",
        ),
        (
            "GET /health",
            says(200, "{"),
            "Unreadable(\"GET /health: it is not JSON",
        ),
        (
            "GET /health",
            says(200, "[]"),
            "Unreadable(\"GET /health: there is no role",
        ),
        (
            "GET /health",
            says(500, "<html>"),
            "Unreadable(\"GET /health: 500",
        ),
        (
            "GET /health",
            says(503, "no upstream"),
            "Unreadable(\"GET /health: no upstream",
        ),
        (
            "GET /health",
            says(503, "{}"),
            "Unreadable(\"GET /health: {}",
        ),
        (
            "GET /health",
            says(200, &"x".repeat(1 << 21)),
            "its answer is too long",
        ),
        (
            "GET /health",
            Says::Bytes(redirect),
            "redirects are not followed",
        ),
        (
            "GET /health",
            Says::Bytes(b"SSH-2.0-x\r\n\r\n".to_vec()),
            "does not speak HTTP",
        ),
        (
            "GET /health",
            Says::Bytes(Vec::new()),
            "Unreachable(\"GET /health: connection closed",
        ),
        (
            "GET /cluster",
            says(500, ""),
            "Unreadable(\"GET /cluster: 500",
        ),
        (
            "GET /cluster",
            says(200, "{}"),
            "Unreadable(\"GET /cluster: there is no list",
        ),
        (
            "GET /config",
            says(502, ""),
            "Unreadable(\"GET /config: 502",
        ),
    ] {
        let role = format!("{:?}", with(&[(question, answer)]).await.role);
        assert!(
            role.starts_with("Unknown(") && role.contains(expected),
            "{role}"
        );
    }
}

#[tokio::test]
async fn silence_and_a_closed_port_are_unreachable() {
    let silent = with(&[("GET /health", Says::Nothing)]).await.role;
    let cause = "GET /health: no answer within 2 s".to_string();
    assert_eq!(silent, Role::Unknown(WhyUnknown::Unreachable(cause)));
    let mut target = Fake::start(&[]).await.target("pg-0");
    target.port = 1;
    let patroni = Patroni::new(&Access::default()).unwrap();
    let said = patroni.look(&target).await;
    let cause = "GET /health: connection refused".to_string();
    assert_eq!(said.role, Role::Unknown(WhyUnknown::Unreachable(cause)));
}

#[tokio::test]
async fn a_v6_address_is_asked() {
    let answers = [("GET /health", says(500, "reached"))];
    let fake = Fake::start_at("[::1]:0", &answers, None).await;
    let said = look(&fake, "pg-0").await;
    assert!(format!("{:?}", said.role).contains("reached"), "{said:?}");
    assert!(
        fake.heard()[0].contains("host: [::1]:"),
        "{:?}",
        fake.heard()
    );
}
