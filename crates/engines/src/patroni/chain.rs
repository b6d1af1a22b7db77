//! Who gets the log from whom: from the leader, or from a replica that gets it (`replicatefrom`). Each
//! member lists those that stream from it, and nobody lists itself.

use super::judge::Said;
use ensemble_planner::engine::{Hearing, Lead};
use std::collections::BTreeMap;

/// Those that stream, by name.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// What the leader writes comes to them as it is written: by which replica, or from itself.
    pub(super) fed: BTreeMap<String, Option<String>>,
    /// They stream from a replica that does not stream by its own configuration: from which.
    pub(super) apart: BTreeMap<String, String>,
}

impl Chain {
    /// As all members say. One that is at another term than the leader feeds nobody.
    pub(super) fn of(hearing: &Hearing<'_>, lead: &Lead, said: &Said<'_>) -> Self {
        let Lead::One { who, term } = lead else {
            return Self::default();
        };
        let streams: BTreeMap<String, Vec<&String>> = said
            .iter()
            .filter(|(m, s)| *m == who || s.term == *term)
            .map(|(m, s)| {
                let streaming = s.attached.iter().filter(|(_, stream)| stream.streaming);
                (
                    hearing.roster.name(*m),
                    streaming.map(|(name, _)| name).collect(),
                )
            })
            .collect();
        let leader = hearing.roster.name(*who);
        let of = |name: &String| streams.get(name).into_iter().flatten().copied();
        let direct = of(&leader).map(|name| (name.clone(), None));
        let mut fed: BTreeMap<String, Option<String>> = direct.collect();
        let mut next: Vec<String> = fed.keys().cloned().collect();
        while let Some(by) = next.pop() {
            for below in of(&by) {
                if *below != leader && !fed.contains_key(below) {
                    fed.insert(below.clone(), Some(by.clone()));
                    next.push(below.clone());
                }
            }
        }
        let unfed = |name: &&String| !fed.contains_key(*name) && **name != leader;
        let apart = said.iter().filter(|(_, s)| !s.streams);
        let apart = apart.flat_map(|(m, s)| {
            let by = hearing.roster.name(*m);
            let below = s.attached.keys().filter(unfed);
            below
                .map(move |name| (name.clone(), by.clone()))
                .collect::<Vec<_>>()
        });
        Self {
            apart: apart.collect(),
            fed,
        }
    }
}
