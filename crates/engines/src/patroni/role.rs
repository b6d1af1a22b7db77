//! Which role a member plays, by its own words.

use super::Role;
use super::topology::Topology;
use crate::failure::Failure;
use ensemble_planner::engine::WhyUnknown;
use serde_json::Value;

/// From `role` and `state` in its answer to `GET /health`, and who holds the lock by its word.
///
/// Patroni 3 says `master` where 4 says `primary`. While PostgreSQL answers, the role is whether it
/// is in recovery; while it does not, the role is what Patroni intends.
pub(super) fn read(member: &str, status: &Value, topology: Result<&Topology, &Failure>) -> Role {
    let (Some(role), Some(state)) = (status["role"].as_str(), status["state"].as_str()) else {
        return unreadable("GET /health: there is no role and no state in it");
    };
    if status["failsafe_mode_is_active"] == true {
        let what = "its store does not answer, and failsafe mode keeps the primary";
        return Role::Unknown(WhyUnknown::CutOff(what.into()));
    }
    match (role, state) {
        ("standby_leader", _) => {
            let what = "it leads a standby cluster, where no switchover can be verified";
            Role::Unknown(WhyUnknown::Unsupported(what.into()))
        }
        (_, state) if is_starting(state) => Role::Unknown(WhyUnknown::Starting),
        ("uninitialized", "stopped") => Role::Unknown(WhyUnknown::Empty),
        // Also while its data is rewound, which Patroni has no word for.
        (_, "stopping" | "stopped") | ("demoted", _) => Role::Unknown(WhyUnknown::Stopping),
        ("master" | "primary", "running") => primary(member, status, topology),
        ("replica", "running" | "streaming" | "in archive recovery") => replica(member, topology),
        _ => unreadable(&format!("PostgreSQL is {state:?} in the role {role:?}")),
    }
}

fn unreadable(cause: &str) -> Role {
    Role::Unknown(WhyUnknown::Unreadable(cause.into()))
}

/// On its way up. A restart counts: PostgreSQL comes back in it.
fn is_starting(state: &str) -> bool {
    matches!(
        state,
        "starting"
            | "restarting"
            | "initializing new cluster"
            | "creating replica"
            | "running custom bootstrap script"
            | "starting after custom bootstrap"
    )
}

/// It leads if the lock is its own. One that takes writes without it is about to be demoted.
fn primary(member: &str, status: &Value, topology: Result<&Topology, &Failure>) -> Role {
    match topology {
        Err(failure) => Role::Unknown(failure.clone().why()),
        Ok(topology) if topology.lock() != Some(member) => Role::Unknown(WhyUnknown::Stopping),
        Ok(_) if status["timeline"].as_u64().is_none_or(|t| t == 0) => {
            unreadable("GET /health: it leads, and there is no timeline in it")
        }
        Ok(_) => Role::Leader,
    }
}

/// It follows, unless it has the lock already: then it is being promoted, and leads any moment.
fn replica(member: &str, topology: Result<&Topology, &Failure>) -> Role {
    match topology {
        Ok(topology) if topology.lock() == Some(member) => Role::Unknown(WhyUnknown::Starting),
        _ => Role::Follower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(role: &str, state: &str, holder: Option<&str>) -> Role {
        let roles = |n: &str| {
            if holder == Some(n) {
                "leader"
            } else {
                "replica"
            }
        };
        let members: Vec<Value> = ["pg-0", "pg-1"]
            .map(|n| json!({"name": n, "role": roles(n)}))
            .into();
        let topology = Topology::read(&json!({"members": members})).unwrap();
        let status = json!({"role": role, "state": state, "timeline": 3});
        read("pg-0", &status, Ok(&topology))
    }

    #[test]
    fn a_primary_leads_only_with_the_lock() {
        for role in ["master", "primary"] {
            assert_eq!(of(role, "running", Some("pg-0")), Role::Leader);
            let without = Role::Unknown(WhyUnknown::Stopping);
            assert_eq!(of(role, "running", Some("pg-1")), without);
            assert_eq!(of(role, "running", None), without);
        }
    }

    #[test]
    fn a_replica_with_the_lock_is_being_promoted_and_does_not_follow() {
        let promoted = Role::Unknown(WhyUnknown::Starting);
        assert_eq!(of("replica", "running", Some("pg-0")), promoted);
        for state in ["running", "streaming", "in archive recovery"] {
            assert_eq!(of("replica", state, Some("pg-1")), Role::Follower);
            assert_eq!(of("replica", state, None), Role::Follower);
        }
    }

    #[test]
    fn on_the_way_up_or_down_is_neither_leading_nor_following() {
        use WhyUnknown::{Empty, Starting, Stopping};
        for (role, state, why) in [
            ("replica", "starting", Starting),
            ("master", "starting", Starting),
            ("master", "restarting", Starting),
            ("replica", "creating replica", Starting),
            ("uninitialized", "initializing new cluster", Starting),
            ("uninitialized", "running custom bootstrap script", Starting),
            ("uninitialized", "starting after custom bootstrap", Starting),
            ("uninitialized", "stopped", Empty),
            ("primary", "stopping", Stopping),
            ("demoted", "stopping", Stopping),
            ("demoted", "stopped", Stopping),
            ("demoted", "running", Stopping),
            ("replica", "stopped", Stopping),
        ] {
            let expected = Role::Unknown(why);
            assert_eq!(of(role, state, Some("pg-0")), expected, "{role} {state}");
        }
    }

    #[test]
    fn a_state_that_is_no_role_is_named() {
        for (role, state, word) in [
            ("replica", "start failed", "start failed"),
            ("master", "restart failed (stopped)", "restart failed"),
            ("uninitialized", "initdb failed", "initdb failed"),
            (
                "uninitialized",
                "custom bootstrap failed",
                "custom bootstrap",
            ),
            ("primary", "stop failed", "stop failed"),
            ("replica", "crashed", "crashed"),
            ("master", "unknown", "unknown"),
            ("promoted", "running", "promoted"),
            ("captain", "running", "captain"),
        ] {
            let Role::Unknown(WhyUnknown::Unreadable(cause)) = of(role, state, Some("pg-0")) else {
                panic!("{role} {state} can be told");
            };
            assert!(cause.contains(word), "{cause}");
        }
    }

    #[test]
    fn a_standby_cluster_and_failsafe_mode_are_named() {
        for state in ["running", "starting"] {
            let role = of("standby_leader", state, Some("pg-0"));
            let Role::Unknown(WhyUnknown::Unsupported(what)) = role else {
                panic!("{role:?}");
            };
            assert!(what.contains("standby cluster"), "{what}");
        }
        for role in ["primary", "replica"] {
            let status = json!({"role": role, "state": "running", "timeline": 3,
                "failsafe_mode_is_active": true});
            let found = read("pg-0", &status, Ok(&Topology::default()));
            assert!(
                matches!(found, Role::Unknown(WhyUnknown::CutOff(_))),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_primary_that_cannot_say_who_has_the_lock_is_not_known_to_lead() {
        let status = json!({"role": "primary", "state": "running", "timeline": 3});
        let silent = Failure::Unreachable("no answer within 2 s".into());
        let expected = Role::Unknown(silent.clone().why());
        assert_eq!(read("pg-0", &status, Err(&silent)), expected);
    }

    #[test]
    fn a_leader_without_a_timeline_is_not_believed() {
        let holds = json!({"members": [{"name": "pg-0", "role": "leader"}]});
        let topology = Topology::read(&holds).unwrap();
        for timeline in [json!(null), json!(0), json!("7"), json!(-1)] {
            let status = json!({"role": "primary", "state": "running", "timeline": timeline});
            let role = read("pg-0", &status, Ok(&topology));
            assert!(
                matches!(role, Role::Unknown(WhyUnknown::Unreadable(_))),
                "{role:?}"
            );
        }
    }
}
