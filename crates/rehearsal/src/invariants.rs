//! What must hold after every step, whatever goes wrong. Checked against the truth of the simulator:
//! its journal of writes and the processes that really run.

use crate::asked::asked;
use crate::scenario::{ensemble, pod_ready};
use crate::waived;
use crate::world::World;
use ensemble_api::Rule;
use serde_json::Value;
use simkube::{Change, Entry, Resource, Subresource, Verb, split_key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Marks the client of a call that arrives long after its sender died.
pub const LATE: &str = " late";

/// Which rule was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule's name.
    pub rule: &'static str,
    /// What was seen.
    pub seen: String,
}

fn broken(rule: &'static str, seen: String) -> Result<(), Broken> {
    Err(Broken { rule, seen })
}

/// A view may be this much older than a write that is made from it: the way of one list and one
/// call.
const MOMENT_MS: u64 = 25;

type Asked = BTreeSet<u32>;

/// What is remembered of a pod.
#[derive(Clone, Copy, Debug)]
struct Since {
    ready: bool,
    at: u64,
}

/// Checks the journal as it grows.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    read: usize,
    /// By pod uid.
    pods: BTreeMap<String, Since>,
    /// By ordinal: the highest incarnation that was ever Ready.
    born: BTreeMap<u32, u32>,
    /// By ordinal and life: the uids of the claims that it was first Ready on.
    born_on: BTreeMap<(u32, u32), Vec<String>>,
    suspended_since: Option<u64>,
    /// By ordinal: the pod that we told to end last.
    ended: BTreeMap<u32, String>,
    /// Disruptions by us so far.
    pub disruptions: u32,
    /// Checks made so far.
    pub checks: u64,
    /// The fewest members that were Ready at once, once all had been.
    pub fewest_ready: Option<u32>,
    all_ready_once: bool,
}

fn is_ours(entry: &Entry) -> bool {
    entry.origin.client.starts_with("controller")
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"]
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn member(world: &World, ordinal: u32) -> String {
    format!("{}-{ordinal}", world.name)
}

fn ordinal(object: &Value) -> Option<u32> {
    label(object, "ensemble.dev/ordinal").parse().ok()
}

fn life(object: &Value) -> u32 {
    let life = label(object, "ensemble.dev/incarnation").parse();
    life.unwrap_or(0)
}

/// The claims that a pod uses, as they are now.
fn claims_of(world: &World, pod: &Value) -> Vec<Arc<Value>> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let names = volumes.filter_map(|v| v["persistentVolumeClaim"]["claimName"].as_str());
    let claims = names.filter_map(|name| {
        let claims = Resource::PersistentVolumeClaims;
        world.cluster.get(claims, &world.namespace, name)
    });
    claims.collect()
}

impl Checker {
    /// Takes what stands as given: only what comes after is judged.
    pub fn begin_here(&mut self, world: &World) {
        for entry in world.cluster.log() {
            match entry.resource {
                Resource::Pods => self.note_pod(world, entry),
                r if r == world.ensembles => self.note_ensemble(entry),
                _ => {}
            }
        }
        self.read = world.cluster.log().len();
        self.fewest_ready = None;
    }

    /// Looks at what was written since, and at what runs.
    pub fn check(&mut self, world: &World) -> Result<(), Broken> {
        let entries = world.cluster.log().len();
        if entries == self.read {
            return Ok(());
        }
        for at in self.read..entries {
            let entry = &world.cluster.log()[at];
            self.read = at + 1;
            self.entry(world, entry)?;
        }
        self.one_process_an_identity(world)
    }

    fn entry(&mut self, world: &World, entry: &Entry) -> Result<(), Broken> {
        self.checks += 1;
        if is_ours(entry) {
            self.ours(world, entry)?;
        }
        match entry.resource {
            Resource::Pods => self.note_pod(world, entry),
            r if r == world.ensembles => self.note_ensemble(entry),
            _ => {}
        }
        Ok(())
    }

    fn ours(&mut self, world: &World, entry: &Entry) -> Result<(), Broken> {
        self.suspended_is_left_alone(world, entry)?;
        owned_only(world, entry)?;
        deletes_by_uid(entry)?;
        match (entry.resource, entry.change) {
            (Resource::PersistentVolumeClaims, Change::Added) => self.no_empty_volume(world, entry),
            (Resource::PersistentVolumeClaims, _) => claims_by_policy(world, entry),
            (Resource::Pods, Change::Added) => self.on_its_own_claims(world, entry),
            (Resource::Pods, Change::Modified | Change::Deleted) => {
                one_resize_at_a_time(world, entry)?;
                self.within_budget(world, entry)
            }
            (r, Change::Modified) if r == world.ensembles => status_is_honest(entry),
            _ => Ok(()),
        }
    }

    fn suspended_is_left_alone(&self, world: &World, entry: &Entry) -> Result<(), Broken> {
        let status = entry.resource == world.ensembles;
        let long = self.suspended_since.is_some_and(|s| entry.at.0 > s + 1_000);
        if long && !status {
            return broken(
                "suspended-is-left-alone",
                format!("{} was written", entry.key),
            );
        }
        Ok(())
    }

    /// A member that was Ready never starts on a claim that took the place of its own, unless a
    /// person said that it holds its data.
    fn on_its_own_claims(&self, world: &World, entry: &Entry) -> Result<(), Broken> {
        let life = (ordinal(&entry.object), life(&entry.object));
        let (Some(ordinal), life) = life else {
            return Ok(());
        };
        let Some(own) = self.born_on.get(&(ordinal, life)) else {
            return Ok(());
        };
        for claim in claims_of(world, &entry.object) {
            let uid = text(&claim, "/metadata/uid");
            let accepted = &claim["metadata"]["annotations"]["ensemble.dev/accepted"];
            let accepted = accepted.as_str().is_some_and(|a| uid.ends_with(a));
            if !own.iter().any(|o| o == uid) && !accepted {
                let name = text(&claim, "/metadata/name");
                let seen = format!("{} starts on another {name} than its own", entry.key);
                return broken(Rule::BornKnowsItsClaims.as_str(), seen);
            }
        }
        Ok(())
    }

    /// Never an empty volume for an ordinal that was Ready in that life, and never one that the
    /// ledger does not cover.
    fn no_empty_volume(&self, world: &World, entry: &Entry) -> Result<(), Broken> {
        let Some(ordinal) = ordinal(&entry.object) else {
            return Ok(());
        };
        let life = life(&entry.object);
        // A create has no precondition: one that arrives late cannot be kept from being done. What
        // must not happen is that a member starts on it.
        let late = entry.origin.client.ends_with(LATE);
        if self.born.get(&ordinal).is_some_and(|born| life <= *born) && !late {
            let seen = format!(
                "{} is empty, and {} was Ready before",
                entry.key,
                member(world, ordinal)
            );
            return broken(Rule::BornKeepsItsClaims.as_str(), seen);
        }
        let stored = ensemble(world);
        let next = stored
            .and_then(|e| e["status"]["ledger"]["members"]["next"].as_u64())
            .unwrap_or(0);
        // A wiped status is rebuilt from what exists; it cannot be required of the past.
        let wiped = world
            .cluster
            .log()
            .iter()
            .any(|e| &*e.origin.client == "fault");
        if next <= u64::from(ordinal) && !wiped {
            return broken(
                Rule::LedgerFirst.as_str(),
                format!("{} before the ledger ({next})", entry.key),
            );
        }
        Ok(())
    }

    fn unavailable_others(&self, world: &World, asked: &Asked, target: u32, at: u64) -> Vec<u32> {
        let others = asked.iter().copied();
        others
            .filter(|o| *o != target)
            .filter(|o| {
                let pod = world
                    .cluster
                    .get(Resource::Pods, &world.namespace, &member(world, *o));
                let Some(pod) = pod else { return true };
                let since = self.pods.get(text(&pod, "/metadata/uid"));
                let long_ago = since.is_none_or(|s| s.ready || s.at + MOMENT_MS <= at);
                !pod_ready(&pod) && long_ago
            })
            .collect()
    }

    /// Never more members down by our hand than the budget allows.
    fn within_budget(&mut self, world: &World, entry: &Entry) -> Result<(), Broken> {
        let Some(previous) = &entry.previous else {
            return Ok(());
        };
        let ending = |o: &Value| !o["metadata"]["deletionTimestamp"].is_null();
        let told_now =
            !ending(previous) && (entry.change == Change::Deleted || ending(&entry.object));
        let member =
            ordinal(previous).filter(|_| !label(previous, "ensemble.dev/group").is_empty());
        let Some(target) = member.filter(|_| told_now) else {
            return Ok(());
        };
        self.disruptions += 1;
        let Some(object) = ensemble(world) else {
            return Ok(());
        };
        let spec = &object["spec"];
        let asked = asked(world, &object);
        let budget = spec["rollout"]["maxUnavailable"].as_u64().unwrap_or(1) as usize;
        let uid = text(previous, "/metadata/uid");
        let others = match self.pods.get(uid).is_some_and(|s| s.ready) {
            true => self.unavailable_others(world, &asked, target, entry.at.0),
            // It costs nobody anything, if it is one at a time: what runs may be about to serve.
            false => self.under_way(world, &asked, target),
        };
        self.ended.insert(target, uid.to_owned());
        let counts = usize::from(asked.contains(&target));
        if others.len() + counts <= budget || !runs(world, uid) {
            return Ok(());
        }
        let name = text(previous, "/metadata/name");
        if waived::by_a_person(world, Rule::WithinBudget, name, entry.at.0) {
            return Ok(());
        }
        let seen = format!(
            "{} was told to end while {others:?} were not Ready",
            entry.key
        );
        broken(Rule::WithinBudget.as_str(), seen)
    }

    /// Others that we told to end and that have no other pod yet.
    fn under_way(&self, world: &World, asked: &Asked, target: u32) -> Vec<u32> {
        // On a node that does not answer it may end at any time or never: nobody is to wait for that.
        let back = |o: u32, uid: &str| {
            let name = member(world, o);
            let pod = world.cluster.get(Resource::Pods, &world.namespace, &name);
            pod.is_some_and(|p| text(&p, "/metadata/uid") != uid || is_on_silent_node(world, &p))
        };
        let ended = self.ended.iter();
        let ended = ended.filter(|(o, uid)| asked.contains(o) && **o != target && !back(**o, uid));
        ended.map(|(o, _)| *o).collect()
    }

    fn one_process_an_identity(&self, world: &World) -> Result<(), Broken> {
        let mut by_name: BTreeMap<String, String> = BTreeMap::new();
        for process in world.cluster.running_processes() {
            let uid = process.pod_uid.to_string();
            let other = by_name.insert(process.pod.clone(), uid.clone());
            if other.is_some_and(|o| o != uid) {
                return broken("one-pod-an-identity", format!("two of {} run", process.pod));
            }
        }
        Ok(())
    }

    fn note_pod(&mut self, world: &World, entry: &Entry) {
        let uid = text(&entry.object, "/metadata/uid").to_owned();
        if entry.change == Change::Deleted {
            self.pods.remove(&uid);
        } else {
            let ready = pod_ready(&entry.object);
            let changed = self.pods.get(&uid).is_none_or(|s| s.ready != ready);
            if changed {
                self.pods.insert(
                    uid,
                    Since {
                        ready,
                        at: entry.at.0,
                    },
                );
            }
            if let Some(ordinal) = ordinal(&entry.object).filter(|_| ready) {
                let life = life(&entry.object);
                let born = self.born.entry(ordinal).or_insert(life);
                *born = life.max(*born);
                let claims = claims_of(world, &entry.object);
                let uids = claims.iter().map(|c| text(c, "/metadata/uid").to_owned());
                let uids = uids.collect();
                self.born_on.entry((ordinal, life)).or_insert(uids);
            }
        }
        self.count_ready(world);
    }

    fn count_ready(&mut self, world: &World) {
        let pods = world.cluster.objects(Resource::Pods, &world.namespace);
        let members = pods
            .iter()
            .filter(|p| !label(p, "ensemble.dev/group").is_empty());
        let ready = u32::try_from(members.filter(|p| pod_ready(p)).count()).unwrap_or(0);
        let asked = ensemble(world).and_then(|e| e["spec"]["replicas"].as_u64());
        self.all_ready_once |= u64::from(ready) >= asked.unwrap_or(u64::MAX);
        if self.all_ready_once {
            self.fewest_ready = Some(self.fewest_ready.map_or(ready, |f| f.min(ready)));
        }
    }

    fn note_ensemble(&mut self, entry: &Entry) {
        // Whoever has lost its ledger takes what it finds.
        let ledger = &entry.object["status"]["ledger"]["members"];
        if ledger.is_null() || entry.change == Change::Deleted {
            self.born_on.clear();
        }
        let suspended = entry.object["spec"]["suspend"] == true && entry.change != Change::Deleted;
        match (suspended, self.suspended_since) {
            (true, None) => self.suspended_since = Some(entry.at.0),
            (false, _) => self.suspended_since = None,
            _ => {}
        }
    }
}

/// Whether anything of that pod runs.
fn runs(world: &World, uid: &str) -> bool {
    let running = world.cluster.running_processes();
    running.iter().any(|p| &*p.pod_uid == uid)
}

/// Whether a pod runs with other resources than its spec says.
fn is_resizing(pod: &Value) -> bool {
    let specs = pod["spec"]["containers"].as_array().into_iter().flatten();
    let statuses = pod["status"]["containerStatuses"].as_array();
    let statuses = statuses.into_iter().flatten();
    specs.zip(statuses).any(|(spec, status)| {
        !status["resources"].is_null() && status["resources"] != spec["resources"]
    })
}

/// The next member is resized when the one before has what was asked for.
fn one_resize_at_a_time(world: &World, entry: &Entry) -> Result<(), Broken> {
    if entry.origin.subresource != Some(Subresource::Resize) {
        return Ok(());
    }
    let pods = world.cluster.objects(Resource::Pods, &world.namespace);
    let others = pods
        .iter()
        .filter(|p| p["metadata"]["uid"] != entry.object["metadata"]["uid"])
        .filter(|p| !label(p, "ensemble.dev/group").is_empty() && is_resizing(p));
    let names: Vec<&str> = others.map(|p| text(p, "/metadata/name")).collect();
    let budget = ensemble(world).and_then(|e| e["spec"]["rollout"]["maxUnavailable"].as_u64());
    if names.len() < budget.unwrap_or(1) as usize {
        return Ok(());
    }
    let seen = format!("{} was resized while {names:?} were not done", entry.key);
    broken("one-resize-at-a-time", seen)
}

/// Never touch what is not ours.
fn owned_only(world: &World, entry: &Entry) -> Result<(), Broken> {
    let Some(previous) = &entry.previous else {
        return Ok(());
    };
    if !matches!(
        entry.resource,
        Resource::Pods | Resource::PersistentVolumeClaims
    ) {
        return Ok(());
    }
    let uids = ensemble_uids(world);
    let owners = previous["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    let owner = owners.filter_map(|o| o["uid"].as_str()).next();
    let labelled = label(previous, "ensemble.dev/ensemble") == &*world.name;
    let ours = match owner {
        Some(uid) => uids.iter().any(|u| u == uid),
        None => labelled,
    };
    if ours {
        return Ok(());
    }
    broken(
        Rule::OwnerCheck.as_str(),
        format!("{} was written and is not ours", entry.key),
    )
}

/// The uids of all Ensembles of that name that ever were.
fn ensemble_uids(world: &World) -> Vec<String> {
    let log = world.cluster.log().iter();
    let made = log.filter(|e| e.resource == world.ensembles && e.change == Change::Added);
    made.map(|e| text(&e.object, "/metadata/uid").to_owned())
        .collect()
}

/// Whether its node is known not to answer.
fn is_on_silent_node(world: &World, pod: &Value) -> bool {
    let node = world
        .cluster
        .get(Resource::Nodes, "", text(pod, "/spec/nodeName"));
    node.is_some_and(|node| !pod_ready(&node))
}

fn deletes_by_uid(entry: &Entry) -> Result<(), Broken> {
    let deletes = entry.origin.verb == Verb::Delete
        || entry.origin.subresource == Some(Subresource::Eviction);
    if deletes && !entry.origin.uid_given {
        return broken(
            Rule::DeleteByUid.as_str(),
            format!("{} was deleted by name", entry.key),
        );
    }
    Ok(())
}

/// A claim goes only if the policy says so.
fn claims_by_policy(world: &World, entry: &Entry) -> Result<(), Broken> {
    if entry.origin.verb != Verb::Delete {
        return Ok(());
    }
    let object = ensemble(world);
    let (_, name) = split_key(&entry.key);
    let offline = object.as_ref().map(|e| crate::asked::offline(e));
    let offline = offline.unwrap_or_default();
    if ordinal(&entry.object).is_some_and(|o| offline.contains(&o)) {
        let seen = format!("claim {name} of an offline member was deleted");
        return broken(Rule::OfflineKeepsItsClaims.as_str(), seen);
    }
    let policy = object.map(|e| e["spec"]["storage"]["whenScaled"].clone());
    if policy == Some(Value::from("Delete")) {
        return Ok(());
    }
    broken("claims-by-policy", format!("claim {name} was deleted"))
}

/// Status never speaks of a generation that does not exist.
fn status_is_honest(entry: &Entry) -> Result<(), Broken> {
    let observed = entry.object["status"]["observedGeneration"]
        .as_i64()
        .unwrap_or(0);
    let generation = entry.object["metadata"]["generation"].as_i64().unwrap_or(0);
    if observed > generation {
        return broken(
            "status-is-honest",
            format!("observed {observed} of {generation}"),
        );
    }
    Ok(())
}
