//! A pod that is being resized: what it is to get, what it has, and what its kubelet says of it.
//!
//! The pod carries what it is to get in an annotation, from the write that gives it its revision
//! until its kubelet was seen to have done it. So a successor knows what is left to do, and whoever
//! else resizes the pod later is let alone.

use crate::cast::Cast;
use crate::change::{self, restarts_for};
use crate::quantity::{self, Quantity};
use crate::revision::Revisions;
use crate::view::PodView;
use ensemble_api::Rule;
use ensemble_api::labels;
use ensemble_api::spec::RolloutMethod;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a resize.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// What the pod is to get, in words.
    pub wanted: String,
    /// Whether its spec has it.
    pub sent: bool,
    /// Whether its containers have it, by the word of a kubelet that has seen the spec.
    pub done: bool,
    /// Containers that will restart for what is not in the spec yet.
    pub restarts: BTreeSet<String>,
    /// Whether a container has yet to restart for it, by the kubelet's word of what it has.
    pub restarting: bool,
    /// What its kubelet says, if it has seen the spec.
    pub word: Option<Word>,
}

/// What a kubelet says of a resize that it has not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Not now.
    Deferred(String),
    /// Never on this node.
    Infeasible(String),
    /// It tried, and failed.
    Failing(String),
}

/// The amounts wanted, by container, as the annotation has them.
fn wanted(pod: &Value) -> Option<BTreeMap<String, Value>> {
    let annotations = pod.pointer("/metadata/annotations")?;
    let text = annotations.get(labels::RESIZES)?.as_str()?;
    serde_json::from_str(text).ok()
}

/// As the annotation has it.
pub fn annotation(wanted: &BTreeMap<String, Value>) -> String {
    let pairs: serde_json::Map<String, Value> = wanted.clone().into_iter().collect();
    crate::revision::canonical(&Value::Object(pairs))
}

fn amounts(resources: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    ["requests", "limits"].into_iter().flat_map(move |part| {
        let amounts = resources[part].as_object().into_iter().flatten();
        amounts.map(move |(resource, amount)| (part, resource.as_str(), amount))
    })
}

/// Whether an amount is the one that is wanted. A kernel gives no less than a few thousandths of a
/// CPU, and the kubelet tells what the kernel gives.
fn is_given(part: &str, resource: &str, wanted: &Value, given: &Value) -> bool {
    let least = match (part, resource) {
        ("requests", "cpu") => 2,
        ("limits", "cpu") => 10,
        _ => 0,
    };
    let read = |v: &Value| quantity::read(v).map(|q| q.at_least_milli(least));
    read(wanted).is_some() && read(wanted) == read(given)
}

fn has(resources: &Value, wanted: &Value) -> bool {
    amounts(wanted).all(|(part, resource, amount)| {
        is_given(part, resource, amount, &resources[part][resource])
    })
}

fn containers<'a>(pod: &'a Value, lists: [&str; 2]) -> impl Iterator<Item = &'a Value> {
    let lists = lists.map(|path| pod.pointer(path).and_then(Value::as_array));
    lists.into_iter().flatten().flatten()
}

const SPECS: [&str; 2] = ["/spec/containers", "/spec/initContainers"];
const STATUSES: [&str; 2] = ["/status/containerStatuses", "/status/initContainerStatuses"];

fn named<'a>(pod: &'a Value, lists: [&str; 2], name: &str) -> Option<&'a Value> {
    containers(pod, lists).find(|c| c["name"] == name)
}

/// Reads what a pod says of its resize; None if there is none.
pub fn read(pod: &Value) -> Option<Resize> {
    let wanted = wanted(pod)?;
    let number = |path: &str| pod.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let heard = number("/status/observedGeneration") >= number("/metadata/generation");
    let word = heard.then(|| word(pod)).flatten();
    let everywhere = |lists: [&str; 2]| {
        wanted.iter().all(|(name, wanted)| {
            named(pod, lists, name).is_some_and(|c| has(&c["resources"], wanted))
        })
    };
    let sent = everywhere(SPECS);
    let given = heard && everywhere(STATUSES) && word.is_none() && !is_under_way(pod);
    Some(Resize {
        done: sent && (given || crate::mutants::is_off(Rule::ResizeSeenDone)),
        sent,
        restarts: restarts(pod, &wanted, SPECS),
        restarting: !restarts(pod, &wanted, STATUSES).is_empty(),
        word,
        wanted: in_words(&wanted),
    })
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|c| c["type"] == kind && c["status"] == "True")
}

fn is_under_way(pod: &Value) -> bool {
    condition(pod, "PodResizeInProgress").is_some()
}

fn word(pod: &Value) -> Option<Word> {
    let message = |c: &Value| c["message"].as_str().unwrap_or_default().to_owned();
    if let Some(pending) = condition(pod, "PodResizePending") {
        let message = message(pending);
        return Some(match pending["reason"].as_str() {
            Some("Infeasible") => Word::Infeasible(message),
            _ => Word::Deferred(message),
        });
    }
    let trying = condition(pod, "PodResizeInProgress")?;
    (trying["reason"] == "Error").then(|| Word::Failing(message(trying)))
}

/// Containers that restart for what these lists do not have yet.
fn restarts(pod: &Value, wanted: &BTreeMap<String, Value>, lists: [&str; 2]) -> BTreeSet<String> {
    let restarts = |name: &&String| {
        let has = named(pod, lists, name).map_or(&Value::Null, |c| &c["resources"]);
        let spec = named(pod, SPECS, name);
        spec.is_some_and(|spec| {
            amounts(&wanted[*name])
                .filter(|(part, resource, amount)| {
                    !is_given(part, resource, amount, &has[part][resource])
                })
                .any(|(_, resource, _)| restarts_for(spec, resource))
        })
    };
    wanted.keys().filter(restarts).cloned().collect()
}

fn in_words(wanted: &BTreeMap<String, Value>) -> String {
    let one = |(name, resources): (&String, &Value)| {
        let amounts = amounts(resources).map(|(part, resource, amount)| {
            let amount = amount.as_str().map_or(amount.to_string(), str::to_owned);
            format!("{resource} {} {amount}", part.trim_end_matches('s'))
        });
        format!("{name}: {}", amounts.collect::<Vec<_>>().join(", "))
    };
    wanted.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The pod with what its annotation says in its spec.
pub fn applied(pod: &Value) -> Option<Value> {
    let wanted = wanted(pod)?;
    let mut pod = pod.clone();
    for list in SPECS {
        let containers = pod.pointer_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default();
            let Some(wanted) = wanted.get(name) else {
                continue;
            };
            for (part, resource, amount) in amounts(wanted) {
                container["resources"][part][resource] = amount.clone();
            }
        }
    }
    Some(pod)
}

/// By container: what a pod's annotation says.
pub fn outstanding(pod: &Value) -> BTreeMap<String, Value> {
    wanted(pod).unwrap_or_default()
}

/// Where a member's resize stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is none, or it is done.
    Settled,
    /// It is yet to be asked for.
    Unsent,
    /// Its kubelet is at it.
    Working,
    /// Its node has no room now.
    Deferred(String),
    /// Its kubelet tries, and fails.
    Failing(String),
    /// It will not be done in this pod.
    Impossible {
        /// Why not.
        why: String,
        /// Whether some node is large enough for a new pod.
        anew: bool,
    },
}

/// Where a pod's resize stands. What the API server has refused to this pod is remembered.
pub fn standing(cast: &Cast<'_>, pod: &PodView) -> Standing {
    let Some(resize) = pod.resize.as_ref().filter(|r| !r.done) else {
        return Standing::Settled;
    };
    let impossible = |why: String| Standing::Impossible {
        why,
        anew: fits_a_node(cast, pod.revision()),
    };
    let refused = cast.memory.pod(&pod.meta.pin.uid).refused.as_ref();
    match (&resize.word, refused) {
        _ if !resize.sent => match refused.filter(|r| r.revision == pod.revision()) {
            Some(refused) => impossible(refused.message.clone()),
            None => Standing::Unsent,
        },
        (None, _) => Standing::Working,
        (Some(Word::Deferred(why)), _) => Standing::Deferred(why.clone()),
        (Some(Word::Failing(why)), _) => Standing::Failing(why.clone()),
        (Some(Word::Infeasible(why)), _) => impossible(why.clone()),
    }
}

/// Whether some node that takes pods is large enough for what a revision asks for. Where nodes cannot
/// be looked at, nobody knows.
fn fits_a_node(cast: &Cast<'_>, revision: &str) -> bool {
    let (Some(nodes), Some(revision)) = (&cast.nodes, cast.revisions.get(revision)) else {
        return false;
    };
    let asked = |resource: &str| change::requests(&revision.template, resource);
    let (cpu, memory) = (asked("cpu"), asked("memory"));
    let takes = |room: Option<Quantity>, asked| room.is_none_or(|room| asked <= room);
    nodes
        .values()
        .any(|n| n.ready && !n.cordoned && takes(n.cpu, cpu) && takes(n.memory, memory))
}

/// Whether a member whose resize does not come about gets a new pod instead.
pub fn gets_a_new_pod(cast: &Cast<'_>, pod: &PodView) -> bool {
    let asked = cast.ensemble.spec.rollout.method == RolloutMethod::Recreate;
    match standing(cast, pod) {
        Standing::Settled | Standing::Unsent | Standing::Working => false,
        Standing::Deferred(_) | Standing::Failing(_) => asked,
        Standing::Impossible { anew, .. } => asked || anew,
    }
}

/// How many current members have not got what was asked for them: the next waits for them.
pub fn under_way(cast: &Cast<'_>, revisions: &Revisions) -> usize {
    let pods = cast.members().filter_map(|m| cast.our_pod(m));
    let current = pods.filter(|p| revisions.is_current(p.revision()) && !p.meta.deleting);
    current
        .filter(|pod| match standing(cast, pod) {
            Standing::Settled | Standing::Unsent => false,
            _ => !gets_a_new_pod(cast, pod),
        })
        .count()
}
