//! Whose call is next: each ensemble in its turn, a bounded number at once, so that one busy or
//! broken ensemble starves nobody.

use ensemble_conductor::{ApiCall, CallId};
use std::collections::{BTreeMap, VecDeque};

/// Namespace and name of an Ensemble.
pub type EnsembleKey = (String, String);

/// How many calls of one ensemble run at once.
const PER_ENSEMBLE: usize = 16;

#[derive(Default)]
struct Line {
    waiting: VecDeque<(CallId, ApiCall)>,
    running: usize,
    /// Whether it stands in `turn`.
    in_turn: bool,
}

/// Calls that wait for their turn.
pub struct Queue {
    limit: usize,
    running: usize,
    lines: BTreeMap<EnsembleKey, Line>,
    turn: VecDeque<EnsembleKey>,
}

impl Queue {
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            running: 0,
            lines: BTreeMap::new(),
            turn: VecDeque::new(),
        }
    }

    /// How many calls wait.
    pub fn waiting(&self) -> usize {
        self.lines.values().map(|l| l.waiting.len()).sum()
    }

    /// How many calls run.
    pub fn running(&self) -> usize {
        self.running
    }

    pub fn push(&mut self, key: &EnsembleKey, id: CallId, call: ApiCall) {
        let line = self.lines.entry(key.clone()).or_default();
        line.waiting.push_back((id, call));
        if !std::mem::replace(&mut line.in_turn, true) {
            self.turn.push_back(key.clone());
        }
    }

    /// The next call that may run now.
    pub fn pop(&mut self) -> Option<(EnsembleKey, CallId, ApiCall)> {
        if self.running >= self.limit {
            return None;
        }
        for _ in 0..self.turn.len() {
            let key = self.turn.pop_front()?;
            let Some(line) = self.lines.get_mut(&key) else {
                continue;
            };
            let next = (line.running < PER_ENSEMBLE)
                .then(|| line.waiting.pop_front())
                .flatten();
            line.in_turn = !line.waiting.is_empty();
            if line.in_turn {
                self.turn.push_back(key.clone());
            }
            if let Some((id, call)) = next {
                line.running += 1;
                self.running += 1;
                return Some((key, id, call));
            }
        }
        None
    }

    /// A call has ended.
    pub fn finished(&mut self, key: &EnsembleKey) {
        self.running = self.running.saturating_sub(1);
        let Some(line) = self.lines.get_mut(key) else {
            return;
        };
        line.running = line.running.saturating_sub(1);
        if line.running == 0 && line.waiting.is_empty() {
            self.lines.remove(key);
        }
    }

    /// Forgets what waits: we no longer lead.
    pub fn clear(&mut self) -> Vec<(EnsembleKey, CallId)> {
        self.turn.clear();
        let mut dropped = Vec::new();
        for (key, line) in &mut self.lines {
            line.in_turn = false;
            dropped.extend(line.waiting.drain(..).map(|(id, _)| (key.clone(), id)));
        }
        dropped
    }
}
