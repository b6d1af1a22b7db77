//! Virtual time: milliseconds since the Unix epoch, as Kubernetes writes them.

use std::fmt;

/// An instant of virtual time, in milliseconds since the Unix epoch.
///
/// Nothing in this crate reads a real clock; time passes only when
/// [`Cluster::advance_to`](crate::Cluster::advance_to) says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(pub u64);

impl SimTime {
    /// 2026-01-01T00:00:00Z, when every new cluster begins.
    pub const START: SimTime = SimTime(1_767_225_600_000);

    /// This instant plus `ms` milliseconds.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> SimTime {
        SimTime(self.0.saturating_add(ms))
    }

    /// This instant plus `s` seconds.
    #[must_use]
    pub fn plus_s(self, s: u64) -> SimTime {
        self.plus_ms(s.saturating_mul(1000))
    }

    /// Milliseconds from `earlier` to this instant; zero if it lies ahead.
    #[must_use]
    pub fn since_ms(self, earlier: SimTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `2026-01-01T00:00:00Z`: whole seconds, as metav1.Time is written.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let c = Civil::of(self);
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            c.year, c.month, c.day, c.hour, c.minute, c.second
        )
    }

    /// `2026-01-01T00:00:00.000000Z`: as metav1.MicroTime is written.
    #[must_use]
    pub fn rfc3339_micro(self) -> String {
        let c = Civil::of(self);
        let micros = self.0 % 1000 * 1000;
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{micros:06}Z",
            c.year, c.month, c.day, c.hour, c.minute, c.second
        )
    }

    /// Reads a time that ends in `Z` or in a numeric offset. Anything else is `None`.
    #[must_use]
    pub fn parse(text: &str) -> Option<SimTime> {
        let (date, rest) = text.split_once(['T', 't'])?;
        let mut ymd = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (ymd.next()??, ymd.next()??, ymd.next()??);
        let zone_at = rest.find(['Z', 'z', '+', '-'])?;
        let (clock, zone) = rest.split_at(zone_at);
        let mut hms = clock.splitn(3, ':');
        let hour: i64 = hms.next()?.parse().ok()?;
        let minute: i64 = hms.next()?.parse().ok()?;
        let second = hms.next()?;
        let (whole, fraction) = second.split_once('.').unwrap_or((second, "0"));
        let whole: i64 = whole.parse().ok()?;
        let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
        let in_range = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && whole < 61;
        if !in_range {
            return None;
        }
        let seconds =
            days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + whole;
        let seconds = seconds - offset_seconds(zone)?;
        u64::try_from(seconds * 1000 + millis).ok().map(SimTime)
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

fn offset_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
    Some(sign * seconds)
}

struct Civil {
    year: i64,
    month: i64,
    day: i64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Civil {
    fn of(t: SimTime) -> Civil {
        let seconds = t.0 / 1000;
        let (year, month, day) = civil_from_days((seconds / 86_400) as i64);
        let of_day = seconds % 86_400;
        Civil {
            year,
            month,
            day,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar. Years start in
/// March here, so that the leap day is the last day of a year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_the_first_of_january_2026() {
        assert_eq!(SimTime::START.rfc3339(), "2026-01-01T00:00:00Z");
        assert_eq!(
            SimTime::START.plus_ms(1250).rfc3339_micro(),
            "2026-01-01T00:00:01.250000Z"
        );
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        for days in 0..4000 {
            let t = SimTime(1_700_000_000_000 + days * 86_400_000 + days * 37_000);
            assert_eq!(SimTime::parse(&t.rfc3339()), Some(t));
        }
    }

    #[test]
    fn an_offset_is_taken_into_account_and_nonsense_is_refused() {
        assert_eq!(
            SimTime::parse("2026-01-01T02:00:00+02:00"),
            Some(SimTime::START)
        );
        assert_eq!(
            SimTime::parse("2026-01-01T00:00:00.5Z"),
            Some(SimTime::START.plus_ms(500))
        );
        assert_eq!(SimTime::parse("yesterday"), None);
        assert_eq!(SimTime::parse("2026-13-01T00:00:00Z"), None);
    }
}
