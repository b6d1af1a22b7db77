//! Where members stand: each is given a zone when it is created, and keeps it.
//!
//! A member's claims remember its zone; one without claims has it from its pod alone. Where a pod runs is the
//! truth: it is where its volumes can be reached.

use crate::cast::Cast;
use crate::roster::MemberId;
use crate::snapshot::Snapshot;
use crate::view::{ClaimView, PodView};
use ensemble_api::spec::{ZoneMode, Zones};
use ensemble_api::{Rule, labels};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The zones of all members, as far as they are known or chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    of: BTreeMap<MemberId, String>,
}

impl Placement {
    /// Those that have a zone keep it; each of the others that are asked for gets the one with the fewest
    /// members of its group.
    pub fn of(cast: &Cast<'_>) -> Self {
        let Some(zones) = &cast.ensemble.spec.zones else {
            return Self::default();
        };
        let all = cast.wanted().chain(cast.members());
        let known = all.filter_map(|m| Some((m, known(cast, zones, m)?)));
        let mut placement = Self {
            of: known.collect(),
        };
        for who in cast.wanted() {
            if !placement.of.contains_key(&who) && is_free(cast, who) {
                let zone = placement.emptiest(cast, zones, who);
                placement.of.insert(who, zone);
            }
        }
        placement
    }

    /// The zone of a member.
    pub fn zone(&self, who: MemberId) -> Option<&str> {
        self.of.get(&who).map(String::as_str)
    }

    /// How many members of that group that are asked for are in a zone.
    pub fn count(&self, cast: &Cast<'_>, like: MemberId, zone: &str) -> usize {
        let group = cast.roster().wanted_in(like.group);
        group.filter(|m| self.zone(*m) == Some(zone)).count()
    }

    fn emptiest(&self, cast: &Cast<'_>, zones: &Zones, who: MemberId) -> String {
        if crate::mutants::is_off(Rule::ZonesEven) {
            return zones.names.first().cloned().unwrap_or_default();
        }
        // Of equals the first.
        let emptiest = zones.names.iter().min_by_key(|z| self.count(cast, who, z));
        emptiest.cloned().unwrap_or_default()
    }
}

/// The zone that a member has: where it runs; else where its claims remember it to belong; else what its pod
/// was made for.
fn known(cast: &Cast<'_>, zones: &Zones, who: MemberId) -> Option<String> {
    let pod = cast.our_pod(who);
    let runs = pod.and_then(|pod| zone_of_node(cast, zones, pod));
    let remembered = || claims(cast, who).find_map(|claim| labelled(&claim.meta.labels));
    let made_for = || pod.and_then(|pod| labelled(&pod.meta.labels));
    if crate::mutants::is_off(Rule::ZoneKept) {
        return None;
    }
    runs.or_else(remembered).or_else(made_for)
}

fn labelled(labels_: &BTreeMap<String, String>) -> Option<String> {
    labels_.get(labels::ZONE).filter(|z| !z.is_empty()).cloned()
}

/// The zone of the node that a pod is on, by the node's label; or by what the API server copied to the pod
/// when it was bound, where nodes cannot be read.
fn zone_of_node(snap: &Snapshot, zones: &Zones, pod: &PodView) -> Option<String> {
    if pod.node.is_empty() {
        return None;
    }
    let key = &zones.topology_key;
    let node = snap.nodes.as_ref().and_then(|nodes| nodes.get(&pod.node));
    let by_node = node.and_then(|node| node.labels.get(key));
    by_node.or_else(|| pod.meta.labels.get(key)).cloned()
}

/// The claims of a member's present life.
fn claims<'c>(cast: &'c Cast<'_>, who: MemberId) -> impl Iterator<Item = &'c ClaimView> {
    let life = cast.ledger().incarnation(who);
    let all = cast.claims.values();
    all.filter(move |c| c.meta.incarnation == Some(life) && cast.roster().of_claim(c) == Some(who))
}

/// Whether a zone can be chosen for a member that has none: nothing of it stands anywhere yet. Its volumes
/// would stay where they are, and a pin to another zone would keep it from ever starting.
fn is_free(cast: &Cast<'_>, who: MemberId) -> bool {
    cast.our_pod(who).is_none() && claims(cast, who).next().is_none()
}

/// Claims that do not say, or say wrongly, in which zone the pod that uses them runs.
pub fn unmarked<'c>(cast: &'c Cast<'_>) -> Vec<(&'c ClaimView, String)> {
    let Some(zones) = &cast.ensemble.spec.zones else {
        return Vec::new();
    };
    let here = cast.wanted().filter_map(|who| {
        let pod = cast.our_pod(who).filter(|_| cast.available(who))?;
        Some((who, zone_of_node(cast, zones, pod)?))
    });
    let wrong = here.flat_map(|(who, zone)| {
        let wrong = claims(cast, who).filter({
            let zone = zone.clone();
            move |c| c.meta.labels.get(labels::ZONE) != Some(&zone)
        });
        wrong.map(move |c| (c, zone.clone())).collect::<Vec<_>>()
    });
    wrong.collect()
}

/// Keeps a pod in its zone, and tells its containers. A requirement is added to each of the user's own terms:
/// a term of its own would be an alternative to them.
pub fn pin(spec: &mut Map<String, Value>, zones: &Zones, zone: &str) {
    let rule = json!({"key": zones.topology_key, "operator": "In", "values": [zone]});
    let affinity = spec.entry("affinity").or_insert_with(|| json!({}));
    let node = &mut affinity["nodeAffinity"];
    match zones.mode {
        ZoneMode::Require => {
            let required = &mut node["requiredDuringSchedulingIgnoredDuringExecution"];
            let terms = &mut required["nodeSelectorTerms"];
            if terms.as_array().is_none_or(Vec::is_empty) {
                *terms = json!([{}]);
            }
            for term in terms.as_array_mut().into_iter().flatten() {
                push(&mut term["matchExpressions"], rule.clone());
            }
        }
        ZoneMode::Prefer => {
            let preference = json!({"matchExpressions": [rule]});
            let preferred = &mut node["preferredDuringSchedulingIgnoredDuringExecution"];
            push(preferred, json!({"weight": 100, "preference": preference}));
        }
    }
}

/// Adds to a list, or begins one.
fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    }
}

/// What a container is told of its zone.
pub fn environment(zones: &Zones, zone: &str) -> Vec<(&'static str, String)> {
    let mut told = vec![("ENSEMBLE_ZONE", zone.to_owned())];
    if let Some(index) = zones.names.iter().position(|z| z == zone) {
        told.push(("ENSEMBLE_ZONE_INDEX", index.to_string()));
    }
    told
}

/// Says of a zone that none, or none that is well, of the nodes is in it.
pub fn trouble(snap: &Snapshot, zone: &str) -> Option<String> {
    let key = &snap.ensemble.spec.zones.as_ref()?.topology_key;
    let nodes = snap.nodes.as_ref()?;
    let here = nodes
        .values()
        .filter(|n| n.labels.get(key).is_some_and(|z| z == zone));
    let (well, sick): (Vec<_>, Vec<_>) = here.partition(|n| n.ready);
    if !well.is_empty() {
        return None;
    }
    if sick.is_empty() {
        let mut there: Vec<&str> = nodes
            .values()
            .filter_map(|n| Some(n.labels.get(key)?.as_str()))
            .collect();
        there.sort_unstable();
        there.dedup();
        let there = if there.is_empty() {
            "none".to_owned()
        } else {
            there.join(", ")
        };
        return Some(format!(
            "no node is labelled {key}={zone}; zones of the nodes: {there}"
        ));
    }
    Some(format!(
        "zone {zone} is down: none of its {} nodes is Ready",
        sick.len()
    ))
}

/// Says which zone has so many voters that the others are no majority without it; only where one could be
/// kept, and once everybody has a zone.
pub fn decisive(cast: &Cast<'_>) -> Option<String> {
    cast.ensemble.spec.zones.as_ref()?;
    let quorums = cast
        .engine()
        .cohorts
        .iter()
        .filter_map(|c| c.quorum.as_ref());
    let mut quorums = quorums.filter(|q| q.size() > 2);
    quorums.find_map(|quorum| {
        let mut voters: BTreeMap<&str, u32> = BTreeMap::new();
        for who in &quorum.voters {
            *voters.entry(cast.placement().zone(*who)?).or_default() += 1;
        }
        let (zone, most) = voters.iter().max_by_key(|(_, count)| **count)?;
        let others = quorum.size() - most;
        let message = format!(
            "{most} of {} voters are in zone {zone}: without it {others} are left, and {} are needed",
            quorum.size(),
            quorum.needed
        );
        (others < quorum.needed).then_some(message)
    })
}
