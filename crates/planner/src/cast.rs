//! Who is on stage: every member's pod looked up and judged once, however often a plan asks.

use crate::claims::{self, ClaimGroup};
use crate::engine::{Lead, Roles};
use crate::ledger::LedgerState;
use crate::presence::{self, Presence};
use crate::snapshot::{Snapshot, Whose};
use crate::view::PodView;
use ensemble_api::names;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Deref;

/// A snapshot with its members looked up. What it does not answer faster, the snapshot answers.
#[derive(Debug)]
pub struct Cast<'s> {
    snap: &'s Snapshot,
    ledger: LedgerState,
    seats: BTreeMap<u32, Seat<'s>>,
    /// By ordinal, for those that are asked for, once somebody wants to know.
    groups: Vec<OnceCell<ClaimGroup>>,
    roles: Roles,
}

/// The pod that stands under a member's name.
#[derive(Debug)]
struct Seat<'s> {
    pod: &'s PodView,
    whose: Whose,
    presence: Presence,
    available: bool,
}

impl Deref for Cast<'_> {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        self.snap
    }
}

impl<'s> Cast<'s> {
    /// Looks everybody up.
    pub fn of(snap: &'s Snapshot) -> Self {
        let seats = snap.pods.iter().filter_map(|(name, pod)| {
            let ordinal = names::ordinal_of(snap.name(), name)?;
            Some((ordinal, seat(snap, pod, ordinal)))
        });
        let seats: BTreeMap<u32, Seat<'s>> = seats.collect();
        let ours = seats.iter().filter(|(_, s)| s.whose != Whose::Foreign);
        let ledger = LedgerState::put_right(snap, ours.map(|(ordinal, _)| *ordinal));
        let groups = (0..snap.replicas()).map(|_| OnceCell::new());
        let mut cast = Self {
            snap,
            groups: groups.collect(),
            ledger,
            seats,
            roles: Roles::equals(),
        };
        cast.roles = Roles::of(&cast);
        cast
    }

    /// What is known of roles.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Who leads.
    pub fn lead(&self) -> &Lead {
        &self.roles.lead
    }

    /// Whether a member is Ready for long enough and, where there are roles, in sync.
    pub fn fit(&self, ordinal: u32) -> bool {
        self.available(ordinal) && self.roles.in_sync(self.name(), ordinal).is_ok()
    }

    /// How the claims of that member stand, by a ledger that may have moved on from ours.
    pub fn group(&self, ledger: &LedgerState, ordinal: u32) -> ClaimGroup {
        let same = ledger.incarnation(ordinal) == self.ledger.incarnation(ordinal)
            && ledger.born.contains(&ordinal) == self.ledger.born.contains(&ordinal);
        let known = self.groups.get(ordinal as usize).filter(|_| same);
        let by = |ledger: &LedgerState| claims::group(self, ledger, ordinal);
        known.map_or_else(
            || by(ledger),
            |known| known.get_or_init(|| by(&self.ledger)).clone(),
        )
    }

    fn ours(&self, ordinal: u32) -> Option<&Seat<'s>> {
        let seat = self.seats.get(&ordinal);
        seat.filter(|s| s.whose != Whose::Foreign)
    }

    /// Whose the pod under that member's name is, if there is one.
    pub fn whose(&self, ordinal: u32) -> Option<Whose> {
        self.seats.get(&ordinal).map(|s| s.whose)
    }

    /// The pod of that ordinal if it is ours.
    pub fn our_pod(&self, ordinal: u32) -> Option<&'s PodView> {
        self.ours(ordinal).map(|s| s.pod)
    }

    /// Which life of an ordinal its pod belongs to, if its labels still say so.
    pub fn life(&self, ordinal: u32) -> Option<u32> {
        self.our_pod(ordinal)?.meta.incarnation
    }

    /// Ordinals of all pods that are ours, in order.
    pub fn pod_ordinals(&self) -> impl Iterator<Item = u32> {
        let ours = self.seats.iter().filter(|(_, s)| s.whose != Whose::Foreign);
        ours.map(|(ordinal, _)| *ordinal)
    }

    /// What is known of a member's pod.
    pub fn presence(&self, ordinal: u32) -> Presence {
        self.ours(ordinal).map_or(Presence::Absent, |s| s.presence)
    }

    /// Whether a member has been Ready for `minReadySeconds`.
    pub fn available(&self, ordinal: u32) -> bool {
        self.ours(ordinal).is_some_and(|s| s.available)
    }

    /// The ledger as stored, put right by what exists.
    pub fn ledger(&self) -> &LedgerState {
        &self.ledger
    }
}

fn seat<'s>(snap: &Snapshot, pod: &'s PodView, ordinal: u32) -> Seat<'s> {
    let presence = presence::of_pod(snap, pod);
    Seat {
        pod,
        whose: snap.whose_pod(pod, ordinal),
        presence,
        available: presence == Presence::Serving && snap.is_settled(pod) && !pod.is_changing(),
    }
}
