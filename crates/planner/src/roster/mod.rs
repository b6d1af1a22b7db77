//! Who is to be: the one place that counts members and names what is theirs.
//!
//! A member is known by its [`MemberId`] everywhere else. Identity is read from labels; a name is only
//! rendered from it, and read here alone, to find whose place a thing takes that carries no labels.

mod seats;

pub use seats::GroupWish;

use crate::snapshot::Snapshot;
use crate::view::{ClaimView, EnsembleView, PodView};
use ensemble_api::names::DEFAULT_GROUP;
use ensemble_api::{Rule, labels};

/// The place of a group in the spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupIx(pub u16);

/// The number in a member's name.
pub type Ordinal = u32;

/// One member of an ensemble, in any of its lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberId {
    /// Its group.
    pub group: GroupIx,
    /// Its number in that group.
    pub ordinal: Ordinal,
}

/// Whether a member is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is asked for.
    Wanted,
    /// It is no longer asked for.
    Surplus,
    /// The user takes it out for a while; it comes back with what it holds.
    Offline,
    /// It was removed for good.
    Retired,
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

/// One group of an ensemble.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name, as in labels and in the status.
    pub name: String,
    /// What the names of its members begin with.
    prefix: String,
    wish: GroupWish,
}

/// Who is to be, in all groups.
#[derive(Clone, Debug)]
pub struct Roster {
    ensemble: String,
    uid: String,
    groups: Vec<Group>,
    /// In order.
    wanted: Vec<MemberId>,
}

impl Roster {
    /// As the spec asks for.
    pub fn of(ensemble: &EnsembleView) -> Self {
        Self::with(ensemble, &[], &[])
    }

    /// As the spec asks for, without those that left for good by what the status or a claim says, and
    /// with those that take the place of others by request.
    pub fn seen(snap: &Snapshot) -> Self {
        let stored = Self::of(&snap.ensemble);
        let marked = |c: &&ClaimView| c.meta.annotations.contains_key(labels::RETIRED);
        let marked = snap.claims.values().filter(marked);
        let marked: Vec<MemberId> = marked.filter_map(|c| stored.of_claim(c)).collect();
        let open = snap.requests.values().filter(|r| !r.finished);
        let replaced = open.filter_map(|r| r.spec.replace.as_ref());
        let replaced = replaced.filter_map(|r| stored.named(&r.member));
        let replaced: Vec<MemberId> = replaced.collect();
        match marked.iter().all(|m| stored.is_retired(*m)) && replaced.is_empty() {
            true => stored,
            false => Self::with(&snap.ensemble, &marked, &replaced),
        }
    }

    /// Without those that left for good, whatever is stored; with successors of those that are replaced.
    fn with(ensemble: &EnsembleView, retired: &[MemberId], replaced: &[MemberId]) -> Self {
        let spec = &ensemble.spec;
        let ledger = ensemble.status.ledger.get(DEFAULT_GROUP);
        let mut wish = GroupWish::new(spec.replicas, &spec.offline).stored(ledger);
        wish.retired.extend(retired.iter().map(|m| m.ordinal));
        wish.replaced.extend(replaced.iter().map(|m| m.ordinal));
        Self {
            ensemble: ensemble.name().to_owned(),
            uid: ensemble.uid().to_owned(),
            wanted: seats::wanted_of(GroupIx(0), &wish),
            groups: vec![Group {
                name: DEFAULT_GROUP.to_owned(),
                prefix: [ensemble.name(), "-"].concat(),
                wish,
            }],
        }
    }

    /// The groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = (GroupIx, &Group)> {
        (0..).map(GroupIx).zip(&self.groups)
    }

    /// Members that are asked for, in order.
    pub fn wanted(&self) -> impl DoubleEndedIterator<Item = MemberId> {
        self.wanted.iter().copied()
    }

    /// Members of a group that are asked for, in order.
    pub fn wanted_in(&self, group: GroupIx) -> impl Iterator<Item = MemberId> {
        self.wanted().filter(move |m| m.group == group)
    }

    /// How many members are asked for.
    pub fn size(&self) -> u32 {
        u32::try_from(self.wanted.len()).unwrap_or(u32::MAX)
    }

    /// Whether a member is to be.
    pub fn place(&self, member: MemberId) -> Place {
        match self.wanted.binary_search(&member) {
            Ok(_) => Place::Wanted,
            Err(_) => self
                .group(member)
                .map_or(Place::Surplus, |g| g.wish.aside(member.ordinal)),
        }
    }

    /// Whether a member was removed for good.
    pub fn is_retired(&self, member: MemberId) -> bool {
        self.group(member)
            .is_some_and(|g| g.wish.aside(member.ordinal) == Place::Retired)
    }

    /// Whether a member is to leave for good once another has taken its place.
    pub fn is_replaced(&self, member: MemberId) -> bool {
        let group = self.group(member);
        self.wants(member) && group.is_some_and(|g| g.wish.replaced.contains(&member.ordinal))
    }

    /// How many members the spec asks for, without those that stand in for others for a while.
    pub fn asked_in_all(&self) -> u32 {
        self.groups.iter().map(|g| g.wish.replicas).sum()
    }

    /// Whether a member is asked for.
    pub fn wants(&self, member: MemberId) -> bool {
        self.place(member) == Place::Wanted
    }

    /// Whether nobody but that member is asked for.
    pub fn is_only(&self, member: MemberId) -> bool {
        self.wanted == [member]
    }

    fn group(&self, member: MemberId) -> Option<&Group> {
        self.groups.get(usize::from(member.group.0))
    }

    /// The name of a member, and of its pod: `orders-0`.
    pub fn name(&self, member: MemberId) -> String {
        // Asked for all the time: simply put together.
        let prefix = self.group(member).map_or("", |g| &g.prefix);
        [prefix, &member.ordinal.to_string()].concat()
    }

    /// The names of members, for people.
    pub fn names(&self, members: impl IntoIterator<Item = MemberId>) -> String {
        let names: Vec<String> = members.into_iter().map(|m| self.name(m)).collect();
        names.join(", ")
    }

    /// The name of a member's claim: `data-orders-0`.
    pub fn claim(&self, claim: &str, member: MemberId) -> String {
        [claim, "-", &self.name(member)].concat()
    }

    /// The group that a member belongs to, as its labels say it.
    pub fn group_name(&self, member: MemberId) -> &str {
        self.group(member).map_or("", |g| &g.name)
    }

    /// Whose place something of that name takes, if it is a member's.
    pub fn named(&self, pod: &str) -> Option<MemberId> {
        self.groups().find_map(|(group, of)| {
            let ordinal = ordinal_in(pod.strip_prefix(&of.prefix)?)?;
            Some(MemberId { group, ordinal })
        })
    }

    /// The member of that name, if it is asked for; else why not, for whoever named it.
    pub fn asked_for(&self, name: &str) -> Result<MemberId, String> {
        let named = self.named(name);
        if let Some(member) = named.filter(|m| self.wants(*m)) {
            return Ok(member);
        }
        let what = match named.map(|m| self.place(m)) {
            Some(Place::Offline) => "is offline: spec.offline lists it",
            Some(Place::Retired) => "was removed for good",
            _ => {
                return Err(format!(
                    "{name} is no member of {}; {}",
                    self.ensemble,
                    self.those()
                ));
            }
        };
        Err(format!("{name} {what}; {}", self.those()))
    }

    /// Who there is, in words.
    fn those(&self) -> String {
        let ends = self.wanted.first().zip(self.wanted.last());
        let Some((first, last)) = ends else {
            return "it has no members".to_owned();
        };
        let span = last.ordinal.saturating_sub(first.ordinal) as usize;
        match span + 1 == self.wanted.len() {
            true => format!(
                "its members are {} to {}",
                self.name(*first),
                self.name(*last)
            ),
            // With gaps.
            false => format!("its members are {}", self.names(self.wanted())),
        }
    }

    /// Whose a pod in that member's place is: labels for ensemble, group, ordinal and incarnation,
    /// and the owner.
    pub fn whose(&self, pod: &PodView, member: MemberId) -> Whose {
        if crate::mutants::is_off(Rule::OwnerCheck) {
            return Whose::Ours;
        }
        let labelled = pod.meta.ensemble == self.ensemble
            && pod.meta.group == self.group_name(member)
            && pod.meta.ordinal == Some(member.ordinal)
            && pod.meta.incarnation.is_some();
        match &pod.meta.controller {
            Some(uid) if *uid == self.uid && labelled => Whose::Ours,
            Some(uid) if *uid == self.uid => Whose::Mislabelled,
            None if labelled => Whose::Orphan,
            _ => Whose::Foreign,
        }
    }

    /// The member whose place a pod takes, and whose the pod is.
    pub fn seated(&self, pod: &PodView) -> Option<(MemberId, Whose)> {
        let member = self.named(&pod.meta.pin.name)?;
        Some((member, self.whose(pod, member)))
    }

    /// The member whose pod this is, if it is ours.
    pub fn of_pod(&self, pod: &PodView) -> Option<MemberId> {
        let (member, whose) = self.seated(pod)?;
        (whose != Whose::Foreign).then_some(member)
    }

    /// Whether a claim is that member's: labels for ensemble, group, ordinal, claim and incarnation.
    pub fn owns_claim(&self, claim: &ClaimView, member: MemberId, name: &str) -> bool {
        claim.meta.ensemble == self.ensemble
            && claim.meta.group == self.group_name(member)
            && claim.claim == name
            && claim.meta.ordinal == Some(member.ordinal)
            && claim.meta.incarnation.is_some()
    }

    /// The member whose claim this is, of any incarnation, if it is ours and has the right name.
    pub fn of_claim(&self, claim: &ClaimView) -> Option<MemberId> {
        let mut groups = self.groups();
        let (group, _) = groups.find(|(_, g)| g.name == claim.meta.group)?;
        let member = MemberId {
            group,
            ordinal: claim.meta.ordinal?,
        };
        let named = claim.meta.pin.name == self.claim(&claim.claim, member);
        (named && self.owns_claim(claim, member, &claim.claim)).then_some(member)
    }

    /// The member that an object's labels tell of, whatever its name and whoever owns it.
    pub fn labelled(&self, group: &str, ordinal: Option<Ordinal>) -> Option<MemberId> {
        let (group, _) = self.groups().find(|(_, g)| g.name == group)?;
        ordinal.map(|ordinal| MemberId { group, ordinal })
    }
}

/// A number as it stands in a name: without sign and leading zeros.
fn ordinal_in(digits: &str) -> Option<Ordinal> {
    let padded = digits.len() > 1 && digits.starts_with('0');
    if padded || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(replicas: u32) -> Roster {
        let mut ensemble = EnsembleView::default();
        ensemble.meta.pin.name = "orders".into();
        let mut spec = (*ensemble.spec).clone();
        spec.replicas = replicas;
        ensemble.spec = spec.into();
        Roster::of(&ensemble)
    }

    fn member(ordinal: Ordinal) -> MemberId {
        MemberId {
            ordinal,
            ..MemberId::default()
        }
    }

    #[test]
    fn a_name_gives_back_its_member_and_nothing_else_does() {
        let roster = roster(3);
        assert_eq!(roster.named("orders-0"), Some(member(0)));
        assert_eq!(roster.named("orders-12"), Some(member(12)));
        for other in [
            "orders-",
            "orders-01",
            "orders-x",
            "orders-1-2",
            "order-1",
            "orders-+1",
            "orders",
        ] {
            assert_eq!(roster.named(other), None, "{other}");
        }
    }

    #[test]
    fn who_is_asked_for_is_wanted_and_all_others_are_surplus() {
        let roster = roster(2);
        let all: Vec<MemberId> = roster.wanted().collect();
        assert_eq!(all, [member(0), member(1)]);
        assert_eq!(roster.size(), 2);
        assert_eq!(roster.place(member(1)), Place::Wanted);
        assert_eq!(roster.place(member(2)), Place::Surplus);
        assert!(!roster.is_only(member(0)));
    }

    #[test]
    fn whoever_names_no_member_is_told_whom_there_is() {
        assert_eq!(roster(3).asked_for("orders-1"), Ok(member(1)));
        assert_eq!(
            roster(3).asked_for("orders-3").unwrap_err(),
            "orders-3 is no member of orders; its members are orders-0 to orders-2"
        );
        assert_eq!(
            roster(0).asked_for("orders-0").unwrap_err(),
            "orders-0 is no member of orders; it has no members"
        );
    }
}
