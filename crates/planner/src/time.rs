//! Time as it comes in: milliseconds since the epoch of whoever drives us.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Stamp;

/// An instant by our own clock. A kubelet's timestamp is never compared with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    /// Later by so many seconds.
    pub fn plus_seconds(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(i64::from(seconds) * 1000))
    }

    /// Later by so many milliseconds.
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// As Kubernetes writes it: whole seconds.
    pub fn stamp(self) -> Stamp {
        let seconds = jiff::Timestamp::from_second(self.0.div_euclid(1000));
        Stamp(seconds.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// What was stored as past, if it is past by our clock, too. One from the future was written by
    /// another clock and says nothing of how long ago it was.
    pub fn past(stamp: &Stamp, now: Self) -> Option<Self> {
        Some(Self::from_stamp(stamp)).filter(|time| *time <= now)
    }

    /// What we once wrote ourselves, read back.
    pub fn from_stamp(stamp: &Stamp) -> Self {
        Self(stamp.0.as_second().saturating_mul(1000))
    }
}

/// Collects the earliest instant at which something changes by time alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wake(pub Option<Time>);

impl Wake {
    /// Be woken at that time, if it is not already an earlier one.
    pub fn at(&mut self, time: Time) {
        self.0 = Some(self.0.map_or(time, |t| t.min(time)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_from_the_future_tells_no_age() {
        let now = Time(1_700_000_000_500);
        assert_eq!(Time::past(&now.stamp(), now), Some(Time(1_700_000_000_000)));
        let ahead = now.plus_seconds(3_600).stamp();
        assert_eq!(Time::past(&ahead, now), None);
    }
}
