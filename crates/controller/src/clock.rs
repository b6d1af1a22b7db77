//! The time by our clock: the wall's, but it never goes back.
//!
//! Ages are differences of it. Set back, the wall's clock would make everything wait for as long as
//! it was set back; ours goes on at its own pace until the wall's has caught up. Set ahead, ours
//! jumps, too.

use ensemble_conductor::Time;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// A clock that all parts of a controller share.
#[derive(Clone)]
pub struct Clock {
    last: Arc<Mutex<(Time, Instant)>>,
    wall: fn() -> Time,
}

impl Clock {
    pub fn new() -> Self {
        Self::by(wall)
    }

    fn by(wall: fn() -> Time) -> Self {
        Self {
            last: Arc::new(Mutex::new((wall(), Instant::now()))),
            wall,
        }
    }

    /// One that follows tokio's clock alone, which a test can pause.
    #[cfg(test)]
    pub fn of_test() -> Self {
        Self::by(|| Time(0))
    }

    pub fn now(&self) -> Time {
        let wall = (self.wall)();
        // Two values that belong together are written at once: a panic elsewhere leaves them whole.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (time, at) = *last;
        let instant = Instant::now();
        let passed = instant.duration_since(at).as_millis();
        let own = time.plus_ms(i64::try_from(passed).unwrap_or(i64::MAX));
        if own >= wall {
            // Anchored where it is: what is less than a millisecond is not lost on the way.
            return own;
        }
        *last = (wall, instant);
        wall
    }
}

/// What the wall's clock shows.
fn wall() -> Time {
    Time(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static WALL: Cell<i64> = const { Cell::new(0) };
    }

    fn set_wall(ms: i64) {
        WALL.with(|wall| wall.set(ms));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_that_is_set_back_takes_no_time_away() {
        set_wall(100_000);
        let clock = Clock::by(|| Time(WALL.with(Cell::get)));
        assert_eq!(clock.now(), Time(100_000));
        set_wall(40_000);
        assert_eq!(clock.now(), Time(100_000));
        // It neither stops nor follows until the wall's has caught up.
        tokio::time::advance(Duration::from_secs(5)).await;
        set_wall(45_000);
        assert_eq!(clock.now(), Time(105_000));
        set_wall(105_001);
        assert_eq!(clock.now(), Time(105_001));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_that_is_set_ahead_is_followed() {
        set_wall(100_000);
        let clock = Clock::by(|| Time(WALL.with(Cell::get)));
        set_wall(500_000);
        assert_eq!(clock.now(), Time(500_000));
        tokio::time::advance(Duration::from_millis(700)).await;
        assert_eq!(clock.now(), Time(500_700));
    }
}
