//! How much we write, tell and think while nothing happens.

use super::act::is_ours;
use super::broken;
use crate::invariants::Broken;
use crate::model;
use crate::world::World;

const MINUTE_MS: u64 = 60_000;
/// So many writes a minute may come of nothing: whoever waits says so, and says it again now and then.
const WRITES: u32 = 12;
/// So many more for each thing that happened: what is written down before, and what is said after.
const FOR_EACH: u32 = 3;
/// So often a minute engines may be told something: a nudge, a setting, a restart, a switchover. One that is
/// waited for is worth eight nudges to begin with and ten a minute later; a rollout in which several come up
/// within a minute takes some more.
const TELLS: u32 = 60;
/// So often a minute a controller may wake by itself: engines are asked once a second while something is
/// on its way, and their answers come one by one.
const WAKES: u32 = 300;

/// What happened in the present minute.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    since: u64,
    writes: u32,
    news: u32,
    tells: u32,
    wakes: u32,
    read: usize,
    engine: u64,
    /// The most in any minute so far: writes that came of nothing, tells, wake-ups.
    pub most: [u32; 3],
}

impl Rate {
    fn at(&mut self, now: u64) -> &mut Self {
        if now >= self.since + MINUTE_MS {
            *self = Self {
                since: now,
                read: self.read,
                engine: self.engine,
                most: self.most,
                ..Self::default()
            };
        }
        self
    }

    /// What is new in the journal and in the engine, but for what we say ourselves, is news.
    pub fn look(&mut self, world: &World) {
        let log = world.cluster.log();
        let said = |e: &&simkube::Entry| is_ours(e) && e.resource == world.ensembles;
        let news = log[self.read..].iter().filter(|e| !said(e)).count();
        let engine = model::of(world).map_or(0, |m| m.version());
        let moved = engine != self.engine;
        let read = log.len();
        let rate = self.at(world.cluster.now().0);
        (rate.read, rate.engine) = (read, engine);
        rate.happened(news + usize::from(moved));
    }

    fn happened(&mut self, times: usize) {
        self.news += u32::try_from(times).unwrap_or(u32::MAX);
    }

    /// A controller writes, whatever it is answered.
    pub fn writes(&mut self, now: u64, what: impl Fn() -> String) -> Result<(), Broken> {
        self.at(now).writes += 1;
        let of_nothing = self.writes.saturating_sub(FOR_EACH * self.news);
        self.most[0] = self.most[0].max(of_nothing);
        if of_nothing <= WRITES {
            return Ok(());
        }
        let seen = format!(
            "{} writes within a minute in which {} things happened, the last: {}",
            self.writes,
            self.news,
            what()
        );
        broken("writes-while-waiting", seen)
    }

    /// A controller tells an engine something.
    pub fn tells(&mut self, now: u64, what: impl Fn() -> String) -> Result<(), Broken> {
        self.at(now).tells += 1;
        self.most[1] = self.most[1].max(self.tells);
        if self.tells <= TELLS {
            return Ok(());
        }
        let seen = format!(
            "told {} times within a minute, the last: {}",
            self.tells,
            what()
        );
        broken("told-while-waiting", seen)
    }

    /// So often a controller was woken by the clock since the last look, and so often for nothing but to be
    /// woken at once again.
    pub fn woke(&mut self, now: u64, times: u32, spun: u32) -> Result<(), Broken> {
        if spun > 0 {
            return broken("spins", "woken only to be woken at once again".into());
        }
        self.at(now).wakes += times;
        self.most[2] = self.most[2].max(self.wakes);
        if self.wakes <= WAKES {
            return Ok(());
        }
        let seen = format!("{} times within a minute", self.wakes);
        broken("woken-while-waiting", seen)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_again_and_again_of_nothing_is_too_much() {
        let mut rate = Rate::default();
        let mut wrote = 0;
        while rate.writes(1_000 + wrote, String::new).is_ok() {
            wrote += 1;
        }
        assert_eq!(wrote, u64::from(WRITES));
        assert!(rate.writes(70_000, String::new).is_ok());
    }

    #[test]
    fn what_happens_may_be_written_about() {
        let mut rate = Rate::default();
        rate.happened(11);
        for _ in 0..WRITES + FOR_EACH * 11 {
            rate.writes(1_000, String::new).unwrap();
        }
        assert!(rate.writes(1_000, String::new).is_err());
    }
}
