//! A world in a few words, for tests: what is not said is as it should be.
#![allow(dead_code, unused_imports, clippy::unwrap_used)]

mod roles;
mod votes;
pub use roles::*;
pub use votes::*;

use ensemble_planner::cast::Cast;
use ensemble_planner::engine::Judge;
use ensemble_planner::memory::{Check, Failure, Kind, Memory, Taken};
use ensemble_planner::roster::MemberId;
use ensemble_planner::snapshot::Nodes;
use ensemble_planner::view::{
    BudgetView, ClaimView, EnsembleView, NodeView, PodView, RequestView, RevisionView, ServiceView,
    View,
};
use ensemble_planner::{Plan, Snapshot, Time, Write, render, revision};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const NOW: i64 = 1_000_000_000;
pub const UID: &str = "ens-uid";

/// The template with that image tag.
pub fn template(tag: &str) -> Map<String, Value> {
    let value = json!({"spec": {"containers": [{"name": "app", "image": format!("app:{tag}")}]}});
    value.as_object().cloned().unwrap()
}

/// The member of the one group with that ordinal.
pub fn member(ordinal: u32) -> MemberId {
    MemberId {
        ordinal,
        ..MemberId::default()
    }
}

/// The name of the revision with that image tag.
pub fn revision_name(tag: &str) -> String {
    revision::name("orders", &template(tag))
}

/// A snapshot in the making.
pub struct World {
    pub ensemble: Value,
    pub pods: BTreeMap<String, Value>,
    pub claims: BTreeMap<String, Value>,
    pub revisions: BTreeMap<String, Value>,
    pub services: BTreeMap<String, Value>,
    pub budgets: BTreeMap<String, Value>,
    pub requests: BTreeMap<String, Value>,
    pub nodes: Option<BTreeMap<String, Value>>,
    pub memory: Memory,
    pub behind: Vec<Kind>,
    pub now: i64,
    pub epoch: i64,
    /// Another judge than its engine has.
    pub judge: Option<Judge>,
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

impl World {
    /// An Ensemble `orders` of three members with claims `data` and `wal`, not yet looked at.
    pub fn new(replicas: u32) -> Self {
        let claim = |name: &str| json!({"name": name, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
        let node = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let nodes = ["n0", "n1", "n2"].map(|n| (n.to_owned(), node.clone()));
        Self {
            ensemble: json!({
                "metadata": {"name": "orders", "namespace": "shop", "uid": UID, "generation": 1,
                             "resourceVersion": "1"},
                "spec": {"replicas": replicas, "template": template("1"),
                         "claims": [claim("data"), claim("wal")],
                         "rollout": {"method": "Recreate"}},
            }),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            revisions: BTreeMap::new(),
            services: BTreeMap::new(),
            budgets: BTreeMap::new(),
            requests: BTreeMap::new(),
            nodes: Some(nodes.into_iter().collect()),
            memory: Memory::default(),
            behind: Vec::new(),
            now: NOW,
            epoch: 7,
            judge: None,
        }
    }

    /// The same, converged at image tag 1: everything there, everybody Ready for long.
    pub fn converged(replicas: u32) -> Self {
        let mut world = Self::new(replicas);
        world.revision("1", 1);
        let born = if replicas == 0 {
            String::new()
        } else {
            format!("0-{}", replicas - 1)
        };
        world.spec(&json!({}));
        if replicas > 0 {
            world.ensemble["metadata"]["annotations"] = json!({"ensemble.dev/born": "true"});
        }
        world.ledger(replicas, &born);
        for ordinal in 0..replicas {
            world.member(ordinal, "1");
        }
        world.reached(&revision_name("1"));
        world.services.insert(
            "orders-members".into(),
            json!({"metadata": {"name": "orders-members", "uid": "svc", "labels": {"ensemble.dev/ensemble": "orders"},
                   "ownerReferences": [{"uid": UID, "controller": true}]}}),
        );
        world.fit_budget();
        world
    }

    /// The same, and its status stored: there is nothing left to write.
    pub fn settled(replicas: u32) -> Self {
        let mut world = Self::converged(replicas);
        world.store_status();
        world
    }

    /// Asked for and written down, the template tried: members may come into being.
    pub fn begun(replicas: u32) -> Self {
        let mut world = Self::new(replicas);
        world.revision("1", 1).ledger(replicas, "").passed("1");
        world
    }

    /// The API server accepts the template with that tag.
    pub fn passed(&mut self, tag: &str) -> &mut Self {
        let check = Check::Passed(tag.to_owned());
        self.memory.checks.insert(revision_name(tag), check);
        self
    }

    /// The API server refuses the template with that tag.
    pub fn refused(&mut self, tag: &str, retry_in_seconds: i64) -> &mut Self {
        let failure = Failure {
            reason: ensemble_api::Reason::TemplateRefused,
            message: "spec.containers[0].image: bad".into(),
            since: Time(NOW),
            tries: 1,
            retry_at: Time(NOW + retry_in_seconds * 1000),
        };
        self.memory
            .checks
            .insert(revision_name(tag), Check::Refused(failure));
        self
    }

    /// Our budgets are as the spec wants them.
    pub fn fit_budget(&mut self) -> &mut Self {
        self.budgets.clear();
        let snap = self.snapshot();
        for wanted in render::budgets(&snap) {
            let mut budget = wanted.body(&snap);
            budget["metadata"]["uid"] = "pdb".into();
            self.budgets.insert(wanted.name.clone(), budget);
        }
        self
    }

    /// Time passes.
    pub fn after(&mut self, seconds: i64) -> &mut Self {
        self.now += seconds * 1000;
        self
    }

    /// All status is lost.
    pub fn lose_status(&mut self) -> &mut Self {
        self.ensemble.as_object_mut().unwrap().remove("status");
        self
    }

    pub fn lose_claim(&mut self, claim: &str, ordinal: u32) -> &mut Self {
        self.claims
            .remove(&format!("{claim}-orders-{ordinal}"))
            .unwrap();
        self
    }

    pub fn change_claim(&mut self, claim: &str, ordinal: u32, patch: &Value) -> &mut Self {
        let name = format!("{claim}-orders-{ordinal}");
        merge(self.claims.get_mut(&name).unwrap(), patch);
        self
    }

    pub fn meta(&mut self, patch: &Value) -> &mut Self {
        merge(&mut self.ensemble["metadata"], patch);
        self
    }

    pub fn node(&mut self, name: &str, patch: &Value) -> &mut Self {
        let nodes = self.nodes.as_mut().unwrap();
        merge(nodes.get_mut(name).unwrap(), patch);
        self
    }

    /// The node's kubelet no longer reports.
    pub fn unreachable_node(&mut self, name: &str) -> &mut Self {
        let unknown = json!([{"type": "Ready", "status": "Unknown"}]);
        self.node(name, &json!({"status": {"conditions": unknown}}))
    }

    /// A request to rebuild these members.
    pub fn request(&mut self, name: &str, members: &[&str], accept: bool) -> &mut Self {
        let body = json!({
            "metadata": {"name": name, "uid": format!("req-{name}"), "resourceVersion": "3"},
            "spec": {"ensemble": "orders",
                     "rebuild": {"members": members, "acceptDataLoss": accept}},
        });
        self.requests.insert(name.into(), body);
        self
    }

    /// A request to suspend a rule for a member, created just now.
    pub fn waive(&mut self, name: &str, rule: &str, member: &str, seconds: u32) -> &mut Self {
        let body = json!({
            "metadata": {"name": name, "uid": format!("req-{name}"), "resourceVersion": "3",
                         "creationTimestamp": Time(self.now).stamp()},
            "spec": {"ensemble": "orders", "reason": "a test",
                     "waive": {"rule": rule, "member": member, "forSeconds": seconds}},
        });
        self.memory
            .requests_since
            .insert(format!("req-{name}"), Time(self.now));
        self.requests.insert(name.into(), body);
        self
    }

    /// The same, and what the plan answers is stored: it is in force.
    pub fn waived(&mut self, rule: &str, member: &str, seconds: u32) -> &mut Self {
        let name = format!("{member}-{rule}");
        self.waive(&name, rule, member, seconds);
        let answer = body(&self.plan(), Kind::Request, &name);
        self.requests.get_mut(&name).unwrap()["status"] = answer;
        self
    }

    /// A helper that pulls that tag's images on a node, its container in that state.
    pub fn helper(&mut self, tag: &str, node: &str, waiting: &str) -> &mut Self {
        let revision = revision_name(tag);
        let snap = self.snapshot();
        let mut pod = render::prefetch(&snap, &revision, node, &[format!("app:{tag}")]);
        let name = render::prefetch_name("orders", &revision, node);
        pod["metadata"]["uid"] = name.clone().into();
        let state = json!({"waiting": {"reason": waiting, "message": "not found"}});
        pod["status"] = json!({"containerStatuses": [
            {"name": "pull-0", "image": format!("app:{tag}"), "state": state}]});
        self.pods.insert(name, pod);
        self
    }

    pub fn spec(&mut self, patch: &Value) -> &mut Self {
        merge(&mut self.ensemble["spec"], patch);
        self
    }

    /// The user changes the image.
    pub fn image(&mut self, tag: &str) -> &mut Self {
        self.ensemble["spec"]["template"] = template(tag).into();
        self.ensemble["metadata"]["generation"] = 2.into();
        self
    }

    pub fn ledger(&mut self, next: u32, born: &str) -> &mut Self {
        let ledger = json!({"members": {"next": next, "born": born}});
        merge(&mut self.ensemble, &json!({"status": {"ledger": ledger}}));
        self
    }

    /// The ledger remembers that the member was born on that claim.
    pub fn born_on(&mut self, ordinal: u32, claim: &str, mark: &str) -> &mut Self {
        let claims = json!({ordinal.to_string(): {claim: mark}});
        let ledger = json!({"members": {"claims": claims}});
        merge(&mut self.ensemble, &json!({"status": {"ledger": ledger}}));
        self
    }

    pub fn revision(&mut self, tag: &str, number: i64) -> &mut Self {
        let name = revision_name(tag);
        let snap = self.bare();
        let mut body = render::revision(&snap, &name, number);
        body["data"]["template"] = template(tag).into();
        body["metadata"]["uid"] = format!("rev-{tag}").into();
        self.revisions.insert(name, body);
        self
    }

    /// A new image whose revision is stored, tried and pulled everywhere.
    pub fn prepared(&mut self, tag: &str) -> &mut Self {
        let highest = self
            .revisions
            .values()
            .filter_map(|r| r["revision"].as_i64())
            .max();
        self.image(tag).revision(tag, highest.unwrap_or(0) + 1);
        let name = revision_name(tag);
        self.memory
            .checks
            .insert(name.clone(), Check::Passed(tag.to_owned()));
        self.memory
            .checks
            .insert(revision_name("1"), Check::Passed("1".into()));
        for node in ["n0", "n1", "n2"] {
            self.memory.pulled.insert((name.clone(), node.into()));
        }
        self
    }

    /// That revision was the last to reach everybody.
    pub fn reached(&mut self, revision: &str) -> &mut Self {
        self.ensemble["status"]["groups"] =
            json!([{"name": "members", "currentRevision": revision}]);
        self
    }

    pub fn claim(&mut self, claim: &str, ordinal: u32) -> &mut Self {
        let snap = self.bare();
        let cast = Cast::of(&snap);
        let life = cast.ledger().incarnation(member(ordinal));
        let mut body = render::claim(&cast, claim, &Map::new(), member(ordinal), life);
        body["metadata"]["uid"] = format!("{claim}-{ordinal}").into();
        body["status"] = json!({"phase": "Bound"});
        self.claims
            .insert(format!("{claim}-orders-{ordinal}"), body);
        self
    }

    /// A member with its claims, Ready for long, at that image tag.
    pub fn member(&mut self, ordinal: u32, tag: &str) -> &mut Self {
        self.claim("data", ordinal).claim("wal", ordinal);
        self.pod_at(ordinal, tag)
    }

    /// A member's pod alone, at the first image tag.
    pub fn member_pod(&mut self, ordinal: u32) -> &mut Self {
        self.pod_at(ordinal, "1")
    }

    /// It becomes Ready.
    pub fn ready(&mut self, ordinal: u32) -> &mut Self {
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        let known = self.memory.pod_mut(&format!("pod-{ordinal}"));
        known.ready_since = Some(Time(NOW));
        self.pod(ordinal, &json!({"status": {"conditions": conditions}}))
    }

    fn pod_at(&mut self, ordinal: u32, tag: &str) -> &mut Self {
        let snap = self.bare();
        let cast = Cast::of(&snap);
        let member = render::Member {
            who: member(ordinal),
            incarnation: cast.ledger().incarnation(member(ordinal)),
            revision: &revision_name(tag),
            number: 1,
            template: &template(tag),
        };
        let mut pod = render::pod(&cast, member);
        let uid = format!("pod-{ordinal}");
        pod["metadata"]["uid"] = uid.clone().into();
        pod["metadata"]["resourceVersion"] = "5".into();
        pod["metadata"]["generation"] = 1.into();
        pod["spec"]["nodeName"] = format!("n{}", ordinal % 3).into();
        pod["status"] = json!({
            "phase": "Running", "startTime": "x", "observedGeneration": 1,
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "app", "image": format!("app:{tag}"), "imageID": "sha",
                                   "restartCount": 0, "state": {"running": {}}}],
        });
        self.pods.insert(format!("orders-{ordinal}"), pod);
        let known = self.memory.pod_mut(&uid);
        known.ready_since = Some(Time(0));
        known.once_ready = true;
        self
    }

    pub fn pod(&mut self, ordinal: u32, patch: &Value) -> &mut Self {
        merge(
            self.pods.get_mut(&format!("orders-{ordinal}")).unwrap(),
            patch,
        );
        self
    }

    fn not_ready(&mut self, ordinal: u32, since: i64) {
        self.pods.get_mut(&format!("orders-{ordinal}")).unwrap()["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False"}]);
        let known = self.memory.pod_mut(&format!("pod-{ordinal}"));
        known.ready_since = None;
        known.unready_since = Some(Time(since));
    }

    /// It runs and is not Ready, since that time.
    pub fn unhealthy(&mut self, ordinal: u32, since: i64) -> &mut Self {
        self.not_ready(ordinal, since);
        self
    }

    /// Its container waits for that reason, so nothing of it runs.
    pub fn waiting(&mut self, ordinal: u32, reason: &str) -> &mut Self {
        self.not_ready(ordinal, NOW);
        let pod = self.pods.get_mut(&format!("orders-{ordinal}")).unwrap();
        pod["status"]["containerStatuses"][0]["restartCount"] = 3.into();
        pod["status"]["containerStatuses"][0]["state"] =
            json!({"waiting": {"reason": reason, "message": format!("{reason} said the kubelet")}});
        pod["status"]["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"reason": "Error", "exitCode": 1}});
        self
    }

    /// Its container has ended once more, as a kubelet shows it until the next start.
    pub fn ended_again(&mut self, ordinal: u32, restarts: i64) -> &mut Self {
        self.waiting(ordinal, "");
        let pod = self.pods.get_mut(&format!("orders-{ordinal}")).unwrap();
        let status = &mut pod["status"]["containerStatuses"][0];
        status["restartCount"] = restarts.into();
        status["state"] = json!({"terminated": {"reason": "Error", "exitCode": 3}});
        self
    }

    pub fn unscheduled(&mut self, ordinal: u32, why: &str) -> &mut Self {
        self.not_ready(ordinal, NOW);
        let pod = self.pods.get_mut(&format!("orders-{ordinal}")).unwrap();
        pod["spec"].as_object_mut().unwrap().remove("nodeName");
        pod["status"] = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}]});
        self
    }

    /// It has ended for good.
    pub fn ended(&mut self, ordinal: u32, reason: &str) -> &mut Self {
        self.not_ready(ordinal, NOW);
        self.pod(
            ordinal,
            &json!({"status": {"phase": "Failed", "reason": reason}}),
        )
    }

    /// It was told to end, that many seconds ago.
    pub fn leaving(&mut self, ordinal: u32, seconds: i64) -> &mut Self {
        let known = self.memory.pod_mut(&format!("pod-{ordinal}"));
        known.leaving_since = Some(Time(NOW - seconds * 1000));
        let patch =
            json!({"metadata": {"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}});
        self.pod(ordinal, &patch)
    }

    pub fn gone(&mut self, ordinal: u32) -> &mut Self {
        self.pods.remove(&format!("orders-{ordinal}"));
        self
    }

    pub fn intent(&mut self, ordinal: u32, method: &str, epoch: i64) -> &mut Self {
        let intent = json!({"member": format!("orders-{ordinal}"), "uid": format!("pod-{ordinal}"),
                            "method": method, "epoch": epoch, "since": "2001-01-01T00:00:00Z"});
        let status = self.ensemble["status"].as_object_mut().unwrap();
        let list = status.entry("inFlight").or_insert_with(|| json!([]));
        list.as_array_mut().unwrap().push(intent);
        self
    }

    pub fn failure(&mut self, kind: Kind, name: &str, reason: ensemble_api::Reason) -> &mut Self {
        let failure = Failure {
            reason,
            message: "said the API server".into(),
            since: Time(NOW),
            tries: 1,
            retry_at: Time(NOW + 1000),
        };
        self.memory.failures.insert((kind, name.into()), failure);
        self
    }

    pub fn taken(&mut self, kind: Kind, name: &str, ours_by_owner: bool) -> &mut Self {
        let pin = ensemble_planner::view::Pinned {
            name: name.into(),
            uid: "x".into(),
            ..Default::default()
        };
        let taken = Taken {
            pin,
            ours_by_owner,
            since: Time(NOW),
            retry_at: Time(NOW + 1000),
        };
        self.memory.taken.insert((kind, name.into()), taken);
        self
    }

    /// The Ensemble alone, which is all that rendering needs.
    fn bare(&self) -> Snapshot {
        let ensemble = EnsembleView::read(&self.ensemble).unwrap();
        let mut abilities = ensemble_engines::abilities(&ensemble.spec);
        abilities.judge = self.judge.or(abilities.judge);
        Snapshot {
            abilities,
            ensemble,
            ..Snapshot::default()
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        let read = |map: &BTreeMap<String, Value>| map.clone().into_iter();
        let nodes: Option<Nodes> = self.nodes.as_ref().map(|nodes| {
            nodes
                .iter()
                .map(|(name, node)| (name.clone(), NodeView::read(node).unwrap()))
                .collect()
        });
        Snapshot {
            now: Time(self.now),
            epoch: self.epoch,
            pods: read(&self.pods)
                .map(|(k, v)| (k, PodView::read(&v).unwrap()))
                .collect(),
            claims: read(&self.claims)
                .map(|(k, v)| (k, ClaimView::read(&v).unwrap()))
                .collect(),
            nodes: nodes.map(Arc::new),
            revisions: read(&self.revisions)
                .map(|(k, v)| (k, RevisionView::read(&v).unwrap()))
                .collect(),
            services: read(&self.services)
                .map(|(k, v)| (k, ServiceView::read(&v).unwrap()))
                .collect(),
            budgets: read(&self.budgets)
                .map(|(k, v)| (k, BudgetView::read(&v).unwrap()))
                .collect(),
            requests: read(&self.requests)
                .map(|(k, v)| (k, RequestView::read(&v).unwrap()))
                .collect(),
            memory: Arc::new(self.memory.clone()),
            behind: self.behind.clone(),
            ..self.bare()
        }
    }

    pub fn plan(&self) -> Plan {
        ensemble_planner::plan(&self.snapshot())
    }

    /// Stores the status that a plan wants stored, as the API server would.
    pub fn store_status(&mut self) -> &mut Self {
        let plan = self.plan();
        if let Some(status) = status(&plan) {
            self.ensemble["status"] = serde_json::to_value(status).unwrap();
        }
        self
    }
}

/// The status that a plan wants stored.
pub fn status(plan: &Plan) -> Option<&ensemble_api::EnsembleStatus> {
    plan.writes.iter().find_map(|w| match w {
        Write::Status(status) => Some(status.as_ref()),
        _ => None,
    })
}

/// Names of members that a plan consents to disrupt now, in the order of consent.
pub fn granted(world: &World) -> Vec<String> {
    let snap = world.snapshot();
    let plan = ensemble_planner::plan(&snap);
    plan.permits
        .iter()
        .map(|p| p.intent(&snap).member)
        .collect()
}

/// Every write but the status, in a few words: `Create Pod orders-0`.
pub fn written(plan: &Plan) -> Vec<String> {
    let word = |w: &Write| {
        let name = w.key().1;
        match w {
            Write::Create { kind, .. } => Some(format!("Create {kind:?} {name}")),
            Write::Patch { kind, .. } => Some(format!("Patch {kind:?} {name}")),
            Write::Uncount { .. } => Some(format!("Uncount {name}")),
            Write::Discard { kind, .. } => Some(format!("Discard {kind:?} {name}")),
            Write::Check { revision, .. } => Some(format!("Check {revision}")),
            Write::Look { key } => Some(format!("Look {:?} {name}", key.0)),
            Write::Answer { .. } => Some(format!("Answer {name}")),
            Write::Status(_) => None,
        }
    };
    plan.writes.iter().filter_map(word).collect()
}

/// The body that a plan creates or patches with.
pub fn body(plan: &Plan, kind: Kind, name: &str) -> Value {
    let found = plan
        .writes
        .iter()
        .filter(|w| w.key() == (kind, name.to_owned()));
    let mut bodies = found.filter_map(|w| match w {
        Write::Create { body, .. } | Write::Patch { body, .. } | Write::Answer { body, .. } => {
            Some(body.clone())
        }
        _ => None,
    });
    bodies
        .next()
        .unwrap_or_else(|| panic!("{kind:?} {name} in {:?}", written(plan)))
}

/// Members' claims and pods that a plan creates.
pub fn created_members(plan: &Plan) -> Vec<String> {
    let mine = |c: &String| c.starts_with("Claim ") || c.starts_with("Pod orders-");
    let helper = |c: &String| c.contains("prefetch");
    created(plan)
        .into_iter()
        .filter(|c| mine(c) && !helper(c))
        .collect()
}

/// Names of claims that a plan lets go.
pub fn let_go(plan: &Plan) -> Vec<String> {
    plan.lettings
        .iter()
        .map(|l| l.claim().name.clone())
        .collect()
}

/// The message of the first step that is blocked for that reason.
pub fn message(plan: &Plan, reason: &str) -> String {
    let blockers = plan.report.steps.iter().filter_map(|s| s.blocker.as_ref());
    let mut same = blockers.filter(|b| b.reason.as_str() == reason);
    let found = same.next().map(|b| b.message.clone());
    found.unwrap_or_else(|| panic!("no {reason} in {:?}", reasons(plan)))
}

/// The steps in a few words: `Recreate orders-2 Running`.
pub fn steps(plan: &Plan) -> Vec<String> {
    let word = |s: &ensemble_api::Step| match &s.member {
        Some(member) => format!("{:?} {member} {:?}", s.action, s.state),
        None => format!("{:?} {:?}", s.action, s.state),
    };
    plan.report.steps.iter().map(word).collect()
}

/// There is nothing to do and nothing to say.
#[track_caller]
pub fn assert_quiet(plan: &Plan) {
    assert!(plan.writes.is_empty(), "{:#?}", plan.writes);
    assert!(plan.permits.is_empty() && plan.lettings.is_empty());
    assert!(plan.report.steps.is_empty(), "{:?}", steps(plan));
    assert_eq!(plan.wake_at, None);
}

/// Names of members that a plan wants disrupted.
pub fn disrupted(plan: &Plan) -> Vec<String> {
    let status = status(plan);
    let intents = status.iter().flat_map(|s| &s.in_flight);
    let mut members: Vec<String> = intents.map(|i| i.member.clone()).collect();
    members.truncate(members.len());
    assert!(plan.permits.len() <= members.len());
    members
}

/// What a plan creates: `Pod orders-0`.
pub fn created(plan: &Plan) -> Vec<String> {
    plan.writes
        .iter()
        .filter_map(|w| match w {
            Write::Create { kind, body } => Some(format!(
                "{kind:?} {}",
                body["metadata"]["name"].as_str().unwrap()
            )),
            _ => None,
        })
        .collect()
}

/// The reasons of all blocked steps: `BudgetUsed orders-1`.
pub fn reasons(plan: &Plan) -> Vec<String> {
    plan.report
        .steps
        .iter()
        .filter_map(|s| {
            let blocker = s.blocker.as_ref()?;
            Some(match &s.member {
                Some(member) => format!("{} {member}", blocker.reason),
                None => blocker.reason.to_string(),
            })
        })
        .collect()
}
