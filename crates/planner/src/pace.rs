//! How often is written what only tells of small things.

use crate::snapshot::Snapshot;
use crate::time::Time;
use ensemble_api::EnsembleStatus;

/// A status that only tells of small things is written at most that often.
const PAUSE_MS: i64 = 1000;

/// Until when a status may wait, if it tells of nothing that anybody acts on. Intents, the ledger and
/// all that a person or a program waits for never do.
pub fn status_can_wait(snap: &Snapshot, new: &EnsembleStatus, last: Option<Time>) -> Option<Time> {
    let next = last?.plus_ms(PAUSE_MS);
    let light = || weighty(&snap.ensemble.status) == weighty(new);
    (next > snap.now && light()).then_some(next)
}

/// What is written at once: the status without its report, its members and its words.
fn weighty(status: &EnsembleStatus) -> EnsembleStatus {
    let mut status = EnsembleStatus {
        plan: Default::default(),
        members: Vec::new(),
        summary: Default::default(),
        progressed_at: None,
        epoch: 0,
        replicas: 0,
        selector: String::new(),
        ..status.clone()
    };
    for group in &mut status.groups {
        group.replicas = 0;
    }
    for condition in &mut status.conditions {
        condition.message.clear();
        condition.observed_generation = None;
        condition.last_transition_time = Time(0).stamp();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_api::status::{Intent, Method};

    #[test]
    fn small_things_wait_a_second_and_an_intent_does_not() {
        let mut snap = Snapshot {
            now: Time(10_500),
            ..Snapshot::default()
        };
        snap.ensemble.status.ready_replicas = 3;
        let mut new = snap.ensemble.status.clone();
        new.summary.waiting = "Settling".into();
        let last = Some(Time(10_000));
        assert_eq!(status_can_wait(&snap, &new, last), Some(Time(11_000)));
        assert_eq!(status_can_wait(&snap, &new, None), None);
        assert_eq!(status_can_wait(&snap, &new, Some(Time(9_500))), None);
        new.in_flight.push(Intent {
            member: "orders-0".into(),
            uid: "u".into(),
            method: Method::Recreate,
            epoch: 1,
            since: Time(0).stamp(),
            target: String::new(),
            waived: Vec::new(),
        });
        assert_eq!(status_can_wait(&snap, &new, last), None);
        let mut fewer = snap.ensemble.status.clone();
        fewer.ready_replicas = 2;
        assert_eq!(status_can_wait(&snap, &fewer, last), None);
    }
}
