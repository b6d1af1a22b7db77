//! Pages of reasons and of safety rules, for a terminal and for programs.

use super::why::{Lines, lower_first};
use ensemble_api::reason::Wait;
use ensemble_api::{Reason, Rule};
use serde_json::{Value, json};

fn kind(wait: Wait) -> &'static str {
    match wait {
        Wait::Stalls => "lasts until you act",
        Wait::Held => "you hold it yourself",
        Wait::Passes => "passes by itself",
        Wait::Follows => "passes together with another reason, which explains more",
        Wait::Advice => "holds nothing up; it is advice",
    }
}

/// A reason, for programs.
pub fn reason(reason: Reason) -> Value {
    let page = reason.page();
    json!({
        "reason": reason.as_str(),
        "summary": page.summary,
        "meaning": page.meaning,
        "kind": kind(page.wait),
        "clearsWhen": page.clears_when,
        "remedy": page.remedy,
    })
}

/// A reason, for people.
pub fn reason_page(reason: Reason) -> String {
    let page = reason.page();
    let mut lines = Lines::titled(format!("{reason}: {}", page.summary));
    lines.add("means", page.meaning);
    lines.add("kind", kind(page.wait));
    lines.add("clears", &format!("when {}", lower_first(page.clears_when)));
    lines.add("you may", page.remedy);
    lines.finish()
}

/// A rule, for programs.
pub fn rule(rule: Rule) -> Value {
    let page = rule.page();
    json!({
        "rule": page.name,
        "demands": page.demands,
        "guards": page.guards.map(Rule::as_str),
        "exempts": page.exempts,
        "waivable": page.waivable,
    })
}

/// A rule, for people.
pub fn rule_page(rule: Rule) -> String {
    let page = rule.page();
    let what = match page.exempts {
        true => "an exemption from a safety rule, asked after all others",
        false => "a safety rule",
    };
    let mut lines = Lines::titled(format!("{rule}: {what}"));
    lines.add("demands", page.demands);
    if let Some(promise) = page.guards {
        let promise = format!("{promise}: {}", promise.page().demands);
        lines.add("part of", &promise);
    }
    let waivable = match page.waivable {
        true => format!("yes: ensemble waive NAME {rule} --member MEMBER --reason TEXT --for 10m"),
        false => "no".to_owned(),
    };
    lines.add("waivable", &waivable);
    lines.finish()
}

/// All of them, one line each.
pub fn all() -> String {
    let widest = |names: &mut dyn Iterator<Item = &'static str>| {
        names.map(str::len).max().unwrap_or_default()
    };
    let mut text = String::from("Reasons: why a step waits\n");
    let width = widest(&mut Reason::ALL.iter().map(|r| r.as_str()));
    for reason in Reason::ALL {
        text += &format!("  {:<width$}  {}\n", reason.as_str(), reason.page().summary);
    }
    text += "\nSafety rules: what must hold before a member is disrupted\n";
    let width = widest(&mut Rule::ALL.iter().map(|r| r.as_str()));
    for rule in Rule::ALL {
        text += &format!("  {:<width$}  {}\n", rule.as_str(), rule.page().demands);
    }
    text + "\nensemble explain NAME says more about one of them.\n"
}
