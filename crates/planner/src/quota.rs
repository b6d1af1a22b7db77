//! What the API server says when a quota has no room, and when that does not matter.
//!
//! Quotas are looked at last: a new pod that only a quota refuses is right in everything else.

use crate::quantity::Quantity;
use ensemble_api::{Blocker, Rule};
use std::collections::BTreeMap;

/// A quota that has no room for what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full<'m> {
    /// The quota's name.
    pub name: &'m str,
    /// Of what it has not enough, and how much of it was asked for.
    pub requested: &'m str,
    /// How much of that is used.
    pub used: &'m str,
    /// How much of it there may be.
    pub limited: &'m str,
}

impl<'m> Full<'m> {
    /// Reads it from the API server's words; None if they are about something else.
    pub fn read(message: &'m str) -> Option<Self> {
        let (_, rest) = message.split_once("exceeded quota: ")?;
        let (name, rest) = rest.split_once(", requested: ")?;
        let (requested, rest) = rest.split_once(", used: ")?;
        let (used, limited) = rest.split_once(", limited: ")?;
        Some(Self {
            name,
            requested,
            used,
            limited,
        })
    }

    /// By resource: how much of it was asked for.
    fn amounts(&self) -> BTreeMap<&'m str, Option<Quantity>> {
        let pairs = self.requested.split(',');
        let pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
        pairs
            .map(|(resource, amount)| (resource, Quantity::parse(amount)))
            .collect()
    }

    /// Whether nothing but the number of pods is at its limit.
    pub fn counts_pods_alone(&self) -> bool {
        self.amounts().keys().all(|r| is_a_count(r))
    }

    /// Whether a pod that takes the place of another asks for no more of what is used up. One that only a
    /// quota refused, too, is what it is held against.
    pub fn asks_for_no_more_than(&self, before: &Full<'_>) -> bool {
        let before = before.amounts();
        let fits = |resource: &str, new: Option<Quantity>| {
            let old = before.get(resource).copied().flatten();
            is_a_count(resource) || new.zip(old).is_some_and(|(new, old)| new <= old)
        };
        let mut amounts = self.amounts().into_iter();
        amounts.all(|(resource, new)| fits(resource, new))
            || crate::mutants::is_off(Rule::NoMoreThanBefore)
    }

    /// Says what is used, what is allowed, and where to look.
    pub fn explain(&self, namespace: &str, blocker: &mut Blocker) {
        blocker.observed = format!("used: {}; requested: {}", self.used, self.requested);
        blocker.limit = format!("quota {}: {}", self.name, self.limited);
        blocker.next_command = format!("kubectl describe quota {} -n {namespace}", self.name);
    }
}

/// One pod is one pod, whatever is in it.
fn is_a_count(resource: &str) -> bool {
    matches!(resource, "pods" | "count/pods")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = "pods \"orders-trial-1\" is forbidden: exceeded quota: small, \
        requested: pods=1,requests.cpu=2, used: pods=3,requests.cpu=6, limited: pods=3,requests.cpu=6";

    fn asking(requested: &str) -> String {
        format!("exceeded quota: small, requested: {requested}, used: x=1, limited: x=1")
    }

    #[test]
    fn what_a_quota_says_is_read() {
        let full = Full::read(WORDS).unwrap();
        assert_eq!((full.name, full.used), ("small", "pods=3,requests.cpu=6"));
        assert_eq!(full.limited, "pods=3,requests.cpu=6");
        assert!(!full.counts_pods_alone());
        let other = "is forbidden: failed quota: small: must specify cpu";
        assert_eq!(Full::read(other), None);
    }

    #[test]
    fn a_pod_for_a_pod_fits_if_it_asks_for_no_more_of_what_is_used_up() {
        for (new, old, fits) in [
            ("pods=1", "pods=1", true),
            ("pods=1", "requests.cpu=1", true),
            ("requests.cpu=1", "requests.cpu=1000m", true),
            ("requests.cpu=2", "requests.cpu=1", false),
            ("pods=1,requests.memory=1Gi", "pods=1", false),
            ("requests.memory=lots", "requests.memory=lots", false),
        ] {
            let (new_words, old_words) = (asking(new), asking(old));
            let (is, was) = (
                Full::read(&new_words).unwrap(),
                Full::read(&old_words).unwrap(),
            );
            assert_eq!(is.asks_for_no_more_than(&was), fits, "{old} -> {new}");
        }
    }
}
