//! Which life each member is in: as stored, and as it is to be stored.

use crate::cast::Cast;
use crate::claims::ClaimGroup;
use crate::ledger::Ledgers;
use crate::roster::MemberId;
use ensemble_api::Rule;
use ensemble_api::status::{LET_GO_MAX, LetGo};
use std::collections::BTreeSet;

/// The ledgers of a pass, and what is given up of former lives.
pub(crate) struct Lives {
    /// As stored: what may be created is judged by it.
    stored: Ledgers,
    /// As they are to be stored.
    pub ledgers: Ledgers,
    /// Claims that go, as it is to be stored.
    pub let_go: Vec<LetGo>,
    /// Members whose rebuilding is not answered yet: their new life has not begun.
    rebuilding: BTreeSet<MemberId>,
}

impl Lives {
    /// As they are, before anything is asked for.
    pub fn of(snap: &Cast<'_>) -> Self {
        Self {
            stored: snap.stored().clone(),
            ledgers: snap.ledger().clone(),
            let_go: snap.ensemble.status.let_go.clone(),
            rebuilding: BTreeSet::new(),
        }
    }

    /// Holds a member's new life up until whoever asked for it is answered; true the first time.
    pub fn hold_up(&mut self, who: MemberId) -> bool {
        self.rebuilding.insert(who)
    }

    /// Starts a new life for a member and writes down which claims of the old one go; once there is
    /// room to write them down.
    pub fn renew(&mut self, snap: &Cast<'_>, who: MemberId, consent: &str) {
        if self.let_go.len() + snap.ensemble.spec.claims.len() > LET_GO_MAX {
            return;
        }
        self.ledgers.renew(who);
        for claim in &snap.ensemble.spec.claims {
            let name = snap.roster().claim(&claim.name, who);
            let Some(found) = snap.claims.get(&name) else {
                continue;
            };
            if snap.roster().owns_claim(found, who, &claim.name) {
                let uid = found.meta.pin.uid.clone();
                self.let_go.push(LetGo {
                    claim: name,
                    uid,
                    consent: consent.to_owned(),
                });
            }
        }
    }

    /// Whether the stored ledger already has this member at the start of a new life.
    pub fn is_given_up(&self, snap: &Cast<'_>, who: MemberId) -> bool {
        let stored = &self.stored;
        if stored.incarnation(who) == 0 || stored.is_born(who) {
            return false;
        }
        match snap.group(stored, who) {
            ClaimGroup::Creating { .. } => true,
            ClaimGroup::Taken { claim } => self.lets_go(&claim),
            _ => false,
        }
    }

    /// Whether a claim of that name goes.
    pub fn lets_go(&self, claim: &str) -> bool {
        self.let_go.iter().any(|l| l.claim == claim)
    }

    /// Whether the stored ledger covers a member in its present life: nothing is created before.
    pub fn covers(&self, who: MemberId) -> bool {
        crate::mutants::is_off(Rule::LedgerFirst)
            || self.stored.covers(who)
                && !self.rebuilding.contains(&who)
                && self.stored.incarnation(who) == self.ledgers.incarnation(who)
    }
}
