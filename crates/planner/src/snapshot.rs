//! Everything a plan is made from.

use crate::abilities::Abilities;
use crate::ledger::LedgerState;
use crate::memory::{Kind, Memory};
use crate::presence::{self, Presence};
use crate::time::Time;
use crate::view::{
    BudgetView, ClaimView, EnsembleView, NodeView, PodView, RequestView, RevisionView, ServiceView,
};
use crate::wanted::FromSpec;
use ensemble_api::{labels, names};
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

/// Whose a pod or claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Ours, by labels and owner.
    Ours,
    /// Ours by labels, without an owner: to be taken back.
    Orphan,
    /// Ours by owner, with labels that somebody changed.
    Mislabelled,
    /// Somebody else's.
    Foreign,
}

impl Snapshot {
    /// The name of the ensemble.
    pub fn name(&self) -> &str {
        self.ensemble.name()
    }

    /// How many members are asked for.
    pub fn replicas(&self) -> u32 {
        self.ensemble.spec.replicas
    }

    /// What follows from the spec.
    pub fn from_spec(&self) -> Arc<FromSpec> {
        let made = self.from_spec.as_ref().filter(|made| made.is_of(self));
        made.cloned().unwrap_or_else(|| FromSpec::of(self))
    }

    /// The pod of that ordinal, if one carries our label under its name.
    pub fn pod(&self, ordinal: u32) -> Option<&PodView> {
        self.pods.get(&names::pod(self.name(), ordinal))
    }

    /// The pod of that ordinal if it is ours.
    pub fn our_pod(&self, ordinal: u32) -> Option<&PodView> {
        self.pod(ordinal)
            .filter(|p| self.whose_pod(p, ordinal) != Whose::Foreign)
    }

    /// Which life of an ordinal its pod belongs to, if its labels still say so.
    pub fn life(&self, ordinal: u32) -> Option<u32> {
        self.our_pod(ordinal)?.meta.incarnation
    }

    /// Ordinals of all pods that are ours.
    pub fn pod_ordinals(&self) -> impl Iterator<Item = u32> {
        self.pods.iter().filter_map(|(name, pod)| {
            let ordinal = names::ordinal_of(self.name(), name)?;
            (self.whose_pod(pod, ordinal) != Whose::Foreign).then_some(ordinal)
        })
    }

    /// Whose a pod is: labels for ensemble, group, ordinal and incarnation, and the owner.
    pub fn whose_pod(&self, pod: &PodView, ordinal: u32) -> Whose {
        if crate::mutants::is_off("owner-check") {
            return Whose::Ours;
        }
        let labelled = pod.meta.ensemble == self.name()
            && pod.meta.group == names::DEFAULT_GROUP
            && pod.meta.ordinal == Some(ordinal)
            && pod.meta.incarnation.is_some();
        match &pod.meta.controller {
            Some(uid) if uid == self.ensemble.uid() && labelled => Whose::Ours,
            Some(uid) if uid == self.ensemble.uid() => Whose::Mislabelled,
            None if labelled => Whose::Orphan,
            _ => Whose::Foreign,
        }
    }

    /// Whether a claim is ours: labels for ensemble, group, ordinal, claim and incarnation.
    pub fn owns_claim(&self, claim: &ClaimView, ordinal: u32, name: &str) -> bool {
        claim.meta.ensemble == self.name()
            && claim.meta.group == names::DEFAULT_GROUP
            && claim.claim == name
            && claim.meta.ordinal == Some(ordinal)
            && claim.meta.incarnation.is_some()
    }

    /// The ordinals of all claims that are ours, of any incarnation.
    pub fn claim_ordinals(&self) -> impl Iterator<Item = u32> {
        self.claims.values().filter_map(|claim| {
            let ordinal = claim.meta.ordinal?;
            let name = claim.claim.as_str();
            let rest = claim.meta.pin.name.strip_prefix(name)?.strip_prefix('-')?;
            let fits = names::ordinal_of(self.name(), rest) == Some(ordinal);
            (fits && self.owns_claim(claim, ordinal, name)).then_some(ordinal)
        })
    }

    /// Helper pods that pull images.
    pub fn helpers(&self) -> impl Iterator<Item = &PodView> {
        self.pods.values().filter(|p| {
            p.meta.label(labels::PURPOSE) == labels::PREFETCH
                && p.meta.controller.as_deref() == Some(self.ensemble.uid())
        })
    }

    /// What is known of a member's pod.
    pub fn presence(&self, ordinal: u32) -> Presence {
        presence::of(self, ordinal)
    }

    /// Whether a member has been Ready for `minReadySeconds`.
    pub fn available(&self, ordinal: u32) -> bool {
        matches!(self.presence(ordinal), Presence::Serving)
            && self
                .our_pod(ordinal)
                .is_some_and(|pod| self.is_settled(pod))
    }

    /// Whether a Ready pod has been so for `minReadySeconds`.
    pub fn is_settled(&self, pod: &PodView) -> bool {
        self.ensemble.spec.min_ready_seconds == 0 || self.settled_at(pod) <= self.now
    }

    /// When a Ready pod will have been so for `minReadySeconds`.
    pub fn settled_at(&self, pod: &PodView) -> Time {
        let since = self
            .memory
            .ready_since
            .get(&pod.meta.pin.uid)
            .copied()
            .unwrap_or(self.now);
        since.plus_seconds(self.ensemble.spec.min_ready_seconds)
    }

    /// The ledger as stored, put right by what exists.
    pub fn ledger(&self) -> LedgerState {
        LedgerState::of(self)
    }
}
