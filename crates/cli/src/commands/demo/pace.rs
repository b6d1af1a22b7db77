//! How fast the cluster's time passes on the wall.

use std::time::{Duration, Instant};

/// Holds the cluster back so that its time passes that many times as fast as ours.
pub struct Pace {
    speed: u32,
    wall: Instant,
    cluster_ms: u64,
}

impl Pace {
    /// From now on; 0 holds nothing back.
    pub fn new(speed: u32, cluster_ms: u64) -> Self {
        Self {
            speed,
            wall: Instant::now(),
            cluster_ms,
        }
    }

    /// Counts from now on, after time in which the cluster stood still.
    pub fn restart(&mut self, cluster_ms: u64) {
        *self = Self::new(self.speed, cluster_ms);
    }

    /// Sleeps until the wall has caught up.
    pub fn keep(&self, cluster_ms: u64) {
        let ahead = self.due(cluster_ms).saturating_sub(self.wall.elapsed());
        if !ahead.is_zero() {
            std::thread::sleep(ahead);
        }
    }

    fn due(&self, cluster_ms: u64) -> Duration {
        let passed = cluster_ms.saturating_sub(self.cluster_ms);
        let due = passed.checked_div(u64::from(self.speed)).unwrap_or(0);
        Duration::from_millis(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_times_as_fast_or_as_fast_as_it_can() {
        assert_eq!(Pace::new(20, 1_000).due(3_000), Duration::from_millis(100));
        assert_eq!(Pace::new(0, 1_000).due(9_000_000), Duration::ZERO);
    }
}
