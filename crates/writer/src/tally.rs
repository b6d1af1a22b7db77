//! The arithmetic: what the log and the table say together.

use crate::log::{Entry, Event};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// A gap between two acknowledged writes that is longer than this was a pause.
const PAUSE_MILLIS: f64 = 200.0;

/// The part of the log that is measured, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its beginning.
    pub since: f64,
    /// Its end.
    pub until: f64,
}

impl Window {
    /// Everything.
    pub const ALL: Window = Window {
        since: f64::NEG_INFINITY,
        until: f64::INFINITY,
    };

    fn holds(&self, at: f64) -> bool {
        (self.since..=self.until).contains(&at)
    }
}

/// What became of the writes by one way. All but `lost` speaks of the window alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// By which way.
    pub via: String,
    /// Writes that were acknowledged.
    pub acked: u64,
    /// Acknowledged in the whole log, and not in the table.
    pub lost: Vec<i64>,
    /// Writes that were sent and got an error.
    pub failed_writes: u64,
    /// Of the failed writes of the whole log, those that are in the table all the same.
    pub failed_yet_stored: u64,
    /// Attempts to connect that were refused: they repeat quickly, so they measure time, not harm.
    pub failed_connects: u64,
    /// The longest time between two acknowledged writes.
    pub longest_gap_millis: f64,
    /// How many gaps were pauses, longer than 200 ms.
    pub pauses: u64,
    /// What the pauses add up to, each less the median gap.
    pub unavailable_millis: f64,
    /// The usual time between two acknowledged writes.
    pub median_gap_millis: f64,
    /// The longest time that an acknowledged write took.
    pub longest_write_millis: f64,
    /// The servers that were connected to, in order.
    pub servers: Vec<String>,
}

/// Adds up what one way's entries say, given the rows that are in its table.
pub fn tally(via: &str, entries: &[Entry], stored: &BTreeSet<i64>, window: Window) -> Tally {
    let own: Vec<&Entry> = entries.iter().filter(|e| e.via == via).collect();
    let mut tally = Tally {
        via: via.to_owned(),
        ..Tally::default()
    };
    for entry in &own {
        match &entry.event {
            Event::Acked { id, .. } if !stored.contains(id) => tally.lost.push(*id),
            Event::Failed { id, .. } if stored.contains(id) => tally.failed_yet_stored += 1,
            _ => {}
        }
    }
    for entry in own.iter().filter(|e| window.holds(e.at)) {
        match &entry.event {
            Event::Acked { millis, .. } => {
                tally.acked += 1;
                tally.longest_write_millis = tally.longest_write_millis.max(*millis);
            }
            Event::Failed { .. } => tally.failed_writes += 1,
            Event::Refused { .. } => tally.failed_connects += 1,
            Event::Connected { server } if tally.servers.last() != Some(server) => {
                tally.servers.push(server.clone());
            }
            Event::Connected { .. } | Event::Stopped => {}
        }
    }
    add_gaps(&mut tally, &gaps(&own, window));
    tally
}

/// The times between acknowledged writes, in milliseconds. A pause that has not ended counts up to
/// the end of what is known, so that an outage that goes on is not overlooked.
fn gaps(own: &[&Entry], window: Window) -> Vec<f64> {
    let acked = |e: &&&Entry| matches!(e.event, Event::Acked { .. });
    let inside = own.iter().filter(|e| window.holds(e.at));
    let acks: Vec<f64> = inside.filter(acked).map(|e| e.at).collect();
    let mut gaps: Vec<f64> = acks.windows(2).map(|w| (w[1] - w[0]) * 1000.0).collect();
    let end = own.last().map(|e| e.at.min(window.until));
    if let (Some(last), Some(end)) = (acks.last(), end) {
        let open = (end - last) * 1000.0;
        if open > PAUSE_MILLIS {
            gaps.push(open);
        }
    }
    gaps
}

fn add_gaps(tally: &mut Tally, gaps: &[f64]) {
    tally.median_gap_millis = median(gaps);
    tally.longest_gap_millis = gaps.iter().copied().fold(0.0, f64::max);
    for gap in gaps.iter().filter(|gap| **gap > PAUSE_MILLIS) {
        tally.pauses += 1;
        tally.unavailable_millis += gap - tally.median_gap_millis;
    }
}

/// The middle value; of an even number of them the mean of the middle two; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.via)?;
        writeln!(f, "  acknowledged     {}", self.acked)?;
        writeln!(
            f,
            "  lost             {}{}",
            self.lost.len(),
            examples(&self.lost)
        )?;
        writeln!(
            f,
            "  failed writes    {} ({} of all failed ones are stored)",
            self.failed_writes, self.failed_yet_stored
        )?;
        writeln!(f, "  failed connects  {}", self.failed_connects)?;
        writeln!(f, "  longest gap      {}", seconds(self.longest_gap_millis))?;
        writeln!(
            f,
            "  unavailable      {} in {} pauses",
            seconds(self.unavailable_millis),
            self.pauses
        )?;
        writeln!(
            f,
            "  longest write    {}",
            seconds(self.longest_write_millis)
        )?;
        writeln!(f, "  servers          {}", self.servers.join(", "))
    }
}

fn seconds(millis: f64) -> String {
    format!("{:.3} s", millis / 1000.0)
}

fn examples(ids: &[i64]) -> String {
    let some: Vec<String> = ids.iter().take(10).map(ToString::to_string).collect();
    let more = if ids.len() > some.len() { ", ..." } else { "" };
    if some.is_empty() {
        String::new()
    } else {
        format!(": {}{more}", some.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: f64, event: Event) -> Entry {
        let via = "service".to_owned();
        Entry { at, via, event }
    }

    fn acked(at: f64, id: i64) -> Entry {
        entry(at, Event::Acked { id, millis: 1.0 })
    }

    fn failed(at: f64, id: i64) -> Entry {
        let error = "gone".to_owned();
        entry(at, Event::Failed { id, error })
    }

    fn stored(ids: impl IntoIterator<Item = i64>) -> BTreeSet<i64> {
        ids.into_iter().collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn an_acknowledged_row_that_is_not_there_is_lost_wherever_the_window_is() {
        let log = [acked(1.0, 1), acked(1.02, 2), acked(1.04, 3)];
        let window = Window {
            since: 1.03,
            until: 2.0,
        };
        let told = tally("service", &log, &stored([1, 3]), window);
        assert_eq!(told.lost, [2]);
        assert_eq!(told.acked, 1);
    }

    #[test]
    fn a_failed_row_is_never_lost_but_told_if_it_is_there() {
        let log = [acked(1.0, 1), failed(1.1, 2), failed(1.2, 3)];
        let told = tally("service", &log, &stored([1, 3]), Window::ALL);
        assert!(told.lost.is_empty());
        assert_eq!((told.failed_writes, told.failed_yet_stored), (2, 1));
    }

    #[test]
    fn only_gaps_above_a_fifth_of_a_second_count_as_unavailable_less_the_median() {
        let mut log: Vec<Entry> = (0..11_i32)
            .map(|n| acked(f64::from(n) * 0.02, i64::from(n)))
            .collect();
        log.push(acked(0.39, 11)); // a gap of 190 ms
        log.push(acked(1.89, 12)); // a gap of 1500 ms
        let told = tally("service", &log, &stored(0..13), Window::ALL);
        assert!(close(told.median_gap_millis, 20.0), "{told:?}");
        assert!(close(told.longest_gap_millis, 1500.0), "{told:?}");
        assert!(close(told.unavailable_millis, 1480.0), "{told:?}");
        assert_eq!(told.pauses, 1);
    }

    #[test]
    fn a_pause_that_has_not_ended_counts_up_to_the_end_of_the_log() {
        let log = [
            acked(1.0, 1),
            acked(1.02, 2),
            failed(1.04, 3),
            failed(4.02, 4),
        ];
        let told = tally("service", &log, &stored([1, 2]), Window::ALL);
        assert!(close(told.longest_gap_millis, 3000.0), "{told:?}");
    }

    #[test]
    fn another_ways_entries_do_not_count() {
        let mut other = acked(1.0, 1);
        other.via = "hosts".to_owned();
        let told = tally("service", &[other], &stored([]), Window::ALL);
        assert_eq!((told.acked, told.lost.len()), (0, 0));
    }

    #[test]
    fn servers_are_listed_as_they_were_connected_to() {
        let connected = |at, server: &str| {
            let server = server.to_owned();
            entry(at, Event::Connected { server })
        };
        let log = [
            connected(1.0, "a"),
            connected(2.0, "a"),
            connected(3.0, "b"),
            connected(4.0, "a"),
        ];
        let told = tally("service", &log, &stored([]), Window::ALL);
        assert_eq!(told.servers, ["a", "b", "a"]);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert!(close(median(&[4.0, 1.0, 3.0, 2.0]), 2.5));
        assert!(close(median(&[9.0, 1.0, 3.0]), 3.0));
        assert!(close(median(&[]), 0.0));
    }

    #[test]
    fn the_report_names_the_first_of_the_lost() {
        let lost = Tally {
            lost: (1..=12).collect(),
            ..Tally::default()
        };
        assert!(lost.to_string().contains("12: 1, 2, 3"), "{lost}");
        assert!(lost.to_string().contains("10, ..."), "{lost}");
    }
}
