//! Who is to be woken when: the earliest is known without looking at all of them.

use crate::queue::EnsembleKey;
use ensemble_conductor::Time;
use std::collections::{BTreeMap, BTreeSet};

/// One alarm for each ensemble.
#[derive(Default)]
pub struct Alarms {
    at: BTreeMap<EnsembleKey, Time>,
    order: BTreeSet<(Time, EnsembleKey)>,
}

impl Alarms {
    /// Sets an ensemble's alarm, in place of the one that it had.
    pub fn set(&mut self, key: &EnsembleKey, at: Time) {
        self.remove(key);
        self.at.insert(key.clone(), at);
        self.order.insert((at, key.clone()));
    }

    pub fn remove(&mut self, key: &EnsembleKey) {
        if let Some((key, at)) = self.at.remove_entry(key) {
            self.order.remove(&(at, key));
        }
    }

    /// When the next goes off.
    pub fn next(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out one that has gone off by now, the earliest first.
    pub fn pop_due(&mut self, now: Time) -> Option<EnsembleKey> {
        self.next().filter(|at| *at <= now)?;
        let (_, key) = self.order.pop_first()?;
        self.at.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> EnsembleKey {
        ("shop".to_owned(), name.to_owned())
    }

    fn due(alarms: &mut Alarms, now: i64) -> Vec<String> {
        std::iter::from_fn(|| alarms.pop_due(Time(now)))
            .map(|key| key.1)
            .collect()
    }

    #[test]
    fn alarms_go_off_in_their_order_and_once() {
        let mut alarms = Alarms::default();
        alarms.set(&key("late"), Time(30));
        alarms.set(&key("early"), Time(10));
        alarms.set(&key("between"), Time(20));
        assert_eq!(alarms.next(), Some(Time(10)));
        assert!(due(&mut alarms, 9).is_empty());
        assert_eq!(due(&mut alarms, 20), ["early", "between"]);
        assert!(due(&mut alarms, 20).is_empty());
        assert_eq!(alarms.next(), Some(Time(30)));
    }

    #[test]
    fn a_new_alarm_replaces_the_one_before_whether_sooner_or_later() {
        let mut alarms = Alarms::default();
        alarms.set(&key("orders"), Time(10));
        alarms.set(&key("orders"), Time(50));
        assert!(due(&mut alarms, 49).is_empty());
        alarms.set(&key("orders"), Time(20));
        assert_eq!(due(&mut alarms, 49), ["orders"]);
        assert_eq!(alarms.next(), None);
    }

    #[test]
    fn who_is_gone_is_not_woken() {
        let mut alarms = Alarms::default();
        alarms.set(&key("orders"), Time(10));
        alarms.set(&key("stock"), Time(10));
        alarms.remove(&key("orders"));
        alarms.remove(&key("nobody"));
        assert_eq!(due(&mut alarms, 10), ["stock"]);
    }
}
