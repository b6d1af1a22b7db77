//! Whose call is next: each ensemble in its turn, a bounded number at once, so that one busy or
//! broken ensemble starves nobody.

use ensemble_conductor::CallId;
use std::collections::{BTreeMap, VecDeque};

/// Namespace and name of an Ensemble.
pub type EnsembleKey = (String, String);

/// How many run at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of all ensembles together.
    pub all: usize,
    /// Of each at most. Nor may it have more than there are places left: so there is one for whoever
    /// comes next, however many are busy or silent.
    pub each: usize,
}

struct Line<T> {
    waiting: VecDeque<(CallId, T)>,
    running: usize,
    /// Whether it stands in `turn`: while something of it waits.
    in_turn: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            running: 0,
            in_turn: false,
        }
    }
}

/// Calls that wait for their turn.
pub struct Queue<T> {
    limits: Limits,
    running: usize,
    waiting: usize,
    lines: BTreeMap<EnsembleKey, Line<T>>,
    turn: VecDeque<EnsembleKey>,
}

impl<T> Queue<T> {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Limits {
                all: limits.all.max(1),
                each: limits.each.max(1),
            },
            running: 0,
            waiting: 0,
            lines: BTreeMap::new(),
            turn: VecDeque::new(),
        }
    }

    /// How many calls wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many calls run.
    pub fn running(&self) -> usize {
        self.running
    }

    pub fn push(&mut self, key: &EnsembleKey, id: CallId, call: T) {
        self.enter(key, |waiting| waiting.push_back((id, call)));
    }

    /// Before whatever else of that ensemble waits.
    pub fn push_first(&mut self, key: &EnsembleKey, id: CallId, call: T) {
        self.enter(key, |waiting| waiting.push_front((id, call)));
    }

    fn enter(&mut self, key: &EnsembleKey, enter: impl FnOnce(&mut VecDeque<(CallId, T)>)) {
        self.waiting += 1;
        enter(&mut self.lines.entry(key.clone()).or_default().waiting);
        self.take_turn(key);
    }

    /// The next call that may run now.
    pub fn pop(&mut self) -> Option<(EnsembleKey, CallId, T)> {
        if self.running >= self.limits.all {
            return None;
        }
        // Whoever has none running may: the look ends there at the latest.
        let place = self.turn.iter().position(|key| self.may_run(key))?;
        let key = self.turn.remove(place)?;
        let line = self.lines.get_mut(&key)?;
        line.in_turn = false;
        let (id, call) = line.waiting.pop_front()?;
        line.running += 1;
        self.running += 1;
        self.waiting -= 1;
        self.take_turn(&key);
        Some((key, id, call))
    }

    /// Whether one more of an ensemble may run beside those of all others.
    fn may_run(&self, key: &EnsembleKey) -> bool {
        let own = self.lines.get(key).map_or(0, |line| line.running);
        let left = self.limits.all.saturating_sub(self.running);
        own < self.limits.each.min(left)
    }

    /// A call has ended.
    pub fn finished(&mut self, key: &EnsembleKey) {
        let Some(line) = self.lines.get_mut(key).filter(|line| line.running > 0) else {
            return;
        };
        line.running -= 1;
        self.running -= 1;
        if line.running == 0 && line.waiting.is_empty() {
            self.lines.remove(key);
        } else {
            // It has had its turn: whoever waits comes first.
            line.in_turn = false;
            self.turn.retain(|other| other != key);
            self.take_turn(key);
        }
    }

    /// Stands in line again, behind everybody, if something waits.
    fn take_turn(&mut self, key: &EnsembleKey) {
        let Some(line) = self.lines.get_mut(key) else {
            return;
        };
        let waits = !line.waiting.is_empty();
        if waits && !std::mem::replace(&mut line.in_turn, true) {
            self.turn.push_back(key.clone());
        }
    }

    /// Forgets what waits: we no longer lead.
    pub fn clear(&mut self) -> Vec<(EnsembleKey, CallId)> {
        self.turn.clear();
        self.waiting = 0;
        let mut dropped = Vec::new();
        for (key, line) in &mut self.lines {
            line.in_turn = false;
            dropped.extend(line.waiting.drain(..).map(|(id, _)| (key.clone(), id)));
        }
        self.lines.retain(|_, line| line.running > 0);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> EnsembleKey {
        ("shop".to_owned(), name.to_owned())
    }

    fn queue(all: usize, each: usize) -> Queue<&'static str> {
        Queue::new(Limits { all, each })
    }

    fn push(queue: &mut Queue<&'static str>, name: &str, calls: impl IntoIterator<Item = u64>) {
        for id in calls {
            queue.push(&key(name), CallId(id), "call");
        }
    }

    /// All that may run now, as `name` and number.
    fn pop_all(queue: &mut Queue<&'static str>) -> Vec<(String, u64)> {
        let popped = std::iter::from_fn(|| queue.pop());
        popped.map(|(key, id, _)| (key.1, id.0)).collect()
    }

    fn names(popped: &[(String, u64)]) -> Vec<&str> {
        popped.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn ensembles_take_turns_and_each_keeps_its_own_order() {
        let mut queue = queue(10, 10);
        push(&mut queue, "busy", 0..3);
        push(&mut queue, "calm", 10..12);
        let popped = pop_all(&mut queue);
        assert_eq!(names(&popped), ["busy", "calm", "busy", "calm", "busy"]);
        let ids: Vec<u64> = popped.iter().map(|(_, id)| *id).collect();
        assert_eq!(ids, [0, 10, 1, 11, 2]);
    }

    #[test]
    fn what_is_urgent_goes_before_its_own_ensembles_calls_and_nobody_elses() {
        let mut queue = queue(10, 10);
        push(&mut queue, "calm", [0]);
        push(&mut queue, "busy", 1..3);
        queue.push_first(&key("busy"), CallId(9), "call");
        let ids: Vec<u64> = pop_all(&mut queue).iter().map(|(_, id)| *id).collect();
        assert_eq!(ids, [0, 9, 1, 2]);
    }

    #[test]
    fn one_ensemble_never_has_more_than_its_share_however_much_of_it_waits() {
        let mut queue = queue(10, 2);
        push(&mut queue, "busy", 0..1000);
        assert_eq!(pop_all(&mut queue).len(), 2);
        push(&mut queue, "calm", [1000]);
        assert_eq!(names(&pop_all(&mut queue)), ["calm"]);
        queue.finished(&key("busy"));
        assert_eq!(names(&pop_all(&mut queue)), ["busy"]);
        assert_eq!((queue.running(), queue.waiting()), (3, 997));
    }

    #[test]
    fn no_more_run_at_once_than_is_allowed_and_the_next_free_place_is_somebody_elses() {
        let mut queue = queue(2, 2);
        push(&mut queue, "busy", 0..10);
        assert_eq!(names(&pop_all(&mut queue)), ["busy"]);
        push(&mut queue, "other", 10..20);
        assert_eq!(names(&pop_all(&mut queue)), ["other"]);
        push(&mut queue, "calm", [20]);
        assert!(queue.pop().is_none());
        queue.finished(&key("busy"));
        assert_eq!(names(&pop_all(&mut queue)), ["calm"]);
        queue.finished(&key("calm"));
        assert_eq!(names(&pop_all(&mut queue)), ["busy"]);
    }

    #[test]
    fn however_many_ensembles_are_silent_there_is_a_place_for_the_next() {
        let mut queue = queue(256, 128);
        for (number, silent) in ["a", "b", "c", "d"].into_iter().enumerate() {
            push(&mut queue, silent, 0..2000);
            let has = pop_all(&mut queue).len();
            assert_eq!(has, 128 >> number, "as many as it leaves to others");
        }
        push(&mut queue, "calm", 0..3);
        assert_eq!(names(&pop_all(&mut queue)), ["calm"; 3]);
        // Those that had fewer get more of the places that become free.
        for _ in 0..64 {
            queue.finished(&key("a"));
        }
        let popped = pop_all(&mut queue);
        let of = |name: &str| names(&popped).iter().filter(|n| **n == name).count();
        let (most, least) = (of("a").max(of("b")), of("c").min(of("d")));
        assert!(least > most, "{:?}", names(&popped));
    }

    #[test]
    fn what_waited_is_named_when_it_is_dropped_and_what_runs_still_counts() {
        let mut queue = queue(10, 1);
        push(&mut queue, "orders", 0..3);
        push(&mut queue, "stock", [7]);
        let running = queue.pop();
        assert_eq!(running.map(|(_, id, _)| id), Some(CallId(0)));
        let dropped = queue.clear();
        let dropped: Vec<(&str, u64)> = dropped.iter().map(|(k, id)| (&*k.1, id.0)).collect();
        assert_eq!(dropped, [("orders", 1), ("orders", 2), ("stock", 7)]);
        assert_eq!((queue.running(), queue.waiting()), (1, 0));
        assert!(queue.pop().is_none());
        // After that it works as before.
        push(&mut queue, "orders", [3]);
        assert!(queue.pop().is_none(), "one of it runs still");
        queue.finished(&key("orders"));
        assert_eq!(pop_all(&mut queue), [("orders".to_owned(), 3)]);
    }

    #[test]
    fn nothing_is_kept_of_an_ensemble_whose_calls_are_over() {
        let mut queue = queue(10, 10);
        push(&mut queue, "orders", 0..3);
        pop_all(&mut queue);
        for _ in 0..3 {
            queue.finished(&key("orders"));
        }
        assert!(queue.lines.is_empty() && queue.turn.is_empty());
        push(&mut queue, "stock", 0..3);
        queue.clear();
        assert!(queue.lines.is_empty() && queue.turn.is_empty());
    }

    #[test]
    fn an_end_that_nobody_waited_for_frees_no_place() {
        let mut queue = queue(1, 1);
        push(&mut queue, "orders", 0..2);
        assert!(queue.pop().is_some());
        queue.finished(&key("stock"));
        assert!(queue.pop().is_none());
        assert_eq!(queue.running(), 1);
    }

    #[test]
    fn a_limit_of_nothing_would_be_a_standstill_and_is_one() {
        let mut queue = queue(0, 0);
        push(&mut queue, "orders", 0..2);
        assert_eq!(pop_all(&mut queue).len(), 1);
    }
}
