//! Which ordinals were ever used, and which life each is in.
//!
//! `next` is raised before the first claim of an ordinal is created, so a claim that exists at or
//! beyond it is evidence of a lost or older status, and its ordinal counts as born: a born ordinal
//! never gets an empty volume.

use crate::roster::{MemberId, Ordinal, Roster};
use crate::snapshot::Snapshot;
use ensemble_api::names::Ordinals;
use ensemble_api::{labels, status};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// As many members as an Ensemble can ask for.
const MOST_MEMBERS: u32 = 1000;

/// The marks of a member's claims, by the claim's name.
pub type Marks = BTreeMap<String, String>;

/// The ledgers of all groups, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledgers {
    /// In the order of the groups.
    groups: Vec<Ledger>,
}

/// The ledger of one group. What grows with its members is shared between copies until it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ledger {
    /// The first ordinal never used.
    next: Ordinal,
    /// Ordinals that were Ready once.
    born: Arc<BTreeSet<Ordinal>>,
    /// Ordinals of members that were removed for good.
    retired: Arc<BTreeSet<Ordinal>>,
    /// Those of them whose claims are kept, whatever policy says.
    kept: Arc<BTreeSet<Ordinal>>,
    /// Which life an ordinal is in, where that is not the first.
    incarnations: BTreeMap<Ordinal, u32>,
    /// By ordinal, the marks of the claims that it was born on.
    claims: Arc<BTreeMap<Ordinal, Marks>>,
}

impl Ledgers {
    /// As stored, where one that is lost is empty; and put right by what exists: what stands beyond a
    /// stored ledger, or without one, was used before.
    pub fn read(
        snap: &Snapshot,
        roster: &Roster,
        pods: impl Iterator<Item = MemberId>,
    ) -> [Self; 2] {
        let read: Vec<Option<Ledger>> = roster
            .groups()
            .map(|(_, group)| Ledger::stored(snap, &group.name))
            .collect();
        let stored = read.iter().map(|l| l.clone().unwrap_or_default());
        let stored = Self {
            groups: stored.collect(),
        };
        let right = Self::put_right(snap, roster, read, pods);
        [stored, right]
    }

    fn put_right(
        snap: &Snapshot,
        roster: &Roster,
        read: Vec<Option<Ledger>>,
        pods: impl Iterator<Item = MemberId>,
    ) -> Self {
        let claims = snap.claims.values().filter_map(|c| roster.of_claim(c));
        let found: Vec<MemberId> = claims.chain(pods).collect();
        let remembered = snap.ensemble.meta.annotations.contains_key(labels::BORN);
        let lives = |used: &BTreeSet<Ordinal>| match used.is_empty() {
            true => BTreeMap::new(),
            false => newest_lives(snap, roster),
        };
        let marked: Vec<(&str, MemberId)> = marked(snap, roster).collect();
        let groups = roster.groups().zip(read).map(|((ix, _), stored)| {
            let lost = stored.is_none();
            let mut ledger = stored.unwrap_or_default();
            let used = found.iter().filter(|m| m.group == ix).map(|m| m.ordinal);
            let used: BTreeSet<Ordinal> = used.filter(|o| lost || *o >= ledger.next).collect();
            let lives = lives(&used);
            for ordinal in used {
                let life = lives.get(&MemberId { group: ix, ordinal });
                ledger.remember(ordinal, life.copied().unwrap_or(0));
            }
            for (claim, who) in marked.iter().filter(|(_, m)| m.group == ix) {
                ledger.retire(who.ordinal, *claim == labels::KEPT);
            }
            if lost && remembered {
                // Whoever is asked for may have been born, also if nothing of it is left.
                let wanted = roster.wanted_in(ix);
                ledger.cover(wanted.map(|m| m.ordinal));
                let used = 0..ledger.next.min(MOST_MEMBERS);
                Arc::make_mut(&mut ledger.born).extend(used);
            }
            ledger
        });
        Self {
            groups: groups.collect(),
        }
    }

    fn of(&self, member: MemberId) -> Option<&Ledger> {
        self.groups.get(usize::from(member.group.0))
    }

    fn of_mut(&mut self, member: MemberId) -> Option<&mut Ledger> {
        self.groups.get_mut(usize::from(member.group.0))
    }

    /// Whether a member was Ready once, in its present life.
    pub fn is_born(&self, member: MemberId) -> bool {
        self.of(member)
            .is_some_and(|l| l.born.contains(&member.ordinal))
    }

    /// Whether anybody was Ready once, in its present life.
    pub fn anyone_born(&self) -> bool {
        self.groups.iter().any(|l| !l.born.is_empty())
    }

    /// Whether anybody is in another life than its first.
    pub fn anyone_renewed(&self) -> bool {
        let mut lives = self.groups.iter().flat_map(|l| l.incarnations.values());
        lives.any(|life| *life > 0)
    }

    /// A member is Ready for the first time in its life.
    pub fn bear(&mut self, member: MemberId) {
        if let Some(ledger) = self.of_mut(member) {
            Arc::make_mut(&mut ledger.born).insert(member.ordinal);
        }
    }

    /// Which life a member is in.
    pub fn incarnation(&self, member: MemberId) -> u32 {
        let life = self
            .of(member)
            .and_then(|l| l.incarnations.get(&member.ordinal));
        life.copied().unwrap_or(0)
    }

    /// Starts a new life for a member: what it held is given up.
    pub fn renew(&mut self, member: MemberId) {
        if let Some(ledger) = self.of_mut(member) {
            Arc::make_mut(&mut ledger.born).remove(&member.ordinal);
            Arc::make_mut(&mut ledger.claims).remove(&member.ordinal);
            *ledger.incarnations.entry(member.ordinal).or_insert(0) += 1;
        }
    }

    /// Whether a member was removed for good.
    pub fn is_retired(&self, member: MemberId) -> bool {
        self.of(member)
            .is_some_and(|l| l.retired.contains(&member.ordinal))
    }

    /// Whether the claims of a member that was removed for good are kept, whatever policy says.
    pub fn is_kept(&self, member: MemberId) -> bool {
        self.of(member)
            .is_some_and(|l| l.kept.contains(&member.ordinal))
    }

    /// A member leaves for good; whether its claims are kept.
    pub fn retire(&mut self, member: MemberId, keep: bool) {
        if let Some(ledger) = self.of_mut(member) {
            ledger.retire(member.ordinal, keep);
        }
    }

    /// Whether a member's ordinal counts as used.
    pub fn covers(&self, member: MemberId) -> bool {
        self.of(member).is_some_and(|l| member.ordinal < l.next)
    }

    /// Counts these ordinals as used.
    pub fn cover(&mut self, members: impl Iterator<Item = MemberId>) {
        for member in members {
            if let Some(ledger) = self.of_mut(member) {
                ledger.cover([member.ordinal]);
            }
        }
    }

    /// The marks of the claims that a member was born on.
    pub fn marks(&self, member: MemberId) -> Option<&Marks> {
        self.of(member)?.claims.get(&member.ordinal)
    }

    /// Writes down which claims a member was born on.
    pub fn set_marks(&mut self, member: MemberId, marks: Marks) {
        if let Some(ledger) = self.of_mut(member) {
            Arc::make_mut(&mut ledger.claims).insert(member.ordinal, marks);
        }
    }

    /// As status stores them, by group.
    pub fn to_status(&self, roster: &Roster) -> BTreeMap<String, status::Ledger> {
        let groups = roster.groups().zip(&self.groups);
        groups
            .map(|((_, group), ledger)| (group.name.clone(), ledger.to_status()))
            .collect()
    }
}

impl Ledger {
    /// As stored in status; None if it is lost.
    fn stored(snap: &Snapshot, group: &str) -> Option<Self> {
        let stored = snap.ensemble.status.ledger.get(group)?;
        let (born, unreadable) = Ordinals::parse(&stored.born);
        let read = |text: &str| Ordinals::parse(text).0.0;
        // A ledger that cannot be read is no ledger.
        (unreadable == 0).then(|| Self {
            next: stored.next,
            born: born.0.into(),
            retired: read(&stored.retired).into(),
            kept: read(&stored.kept).into(),
            incarnations: stored
                .incarnations
                .iter()
                .filter_map(|(ordinal, life)| Some((ordinal.parse().ok()?, *life)))
                .collect(),
            claims: stored
                .claims
                .iter()
                .filter_map(|(ordinal, marks)| Some((ordinal.parse().ok()?, marks.clone())))
                .collect::<BTreeMap<Ordinal, Marks>>()
                .into(),
        })
    }

    fn cover(&mut self, ordinals: impl IntoIterator<Item = Ordinal>) {
        for ordinal in ordinals {
            self.next = self.next.max(ordinal.saturating_add(1));
        }
    }

    fn retire(&mut self, ordinal: Ordinal, keep: bool) {
        if !self.retired.contains(&ordinal) {
            Arc::make_mut(&mut self.retired).insert(ordinal);
        }
        if keep && !self.kept.contains(&ordinal) {
            Arc::make_mut(&mut self.kept).insert(ordinal);
        }
    }

    /// This ordinal was used before, in that life.
    fn remember(&mut self, ordinal: Ordinal, life: u32) {
        Arc::make_mut(&mut self.born).insert(ordinal);
        self.cover([ordinal]);
        if life > 0 {
            self.incarnations.insert(ordinal, life);
        }
    }

    fn to_status(&self) -> status::Ledger {
        let text = |ordinal: &Ordinal| ordinal.to_string();
        let lives = self.incarnations.iter();
        let claims = self.claims.iter();
        status::Ledger {
            next: self.next,
            born: Ordinals(BTreeSet::clone(&self.born)).to_string(),
            retired: Ordinals(BTreeSet::clone(&self.retired)).to_string(),
            kept: Ordinals(BTreeSet::clone(&self.kept)).to_string(),
            incarnations: lives.map(|(o, life)| (text(o), *life)).collect(),
            claims: claims.map(|(o, marks)| (text(o), marks.clone())).collect(),
        }
    }
}

/// Members that were removed for good by what their claims say, and what they say.
fn marked<'s>(snap: &'s Snapshot, roster: &'s Roster) -> impl Iterator<Item = (&'s str, MemberId)> {
    snap.claims.values().filter_map(|claim| {
        let mark = claim.meta.annotations.get(labels::RETIRED)?;
        Some((mark.as_str(), roster.of_claim(claim)?))
    })
}

/// By member, the newest life that a claim or pod tells of.
fn newest_lives(snap: &Snapshot, roster: &Roster) -> BTreeMap<MemberId, u32> {
    let claims = snap.claims.values().map(|c| &c.meta);
    let pods = snap.pods.values().map(|p| &p.meta);
    let mut lives = BTreeMap::new();
    for meta in claims.chain(pods) {
        let member = roster.labelled(&meta.group, meta.ordinal);
        if let (Some(member), Some(life)) = (member, meta.incarnation) {
            let newest = lives.entry(member).or_insert(life);
            *newest = life.max(*newest);
        }
    }
    lives
}
