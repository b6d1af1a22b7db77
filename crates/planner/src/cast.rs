//! Who is on stage: every member's pod looked up and judged once, however often a plan asks.

use crate::claims::{self, ClaimGroup};
use crate::engine::{EngineView, Hearing, Lead};
use crate::ledger::Ledgers;
use crate::presence::{self, Presence};
use crate::roster::{MemberId, Roster, Whose};
use crate::safety;
use crate::snapshot::Snapshot;
use crate::time::Time;
use crate::view::PodView;
use crate::waivers::Waivers;
use crate::zones::Placement;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Deref;

/// A snapshot with its members looked up. What it does not answer faster, the snapshot answers.
#[derive(Debug)]
pub struct Cast<'s> {
    snap: &'s Snapshot,
    /// What members said before does not count.
    since: Time,
    roster: Roster,
    stored: Ledgers,
    ledger: Ledgers,
    seats: BTreeMap<MemberId, Seat<'s>>,
    /// For those that are asked for, once somebody wants to know.
    groups: BTreeMap<MemberId, OnceCell<ClaimGroup>>,
    engine: EngineView,
    waivers: Waivers,
    /// Once somebody wants to know.
    placement: OnceCell<Placement>,
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
        Self::said_since(snap, Time(i64::MIN))
    }

    /// The same, and what members said before a time does not count.
    pub fn said_since(snap: &'s Snapshot, since: Time) -> Self {
        let roster = Roster::seen(snap);
        let seats = snap.pods.values().filter_map(|pod| {
            let (member, whose) = roster.seated(pod)?;
            Some((member, seat(snap, pod, whose)))
        });
        let seats: BTreeMap<MemberId, Seat<'s>> = seats.collect();
        let ours = seats.iter().filter(|(_, s)| s.whose != Whose::Foreign);
        let [stored, ledger] = Ledgers::read(snap, &roster, ours.map(|(member, _)| *member));
        let groups = roster.wanted().map(|m| (m, OnceCell::new()));
        let waivers = Waivers::of(snap, &roster);
        let mut cast = Self {
            snap,
            since,
            groups: groups.collect(),
            roster,
            stored,
            ledger,
            seats,
            engine: EngineView::default(),
            waivers,
            placement: OnceCell::new(),
        };
        cast.engine = judged(&cast);
        cast
    }

    /// Who is to be.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The name of a member, and of its pod.
    pub fn name_of(&self, member: MemberId) -> String {
        self.roster.name(member)
    }

    /// Members that are asked for, in order.
    pub fn wanted(&self) -> impl DoubleEndedIterator<Item = MemberId> {
        self.roster.wanted()
    }

    /// Those to whom the lead may go: members that stay. Where nobody is to stay it is the lowest
    /// ordinal, which is among the members again whatever number is asked for later.
    pub fn heirs(&self) -> Vec<MemberId> {
        let leader = self.engine.leader();
        let stay: Vec<MemberId> = match self.roster.size() {
            0 => self.members().take(1).collect(),
            _ => self.wanted().collect(),
        };
        stay.into_iter().filter(|m| Some(*m) != leader).collect()
    }

    /// From when on what members said counts.
    pub fn since(&self) -> Time {
        self.since
    }

    /// Who is who.
    pub fn engine(&self) -> &EngineView {
        &self.engine
    }

    /// The zones of all members.
    pub fn placement(&self) -> &Placement {
        self.placement.get_or_init(|| Placement::of(self))
    }

    /// The rules that people have suspended.
    pub(crate) fn waivers(&self) -> &Waivers {
        &self.waivers
    }

    /// Who leads.
    pub fn lead(&self) -> &Lead {
        self.engine.lead()
    }

    /// Whether a member is as good as its leader would need it to be; else why not.
    pub fn in_sync(&self, member: MemberId) -> Result<(), String> {
        safety::in_sync(self, member)
    }

    /// Whether a member is Ready for long enough and, where there are roles, in sync, as far as its own
    /// configuration lets it be.
    pub fn fit(&self, member: MemberId) -> bool {
        let in_sync = || self.in_sync(member).is_ok() || safety::is_apart(self, member);
        self.available(member) && in_sync()
    }

    /// How the claims of that member stand, by a ledger that may have moved on from ours.
    pub fn group(&self, ledger: &Ledgers, member: MemberId) -> ClaimGroup {
        let same = ledger.incarnation(member) == self.ledger.incarnation(member)
            && ledger.is_born(member) == self.ledger.is_born(member);
        let known = self.groups.get(&member).filter(|_| same);
        let by = |ledger: &Ledgers| claims::group(self, ledger, member);
        known.map_or_else(
            || by(ledger),
            |known| known.get_or_init(|| by(&self.ledger)).clone(),
        )
    }

    fn ours(&self, member: MemberId) -> Option<&Seat<'s>> {
        let seat = self.seats.get(&member);
        seat.filter(|s| s.whose != Whose::Foreign)
    }

    /// Whose the pod under that member's name is, if there is one.
    pub fn whose(&self, member: MemberId) -> Option<Whose> {
        self.seats.get(&member).map(|s| s.whose)
    }

    /// Whether anybody's pod lost its owner.
    pub fn any_orphan(&self) -> bool {
        self.seats.values().any(|s| s.whose == Whose::Orphan)
    }

    /// A member's pod, if it is ours.
    pub fn our_pod(&self, member: MemberId) -> Option<&'s PodView> {
        self.ours(member).map(|s| s.pod)
    }

    /// Which life of a member its pod belongs to, if its labels still say so.
    pub fn life(&self, member: MemberId) -> Option<u32> {
        self.our_pod(member)?.meta.incarnation
    }

    /// Members that have a pod of ours, in order.
    pub fn members(&self) -> impl DoubleEndedIterator<Item = MemberId> {
        let ours = self.seats.iter().filter(|(_, s)| s.whose != Whose::Foreign);
        ours.map(|(member, _)| *member)
    }

    /// Members that have a pod of ours and are no longer asked for, in order.
    pub fn surplus(&self) -> impl DoubleEndedIterator<Item = MemberId> {
        self.members().filter(|m| !self.roster.wants(*m))
    }

    /// Members that have a claim of ours, of any incarnation; one with two stands here twice.
    pub fn claimants(&self) -> impl Iterator<Item = MemberId> {
        self.claims.values().filter_map(|c| self.roster.of_claim(c))
    }

    /// What is known of a member's pod.
    pub fn presence(&self, member: MemberId) -> Presence {
        self.ours(member).map_or(Presence::Absent, |s| s.presence)
    }

    /// Whether a member has been Ready for `minReadySeconds` and nothing of it is being changed.
    pub fn available(&self, member: MemberId) -> bool {
        self.ours(member).is_some_and(|s| s.available)
    }

    /// The ledger as stored.
    pub fn stored(&self) -> &Ledgers {
        &self.stored
    }

    /// The ledger as stored, put right by what exists.
    pub fn ledger(&self) -> &Ledgers {
        &self.ledger
    }
}

/// What is heard is put before the engine's judge. Where there is none, nobody is known.
fn judged(cast: &Cast<'_>) -> EngineView {
    let Some(hearing) = Hearing::of(cast) else {
        return EngineView::default();
    };
    match cast.abilities.judge {
        Some(judge) => judge.0(&hearing),
        None => hearing.unjudged(),
    }
}

fn seat<'s>(snap: &Snapshot, pod: &'s PodView, whose: Whose) -> Seat<'s> {
    let presence = presence::of_pod(snap, pod);
    Seat {
        pod,
        whose,
        presence,
        available: presence == Presence::Serving && snap.is_settled(pod) && !pod.is_changing(),
    }
}
