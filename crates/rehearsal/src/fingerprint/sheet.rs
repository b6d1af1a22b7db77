//! Fingerprints of many rehearsals: one line each, kept in a file and compared with a later one.

use super::{Fingerprint, Fnv};
use crate::explore::possible;
use crate::fault::{self, Fault};
use crate::run::{Rehearsal, run};
use crate::scenario::Scenario;
use std::collections::BTreeMap;
use std::fmt;

/// The schedule without any fault.
const CALM: &str = "calm";

/// A scenario and what goes wrong in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Schedule {
    /// The scenario's name.
    pub scenario: String,
    /// `calm`, or the fault and its call.
    pub fault: String,
}

impl Schedule {
    fn of(scenario: &Scenario, fault: Option<Fault>) -> Self {
        Self {
            scenario: scenario.name.to_owned(),
            fault: fault.map_or_else(|| CALM.to_owned(), |f| f.to_string()),
        }
    }

    /// Its faults, as they are given to a rehearsal.
    pub fn faults(&self) -> Result<Vec<Fault>, String> {
        match self.fault.as_str() {
            CALM => Ok(Vec::new()),
            fault => fault.parse().map(|fault| vec![fault]),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scenario, self.fault)
    }
}

/// Every how manieth schedule is played, and which of them; the calm one always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Which of the parts.
    pub part: u64,
    /// In how many parts all schedules are divided; zero for the calm ones alone.
    pub parts: u64,
}

impl Sample {
    /// All of them.
    pub const ALL: Self = Self { part: 0, parts: 1 };

    /// Whether a schedule belongs to it. That depends on nothing but its name, so that the same ones
    /// are played of any build.
    pub fn has(&self, schedule: &Schedule) -> bool {
        let part = || Fnv::of(&schedule.to_string()).checked_rem(self.parts);
        schedule.fault == CALM || part() == Some(self.part)
    }
}

impl std::str::FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no part: write PART/PARTS, for example 0/16");
        let (part, parts) = text.split_once('/').ok_or_else(wrong)?;
        let number = |n: &str| n.parse::<u64>().map_err(|_| wrong());
        let (part, parts) = (number(part)?, number(parts)?);
        if part < parts {
            Ok(Self { part, parts })
        } else {
            Err(format!(
                "{text:?}: the parts are 0 to one less than {parts}"
            ))
        }
    }
}

/// The numbers of one rehearsal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Of what was done.
    pub deeds: String,
    /// Of what the status said.
    pub status: String,
}

impl Numbers {
    fn of(print: &Fingerprint) -> Self {
        Self {
            deeds: print.deeds.to_string(),
            status: print.status.to_string(),
        }
    }
}

/// The numbers of many.
pub type Sheet = BTreeMap<Schedule, Numbers>;

/// Plays the calm day and every single fault at every call of it, as far as they are in the sample.
pub fn play(scenario: &Scenario, sample: Sample, mut each: impl FnMut(Schedule, Numbers)) {
    let calm = run(scenario, &[], false);
    let roles = calm.is_ok_and(|r| r.asked > 0);
    let kinds = possible(&fault::ALL, scenario, roles);
    let mut day = Rehearsal::start(scenario, &[], false).print(Fingerprint::default());
    let mut note = |fault: Option<Fault>, day: &Rehearsal| {
        let schedule = Schedule::of(scenario, fault);
        if sample.has(&schedule) {
            let (print, _) = day.part(fault.as_slice()).printed();
            each(schedule, Numbers::of(&print));
        }
    };
    note(None, &day);
    if sample.parts == 0 {
        return;
    }
    while let Ok(Some(at_call)) = day.next_stop() {
        for (_, what) in &kinds {
            let what = *what;
            note(Some(Fault { what, at_call }), &day);
        }
    }
}

/// What one schedule's fingerprint is made of, line by line.
pub fn lines(scenario: &Scenario, faults: &[Fault]) -> Vec<String> {
    let day = Rehearsal::start(scenario, faults, false).print(Fingerprint::with_lines());
    day.printed().0.lines.unwrap_or_default()
}

/// A sheet as text.
pub fn write(sheet: &Sheet) -> String {
    let line = |(s, n): (&Schedule, &Numbers)| format!("{s} {} {}\n", n.deeds, n.status);
    sheet.iter().map(line).collect()
}

/// A sheet from text.
pub fn read(text: &str) -> Result<Sheet, String> {
    let line = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let [scenario, fault, deeds, status] = <[String; 4]>::try_from(words)
            .map_err(|_| format!("no line of fingerprints: {line:?}"))?;
        Ok((Schedule { scenario, fault }, Numbers { deeds, status }))
    };
    text.lines().map(line).collect()
}

/// How two sheets differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Where something else was done; or what is in one of them alone.
    pub deeds: Vec<Schedule>,
    /// Where the same was done and the status said something else.
    pub status: Vec<Schedule>,
}

/// Compares what was played now with an earlier sheet, as far as that was to be played now too.
pub fn compare(now: &Sheet, earlier: &Sheet, played: impl Fn(&Schedule) -> bool) -> Difference {
    let mut difference = Difference::default();
    for (schedule, numbers) in now {
        match earlier.get(schedule) {
            Some(other) if other.deeds != numbers.deeds => difference.deeds.push(schedule.clone()),
            Some(other) if other.status != numbers.status => {
                difference.status.push(schedule.clone());
            }
            Some(_) => {}
            None => difference.deeds.push(schedule.clone()),
        }
    }
    let gone = earlier
        .keys()
        .filter(|s| played(s) && !now.contains_key(s))
        .cloned();
    difference.deeds.extend(gone);
    difference
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    fn sheet(lines: &[&str]) -> Sheet {
        read(&lines.join("\n")).unwrap()
    }

    #[test]
    fn a_sheet_reads_back_what_it_wrote() {
        let one = sheet(&["create calm 1 2", "create Conflict@3 4 5"]);
        assert_eq!(read(&write(&one)).unwrap(), one);
        assert!(read("create calm 1").is_err());
    }

    #[test]
    fn deeds_that_differ_are_told_apart_from_words_that_differ() {
        let earlier = sheet(&["a calm 1 1", "a Stale@1 1 1", "a Stale@2 1 1", "b calm 1 1"]);
        let now = sheet(&[
            "a calm 1 1",
            "a Stale@1 2 2",
            "a Stale@2 1 2",
            "a Stale@3 1 1",
        ]);
        let found = compare(&now, &earlier, |_| true);
        let names = |s: &[Schedule]| s.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&found.deeds), ["a Stale@1", "a Stale@3", "b calm"]);
        assert_eq!(names(&found.status), ["a Stale@2"]);
        let alone = compare(&now, &earlier, |s| s.scenario == "a");
        assert_eq!(names(&alone.deeds), ["a Stale@1", "a Stale@3"]);
    }

    #[test]
    fn every_schedule_is_in_one_part_and_the_calm_one_in_all() {
        let of = |fault: &str| Schedule {
            scenario: "create".into(),
            fault: fault.into(),
        };
        for call in 0..50 {
            let schedule = of(&format!("Stale@{call}"));
            let parts = (0..4).filter(|part| {
                Sample {
                    part: *part,
                    parts: 4,
                }
                .has(&schedule)
            });
            assert_eq!(parts.count(), 1);
        }
        assert!((0..4).all(|part| Sample { part, parts: 4 }.has(&of("calm"))));
        assert_eq!("3/16".parse(), Ok(Sample { part: 3, parts: 16 }));
        assert!("16/16".parse::<Sample>().is_err());
    }

    #[test]
    fn a_day_leaves_the_same_fingerprint_parted_or_played_from_the_start() {
        let create = scenario::find("create").unwrap();
        let mut found = Sheet::new();
        play(create, Sample { part: 0, parts: 8 }, |s, n| {
            found.insert(s, n);
        });
        assert!(found.len() > 10, "only {}", found.len());
        for (schedule, numbers) in &found {
            let faults = schedule.faults().unwrap();
            let day = Rehearsal::start(create, &faults, false);
            let (print, _) = day.print(Fingerprint::default()).printed();
            assert_eq!(&Numbers::of(&print), numbers, "{schedule}");
        }
    }
}
