//! Everything a plan is made from.

use crate::abilities::Abilities;
use crate::memory::{Kind, Memory};
use crate::time::Time;
use crate::view::{
    BudgetView, ClaimView, EnsembleView, NodeView, PodView, RequestView, RevisionView, ServiceView,
};
use crate::wanted::FromSpec;
use ensemble_api::labels;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nodes by name.
pub type Nodes = BTreeMap<String, NodeView>;

/// One ensemble's world, as known now.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The time by our clock.
    pub now: Time,
    /// Which leadership this process acts under.
    pub epoch: i64,
    /// The Ensemble.
    pub ensemble: EnsembleView,
    /// What its engine can do and demands.
    pub abilities: Abilities,
    /// What follows from its spec, if that was made already.
    pub from_spec: Option<Arc<FromSpec>>,
    /// Pods that carry its label, by name.
    pub pods: BTreeMap<String, PodView>,
    /// Claims that carry its label, by name.
    pub claims: BTreeMap<String, ClaimView>,
    /// Nodes; None if they cannot be read.
    pub nodes: Option<Arc<Nodes>>,
    /// Its stored revisions, by name.
    pub revisions: BTreeMap<String, RevisionView>,
    /// Services that carry its label, by name.
    pub services: BTreeMap<String, ServiceView>,
    /// All budgets of the namespace, by name.
    pub budgets: BTreeMap<String, BudgetView>,
    /// Requests addressed to it, by name.
    pub requests: BTreeMap<String, RequestView>,
    /// What this process remembers.
    pub memory: Arc<Memory>,
    /// Kinds whose view does not yet show what we wrote.
    pub behind: Vec<Kind>,
}

impl Snapshot {
    /// The name of the ensemble.
    pub fn name(&self) -> &str {
        self.ensemble.name()
    }

    /// What follows from the spec.
    pub fn from_spec(&self) -> Arc<FromSpec> {
        let made = self.from_spec.as_ref().filter(|made| made.is_of(self));
        made.cloned().unwrap_or_else(|| FromSpec::of(self))
    }

    /// Helper pods that pull images.
    pub fn helpers(&self) -> impl Iterator<Item = &PodView> {
        self.pods.values().filter(|p| {
            p.meta.label(labels::PURPOSE) == labels::PREFETCH
                && p.meta.controller.as_deref() == Some(self.ensemble.uid())
        })
    }

    /// Whether a Ready pod has been so for `minReadySeconds`.
    pub fn is_settled(&self, pod: &PodView) -> bool {
        self.ensemble.spec.min_ready_seconds == 0 || self.settled_at(pod) <= self.now
    }

    /// When a Ready pod will have been so for `minReadySeconds`.
    pub fn settled_at(&self, pod: &PodView) -> Time {
        let since = self.memory.pod(&pod.meta.pin.uid).ready_since;
        let since = since.unwrap_or(self.now);
        since.plus_seconds(self.ensemble.spec.min_ready_seconds)
    }
}
