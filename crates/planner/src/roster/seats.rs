//! Which ordinals of one group are to be. Groups do not know of each other here.

use super::{GroupIx, MemberId, Ordinal, Place};
use ensemble_api::offline::Entry;
use ensemble_api::{names, status};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// What is asked for in one group, and what is known of those that left it for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupWish {
    /// How many members run.
    pub replicas: u32,
    /// Ordinals that the user takes out.
    pub offline: Vec<RangeInclusive<Ordinal>>,
    /// Ordinals that were removed for good: no member ever has one of them again.
    pub retired: BTreeSet<Ordinal>,
    /// Ordinals that a request has removed for good once others have taken their place.
    pub replaced: BTreeSet<Ordinal>,
}

impl GroupWish {
    /// As the spec asks for, without those that left.
    pub fn new(replicas: u32, offline: &[Entry]) -> Self {
        Self {
            replicas,
            offline: offline.iter().filter_map(Entry::range).collect(),
            ..Self::default()
        }
    }

    /// With those that left, as the status has them.
    pub fn stored(mut self, ledger: Option<&status::Ledger>) -> Self {
        let read = |text: &str| names::Ordinals::parse(text).0.0;
        if let Some(ledger) = ledger {
            self.retired = read(&ledger.retired);
        }
        self
    }

    /// Where a member stands that is not asked for.
    pub fn aside(&self, ordinal: Ordinal) -> Place {
        if self.retired.contains(&ordinal) {
            Place::Retired
        } else if self.offline.iter().any(|range| range.contains(&ordinal)) {
            Place::Offline
        } else {
            Place::Surplus
        }
    }
}

/// Members of a group that are asked for, in order: the first ordinals that are neither offline nor
/// retired. Beside one that is replaced stands its successor, one ordinal more.
pub fn wanted_of(group: GroupIx, wish: &GroupWish) -> Vec<MemberId> {
    let free = |ordinal: &Ordinal| wish.aside(*ordinal) == Place::Surplus;
    let mut all = (0..).filter(free);
    let mut wanted: Vec<Ordinal> = all.by_ref().take(wish.replicas as usize).collect();
    let replaced = wanted.iter().filter(|o| wish.replaced.contains(o)).count();
    wanted.extend(all.take(replaced));
    let member = |ordinal| MemberId { group, ordinal };
    wanted.into_iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(wish: &GroupWish) -> Vec<Ordinal> {
        let all = wanted_of(GroupIx(0), wish).into_iter();
        all.map(|m| m.ordinal).collect()
    }

    fn three() -> GroupWish {
        GroupWish {
            replicas: 3,
            ..GroupWish::default()
        }
    }

    #[test]
    fn offline_and_retired_ordinals_are_skipped_and_back_filled() {
        let mut wish = three();
        assert_eq!(wanted(&wish), [0, 1, 2]);
        wish.offline = vec![1..=1, 3..=5];
        assert_eq!(wanted(&wish), [0, 2, 6]);
        wish.retired = [0].into();
        assert_eq!(wanted(&wish), [2, 6, 7]);
        assert_eq!(wish.aside(0), Place::Retired);
        assert_eq!(wish.aside(4), Place::Offline);
        assert_eq!(wish.aside(8), Place::Surplus);
    }

    #[test]
    fn one_that_is_replaced_stays_beside_its_successor() {
        let mut wish = three();
        wish.replaced = [1].into();
        assert_eq!(wanted(&wish), [0, 1, 2, 3]);
        // Whoever is not there anyway is not waited for.
        wish.replaced = [7].into();
        assert_eq!(wanted(&wish), [0, 1, 2]);
        wish.replaced = [1].into();
        wish.offline = vec![1..=1];
        assert_eq!(wanted(&wish), [0, 2, 3]);
    }
}
