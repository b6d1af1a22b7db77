//! etcd, as recorded of real members: 3.5.35 and 3.6.8, three members, in peace, with a learner, with
//! alarms, with authentication, and with nobody who leads.

#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod fake;

use ensemble_engines::etcd::{Alarm, Etcd, Sighting};
use ensemble_engines::{Access, Target};
use ensemble_planner::engine::{Reply, WhyUnknown};
use fake::{Fake, Says, says};
use serde_json::Value;

const STATUS: &str = "POST /v3/maintenance/status";
const MEMBERS: &str = "POST /v3/cluster/member/list";
const TRANSFER: &str = "POST /v3/maintenance/transfer-leadership";

const VERSIONS: [&str; 2] = ["3.5.35", "3.6.8"];

fn recorded(version: &str, file: &str) -> String {
    let manifest = env!("CARGO_MANIFEST_DIR");
    let file = format!("{manifest}/tests/recorded/etcd-{version}/{file}.json");
    std::fs::read_to_string(file).unwrap()
}

fn ok(version: &str, file: &str) -> Says {
    says(200, &recorded(version, file))
}

fn etcd() -> Etcd {
    Etcd::new(&Access::default()).unwrap()
}

async fn seen(status: Says, members: Says) -> Result<Sighting, WhyUnknown> {
    let fake = Fake::start(&[(STATUS, status), (MEMBERS, members)]).await;
    etcd().look(&fake.target("etcd-0")).await
}

async fn of_recorded(version: &str, status: &str, members: &str) -> Sighting {
    seen(ok(version, status), ok(version, members))
        .await
        .unwrap()
}

/// The number of a member, by name.
fn number(said: &Sighting, name: &str) -> u64 {
    let mut listed = said.listed.iter();
    *listed.find(|(_, l)| l.name == name).unwrap().0
}

#[tokio::test]
async fn a_leader_and_its_followers_are_seen_with_their_numbers_and_positions() {
    for version in VERSIONS {
        let leader = of_recorded(version, "status-0", "members-0").await;
        assert!(leader.claims() && !leader.learner);
        assert_eq!(leader.member, number(&leader, "etcd-0"));
        assert_eq!((leader.term, leader.index, leader.applied), (3, 14, 14));
        assert_eq!(
            (leader.version.as_str(), leader.voters().len()),
            (version, 3)
        );
        assert!(leader.alarms.is_empty() && leader.cluster != 0);
        for n in [1, 2] {
            let said = of_recorded(version, &format!("status-{n}"), &format!("members-{n}")).await;
            assert!(!said.claims());
            assert_eq!(said.member, number(&said, &format!("etcd-{n}")));
            assert_eq!((said.leader, said.term), (leader.member, 3));
            assert_eq!((said.cluster, said.index), (leader.cluster, 14));
        }
    }
}

#[tokio::test]
async fn a_change_of_leader_raises_the_term() {
    for version in VERSIONS {
        let old = of_recorded(version, "status-after-0", "members-0").await;
        let new = of_recorded(version, "status-after-1", "members-1").await;
        assert!(!old.claims() && new.claims());
        assert_eq!((old.leader, old.term, new.term), (new.member, 4, 4));
    }
}

#[tokio::test]
async fn a_learner_is_seen_although_it_does_not_tell_whom_it_knows() {
    for (version, status) in [("3.5.35", 503), ("3.6.8", 400)] {
        let refused = says(status, &recorded(version, "members-learner"));
        let said = seen(ok(version, "status-learner"), refused).await.unwrap();
        assert!(said.learner && said.listed.is_empty() && said.leader != 0);
        // Of one that votes the list is needed.
        let refused = says(status, &recorded(version, "members-learner"));
        let said = seen(ok(version, "status-1"), refused).await;
        assert!(matches!(said, Err(WhyUnknown::Unreadable(_))), "{said:?}");
        let leader = of_recorded(version, "status-0", "members-with-learner").await;
        assert_eq!((leader.listed.len(), leader.voters().len()), (4, 3));
        let unstarted = of_recorded(version, "status-0", "members-unstarted").await;
        assert_eq!((unstarted.listed.len(), unstarted.voters().len()), (4, 3));
    }
}

#[tokio::test]
async fn alarms_are_seen_with_the_member_that_they_are_about() {
    for version in VERSIONS {
        let said = of_recorded(version, "status-alarmed", "members-0").await;
        let alarm = Alarm {
            member: number(&said, "etcd-2"),
            kind: "NOSPACE".into(),
        };
        assert_eq!(said.alarms, [alarm].into());
        let said = of_recorded(version, "status-corrupt", "members-0").await;
        assert!(said.says_corrupt(number(&said, "etcd-2")));
        assert!(!said.says_corrupt(said.member));
    }
}

#[tokio::test]
async fn without_a_quorum_a_member_still_answers_and_hears_of_no_leader() {
    for version in VERSIONS {
        let said = of_recorded(version, "status-leaderless", "members-leaderless").await;
        assert_eq!((said.leader, said.voters().len()), (0, 3));
        assert!(!said.claims() && said.alarms.is_empty());
    }
}

#[tokio::test]
async fn a_members_own_list_is_asked_for_and_not_the_common_one() {
    let fake = Fake::start(&[]).await;
    let _ = etcd().look(&fake.target("etcd-0")).await;
    let heard = fake.heard();
    let list = heard.iter().find(|h| h.starts_with(MEMBERS)).unwrap();
    assert!(list.ends_with(r#"{"linearizable":false}"#), "{list}");
}

#[tokio::test]
async fn what_is_no_answer_is_unknown_with_its_cause() {
    let redirect = b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n".to_vec();
    let long = format!("{{\"header\": \"{}\"}}", "x".repeat(2 << 20));
    for (answer, expected) in [
        (Says::Bytes(redirect), "redirects are not followed"),
        (says(404, "404 page not found"), "--enable-grpc-gateway"),
        (says(200, "{}"), "member_id"),
        (says(200, "["), "not JSON"),
        (says(200, &long), "too long"),
        (
            says(503, r#"{"code":14,"message":"etcdserver: no leader"}"#),
            "no leader",
        ),
        (Says::Bytes(b"SSH-2.0-OpenSSH\r\n".to_vec()), "HTTP"),
    ] {
        let said = seen(answer, ok("3.6.8", "members-0")).await.unwrap_err();
        assert!(said.to_string().contains(expected), "{expected}: {said}");
    }
}

async fn asked(version: &str, leader: &str, to: &str, answer: Says) -> (Reply, Vec<String>) {
    let fake = Fake::start(&[
        (STATUS, ok(version, "status-0")),
        (MEMBERS, ok(version, "members-with-learner")),
        (TRANSFER, answer),
    ])
    .await;
    let reply = etcd().switch_over(&fake.target("etcd-0"), leader, to).await;
    let heard = fake.heard().into_iter();
    (reply, heard.filter(|h| h.starts_with(TRANSFER)).collect())
}

#[tokio::test]
async fn the_leader_is_asked_and_the_one_that_is_to_lead_is_named_by_its_number() {
    for version in VERSIONS {
        let answer = ok(version, "transferred");
        let (reply, heard) = asked(version, "etcd-0", "etcd-1", answer).await;
        assert_eq!(reply, Reply::Taken(String::new()));
        let members: Value = serde_json::from_str(&recorded(version, "members-0")).unwrap();
        let members = members["members"].as_array().unwrap();
        let id = members.iter().find(|m| m["name"] == "etcd-1").unwrap()["ID"].clone();
        assert!(
            heard[0].ends_with(&format!("{{\"targetID\":{id}}}")),
            "{heard:?}"
        );
    }
}

#[tokio::test]
async fn what_etcd_refuses_is_refused_and_of_the_rest_nobody_knows() {
    for version in VERSIONS {
        for file in ["refused-not-leader", "refused-no-member"] {
            let answer = says(400, &recorded(version, file));
            let (reply, _) = asked(version, "etcd-0", "etcd-1", answer).await;
            assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
        }
        let answer = says(400, &recorded(version, "refused-auth"));
        let (reply, _) = asked(version, "etcd-0", "etcd-1", answer).await;
        assert!(matches!(reply, Reply::Unauthorised(_)), "{reply:?}");
    }
    let late =
        r#"{"code":14,"message":"etcdserver: request timed out, leader transfer took too long"}"#;
    for answer in [says(503, late), Says::Bytes(Vec::new())] {
        let (reply, _) = asked("3.6.8", "etcd-0", "etcd-1", answer).await;
        assert!(matches!(reply, Reply::Unknown(_)), "{reply:?}");
    }
}

#[tokio::test]
async fn nothing_is_sent_if_another_leads_or_the_one_that_is_to_lead_does_not_vote() {
    for (leader, to) in [
        ("etcd-1", "etcd-2"),
        ("etcd-0", "etcd-3"),
        ("etcd-0", "etcd-9"),
    ] {
        let (reply, heard) = asked("3.6.8", leader, to, says(200, "{}")).await;
        assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
        assert!(heard.is_empty(), "{heard:?}");
    }
}

#[test]
fn a_password_is_not_sent_in_the_clear() {
    let access = Access {
        username: Some("root".into()),
        password: Some("sesame".into()),
        ..Access::default()
    };
    let error = Etcd::new(&access).err().unwrap().to_string();
    assert!(
        error.contains("over TLS") && !error.contains("sesame"),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    let target = Target {
        member: "etcd-0".into(),
        address: "127.0.0.1".into(),
        port: 1,
        ..Target::default()
    };
    let said = etcd().look(&target).await;
    assert!(matches!(said, Err(WhyUnknown::Unreachable(_))), "{said:?}");
}
