//! A forecast, as text for people and as a document for machines.

use super::paint::Paint;
use crate::exit::Exit;
use ensemble_api::report::Action;
use ensemble_api::{GROUP, VERSION};
use ensemble_rehearsal::forecast::{End, Forecast, Stride};
use serde_json::{Value, json};

/// A forecast and what it is about.
pub struct Told<'a> {
    /// The Ensemble's name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its generation before and after; None for one that does not exist yet.
    pub generation: Option<(i64, i64)>,
    /// What differs from the spec before.
    pub changes: &'a [String],
    /// What was not known and is assumed.
    pub notes: &'a [String],
    /// What will happen.
    pub forecast: &'a Forecast,
}

/// At most so many changes are printed.
const CHANGES_MAX: usize = 20;

fn count(number: u32, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    }
}

/// `45s`, `3m20s`, `1h05m`.
fn guess(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

fn action(step: &Stride) -> String {
    let action = word(step.action);
    match &step.member {
        Some(member) => format!("{action} {member}"),
        None => action,
    }
}

impl Told<'_> {
    /// The document.
    pub fn value(&self) -> Value {
        let mut value = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "Forecast",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "changes": self.changes,
            "notes": self.notes,
        });
        if let Some((before, after)) = self.generation {
            value["generation"] = json!({"before": before, "after": after});
        }
        value["forecast"] = serde_json::to_value(self.forecast).unwrap_or_default();
        value
    }

    /// `plan`: the steps, what they cost, and what to type.
    pub fn plan(&self, next: &str, paint: Paint) -> String {
        let forecast = self.forecast;
        let mut text = self.heading(paint);
        if forecast.end == End::Nothing {
            text.push_str("Nothing to do: every member is as asked for.\n");
            return text;
        }
        text.push_str(&self.steps());
        text.push_str(&self.cost());
        text.push_str(&self.ending(paint));
        if forecast.end == End::Converged && !next.is_empty() {
            text.push_str(&format!("To do it: {next}\n"));
        }
        text
    }

    /// `simulate`: what happens when, with what goes wrong in between.
    pub fn story(&self, paint: Paint) -> String {
        let forecast = self.forecast;
        let mut lines: Vec<(u64, String)> = Vec::new();
        for step in &forecast.steps {
            let line = format!("step {:<3} {}", step.number, self.columns(step));
            lines.push((step.guessed_at_seconds, line));
        }
        for event in &forecast.events {
            let line = paint.strong(&format!("!        {}", event.what));
            lines.push((event.guessed_at_seconds, line));
        }
        lines.sort_by_key(|(at, _)| *at);
        let mut text = self.heading(paint);
        for (at, line) in lines {
            text.push_str(&format!("t+{:<7} {}\n", guess(at), line.trim_end()));
        }
        text.push_str(&self.cost());
        text.push_str(&self.ending(paint));
        if let Some(fewest) = forecast.fewest_ready {
            text.push_str(&format!("Fewest members Ready at once: {fewest}. "));
        }
        text.push_str(&match &forecast.broken {
            None => format!("Writes checked: {}; no rule was broken.\n", forecast.checks),
            Some(rule) => format!("A RULE WAS BROKEN, which is a bug of Ensemble: {rule}\n"),
        });
        text
    }

    fn heading(&self, paint: Paint) -> String {
        let generation = match self.generation {
            Some((before, after)) if before != after => {
                format!(" (generation {before} -> {after})")
            }
            Some((now, _)) => format!(" (generation {now})"),
            None => " (new)".to_owned(),
        };
        let plan = match self.forecast.plan.as_str() {
            "" => "Plan".to_owned(),
            id => format!("Plan {id}"),
        };
        let title = format!("{plan} for {}{generation}", self.name);
        let mut text = format!("{}\n", paint.strong(&title));
        for change in self.changes.iter().take(CHANGES_MAX) {
            text.push_str(&format!("~ {change}\n"));
        }
        let more = self.changes.len().saturating_sub(CHANGES_MAX);
        if more > 0 {
            text.push_str(&format!("~ and {} more\n", count(more as u32, "change")));
        }
        text
    }

    fn columns(&self, step: &Stride) -> String {
        let took = match step.guessed_seconds {
            Some(seconds) => format!("~{}", guess(seconds)),
            None => "does not end".to_owned(),
        };
        let tolerates = match step.member {
            Some(_) => format!("tolerates {}", step.tolerance),
            None => String::new(),
        };
        format!(
            "{:<24} {tolerates:<12} {took:<8} {}",
            action(step),
            step.cause
        )
    }

    fn steps(&self) -> String {
        let line = |s: &Stride| format!("{:>3}  {}\n", s.number, self.columns(s).trim_end());
        self.forecast.steps.iter().map(line).collect()
    }

    fn cost(&self) -> String {
        let forecast = self.forecast;
        let mut text = format!(
            "Restarts {}, recreates {}, creates {}, removes {}; creates {}, deletes {}.\n",
            count(forecast.restarts, "container"),
            count(forecast.recreated_pods, "pod"),
            forecast.created_pods,
            forecast.removed_pods,
            count(forecast.created_claims, "claim"),
            forecast.deleted_claims,
        );
        let numbers: Vec<String> = forecast.lowest_at.iter().map(u32::to_string).collect();
        let during = match numbers.len() {
            0 => String::new(),
            1 => format!(" (step {})", numbers[0]),
            _ => format!(" (steps {})", numbers.join(", ")),
        };
        let lowest = forecast.lowest_tolerance;
        let losses = if lowest == 1 { "loss" } else { "losses" };
        text.push_str(&format!(
            "Lowest tolerance: {lowest} more {losses}{during}.\n"
        ));
        text
    }

    fn ending(&self, paint: Paint) -> String {
        let forecast = self.forecast;
        let mut text = match forecast.end {
            End::Nothing | End::Converged => format!(
                "Done after about {} (a guess; your containers may take longer to start).\n",
                guess(forecast.guessed_seconds)
            ),
            End::Blocked | End::Stalled => self.stuck(paint),
        };
        for note in self.notes {
            text.push_str(&format!("Assumed: {note}.\n"));
        }
        text
    }

    fn stuck(&self, paint: Paint) -> String {
        let Some(blocked) = &self.forecast.blocked else {
            return "It does not come to an end, and does not say why.\n".to_owned();
        };
        let action = word(blocked.action);
        let member = blocked.member.as_deref().unwrap_or(self.name);
        let blocker = &blocked.blocker;
        let title = format!("Then it stays at: {action} {member}");
        let mut text = format!(
            "{}\n  because  {} [{}]\n  clears   {}\n",
            paint.strong(&title),
            blocker.message,
            blocker.reason,
            blocker.clears_when
        );
        if !blocker.next_command.is_empty() {
            text.push_str(&format!("  you may  {}\n", blocker.next_command));
        }
        text
    }

    /// The exit code of `plan`.
    pub fn exit(&self) -> Exit {
        match self.forecast.end {
            _ if self.forecast.broken.is_some() => Exit::Stalled,
            End::Nothing => Exit::Converged,
            End::Converged => Exit::Working,
            End::Blocked => Exit::Blocked,
            End::Stalled => Exit::Stalled,
        }
    }
}

/// An action in a word or two, for a column.
fn word(action: Action) -> String {
    match action {
        Action::InPlace => "in place".into(),
        Action::Switch => "lead to".into(),
        other => format!("{other:?}").to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_written_with_their_units() {
        assert_eq!(
            [guess(5), guess(65), guess(3_700)],
            ["5s", "1m05s", "1h01m"]
        );
    }
}
