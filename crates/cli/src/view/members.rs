//! One ensemble: how it stands, its members by node, its plan.

use super::Seen;
use super::age::age;
use super::list::table;
use super::paint::Paint;
use super::why::step_in_words;
use ensemble_api::status::{MEMBERS_MAX, MemberStatus};
use ensemble_api::{EnsembleStatus, Report, Step, StepState};
use jiff::Timestamp;

/// The whole picture.
pub fn picture(seen: &Seen, now: Timestamp, paint: Paint) -> String {
    let Some(status) = seen.status() else {
        return seen.silence();
    };
    let mut text = head(seen, status, now, paint);
    text.push('\n');
    text.push_str(&members(status, paint));
    let plan = plan(&status.plan, now, paint);
    if !plan.is_empty() {
        text.push('\n');
        text.push_str(&plan);
    }
    if status.plan.first_blocked().is_some() {
        text.push_str(&format!(
            "\nmore: ensemble why {} -n {}\n",
            seen.name, seen.namespace
        ));
    }
    text
}

fn head(seen: &Seen, status: &EnsembleStatus, now: Timestamp, paint: Paint) -> String {
    let state = paint.state(&seen.state());
    let mut text = format!(
        "{}   {state}   generation {}, plan {}\n",
        paint.strong(&seen.name),
        seen.generation,
        status.plan.id
    );
    let losses = match status.plan.tolerance {
        1 => "1 more loss".to_owned(),
        n => format!("{n} more losses"),
    };
    text.push_str(&format!(
        "ready {}   updated {}   tolerates {losses}   revision {}\n",
        status.summary.ready, status.summary.updated, status.summary.revision
    ));
    if let Some((step, _)) = status.plan.first_blocked() {
        let since = step
            .since
            .as_ref()
            .map(|s| format!(", since {}", age(s.0, now)));
        text.push_str(&format!(
            "waits for {}{}\n",
            status.summary.waiting,
            since.unwrap_or_default()
        ));
    }
    text
}

/// Members of one zone and one node stand together, those without last.
fn members(status: &EnsembleStatus, paint: Paint) -> String {
    let mut members: Vec<&MemberStatus> = status.members.iter().collect();
    let roles = members.iter().any(|m| !m.role.is_empty());
    let zones = members.iter().any(|m| !m.zone.is_empty());
    let last = |place: &String| (place.is_empty(), place.clone());
    members.sort_by_key(|m| (last(&m.zone), last(&m.node)));
    let (mut zone_before, mut before): (Option<&str>, Option<&str>) = (None, None);
    let rows: Vec<Vec<String>> = members
        .into_iter()
        .map(|member| {
            let zone = zones.then(|| once(&mut zone_before, &member.zone));
            if zone.is_some_and(|zone| !zone.is_empty()) {
                before = None;
            }
            let node = once(&mut before, &member.node);
            let mut row: Vec<String> = zone.into_iter().map(str::to_owned).collect();
            row.extend([node.to_owned(), member.name.clone()]);
            if roles {
                row.push(role(member));
            }
            row.extend([
                member.presence.clone(),
                if member.updated { "new" } else { "old" }.to_owned(),
                member.message.clone(),
            ]);
            row
        })
        .collect();
    let mut heading = vec!["NODE", "MEMBER", "PRESENCE", "REVISION", "MESSAGE"];
    if roles {
        heading.insert(2, "ROLE");
    }
    if zones {
        heading.insert(0, "ZONE");
    }
    let mut text = table(&heading, &rows, |at, cell| {
        if heading[at] == "PRESENCE" {
            paint.state(cell)
        } else {
            cell.to_owned()
        }
    });
    if status.members.len() == MEMBERS_MAX {
        text.push_str("(those that need attention first; the rest is not listed)\n");
    }
    text
}

/// A place, unless it stands in the line above.
fn once<'m>(before: &mut Option<&'m str>, place: &'m str) -> &'m str {
    let place = if place.is_empty() { "-" } else { place };
    match before.replace(place) {
        Some(same) if same == place => "",
        _ => place,
    }
}

/// What a member plays, and whether it could take over.
fn role(member: &MemberStatus) -> String {
    match (member.role.as_str(), member.in_sync) {
        ("", _) => "-".into(),
        ("Replica", Some(false)) => "Replica, behind".into(),
        (role, _) => role.to_owned(),
    }
}

fn plan(report: &Report, now: Timestamp, paint: Paint) -> String {
    let mut text = String::new();
    for (at, step) in report.steps.iter().enumerate() {
        text.push_str(&step_line(at + 1, step, now, paint));
    }
    if report.more_steps > 0 {
        text.push_str(&format!("  ... and {} more steps\n", report.more_steps));
    }
    text
}

fn step_line(number: usize, step: &Step, now: Timestamp, paint: Paint) -> String {
    let mark = match step.state {
        StepState::Done => "v",
        StepState::Idle => " ",
        StepState::Next | StepState::Running => ">",
        StepState::Blocked => "x",
    };
    let what = step_in_words(step);
    let since = step
        .since
        .as_ref()
        .map(|s| format!(" {}", age(s.0, now)))
        .unwrap_or_default();
    let state = match (&step.state, &step.blocker) {
        (_, Some(blocker)) => format!("waiting{since}: {}", paint.strong(blocker.reason.as_str())),
        (StepState::Running, _) => format!("running{since}"),
        (StepState::Next, _) => "next".to_owned(),
        (StepState::Done, _) => "done".to_owned(),
        _ => String::new(),
    };
    format!("{mark} {number:>2}  {what:<28} {state}")
        .trim_end()
        .to_owned()
        + "\n"
}

/// One line for a change, where nothing can be redrawn.
pub fn transition(seen: &Seen, now: Timestamp) -> String {
    let time = now.strftime("%H:%M:%SZ");
    let summary = seen.status().map(|status| &status.summary);
    let ready = summary.map_or("-", |s| s.ready.as_str());
    let updated = summary.map_or("-", |s| s.updated.as_str());
    // The age would make every line a new one.
    let waits = match summary.map(|s| s.waiting.as_str()) {
        None | Some("" | "-") => String::new(),
        Some(waiting) => format!("  waits for {waiting}"),
    };
    format!(
        "{time}  {}/{}  {}  ready {ready}  updated {updated}{waits}",
        seen.namespace,
        seen.name,
        seen.state()
    )
}
