//! How long ago, as `kubectl` writes it: two units at most.

use jiff::Timestamp;

/// `12s`, `2m10s`, `25m`, `3h5m`, `4d3h`, `91d`.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    // A clock that runs behind ours says "just now", not a negative age.
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if days < 2 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_two_units_at_most() {
        let ages = [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (130, "2m10s"),
            (180, "3m"),
            (601, "10m"),
            (3 * 3600 + 300, "3h5m"),
            (90_000, "25h"),
            (3 * 86_400, "3d"),
            (91 * 86_400 + 5, "91d"),
        ];
        let since = Timestamp::from_second(1_000_000).unwrap();
        for (seconds, text) in ages {
            let now = Timestamp::from_second(1_000_000 + seconds).unwrap();
            assert_eq!(age(since, now), text, "{seconds} s");
        }
    }
}
