//! Which ordinals were ever used, and which life each is in.
//!
//! `next` is raised before the first claim of an ordinal is created, so a claim that exists at or
//! beyond it is evidence of a lost or older status, and its ordinal counts as born: a born ordinal
//! never gets an empty volume.

use crate::snapshot::Snapshot;
use ensemble_api::names::{DEFAULT_GROUP, Ordinals};
use ensemble_api::{labels, status};
use std::collections::{BTreeMap, BTreeSet};

/// The ledger of the one group, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerState {
    /// The first ordinal never used.
    pub next: u32,
    /// Ordinals that were Ready once.
    pub born: BTreeSet<u32>,
    /// Which life an ordinal is in, where that is not the first.
    pub incarnations: BTreeMap<u32, u32>,
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
        })
    }

    /// As stored, put right by what exists: what stands beyond a stored ledger, or without one, was
    /// used before.
    pub fn of(snap: &Snapshot) -> Self {
        let stored = Self::stored(snap);
        let lost = stored.is_none();
        let mut ledger = stored.unwrap_or_default();
        let found: BTreeSet<u32> = snap.claim_ordinals().chain(snap.pod_ordinals()).collect();
        for ordinal in found {
            if lost || ordinal >= ledger.next {
                ledger.born.insert(ordinal);
                let life = newest_life(snap, ordinal);
                if life > 0 {
                    ledger.incarnations.insert(ordinal, life);
                }
                ledger.next = ledger.next.max(ordinal + 1);
            }
        }
        if lost && snap.ensemble.meta.annotations.contains_key(labels::BORN) {
            // Whoever is asked for may have been born, also if nothing of it is left.
            ledger.next = ledger.next.max(snap.replicas());
            ledger.born.extend(0..ledger.next);
        }
        ledger
    }

    /// Which life an ordinal is in.
    pub fn incarnation(&self, ordinal: u32) -> u32 {
        self.incarnations.get(&ordinal).copied().unwrap_or(0)
    }

    /// Starts a new life for an ordinal: what it held is given up.
    pub fn renew(&mut self, ordinal: u32) {
        self.born.remove(&ordinal);
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
        }
    }
}

fn newest_life(snap: &Snapshot, ordinal: u32) -> u32 {
    let claims = snap.claims.values().map(|c| &c.meta);
    let pods = snap.pods.values().map(|p| &p.meta);
    let ours = claims
        .chain(pods)
        .filter(|m| m.label(labels::ORDINAL) == ordinal.to_string());
    ours.filter_map(|m| m.label(labels::INCARNATION).parse().ok())
        .max()
        .unwrap_or(0)
}
