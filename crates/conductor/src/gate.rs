//! Read your writes: no decision on a view that does not show what was just written.
//!
//! Every object we write carries our label, so the watch brings each write back. Until it has, the
//! view of that kind is behind. Deletes are awaited by uid, since an eviction's answer has no
//! version. Bounded: after ten seconds the kind is listed again, and the report says so.

use crate::Kind;
use ensemble_api::Rule;
use ensemble_planner::Time;
use ensemble_planner::view::Meta;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a watch may take to bring our own write back.
pub const PATIENCE_MS: i64 = 10_000;

#[derive(Clone, Debug, Default)]
struct Lane {
    written: u64,
    seen: u64,
    going: BTreeSet<String>,
    unsure: bool,
    /// When it fell behind.
    since: Option<Time>,
    /// When the last of our writes was answered.
    last: Option<Time>,
    asked: Option<Time>,
}

impl Lane {
    fn behind(&self) -> bool {
        self.unsure || self.written > self.seen || !self.going.is_empty()
    }

    fn settle(&mut self) {
        if !self.behind() {
            self.since = None;
            self.asked = None;
        }
    }
}

/// What was written and what was seen, by kind.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    lanes: BTreeMap<Kind, Lane>,
}

fn version(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}

impl Gate {
    fn open(&mut self, kind: Kind, now: Time) -> &mut Lane {
        let lane = self.lanes.entry(kind).or_default();
        lane.since.get_or_insert(now);
        lane.last = Some(now);
        lane
    }

    /// A write was answered with an object at that version.
    pub fn wrote(&mut self, kind: Kind, resource_version: &str, now: Time) {
        let written = version(resource_version);
        let lane = self.open(kind, now);
        lane.written = lane.written.max(written);
        lane.settle();
    }

    /// An object was told to go.
    pub fn told_to_go(&mut self, kind: Kind, uid: &str, now: Time) {
        self.open(kind, now).going.insert(uid.to_owned());
    }

    /// Nobody knows whether a write was done: only a list can tell.
    pub fn unsure(&mut self, kind: Kind, now: Time) {
        self.open(kind, now).unsure = true;
    }

    /// The watch brought an object at that version.
    pub fn saw(&mut self, kind: Kind, resource_version: &str, uid: &str, going: bool) {
        let lane = self.lanes.entry(kind).or_default();
        lane.seen = lane.seen.max(version(resource_version));
        if going {
            lane.going.remove(uid);
        }
        lane.settle();
    }

    /// All objects of a kind were listed: whatever was answered before the list was asked for is in
    /// it. Of what was written since, it tells only as far as it shows it.
    pub fn listed(&mut self, kind: Kind, objects: &[Arc<Value>], asked: Time) {
        let lane = self.lanes.entry(kind).or_default();
        if lane.last.is_none_or(|last| last < asked) {
            lane.seen = lane.seen.max(lane.written);
            lane.going.clear();
            lane.unsure = false;
        }
        let metas: Vec<Meta> = objects.iter().map(|o| Meta::read(o)).collect();
        let newest = metas.iter().map(|m| version(&m.pin.resource_version));
        lane.seen = lane.seen.max(newest.max().unwrap_or(0));
        let stays = |uid: &String| metas.iter().any(|m| m.pin.uid == *uid && !m.deleting);
        lane.going.retain(stays);
        lane.settle();
    }

    /// Kinds whose view is behind.
    pub fn behind(&self) -> Vec<Kind> {
        if ensemble_planner::mutants::is_off(Rule::ReadYourWrites) {
            return Vec::new();
        }
        self.lanes
            .iter()
            .filter(|(_, l)| l.behind())
            .map(|(k, _)| *k)
            .collect()
    }

    /// Kinds to list again now: those of which nobody knows, and those that are overdue. Each is
    /// asked for once in ten seconds.
    pub fn due_for_listing(&mut self, now: Time) -> Vec<Kind> {
        let mut kinds = Vec::new();
        for (kind, lane) in &mut self.lanes {
            let overdue = lane.since.is_some_and(|s| s.plus_ms(PATIENCE_MS) <= now);
            let asked = lane.asked.is_some_and(|a| a.plus_ms(PATIENCE_MS) > now);
            if lane.behind() && (lane.unsure || overdue) && !asked {
                lane.asked = Some(now);
                kinds.push(*kind);
            }
        }
        kinds
    }

    /// Whether some kind has been behind for longer than is usual.
    pub fn overdue(&self, now: Time) -> bool {
        self.lanes
            .values()
            .any(|l| l.since.is_some_and(|s| s.plus_ms(PATIENCE_MS) <= now))
    }

    /// When a kind becomes overdue, or is to be listed again.
    pub fn wake_at(&self) -> Option<Time> {
        let lanes = self.lanes.values().filter(|l| l.behind());
        lanes
            .filter_map(|l| l.asked.or(l.since))
            .map(|t| t.plus_ms(PATIENCE_MS))
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_write_holds_the_gate_until_the_watch_brings_it_back() {
        let mut gate = Gate::default();
        gate.wrote(Kind::Pod, "7", Time(0));
        assert_eq!(gate.behind(), [Kind::Pod]);
        gate.saw(Kind::Pod, "6", "u", false);
        assert_eq!(gate.behind(), [Kind::Pod]);
        gate.saw(Kind::Pod, "7", "u", false);
        assert!(gate.behind().is_empty() && gate.wake_at().is_none());
    }

    #[test]
    fn a_delete_is_awaited_by_uid_and_not_by_name() {
        let mut gate = Gate::default();
        gate.told_to_go(Kind::Pod, "old", Time(0));
        gate.saw(Kind::Pod, "9", "new", true);
        assert_eq!(gate.behind(), [Kind::Pod]);
        gate.saw(Kind::Pod, "9", "old", true);
        assert!(gate.behind().is_empty());
    }

    #[test]
    fn an_overdue_watch_is_listed_again_once_in_ten_seconds() {
        let mut gate = Gate::default();
        gate.wrote(Kind::Claim, "7", Time(0));
        assert!(gate.due_for_listing(Time(9_999)).is_empty());
        assert_eq!(gate.due_for_listing(Time(10_000)), [Kind::Claim]);
        assert!(gate.due_for_listing(Time(12_000)).is_empty());
        assert_eq!(gate.due_for_listing(Time(20_000)), [Kind::Claim]);
        gate.listed(Kind::Claim, &[], Time(20_000));
        assert!(gate.behind().is_empty());
    }

    #[test]
    fn a_list_that_was_asked_for_before_the_write_does_not_open_the_gate() {
        let mut gate = Gate::default();
        gate.wrote(Kind::Pod, "7", Time(5));
        gate.told_to_go(Kind::Pod, "old", Time(5));
        let old = json!({"metadata": {"name": "a", "uid": "old", "resourceVersion": "6"}});
        let old = [Arc::new(old)];
        gate.listed(Kind::Pod, &old, Time(4));
        assert_eq!(gate.behind(), [Kind::Pod]);
        gate.listed(Kind::Pod, &old, Time(6));
        assert!(gate.behind().is_empty());
    }

    #[test]
    fn a_list_that_shows_the_write_opens_the_gate_whenever_it_was_asked_for() {
        let mut gate = Gate::default();
        gate.wrote(Kind::Pod, "7", Time(5));
        let new = json!({"metadata": {"name": "a", "uid": "new", "resourceVersion": "7"}});
        gate.listed(Kind::Pod, &[Arc::new(new)], Time(4));
        assert!(gate.behind().is_empty());
    }

    #[test]
    fn a_write_that_nobody_knows_of_is_looked_up_at_once() {
        let mut gate = Gate::default();
        gate.unsure(Kind::Pod, Time(5));
        assert_eq!(gate.due_for_listing(Time(5)), [Kind::Pod]);
    }
}
