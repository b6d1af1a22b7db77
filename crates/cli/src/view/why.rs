//! `why`: what an ensemble waits for, since when, and what clears it. A rendering of the report alone.

use super::age::age;
use super::paint::Paint;
use ensemble_api::report::Action;
use ensemble_api::{Blocker, Predicate, Reason, Report, State, Step, StepState};
use jiff::Timestamp;

/// The longest line, where lines are made of words.
const WIDTH: usize = 100;
/// How many further blocked steps are told of.
const OTHERS_MAX: usize = 4;

/// What the report says, in words.
pub fn why(name: &str, report: &Report, now: Timestamp, paint: Paint) -> String {
    let mut text = Text {
        paint,
        lines: Vec::new(),
    };
    match headline_step(report) {
        Some((at, step, blocker)) if report.state != State::Ready => {
            text.title(name, report, Some((at, step)));
            because(&mut text, name, report, step, blocker, now);
        }
        _ => {
            // What is left to a ready ensemble is advice, not work.
            let left = |step: &Step| step.state != StepState::Done && report.state != State::Ready;
            let moving = report.steps.iter().position(left);
            text.title(name, report, moving.map(|at| (at, &report.steps[at])));
            if let Some(since) = moving.and_then(|at| report.steps[at].since.as_ref()) {
                text.line("since", &format!("{} ago", age(since.0, now)));
            }
            others(&mut text, report, None, now);
            waived(&mut text, report, now);
            safe_now(&mut text, report);
            rules(&mut text, "holds", report);
        }
    }
    text.finish()
}

/// The step to speak of: the first whose reason is what the state in the title is about.
fn headline_step(report: &Report) -> Option<(usize, &Step, &Blocker)> {
    let blocked = || {
        let steps = report.steps.iter().enumerate();
        steps.filter_map(|(at, step)| step.blocker.as_ref().map(|blocker| (at, step, blocker)))
    };
    let telling = blocked().find(|(_, _, blocker)| match report.state {
        State::Stalled => blocker.reason.page().stalls,
        State::Paused => blocker.reason == Reason::Paused,
        State::Suspended => blocker.reason == Reason::Suspended,
        _ => true,
    });
    telling.or_else(|| blocked().next())
}

fn because(
    text: &mut Text,
    name: &str,
    report: &Report,
    step: &Step,
    blocker: &Blocker,
    now: Timestamp,
) {
    let reason = text.paint.strong(blocker.reason.as_str());
    text.line("because", &format!("{reason}: {}", blocker.message));
    // What the message says already is not said twice.
    let mut values = Vec::new();
    if !blocker.observed.is_empty() && !blocker.message.contains(&blocker.observed) {
        values.push(format!("observed: {}", blocker.observed));
    }
    if !blocker.limit.is_empty() {
        values.push(format!("limit: {}", blocker.limit));
    }
    text.line("", &values.join("; "));
    if let Some(since) = &step.since {
        text.line("since", &format!("{} ago", age(since.0, now)));
    }
    text.line(
        "clears",
        &format!("when {}", lower_first(&blocker.clears_when)),
    );
    held_up(text, report, step);
    others(text, report, Some(step), now);
    waived(text, report, now);
    safe_now(text, report);
    rules(text, "not it", report);
    you_may(text, name, step, blocker);
    text.line("more", &format!("ensemble explain {}", blocker.reason));
}

/// Steps whose turn comes after the one that waits, by what they do.
fn held_up(text: &mut Text, report: &Report, step: &Step) {
    let behind = report
        .steps
        .iter()
        .filter(|s| s.state == StepState::Idle && *s != step);
    let mut actions: Vec<(Action, Vec<&str>)> = Vec::new();
    for waiting in behind {
        let member = waiting.member.as_deref().unwrap_or("members");
        match actions
            .iter_mut()
            .find(|(action, _)| *action == waiting.action)
        {
            Some((_, members)) => members.push(member),
            None => actions.push((waiting.action, vec![member])),
        }
    }
    let parts = actions
        .iter()
        .map(|(action, members)| format!("{} {}", verb(*action), members.join(", ")));
    let parts: Vec<String> = parts.collect();
    if !parts.is_empty() {
        text.line("then", &parts.join("; "));
    }
}

fn others(text: &mut Text, report: &Report, told: Option<&Step>, now: Timestamp) {
    let blocked = report
        .steps
        .iter()
        .filter(|s| s.blocker.is_some() && Some(*s) != told);
    let blocked: Vec<&Step> = blocked.collect();
    let label = if told.is_some() { "also" } else { "note" };
    for step in blocked.iter().take(OTHERS_MAX) {
        let Some(blocker) = &step.blocker else {
            continue;
        };
        let since = step.since.as_ref().map(|s| format!(" ({})", age(s.0, now)));
        text.line(
            label,
            &format!(
                "{}: {}{}",
                blocker.reason,
                blocker.message,
                since.unwrap_or_default()
            ),
        );
    }
    if blocked.len() > OTHERS_MAX {
        text.line(
            label,
            &format!(
                "{} more blocked steps: ensemble status",
                blocked.len() - OTHERS_MAX
            ),
        );
    }
}

/// Rules that somebody has suspended, as long as they are.
fn waived(text: &mut Text, report: &Report, now: Timestamp) {
    for waiver in &report.waivers {
        let left = waiver.until.0.duration_since(now);
        let left = match left.is_positive() {
            true => format!("for {} more", age(now, waiver.until.0)),
            false => "which has just ended".to_owned(),
        };
        text.line(
            "waived",
            &format!(
                "{} for {}, {left}, by EnsembleRequest {}: {}",
                waiver.rule, waiver.member, waiver.request, waiver.reason
            ),
        );
    }
}

fn safe_now(text: &mut Text, report: &Report) {
    let words = match report.tolerance {
        0 => "no further member may be lost".to_owned(),
        1 => "1 more member may be lost".to_owned(),
        n => format!("{n} more members may be lost"),
    };
    text.line("safe now", &words);
}

/// The rules that hold under one label, and those that do not under another.
fn rules(text: &mut Text, label: &str, report: &Report) {
    let write = |rule: &Predicate| match rule.limit.as_str() {
        "" => format!("{} ({})", rule.name, rule.observed),
        limit => format!("{} ({}, {limit})", rule.name, rule.observed),
    };
    let (hold, broken): (Vec<&Predicate>, Vec<&Predicate>) =
        report.predicates.iter().partition(|rule| rule.holds);
    if !broken.is_empty() {
        let broken: Vec<String> = broken.into_iter().map(write).collect();
        text.line("fails", &broken.join(", "));
    }
    if !hold.is_empty() {
        let hold: Vec<String> = hold.into_iter().map(write).collect();
        text.line(label, &hold.join(", "));
    }
}

fn you_may(text: &mut Text, name: &str, step: &Step, blocker: &Blocker) {
    if !blocker.next_command.is_empty() {
        text.line("you may", &text.paint.strong(&blocker.next_command));
    }
    let remedy = blocker.reason.page().remedy;
    let mut remedy = match remedy.strip_prefix("Nothing") {
        Some(rest) => format!("wait{rest}"),
        None => remedy.replace("NAME", name),
    };
    if let Some(member) = &step.member {
        remedy = remedy.replace("MEMBER", member);
    }
    let label = if blocker.next_command.is_empty() {
        "you may"
    } else {
        ""
    };
    text.line(label, &remedy);
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Start => "start",
        Action::Recreate => "recreate",
        Action::InPlace => "restart in place",
        Action::Resize => "resize in place",
        Action::Relabel => "relabel",
        Action::Switch => "hand the lead to",
        Action::Follow => "know who leads",
        Action::Configure => "set parameters",
        Action::Restart => "restart the engine of",
        Action::Clear => "clear",
        Action::Remove => "remove",
        Action::Check => "try the template",
        Action::Pull => "pull the images ahead",
        Action::LetGo => "let claims go",
        Action::Maintain => "keep Services, budgets and labels in order",
    }
}

/// Whether the verb wants to know whom it is about.
fn of_members(action: Action) -> bool {
    use Action::{Clear, Create, InPlace, Recreate, Relabel, Remove, Resize, Restart, Start};
    matches!(
        action,
        Clear | Create | Start | Recreate | Remove | InPlace | Resize | Relabel | Restart
    )
}

/// What a step does, in words.
pub fn step_in_words(step: &Step) -> String {
    match &step.member {
        Some(member) => format!("{} {member}", verb(step.action)),
        None if of_members(step.action) => format!("{} members", verb(step.action)),
        None => verb(step.action).to_owned(),
    }
}

pub(super) fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_lowercase().to_string());
    format!("{}{}", first.unwrap_or_default(), chars.as_str())
}

/// Lines with a label in front, wrapped at words.
struct Text {
    paint: Paint,
    lines: Vec<String>,
}

impl Text {
    fn title(&mut self, name: &str, report: &Report, at: Option<(usize, &Step)>) {
        let state = match report.state {
            State::Unknown => "has not been looked at yet".to_owned(),
            state => format!(
                "is {}",
                self.paint.state(&format!("{state:?}")).to_lowercase()
            ),
        };
        let total = report.steps.len() + report.more_steps as usize;
        let rest = match at {
            None if report.state == State::Ready => ": nothing is left to do.".to_owned(),
            None => ".".to_owned(),
            Some((at, step)) => format!(
                " at step {} of {total}: {} (cause: {}).",
                at + 1,
                step_in_words(step),
                step.cause
            ),
        };
        self.lines.push(format!("{name} {state}{rest}"));
    }

    fn line(&mut self, label: &str, words: &str) {
        let mut label = label;
        for row in wrap(words, WIDTH - 12) {
            let left = self.paint.faint(&format!("{label:<10}"));
            self.lines.push(format!("  {left}{row}"));
            label = "";
        }
    }

    fn finish(mut self) -> String {
        self.lines.push(String::new());
        self.lines.join("\n")
    }
}

/// Lines with a label in front, without colours.
pub(super) struct Lines(Text);

impl Lines {
    /// Under a title.
    pub fn titled(title: String) -> Self {
        Self(Text {
            paint: Paint::OFF,
            lines: vec![title],
        })
    }

    /// One more label.
    pub fn add(&mut self, label: &str, words: &str) {
        self.0.line(label, words);
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.0.finish()
    }
}

/// Rows of at most that many characters, broken between words; a longer word has a row of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match rows.last_mut() {
            Some(row) if row.chars().count() + 1 + word.chars().count() <= width => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}
