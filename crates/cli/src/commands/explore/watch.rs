//! What whoever waits sees meanwhile: how far it is, and what was found, as it is found.

use super::told;
use crate::output::{self, Format};
use ensemble_rehearsal::explore::{Failure, Findings, Progress};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the line on a terminal is written anew.
const OFTEN: Duration = Duration::from_millis(200);
/// How often a file gets a line.
const SELDOM: Duration = Duration::from_secs(30);

/// Who hears what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    /// Somebody at a terminal: one line that is written over.
    Terminal,
    /// A file, read later: a line now and then.
    File,
    /// A program, which reads the document at the end.
    Program,
}

impl Audience {
    fn of(format: Format, terminal: bool) -> Self {
        match (format, terminal) {
            (_, true) => Self::Terminal,
            (Format::Table, false) => Self::File,
            (Format::Json | Format::Yaml, false) => Self::Program,
        }
    }
}

/// Watches over all cores.
pub struct Watch {
    audience: Audience,
    format: Format,
    began: Instant,
    until: Option<Instant>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// By job: which scenario, how many of its rehearsals were played, and of how many.
    now: BTreeMap<usize, (&'static str, u64, u64)>,
    /// How many were played in jobs that are over.
    played: u64,
    failures: Vec<Failure>,
    jobs: usize,
    said: Option<Instant>,
}

impl Watch {
    pub fn new(format: Format, time: Option<Duration>) -> Self {
        let began = Instant::now();
        Self {
            audience: Audience::of(format, std::io::stderr().is_terminal()),
            format,
            began,
            until: time.map(|time| began + time),
            seen: Mutex::default(),
        }
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// How long it took so far.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rehearsal was played.
    pub fn played(&self, job: usize, progress: &Progress) -> ControlFlow<()> {
        let mut seen = self.seen();
        let far = (progress.scenario.name, progress.played, progress.of);
        seen.now.insert(job, far);
        if let Some(failure) = progress.found
            && !seen.failures.contains(failure)
        {
            seen.failures.push(failure.clone());
            self.found(failure);
        }
        let every = match self.audience {
            Audience::Terminal => OFTEN,
            Audience::File => SELDOM,
            Audience::Program => Duration::MAX,
        };
        let last = seen.said.unwrap_or(self.began);
        if last.elapsed() >= every {
            seen.said = Some(Instant::now());
            self.say(&seen);
        }
        match self.is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// All of a job is played.
    pub fn done(&self, job: usize, scenario: &'static str, findings: &Findings, whole: bool) {
        let mut seen = self.seen();
        seen.now.remove(&job);
        seen.played += findings.schedules;
        seen.jobs += usize::from(whole);
        if self.audience != Audience::Program {
            self.clear();
            output::say(format!(
                "{scenario:<18} rehearsals: {:>6}  failures: {:>3}  {:>7.1}s",
                findings.schedules,
                findings.failures.len(),
                self.seconds()
            ));
        }
    }

    /// How many jobs were played to their end.
    pub fn jobs(&self) -> usize {
        self.seen().jobs
    }

    /// Nothing more comes.
    pub fn end(&self) {
        self.clear();
    }

    fn found(&self, failure: &Failure) {
        self.clear();
        match (self.format, self.audience) {
            // Data, as it comes; a reader that has gone away is no error.
            (Format::Table, _) => drop(output::print(&told(failure))),
            (_, Audience::Terminal) => output::say(told(failure).trim_end()),
            _ => {}
        }
    }

    /// Takes the line that is written over away.
    fn clear(&self) {
        if self.audience == Audience::Terminal {
            output::hint("\r\x1b[K");
        }
    }

    fn say(&self, seen: &Seen) {
        let line = line(seen, self.seconds());
        match self.audience {
            Audience::Terminal => output::hint(format!("\r{line}\x1b[K")),
            Audience::File => output::say(line),
            Audience::Program => {}
        }
    }
}

fn line(seen: &Seen, seconds: f64) -> String {
    let now = seen.now.values();
    let played = seen.played + now.clone().map(|(_, played, _)| played).sum::<u64>();
    let where_ = now.map(|(name, played, of)| format!("{name} {}%", played * 100 / (*of).max(1)));
    format!(
        "{played} rehearsals, failures: {}, {seconds:.0}s; {}",
        seen.failures.len(),
        where_.collect::<Vec<String>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_reads_the_document_hears_nothing_else() {
        assert_eq!(Audience::of(Format::Json, false), Audience::Program);
        assert_eq!(Audience::of(Format::Json, true), Audience::Terminal);
        assert_eq!(Audience::of(Format::Table, false), Audience::File);
    }

    #[test]
    fn the_line_says_how_far_each_core_is() {
        let mut seen = Seen {
            played: 100,
            ..Seen::default()
        };
        seen.now.insert(3, ("roll", 25, 100));
        seen.now.insert(4, ("scale", 1, 3));
        assert_eq!(
            line(&seen, 12.3),
            "126 rehearsals, failures: 0, 12s; roll 25%, scale 33%"
        );
    }
}
