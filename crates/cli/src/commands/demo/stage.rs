//! What is shown of the demo: a screen that is redrawn on a terminal, one line per change elsewhere.

use crate::args::Global;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::view::paint::Paint;
use crate::view::{Seen, members, why};
use ensemble_rehearsal::demo::{ACTS, Demo, Moment};
use jiff::Timestamp;
use kube::api::DynamicObject;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How long a screen stays at least, unless something happens.
const REDRAW: Duration = Duration::from_millis(100);
/// How long the bar is.
const BAR: usize = 24;

/// Where the demo is shown.
pub struct Stage {
    paint: Paint,
    redraw: bool,
    silent: bool,
    speed: u32,
    drawn: Option<Instant>,
    /// What was said last in the script, for the screen.
    said: String,
    /// The last line without its time, so that only changes are written.
    line: String,
    /// Members told to end before this act.
    before: u32,
}

impl Stage {
    /// As the flags and the terminal say. A machine's format leaves stdout to the summary.
    pub fn new(global: &Global, speed: u32) -> Self {
        let table = global.output == Format::Table;
        Self {
            paint: Paint::choose(global.color),
            redraw: table && std::io::stdout().is_terminal(),
            silent: !table,
            speed,
            drawn: None,
            said: String::new(),
            line: String::new(),
            before: 0,
        }
    }

    /// Shows what has just happened.
    pub fn show(&mut self, demo: &Demo, moment: Moment) -> Result<(), Failure> {
        match moment {
            Moment::Opens => {
                self.before = demo.summary().disruptions;
                self.said.clear();
            }
            Moment::Did(what) => self.said = format!("somebody: {what}"),
            Moment::Seen(what) => self.said = format!("seen: {what}"),
            Moment::Later | Moment::Closes | Moment::Ends => {}
        }
        match (self.silent, self.redraw) {
            (true, _) => Ok(()),
            (false, true) => self.screen(demo, moment),
            (false, false) => self.lines(demo, moment),
        }
    }

    /// Says that it waits for a key.
    pub fn ask(&self) -> Result<(), Failure> {
        output::print(&self.paint.strong("Enter: go on   ctrl-c: end\n"))
    }

    fn screen(&mut self, demo: &Demo, moment: Moment) -> Result<(), Failure> {
        let recent = self.drawn.is_some_and(|at| at.elapsed() < REDRAW);
        if moment == Moment::Ends || (moment == Moment::Later && recent) {
            return Ok(());
        }
        // What the controller has not looked at yet would flicker.
        let Some(seen) = seen(demo).filter(|seen| seen.status().is_some()) else {
            return Ok(());
        };
        self.drawn = Some(Instant::now());
        let now = now(demo);
        let mut text = format!("{}\n{}\n\n", self.heading(demo), self.said);
        text.push_str(&members::picture(&seen, now, self.paint));
        text.push_str(&self.reasons(&seen, now));
        text.push_str(&format!("\n{}\n", self.foot(demo)));
        // Home, then clear what was below: less flicker than clearing first.
        output::print(&format!("\x1b[H\x1b[J{text}"))
    }

    fn lines(&mut self, demo: &Demo, moment: Moment) -> Result<(), Failure> {
        match moment {
            Moment::Opens => return output::print(&format!("\n{}\n", self.heading(demo))),
            Moment::Did(_) => output::print(&format!("  {}\n", self.said))?,
            _ => {}
        }
        let Some(seen) = seen(demo) else {
            return Ok(());
        };
        self.change(&seen, now(demo))?;
        match moment {
            Moment::Seen(_) => {
                let reasons = self.reasons(&seen, now(demo));
                output::print(&format!("  {}\n{reasons}", self.said))
            }
            Moment::Closes => output::print(&format!("  {}\n", self.foot(demo))),
            _ => Ok(()),
        }
    }

    fn change(&mut self, seen: &Seen, now: Timestamp) -> Result<(), Failure> {
        if seen.status().is_none() {
            return Ok(());
        }
        let line = members::transition(seen, now);
        let content = line.split_once("  ").map_or("", |(_, rest)| rest);
        if content == self.line {
            return Ok(());
        }
        self.line = content.to_owned();
        output::print(&format!("  {}\n", line.trim_end()))
    }

    fn heading(&self, demo: &Demo) -> String {
        let (number, act) = demo.act();
        let title = format!("Act {number} of {}: {}", ACTS.len(), act.title);
        format!("{}\n{}", self.paint.strong(&title), act.look)
    }

    /// What it waits for, in words, if it waits.
    fn reasons(&self, seen: &Seen, now: Timestamp) -> String {
        match seen.report() {
            Some(report) if report.first_blocked().is_some() => {
                format!("\n{}", why::why(&seen.name, report, now, self.paint))
            }
            _ => String::new(),
        }
    }

    fn foot(&self, demo: &Demo) -> String {
        let summary = demo.summary();
        let bar = bar(demo.act().0, ACTS.len());
        let speed = match self.speed {
            0 => "as fast as it can".to_owned(),
            speed => format!("{speed} times as fast"),
        };
        let here = summary.disruptions - self.before;
        format!(
            "{bar} {} of cluster time, {speed}\n  \
             members disrupted: {here} in this act, {} in all; changes of leader: {}; \
             writes checked: {}",
            minutes(summary.virtual_ms),
            summary.disruptions,
            summary.leader_changes,
            summary.checks
        )
    }
}

fn bar(done: usize, all: usize) -> String {
    let full = BAR * done.min(all) / all.max(1);
    format!("[{}{}]", "#".repeat(full), "-".repeat(BAR - full))
}

/// `2m05s`.
pub fn minutes(ms: u64) -> String {
    let seconds = ms / 1000;
    format!("{}m{:02}s", seconds / 60, seconds % 60)
}

fn now(demo: &Demo) -> Timestamp {
    let ms = i64::try_from(demo.now_ms()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
}

fn seen(demo: &Demo) -> Option<Seen> {
    let object: DynamicObject = serde_json::from_value(demo.ensemble()?).ok()?;
    Some(Seen::of(&object))
}
