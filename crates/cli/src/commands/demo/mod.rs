//! `demo`: the real conductor on a Kubernetes in memory, in accelerated time, with the screens that
//! a real cluster would show.

mod pace;
mod stage;

use crate::args::{self, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Format};
use ensemble_rehearsal::demo::{ACTS, Demo, Moment, Summary};
use pace::Pace;
use stage::Stage;
use std::io::{BufRead, IsTerminal};

/// Plays the script.
pub fn run(global: &Global, args: &args::Demo) -> Result<Exit, Failure> {
    let keys = !args.exit && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let mut demo = Demo::new();
    let mut pace = Pace::new(args.speed, demo.now_ms());
    let mut stage = Stage::new(global, args.speed);
    loop {
        let moment = demo.advance().map_err(|broken| {
            Failure::error(format!(
                "the rule '{}' was broken: {}",
                broken.rule, broken.seen
            ))
        })?;
        pace.keep(demo.now_ms());
        stage.show(&demo, moment)?;
        match moment {
            Moment::Ends => break,
            Moment::Closes if keys && demo.act().0 < ACTS.len() => {
                stage.ask()?;
                wait_for_enter()?;
                pace.restart(demo.now_ms());
            }
            _ => {}
        }
    }
    end(global.output, &demo.summary())
}

fn wait_for_enter() -> Result<(), Failure> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(())
}

fn end(format: Format, summary: &Summary) -> Result<Exit, Failure> {
    let value = serde_json::to_value(summary)
        .map_err(|error| Failure::error(format!("cannot write the summary: {error}")))?;
    output::print(&output::render(format, &value, || in_words(summary))?)?;
    Ok(Exit::Converged)
}

fn in_words(summary: &Summary) -> String {
    let number = |n: Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
    let rows = [
        ("cluster time", stage::minutes(summary.virtual_ms)),
        ("calls to the API server", summary.calls.to_string()),
        ("members disrupted", summary.disruptions.to_string()),
        ("changes of leader", summary.leader_changes.to_string()),
        (
            "longest write pause",
            format!(
                "{}.{} s, in the upgrades",
                summary.longest_pause_ms / 1000,
                summary.longest_pause_ms % 1000 / 100
            ),
        ),
        ("acknowledged writes lost", summary.writes_lost.to_string()),
        ("fewest serving at once", number(summary.fewest_ready)),
        ("lowest tolerance", number(summary.lowest_tolerance)),
        (
            "writes checked",
            format!("{}; no rule was broken", summary.checks),
        ),
    ];
    let rows = rows.map(|(what, value)| format!("  {what:<24} {value}\n"));
    format!("\nThe end.\n{}", rows.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_it_cost_and_what_was_checked() {
        let summary = Summary {
            virtual_ms: 125_000,
            calls: 80,
            disruptions: 6,
            leader_changes: 2,
            longest_pause_ms: 1_480,
            writes_lost: 0,
            fewest_ready: Some(2),
            lowest_tolerance: None,
            checks: 400,
        };
        let text = in_words(&summary);
        for part in [
            "2m05s",
            "80",
            "members disrupted        6",
            "changes of leader        2",
            "1.4 s, in the upgrades",
            "writes lost 0",
            "400; no rule was broken",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
