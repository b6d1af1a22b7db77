//! Which node suits which pod.

use serde_json::Value;

use super::routing::{claims_of, uses_claim};
use crate::cluster::Cluster;
use crate::quantity::{self, Quantity};
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::value::{Object, at, flag, items, name, namespace, object, text, text_or_empty, uid};

type Fit = Result<(), String>;

fn refuse(why: &str) -> Fit {
    Err(why.to_owned())
}

impl Cluster {
    /// Whether a pod can go to a node; if not, why.
    pub(super) fn fits(&self, pod: &Object, node: &Object) -> Fit {
        if flag(node, "spec.unschedulable") && !tolerates_unschedulable(pod) {
            return refuse("node(s) were unschedulable");
        }
        fits_taints(pod, node)?;
        if !fits_selector(pod, node) {
            return refuse("node(s) didn't match Pod's node affinity/selector");
        }
        self.fits_resources(pod, node)?;
        self.fits_volumes(pod, node)?;
        self.fits_pod_affinity(pod, node)?;
        self.fits_spread(pod, node)
    }

    fn pods_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Object> {
        let running = |p: &Object| !matches!(text(p, "status.phase"), Some("Succeeded" | "Failed"));
        let pods = self.server.store.all(Resource::Pods).map(|(_, p)| p);
        pods.filter(move |p| text(p, "spec.nodeName") == Some(node) && running(p))
    }

    fn fits_resources(&self, pod: &Object, node: &Object) -> Fit {
        let others: Vec<&Object> = self.pods_on(name(node)).collect();
        if let Some(limit) = at(node, "status.allocatable.pods").and_then(quantity::of) {
            let count = Quantity::parse(&(others.len() + 1).to_string()).unwrap_or(Quantity::ZERO);
            if count > limit {
                return refuse("Too many pods");
            }
        }
        for resource in ["cpu", "memory"] {
            let wanted = requests(pod, resource);
            if wanted == Quantity::ZERO {
                continue;
            }
            let path = format!("status.allocatable.{resource}");
            let Some(available) = at(node, &path).and_then(quantity::of) else {
                continue;
            };
            let used = others
                .iter()
                .map(|p| requests(p, resource))
                .fold(wanted, Quantity::plus);
            if used > available {
                return Err(format!("Insufficient {resource}"));
            }
        }
        Ok(())
    }

    fn fits_volumes(&self, pod: &Object, node: &Object) -> Fit {
        for claim_key in claims_of(pod) {
            let Some(claim) = self
                .server
                .store
                .get(Resource::PersistentVolumeClaims, &claim_key)
            else {
                continue;
            };
            let volume = text_or_empty(claim, "spec.volumeName");
            let volume = self.server.store.get(Resource::PersistentVolumes, volume);
            if let Some(terms) = volume.and_then(|v| at(v, "spec.nodeAffinity.required"))
                && !matches_node_terms(terms, node)
            {
                return refuse("node(s) had volume node affinity conflict");
            }
            let single = items(claim, "spec.accessModes")
                .iter()
                .any(|m| m == "ReadWriteOncePod");
            if single && self.claim_taken(pod, &claim_key) {
                return refuse(
                    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
                );
            }
        }
        Ok(())
    }

    fn claim_taken(&self, pod: &Object, claim: &str) -> bool {
        self.server.store.all(Resource::Pods).any(|(_, other)| {
            uid(other) != uid(pod)
                && text(other, "spec.nodeName").is_some()
                && !matches!(text(other, "status.phase"), Some("Succeeded" | "Failed"))
                && uses_claim(other, claim)
        })
    }

    fn fits_pod_affinity(&self, pod: &Object, node: &Object) -> Fit {
        const TERMS: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        for term in items(pod, &format!("spec.affinity.podAntiAffinity.{TERMS}")) {
            if self.any_pod_near(node, term, namespace(pod), |p| uid(p) != uid(pod)) {
                return refuse("node(s) didn't match pod anti-affinity rules");
            }
        }
        // The anti-affinity of pods already there counts too.
        for (_, other) in self.server.store.all(Resource::Pods) {
            for term in items(other, &format!("spec.affinity.podAntiAffinity.{TERMS}")) {
                let there = text_or_empty(other, "spec.nodeName");
                let there = self.server.store.get(Resource::Nodes, there);
                let near = there.is_some_and(|n| same_topology(n, node, term));
                if near && uid(other) != uid(pod) && term_selects(term, namespace(other), pod) {
                    return refuse("node(s) didn't satisfy existing pods anti-affinity rules");
                }
            }
        }
        for term in items(pod, &format!("spec.affinity.podAffinity.{TERMS}")) {
            let found = self.any_pod_near(node, term, namespace(pod), |_| true);
            let first = !self.any_pod_anywhere(term, namespace(pod))
                && term_selects(term, namespace(pod), pod);
            if !found && !first {
                return refuse("node(s) didn't match pod affinity rules");
            }
        }
        Ok(())
    }

    fn any_pod_near(
        &self,
        node: &Object,
        term: &Value,
        ns: &str,
        counts: impl Fn(&Object) -> bool,
    ) -> bool {
        self.server.store.all(Resource::Nodes).any(|(_, other)| {
            same_topology(other, node, term)
                && self
                    .pods_on(name(other))
                    .any(|p| counts(p) && term_selects(term, ns, p))
        })
    }

    fn any_pod_anywhere(&self, term: &Value, ns: &str) -> bool {
        self.server
            .store
            .all(Resource::Pods)
            .any(|(_, p)| text(p, "spec.nodeName").is_some() && term_selects(term, ns, p))
    }

    /// topologySpreadConstraints with DoNotSchedule.
    fn fits_spread(&self, pod: &Object, node: &Object) -> Fit {
        for constraint in items(pod, "spec.topologySpreadConstraints") {
            if text(constraint, "whenUnsatisfiable") != Some("DoNotSchedule") {
                continue;
            }
            let topology = text_or_empty(constraint, "topologyKey");
            let Some(domain) = label(node, topology) else {
                return refuse(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                );
            };
            let selector = LabelSelector::from_object(at(constraint, "labelSelector"));
            let counts = self.spread_counts(pod, topology, selector.as_ref());
            let own = i64::from(selector.as_ref().is_some_and(|s| s.matches(pod)));
            let enough = crate::value::int(constraint, "minDomains").unwrap_or(1);
            let domains = i64::try_from(counts.len()).unwrap_or(i64::MAX);
            let least = if domains < enough {
                0
            } else {
                counts.iter().map(|(_, n)| *n).min().unwrap_or(0)
            };
            let here = counts
                .iter()
                .find(|(d, _)| d == domain)
                .map_or(0, |(_, n)| *n);
            let skew = crate::value::int(constraint, "maxSkew").unwrap_or(1);
            if here + own - least > skew {
                return refuse("node(s) didn't match pod topology spread constraints");
            }
        }
        Ok(())
    }

    fn spread_counts(
        &self,
        pod: &Object,
        topology: &str,
        selector: Option<&LabelSelector>,
    ) -> Vec<(String, i64)> {
        let mut counts: Vec<(String, i64)> = Vec::new();
        for (_, node) in self.server.store.all(Resource::Nodes) {
            let Some(domain) = label(node, topology).filter(|_| fits_selector(pod, node)) else {
                continue;
            };
            let here = self.pods_on(name(node)).filter(|p| {
                namespace(p) == namespace(pod)
                    && !crate::value::terminating(p)
                    && selector.is_some_and(|s| s.matches(p))
            });
            let here = i64::try_from(here.count()).unwrap_or(0);
            match counts.iter_mut().find(|(d, _)| d == domain) {
                Some((_, n)) => *n += here,
                None => counts.push((domain.to_owned(), here)),
            }
        }
        counts
    }
}

/// What a pod asks of a resource, over all its containers.
pub(crate) fn requests(pod: &Value, resource: &str) -> Quantity {
    let path = format!("resources.requests.{resource}");
    items(pod, "spec.containers")
        .iter()
        .filter_map(|c| at(c, &path).and_then(quantity::of))
        .fold(Quantity::ZERO, Quantity::plus)
}

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, "metadata.labels")?.get(key)?.as_str()
}

fn same_topology(a: &Value, b: &Value, term: &Value) -> bool {
    let topology = text_or_empty(term, "topologyKey");
    label(a, topology).is_some() && label(a, topology) == label(b, topology)
}

fn term_selects(term: &Value, ns: &str, pod: &Value) -> bool {
    let namespaces = items(term, "namespaces");
    let in_scope = if namespaces.is_empty() {
        namespace(pod) == ns
    } else {
        namespaces.iter().any(|n| n == namespace(pod))
    };
    in_scope
        && LabelSelector::from_object(at(term, "labelSelector")).is_some_and(|s| s.matches(pod))
}

fn tolerates_unschedulable(pod: &Value) -> bool {
    let taint =
        serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    tolerates(pod, &taint)
}

fn fits_taints(pod: &Value, node: &Value) -> Fit {
    let hard = |t: &&Value| matches!(text(t, "effect"), Some("NoSchedule" | "NoExecute"));
    match items(node, "spec.taints")
        .iter()
        .filter(hard)
        .find(|t| !tolerates(pod, t))
    {
        Some(taint) => {
            let key = text_or_empty(taint, "key");
            Err(format!(
                "node(s) had untolerated taint {{{key}: {}}}",
                text_or_empty(taint, "value")
            ))
        }
        None => Ok(()),
    }
}

/// Whether a pod tolerates a taint at all, for however long.
pub(crate) fn tolerates(pod: &Value, taint: &Value) -> bool {
    items(pod, "spec.tolerations")
        .iter()
        .any(|t| toleration_covers(t, taint))
}

pub(crate) fn toleration_covers(toleration: &Value, taint: &Value) -> bool {
    let effect = text_or_empty(toleration, "effect");
    let key = text_or_empty(toleration, "key");
    let exists = text(toleration, "operator") == Some("Exists");
    let effect_fits = effect.is_empty() || effect == text_or_empty(taint, "effect");
    let key_fits = key == text_or_empty(taint, "key") || key.is_empty() && exists;
    let value_fits = exists || text_or_empty(toleration, "value") == text_or_empty(taint, "value");
    effect_fits && key_fits && value_fits
}

fn fits_selector(pod: &Value, node: &Value) -> bool {
    let selector = object(pod, "spec.nodeSelector").map(LabelSelector::from_map);
    if selector.is_some_and(|s| !s.matches(node)) {
        return false;
    }
    let path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    at(pod, path).is_none_or(|terms| matches_node_terms(terms, node))
}

/// A NodeSelector: one of its terms must hold, and in a term everything.
pub(crate) fn matches_node_terms(selector: &Value, node: &Value) -> bool {
    items(selector, "nodeSelectorTerms").iter().any(|term| {
        let labels = items(term, "matchExpressions");
        let fields = items(term, "matchFields");
        let named = |e: &Value| {
            let values = items(e, "values");
            let own = values.iter().any(|v| v == name(node));
            match text_or_empty(e, "operator") {
                "NotIn" => !own,
                _ => own,
            }
        };
        !(labels.is_empty() && fields.is_empty())
            && labels.iter().all(|e| matches_expression(e, node))
            && fields.iter().all(named)
    })
}

fn matches_expression(expression: &Value, node: &Value) -> bool {
    let value = label(node, text_or_empty(expression, "key"));
    let values = items(expression, "values");
    let listed = || value.is_some_and(|v| values.iter().any(|x| x == v));
    let number = |v: Option<&str>| v.and_then(|s| s.parse::<i64>().ok());
    let bound = number(values.first().and_then(Value::as_str));
    match text_or_empty(expression, "operator") {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number(value).zip(bound).is_some_and(|(v, b)| v > b),
        "Lt" => number(value).zip(bound).is_some_and(|(v, b)| v < b),
        _ => false,
    }
}
