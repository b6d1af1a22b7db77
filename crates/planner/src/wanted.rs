//! What follows from the spec alone: looked at in every plan, and made once for each spec.

use crate::cast::Cast;
use crate::mutants;
use crate::render::{self, Wanted};
use crate::snapshot::Snapshot;
use crate::{abilities::Port, revision};
use ensemble_api::{EnsembleSpec, Rule, names};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a spec asks for beside members.
#[derive(Debug)]
pub struct FromSpec {
    /// Of what it was made. While this is held, a changed spec is another.
    spec: Arc<EnsembleSpec>,
    name: String,
    port: Option<Port>,
    /// The name of the revision that holds its template.
    pub revision: String,
    /// The labels that all members' pods have, as a foreign budget would see them.
    pub member_labels: BTreeMap<String, String>,
    /// The Services that lead to the primary and to the replicas: name and what it is to be.
    pub role_services: Vec<(String, Option<Wanted>)>,
    /// By value of the role label: the Service that leads to the primary, if it carries that.
    primaries: Vec<(String, Option<Wanted>)>,
    /// The budgets, if they are ours to keep.
    pub budgets: Vec<Wanted>,
}

impl FromSpec {
    /// Makes it.
    pub fn of(snap: &Snapshot) -> Arc<Self> {
        let spec = &snap.ensemble.spec;
        Arc::new(Self {
            spec: spec.clone(),
            name: snap.name().to_owned(),
            port: snap.abilities.port,
            revision: revision::name(snap.name(), &spec.template.0),
            member_labels: member_labels(snap),
            role_services: role_services(snap),
            primaries: primaries(snap),
            budgets: render::budgets(snap),
        })
    }

    /// Whether it was made of what stands there.
    pub(crate) fn is_of(&self, snap: &Snapshot) -> bool {
        Arc::ptr_eq(&self.spec, &snap.ensemble.spec)
            && self.name == snap.name()
            && self.port == snap.abilities.port
    }
}

impl FromSpec {
    /// The Services that lead to the primary and to the replicas, as they are to be now.
    pub(crate) fn routed(
        &self,
        cast: &Cast<'_>,
    ) -> impl Iterator<Item = (&String, &Option<Wanted>)> {
        let primary = names::primary(cast.name());
        self.role_services.iter().map(move |(name, service)| {
            match service.is_some() && *name == primary {
                true => (name, self.primary(cast).unwrap_or(service)),
                false => (name, service),
            }
        })
    }

    /// The primary Service follows the label that the primary's own pod carries, of all values that say so.
    /// While nobody is known to lead it stays as it is.
    fn primary(&self, cast: &Cast<'_>) -> Option<&Option<Wanted>> {
        let key = cast.ensemble.spec.engine.as_ref()?.role_label()?.key;
        let leader = cast.engine().leader().and_then(|m| cast.our_pod(m));
        let carried = leader.map(|pod| pod.meta.label(key));
        let found = cast.services.get(&names::primary(cast.name()));
        let selected = found.and_then(|s| s.selector.get(key)).map(String::as_str);
        let by = |value: &str| {
            let mut all = self.primaries.iter();
            all.find(|(of, _)| of == value).map(|(_, service)| service)
        };
        if mutants::is_off(Rule::PrimaryRouted) {
            return None;
        }
        carried.and_then(by).or_else(|| selected.and_then(by))
    }
}

fn primaries(snap: &Snapshot) -> Vec<(String, Option<Wanted>)> {
    let values = render::primary_values(snap).into_iter();
    let service = |value: &str| {
        let service = render::role_service(snap, names::primary(snap.name()), value);
        (value.to_owned(), service)
    };
    values.map(service).collect()
}

fn member_labels(snap: &Snapshot) -> BTreeMap<String, String> {
    let text = |map: Map<String, Value>| {
        map.into_iter()
            .filter_map(|(k, v)| Some((k, v.as_str()?.to_owned())))
            .collect::<Vec<_>>()
    };
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    labels.extend(text(snap.ensemble.spec.template.metadata("labels")));
    labels.extend(text(render::selector(snap)));
    labels
}

fn role_services(snap: &Snapshot) -> Vec<(String, Option<Wanted>)> {
    let engine = snap.ensemble.spec.engine.as_ref();
    let Some(label) = engine.and_then(|e| e.role_label()) else {
        return Vec::new();
    };
    let wanted = &snap.ensemble.spec.services;
    let services = [
        (wanted.primary, names::primary(snap.name()), label.primary),
        (wanted.replicas, names::replicas(snap.name()), label.replica),
    ];
    let service = |(wanted, name, role): (bool, String, &str)| {
        let service = wanted.then(|| render::role_service(snap, name.clone(), role));
        (name, service.flatten())
    };
    services.into_iter().map(service).collect()
}
