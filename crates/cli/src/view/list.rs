//! The list of ensembles, and tables in general.

use super::age::age;
use super::paint::Paint;
use super::{Seen, Word};
use jiff::Timestamp;

/// Rows under a heading, each column as wide as it has to be.
pub fn table(
    heading: &[&str],
    rows: &[Vec<String>],
    paint: impl Fn(usize, &str) -> String,
) -> String {
    let width = |at: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count());
        cells
            .chain([heading[at].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |cells: Vec<String>, paint: &dyn Fn(usize, &str) -> String| {
        let last = cells.len().saturating_sub(1);
        let cells = cells.iter().enumerate().map(|(at, cell)| {
            let gap = if at == last {
                0
            } else {
                widths[at] - cell.chars().count() + 3
            };
            format!("{}{}", paint(at, cell), " ".repeat(gap))
        });
        let mut text = cells.collect::<String>().trim_end().to_owned();
        text.push('\n');
        text
    };
    let heading = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let mut text = line(heading, &|_, cell| cell.to_owned());
    for row in rows {
        text.push_str(&line(row.clone(), &paint));
    }
    text
}

/// One row an ensemble.
pub fn list(seen: &[Seen], with_namespace: bool, now: Timestamp, paint: Paint) -> String {
    let mut heading = vec![
        "NAME",
        "READY",
        "PRIMARY",
        "UPDATED",
        "TOLERATES",
        "STEP",
        "STATE",
        "WAITING",
        "AGE",
    ];
    if with_namespace {
        heading.insert(0, "NAMESPACE");
    }
    let rows: Vec<Vec<String>> = seen
        .iter()
        .map(|one| {
            let mut row = row(one, now);
            if with_namespace {
                row.insert(0, one.namespace.clone());
            }
            row
        })
        .collect();
    let state = heading.iter().position(|h| *h == "STATE");
    table(&heading, &rows, |at, cell| {
        if Some(at) == state {
            paint.state(cell)
        } else {
            cell.to_owned()
        }
    })
}

fn row(seen: &Seen, now: Timestamp) -> Vec<String> {
    let or_dash = |text: &str| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text.to_owned()
        }
    };
    let created = seen
        .created
        .map_or_else(|| "-".into(), |created| age(created, now));
    let (summary, tolerance) = match seen.status() {
        Some(status) => (status.summary.clone(), status.plan.tolerance.to_string()),
        None => Default::default(),
    };
    vec![
        seen.name.clone(),
        or_dash(&summary.ready),
        or_dash(&summary.primary),
        or_dash(&summary.updated),
        or_dash(&tolerance),
        or_dash(&summary.step),
        seen.state(),
        waiting(seen, now),
        created,
    ]
}

/// What it waits for, and how long it has.
fn waiting(seen: &Seen, now: Timestamp) -> String {
    let status = match &seen.word {
        Word::Said(status) => status,
        Word::Unseen => return "for a controller".into(),
        Word::Unreadable(_) => return "status cannot be read".into(),
    };
    let since = status
        .plan
        .first_blocked()
        .and_then(|(step, _)| step.since.as_ref());
    match (status.summary.waiting.as_str(), since) {
        ("" | "-", _) => "-".into(),
        (reason, None) => reason.to_owned(),
        (reason, Some(since)) => format!("{reason} {}", age(since.0, now)),
    }
}
