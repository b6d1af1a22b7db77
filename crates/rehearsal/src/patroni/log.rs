//! What members have written, so that divergence and lost writes can be told.

/// A member's log: which positions were written at which term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// By term, in order: the last position written at it.
    parts: Vec<(u64, u64)>,
}

impl Log {
    /// The last position.
    pub fn end(&self) -> u64 {
        self.parts.last().map_or(0, |(_, end)| *end)
    }

    /// The newest term.
    pub fn term(&self) -> u64 {
        self.parts.last().map_or(0, |(term, _)| *term)
    }

    /// A new term begins here.
    pub fn begin(&mut self, term: u64) {
        let end = self.end();
        self.parts.push((term, end));
    }

    /// So many more writes at the newest term.
    pub fn append(&mut self, count: u64) {
        if let Some((_, end)) = self.parts.last_mut() {
            *end += count;
        }
    }

    /// Up to which position two logs are the same.
    pub fn shared(&self, other: &Log) -> u64 {
        let mut shared = 0;
        for (own, theirs) in self.parts.iter().zip(&other.parts) {
            if own.0 != theirs.0 {
                break;
            }
            shared = own.1.min(theirs.1);
            if own.1 != theirs.1 {
                break;
            }
        }
        shared
    }

    /// Forgets everything after a position.
    pub fn cut(&mut self, to: u64) {
        while self.parts.last().is_some_and(|(_, end)| *end > to) {
            let before = self.parts.len().checked_sub(2);
            let from = before.map_or(0, |b| self.parts[b].1);
            if from >= to && self.parts.len() > 1 {
                self.parts.pop();
            } else if let Some((_, end)) = self.parts.last_mut() {
                *end = to;
            }
        }
    }

    /// Becomes the same as another log up to a position.
    pub fn follow(&mut self, other: &Log, to: u64) {
        self.parts.clone_from(&other.parts);
        self.cut(to);
    }
}

/// A client that writes all the time to whoever leads and can be reached.
#[derive(Clone, Debug)]
pub struct Writer {
    /// What was acknowledged and is not known to be lost.
    pub acknowledged: Log,
    /// When a write was last acknowledged.
    last: Option<u64>,
    /// The longest time between two.
    pub longest_pause_ms: u64,
    /// How often it writes.
    pub every_ms: u64,
}

/// How often it writes if nobody says otherwise.
const WRITE_EVERY_MS: u64 = 50;

impl Default for Writer {
    fn default() -> Self {
        Self {
            acknowledged: Log::default(),
            last: None,
            longest_pause_ms: 0,
            every_ms: WRITE_EVERY_MS,
        }
    }
}

impl Writer {
    /// How many writes fit between when somebody began to take them and now; they count as written
    /// from then on.
    pub fn due(&mut self, takes_since: u64, now: u64) -> u64 {
        let from = self.last.map_or(takes_since, |last| last.max(takes_since));
        let count = now.saturating_sub(from) / self.every_ms;
        if count == 0 {
            return 0;
        }
        if let Some(last) = self.last {
            let pause = (from + self.every_ms).saturating_sub(last);
            self.longest_pause_ms = self.longest_pause_ms.max(pause);
        }
        self.last = Some(from + count * self.every_ms);
        count
    }

    /// Somebody leads now with that log: how many acknowledged writes it lacks. They are gone.
    pub fn led_by(&mut self, log: &Log) -> u64 {
        let kept = self.acknowledged.shared(log);
        let lost = self.acknowledged.end() - kept;
        self.acknowledged.clone_from(log);
        lost
    }

    /// For how long nothing has been acknowledged.
    pub fn silent_ms(&self, now: u64) -> u64 {
        self.last.map_or(0, |last| now.saturating_sub(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(parts: &[(u64, u64)]) -> Log {
        Log {
            parts: parts.to_vec(),
        }
    }

    #[test]
    fn a_fork_is_where_terms_part() {
        let (old, new) = (log(&[(1, 10), (2, 30)]), log(&[(1, 10), (2, 20), (3, 40)]));
        assert_eq!(old.shared(&new), 20);
        assert_eq!(log(&[(1, 12)]).shared(&new), 10);
        assert_eq!(log(&[(1, 10)]).shared(&new), 10);
    }

    #[test]
    fn what_is_cut_off_is_gone() {
        let mut cut = log(&[(1, 10), (2, 30)]);
        cut.cut(20);
        assert_eq!(cut, log(&[(1, 10), (2, 20)]));
        cut.cut(5);
        assert_eq!(cut, log(&[(1, 5)]));
    }

    #[test]
    fn a_leader_that_lacks_acknowledged_writes_has_lost_them() {
        let mut writer = Writer {
            acknowledged: log(&[(1, 10)]),
            ..Writer::default()
        };
        assert_eq!(writer.led_by(&log(&[(1, 7), (2, 7)])), 3);
        assert_eq!(writer.led_by(&log(&[(1, 7), (2, 7)])), 0);
    }

    #[test]
    fn the_longest_pause_lies_between_two_writes() {
        let mut writer = Writer::default();
        assert_eq!(writer.due(1000, 2000), 20);
        assert_eq!(writer.due(3500, 4000), 10);
        assert_eq!(writer.longest_pause_ms, 1550);
    }
}
