//! Worlds with roles: PostgreSQL under Patroni, as its members would say.

use super::{NOW, World};
use ensemble_engines::patroni::{Role, Sighting, Stream, Synchronous};
use ensemble_planner::engine::WhyUnknown;
use ensemble_planner::memory::{RestartNews, Run};
use ensemble_planner::{Snapshot, Time};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl World {
    /// Converged, with a leader that sees all others stream.
    pub fn led(replicas: u32, leader: u32) -> Self {
        let mut world = Self::converged(replicas);
        world.spec(&json!({"engine": {"patroni": {}}, "rollout": {"method": "InPlaceIfPossible"}}));
        world.fit_budget();
        for ordinal in 0..replicas {
            world.pod(
                ordinal,
                &json!({"status": {"podIP": format!("10.0.0.{ordinal}")}}),
            );
            world.runs(ordinal, "run-1", 0);
        }
        world.lead(leader, 7).store_status();
        world
    }

    /// Its engine's container is that run, known since then.
    pub fn runs(&mut self, ordinal: u32, id: &str, since: i64) -> &mut Self {
        let pod = self.pods.get_mut(&format!("orders-{ordinal}")).unwrap();
        pod["status"]["containerStatuses"][0]["containerID"] = id.into();
        let run = Run {
            container: id.into(),
            since: Time(since),
        };
        self.memory.pod_mut(&format!("pod-{ordinal}")).run = Some(run);
        self
    }

    /// That member leads at that term, and sees all others stream.
    pub fn lead(&mut self, leader: u32, term: u64) -> &mut Self {
        let members: Vec<u32> = (0..self.pods.len() as u32)
            .filter(|o| self.pods.contains_key(&format!("orders-{o}")))
            .collect();
        let stream = Stream {
            streaming: true,
            synchronous: false,
        };
        for ordinal in &members {
            let leads = *ordinal == leader;
            let label = if leads { "primary" } else { "replica" };
            self.pod(*ordinal, &json!({"metadata": {"labels": {"role": label}}}));
            let mut said = sighting(if leads { Role::Leader } else { Role::Follower }, term);
            said.lock = Some(format!("orders-{leader}"));
            if leads {
                let others = members.iter().filter(|o| *o != ordinal);
                said.attached = others.map(|o| (format!("orders-{o}"), stream)).collect();
                said.loop_wait = Some(10);
                said.parameters = Some(BTreeMap::new());
            }
            self.says(*ordinal, said);
        }
        self.memory.led_since = Some(Time(0));
        self
    }

    /// What a member says, asked just now.
    pub fn says(&mut self, ordinal: u32, said: Sighting) -> &mut Self {
        let known = self.memory.pod_mut(&format!("pod-{ordinal}"));
        known.said = Some(said.answers(Time(NOW)).into());
        self
    }

    /// What a member said is changed.
    pub fn but(&mut self, ordinal: u32, change: impl FnOnce(&mut Sighting)) -> &mut Self {
        let known = self.memory.pod_mut(&format!("pod-{ordinal}"));
        let before = known.said.as_ref().unwrap();
        let mut said: Sighting = before.words::<Sighting>().unwrap().clone();
        change(&mut said);
        known.said = Some(said.answers(before.asked).into());
        self
    }

    /// What a member said, it was asked then.
    pub fn asked(&mut self, ordinal: u32, asked: Time) -> &mut Self {
        let known = self.memory.pod_mut(&format!("pod-{ordinal}"));
        Arc::make_mut(known.said.as_mut().unwrap()).asked = asked;
        self
    }

    /// Nothing is known of a member, for that cause.
    pub fn silent(&mut self, ordinal: u32, why: WhyUnknown) -> &mut Self {
        self.says(ordinal, Sighting::unknown(why))
    }

    /// Commits wait for that member.
    pub fn synchronous(&mut self, leader: u32, standby: Option<u32>) -> &mut Self {
        self.but(leader, |s| {
            s.synchronous = Synchronous::On;
            s.sync_standbys = standby
                .iter()
                .map(|o| format!("orders-{o}"))
                .collect::<BTreeSet<_>>();
        })
    }

    /// That member runs the revision with that tag already, in the same pod.
    pub fn updated(&mut self, ordinal: u32, tag: &str) -> &mut Self {
        let labels = json!({"controller-revision-hash": super::revision_name(tag)});
        self.pod(ordinal, &json!({"metadata": {"labels": labels}}))
    }

    /// The leader keeps these parameters.
    pub fn keeps(&mut self, leader: u32, name: &str, value: &str) -> &mut Self {
        self.but(leader, |s| {
            let kept = s.parameters.get_or_insert_default();
            kept.insert(name.into(), value.into());
        })
    }

    /// A parameter was changed in the spec and told to the engine, and all wait for a restart.
    pub fn parameter(&mut self, name: &str, from: &str, to: &str) -> &mut Self {
        self.spec(&json!({"engine": {"patroni": {"parameters": {name: to}}}}));
        self.keeps(0, name, from).store_status().keeps(0, name, to);
        for ordinal in 0..3 {
            self.but(ordinal, |s| s.pending_restart = true);
        }
        self
    }

    /// A member was asked to restart for the change of parameters that is stored, and did not come up;
    /// without words, nobody knows.
    pub fn not_restarted(&mut self, ordinal: u32, words: Option<&str>) -> &mut Self {
        let change = self.snapshot().ensemble.status.parameters.clone().unwrap();
        let news = RestartNews {
            of: change.words(),
            failed: words.map(str::to_owned),
        };
        self.memory
            .restarts
            .insert(format!("orders-{ordinal}"), news);
        self
    }

    /// A switchover is written down.
    pub fn switching(&mut self, from: u32, to: u32, term: u64, phase: &str) -> &mut Self {
        self.ensemble["status"]["switchover"] = json!({
            "id": "s-1", "from": format!("orders-{from}"), "fromUid": format!("pod-{from}"),
            "to": format!("orders-{to}"), "toUid": format!("pod-{to}"), "term": term,
            "phase": phase, "cause": "a test", "epoch": 7, "since": "1970-01-12T13:46:39Z",
            "deadline": "1970-01-12T13:47:40Z", "tries": 1,
        });
        self
    }
}

/// A member's answer, fresh.
/// Of two that are to go the leader has, so that nobody leads, since so long.
#[allow(dead_code)] // not every test program asks for it
pub fn unled_to_none(ms: i64) -> World {
    let mut world = World::led(2, 1);
    world.spec(&json!({"replicas": 0})).fit_budget().gone(1);
    world.but(0, |s| s.lock = None);
    world.memory.leaderless_since = Some(Time(NOW - ms));
    world
}

pub fn sighting(role: Role, term: u64) -> Sighting {
    let mut said = Sighting::unknown(WhyUnknown::NotAsked);
    said.role = role;
    said.term = term;
    said.cluster = "7".into();
    said.started = "today".into();
    said.lag = Some(0);
    said
}

/// The switchover as the plan wants it stored: phase and target.
pub fn switchover(plan: &ensemble_planner::Plan) -> Option<(String, String)> {
    let status = plan.writes.iter().find_map(|w| match w {
        ensemble_planner::Write::Status(status) => Some(status.clone()),
        _ => None,
    })?;
    let switch = status.switchover.clone()?;
    Some((format!("{:?}", switch.phase), switch.to))
}

/// The stored switchover.
pub fn stored_switch(snap: &Snapshot) -> ensemble_api::status::Switchover {
    snap.ensemble.status.switchover.clone().unwrap()
}

/// A template of which only that part differs.
pub fn changed(patch: Value) -> Value {
    json!({"template": patch})
}
