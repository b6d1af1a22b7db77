//! Patroni as it is found in the wild. The answers have the shape that `get_postgresql_status` (api.py) and
//! `cluster_as_json` (utils.py) of Patroni 3.0.2 and 4.1.5 give them; they are those that were recorded of
//! real members, changed as those functions would.

#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod fake;

use ensemble_engines::Access;
use ensemble_engines::patroni::{Patroni, Role, Sighting, Synchronous};
use ensemble_planner::engine::WhyUnknown;
use fake::{Fake, says};
use serde_json::{Value, json};

fn recorded(version: &str, file: &str) -> Value {
    let manifest = env!("CARGO_MANIFEST_DIR");
    let file = format!("{manifest}/tests/recorded/{version}/{file}.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// What the member of that number answers, in that order: /health, /cluster, /config.
struct Member {
    name: String,
    answers: [Value; 3],
}

impl Member {
    fn of(version: &str, number: usize) -> Self {
        let file = |what: &str| recorded(version, &format!("{what}-{number}"));
        Self {
            name: format!("pg-{}", number - 1),
            answers: [
                file("patroni"),
                file("cluster"),
                recorded(version, "config"),
            ],
        }
    }

    fn health(mut self, key: &str, value: Value) -> Self {
        self.answers[0][key] = value;
        self
    }

    /// What the list of members says of one of them.
    fn listed(mut self, name: &str, key: &str, value: &Value) -> Self {
        let members = self.answers[1]["members"].as_array_mut().unwrap();
        for member in members.iter_mut().filter(|m| m["name"] == name) {
            member[key] = value.clone();
        }
        self
    }

    fn config(mut self, key: &str, value: Value) -> Self {
        self.answers[2][key] = value;
        self
    }

    async fn seen(&self) -> Sighting {
        let answer = |n: usize| says(200, &self.answers[n].to_string());
        let fake = Fake::start(&[
            ("GET /health", answer(0)),
            ("GET /cluster", answer(1)),
            ("GET /config", answer(2)),
        ])
        .await;
        let patroni = Patroni::new(&Access::default()).unwrap();
        patroni.look(&fake.target(&self.name)).await
    }
}

#[tokio::test]
async fn a_replica_that_feeds_another_says_so() {
    let below = json!([{"usename": "replicator", "application_name": "pg-2", "client_addr": null,
        "state": "streaming", "sync_state": "async", "sync_priority": 0}]);
    for version in ["3.0.2", "4.1.5"] {
        let said = Member::of(version, 2)
            .health("replication", below.clone())
            .seen()
            .await;
        assert_eq!(said.role, Role::Follower);
        assert!(said.attached["pg-2"].streaming);
    }
}

#[tokio::test]
async fn tags_say_who_may_lead_and_who_streams() {
    for version in ["3.0.2", "4.1.5"] {
        for (tags, electable, streams) in [
            (json!({}), true, true),
            (json!({"nofailover": true}), false, true),
            (json!({"nofailover": true, "nostream": true}), false, false),
            (json!({"nostream": true}), true, false),
            (json!({"nostream": "on"}), true, false),
            (json!({"replicatefrom": "pg-1"}), true, true),
            (json!({"nosync": true, "clonefrom": true}), true, true),
            (
                json!({"failover_priority": 0, "nofailover": null}),
                false,
                true,
            ),
            (
                json!({"failover_priority": 5, "sync_priority": 0}),
                true,
                true,
            ),
        ] {
            let said = Member::of(version, 2)
                .health("tags", tags.clone())
                .seen()
                .await;
            assert_eq!(
                (said.electable, said.streams),
                (electable, streams),
                "{tags}"
            );
        }
    }
}

#[tokio::test]
async fn several_synchronous_standbys_are_all_named() {
    for version in ["3.0.2", "4.1.5"] {
        let said = Member::of(version, 1)
            .config("synchronous_node_count", json!(2))
            .listed("pg-2", "role", &json!("sync_standby"))
            .seen()
            .await;
        assert_eq!(
            said.sync_standbys,
            ["pg-1", "pg-2"].map(String::from).into()
        );
        assert_eq!(said.synchronous, Synchronous::On);
    }
}

#[tokio::test]
async fn the_members_of_a_quorum_are_all_named() {
    let quorum = json!("quorum_standby");
    let said = Member::of("4.1.5", 1)
        .config("synchronous_mode", json!("quorum"))
        .listed("pg-1", "role", &quorum)
        .listed("pg-2", "role", &quorum)
        .seen()
        .await;
    assert_eq!(said.role, Role::Leader);
    assert_eq!(
        said.sync_standbys,
        ["pg-1", "pg-2"].map(String::from).into()
    );
    assert_eq!(said.synchronous, Synchronous::On);
}

#[tokio::test]
async fn the_leader_of_a_standby_cluster_is_not_supported_and_says_so() {
    for version in ["3.0.2", "4.1.5"] {
        let leader = json!("standby_leader");
        let said = Member::of(version, 1)
            .health("role", leader.clone())
            .listed("pg-0", "role", &leader)
            .seen()
            .await;
        assert!(
            matches!(said.role, Role::Unknown(WhyUnknown::Unsupported(_))),
            "{said:?}"
        );
        let said = Member::of(version, 2)
            .listed("pg-0", "role", &leader)
            .seen()
            .await;
        assert_eq!(
            (said.role, said.lock.as_deref()),
            (Role::Follower, Some("pg-0"))
        );
    }
}

#[tokio::test]
async fn everybody_says_that_failsafe_mode_is_active() {
    for number in 1..=3 {
        let said = Member::of("4.1.5", number)
            .health("failsafe_mode_is_active", json!(true))
            .seen()
            .await;
        assert!(
            matches!(said.role, Role::Unknown(WhyUnknown::CutOff(_))),
            "{said:?}"
        );
    }
    // That it is switched on is nothing yet.
    let said = Member::of("4.1.5", 1)
        .config("failsafe_mode", json!(true))
        .seen()
        .await;
    assert_eq!(said.role, Role::Leader);
}

#[tokio::test]
async fn a_delayed_replica_says_how_much_it_has_left_to_replay() {
    let xlog = json!({"received_location": 5_368_709_120_u64, "replayed_location": 4_294_967_296_u64,
        "replayed_timestamp": "2026-11-16 00:53:00+00:00", "paused": false});
    for version in ["3.0.2", "4.1.5"] {
        let said = Member::of(version, 2)
            .health("xlog", xlog.clone())
            .seen()
            .await;
        assert_eq!(said.role, Role::Follower);
        assert_eq!(said.unreplayed, 1 << 30);
        let said = Member::of(version, 2).seen().await;
        assert_eq!(said.unreplayed, 0);
    }
}
