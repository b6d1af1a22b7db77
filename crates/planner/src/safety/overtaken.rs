//! A later leadership than ours has written the status: whose turn is it?

use crate::snapshot::Snapshot;
use crate::time::Time;
use ensemble_api::Rule;

/// So long nobody else may have written the status, all of it while we hold the Lease: four times as
/// long as a Lease is good for. Whoever held it before has stopped by then.
pub const TAKE_OVER_AFTER_SECONDS: u32 = 60;

/// Whether a later leadership has written the status: whatever our Lease says, we are not the one.
pub fn superseded(snap: &Snapshot) -> bool {
    snap.ensemble.status.epoch > snap.epoch && !crate::mutants::is_off(Rule::SupersededStandsDown)
}

/// When we may take over although a later leadership has written the status; None if none has, or if
/// it is not known since when nobody writes. Counts of leaderships go back when a Lease is restored or
/// edited, and then nobody is left who may act. Whoever takes over and is overtaken again is not alone:
/// it waits twice as long each time.
pub fn takes_over_at(snap: &Snapshot) -> Option<Time> {
    let overtaken = snap.memory.overtaken.filter(|_| superseded(snap))?;
    if crate::mutants::is_off(Rule::TakeOverAfterSilence) {
        return Some(overtaken.since);
    }
    let seconds = TAKE_OVER_AFTER_SECONDS << overtaken.times.min(6);
    Some(overtaken.since.plus_seconds(seconds))
}
