//! A later leadership than ours has written the status: we stand down, say so, and take over once whoever
//! it was has been silent for long enough.
//!
//! Taking over is a write of its own, at the version that was read and with nothing else in it: of
//! several that would, one succeeds, and only its own answer tells it so.

use crate::conductor::{Conductor, Purpose};
use crate::{Happening, Kind, Output, Time};
use ensemble_api::Reason;
use ensemble_api::status::EnsembleStatus;
use ensemble_planner::{memory, safety};

/// What is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overtaken {
    /// The status as last seen while it was not ours to write.
    by: Option<Box<EnsembleStatus>>,
    /// How often we took over.
    times: u32,
    /// The leadership that we took over with, until the Lease gives us another.
    raised: Option<i64>,
}

impl Overtaken {
    /// The leadership under which we act, by what the Lease says.
    pub fn epoch(&self, lease: i64) -> i64 {
        self.raised.map_or(lease, |raised| raised.max(lease))
    }

    /// The Lease is lost, or ours anew.
    pub fn new_lease(&mut self) {
        self.by = None;
        self.raised = None;
    }
}

impl Conductor {
    /// Whether we stand down for now; says why, and takes over when it is time.
    pub(crate) fn stands_down(&mut self, now: Time, out: &mut Vec<Output>) -> bool {
        if !safety::superseded(&self.world.snap) {
            if self.overtaken.by.take().is_some() {
                self.memory().overtaken = None;
            }
            return false;
        }
        let status = &self.world.snap.ensemble.status;
        if self.overtaken.by.as_deref() != Some(status) {
            self.overtaken.by = Some(Box::new(status.clone()));
            self.wait_for_silence(now);
            self.say_overtaken(out);
        }
        let Some(at) = safety::takes_over_at(&self.world.snap) else {
            return true;
        };
        self.list_what_lags(now, out);
        if at > now {
            self.wake(now, at, out);
        } else if !self.lags() {
            self.take_over(out);
        }
        true
    }

    fn wait_for_silence(&mut self, now: Time) {
        let overtaken = memory::Overtaken {
            since: now,
            times: self.overtaken.times,
        };
        self.memory().overtaken = Some(overtaken);
    }

    fn say_overtaken(&mut self, out: &mut Vec<Output>) {
        let snap = &self.world.snap;
        let (theirs, ours) = (snap.ensemble.status.epoch, snap.epoch);
        let note = format!(
            "a controller with leadership {theirs} wrote the status, and this one has {ours}: it does \
             nothing until nobody else writes for {} s",
            safety::TAKE_OVER_AFTER_SECONDS << self.overtaken.times.min(6)
        );
        self.complain(Reason::Overtaken, note, out);
    }

    /// Writes that it is ours, and nothing else.
    fn take_over(&mut self, out: &mut Vec<Output>) {
        let snap = &self.world.snap;
        let mut status = snap.ensemble.status.clone();
        let epoch = status.epoch.saturating_add(1);
        status.epoch = epoch;
        let namespace = snap.ensemble.namespace.clone();
        let (_, call) = self.status_call(&namespace, Box::new(status));
        let key = (Kind::Ensemble, snap.name().to_owned());
        self.send(key, Purpose::TakeOver { epoch }, call, out);
    }

    /// It is ours, by this very write.
    pub(crate) fn took_over(&mut self, epoch: i64, out: &mut Vec<Output>) {
        self.overtaken.raised = Some(epoch);
        self.overtaken.times += 1;
        out.push(Output::Happened(Happening {
            warning: false,
            reason: "TookOver".into(),
            action: "Lead".into(),
            note: format!("nobody else wrote the status for a while; leadership {epoch} goes on"),
            member: None,
        }));
    }

    /// Somebody else was there, or nobody knows.
    pub(crate) fn not_taken_over(&mut self, now: Time) {
        self.wait_for_silence(now);
    }
}
