//! Which ordinals were ever used, and which life each is in.
//!
//! `next` is raised before the first claim of an ordinal is created, so a claim that exists at or
//! beyond it is evidence of a lost or older status, and its ordinal counts as born: a born ordinal
//! never gets an empty volume.

use crate::snapshot::Snapshot;
use ensemble_api::names::{DEFAULT_GROUP, Ordinals};
use ensemble_api::{labels, status};
use std::collections::{BTreeMap, BTreeSet};

/// As many members as an Ensemble can ask for.
const MOST_MEMBERS: u32 = 1000;

/// The ledger of the one group, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerState {
    /// The first ordinal never used.
    pub next: u32,
    /// Ordinals that were Ready once.
    pub born: BTreeSet<u32>,
    /// Which life an ordinal is in, where that is not the first.
    pub incarnations: BTreeMap<u32, u32>,
    /// By ordinal and name of claim, the mark of the claim that it was born on.
    pub claims: BTreeMap<u32, BTreeMap<String, String>>,
}

impl LedgerState {
    /// As stored in status; None if it is lost.
    pub fn stored(snap: &Snapshot) -> Option<Self> {
        let stored = snap.ensemble.status.ledger.get(DEFAULT_GROUP)?;
        let (born, unreadable) = Ordinals::parse(&stored.born);
        // A ledger that cannot be read is no ledger.
        (unreadable == 0).then(|| Self {
            next: stored.next,
            born: born.0,
            incarnations: stored
                .incarnations
                .iter()
                .filter_map(|(ordinal, life)| Some((ordinal.parse().ok()?, *life)))
                .collect(),
            claims: stored
                .claims
                .iter()
                .filter_map(|(ordinal, marks)| Some((ordinal.parse().ok()?, marks.clone())))
                .collect(),
        })
    }

    /// As stored, put right by what exists: what stands beyond a stored ledger, or without one, was
    /// used before.
    pub fn of(snap: &Snapshot) -> Self {
        Self::put_right(snap, snap.pod_ordinals())
    }

    /// The same, by one who knows the ordinals of our pods.
    pub fn put_right(snap: &Snapshot, pods: impl Iterator<Item = u32>) -> Self {
        let stored = Self::stored(snap);
        let lost = stored.is_none();
        let mut ledger = stored.unwrap_or_default();
        let used: BTreeSet<u32> = snap
            .claim_ordinals()
            .chain(pods)
            .filter(|o| lost || *o >= ledger.next)
            .collect();
        if !used.is_empty() {
            ledger.remember(&used, &newest_lives(snap));
        }
        if lost && snap.ensemble.meta.annotations.contains_key(labels::BORN) {
            // Whoever is asked for may have been born, also if nothing of it is left.
            ledger.next = ledger.next.max(snap.replicas());
            ledger.born.extend(0..ledger.next.min(MOST_MEMBERS));
        }
        ledger
    }

    /// These ordinals were used before, in these lives.
    fn remember(&mut self, used: &BTreeSet<u32>, lives: &BTreeMap<u32, u32>) {
        for ordinal in used {
            self.born.insert(*ordinal);
            self.next = self.next.max(ordinal.saturating_add(1));
            if let Some(life) = lives.get(ordinal).filter(|life| **life > 0) {
                self.incarnations.insert(*ordinal, *life);
            }
        }
    }

    /// Which life an ordinal is in.
    pub fn incarnation(&self, ordinal: u32) -> u32 {
        self.incarnations.get(&ordinal).copied().unwrap_or(0)
    }

    /// Starts a new life for an ordinal: what it held is given up.
    pub fn renew(&mut self, ordinal: u32) {
        self.born.remove(&ordinal);
        self.claims.remove(&ordinal);
        *self.incarnations.entry(ordinal).or_insert(0) += 1;
    }

    /// As status stores it.
    pub fn to_status(&self) -> status::Ledger {
        status::Ledger {
            next: self.next,
            born: Ordinals(self.born.clone()).to_string(),
            incarnations: self
                .incarnations
                .iter()
                .map(|(o, i)| (o.to_string(), *i))
                .collect(),
            claims: self
                .claims
                .iter()
                .map(|(o, marks)| (o.to_string(), marks.clone()))
                .collect(),
        }
    }
}

/// By ordinal, the newest life that a claim or pod tells of.
fn newest_lives(snap: &Snapshot) -> BTreeMap<u32, u32> {
    let claims = snap.claims.values().map(|c| &c.meta);
    let pods = snap.pods.values().map(|p| &p.meta);
    let mut lives = BTreeMap::new();
    for meta in claims.chain(pods) {
        if let (Some(ordinal), Some(life)) = (meta.ordinal, meta.incarnation) {
            let newest = lives.entry(ordinal).or_insert(life);
            *newest = life.max(*newest);
        }
    }
    lives
}
