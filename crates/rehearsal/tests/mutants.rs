//! Each rule is needed: switched off, some bad day ends badly that ends well with it.
//!
//! The rules, scenarios and kinds of fault are fixed. The call at which the faults come is looked for
//! from a hint on, so that this stays quick and does not break when calls move.
#![allow(clippy::unwrap_used)]

use ensemble_planner::mutants;
use ensemble_rehearsal::fault::{Fault, What};
use ensemble_rehearsal::scenario::{self, Scenario};
use ensemble_rehearsal::{Violation, run};

/// A rule, and the bad day on which its absence shows.
struct Mutant {
    rule: &'static str,
    scenario: &'static str,
    /// What goes wrong, all at one call; nothing on a calm day.
    faults: &'static [What],
    /// At which call it was last seen to matter.
    hint: u32,
}

const fn calm(rule: &'static str, scenario: &'static str) -> Mutant {
    bad(rule, scenario, &[], 0)
}

const fn bad(
    rule: &'static str,
    scenario: &'static str,
    faults: &'static [What],
    hint: u32,
) -> Mutant {
    Mutant {
        rule,
        scenario,
        faults,
        hint,
    }
}

const BLIND: &[What] = &[What::ServerError, What::PodsStale, What::PodDeleted];

const MUTANTS: &[Mutant] = &[
    bad("intent-by-version", "lost-claim", &[What::LateWrite], 3),
    bad("live-confirmation", "roll-alone", BLIND, 32),
    calm("delete-by-uid", "roll-alone"),
    bad("read-your-writes", "roll-alone", &[What::Stale], 7),
    calm("wait-for-terminating", "roll-alone"),
    calm("owner-check", "foreign"),
    calm("ledger-first", "scale"),
    calm("born-keeps-its-claims", "lost-claim"),
    calm("born-knows-its-claims", "claim-applied-again"),
    calm("unhealthy-is-not-down", "unwell-alone"),
    calm("budget-counts-grants", "roll-alone"),
    calm("ready-is-not-in-sync", "roles-window"),
    calm("resize-seen-done", "resize"),
];

fn faults(mutant: &Mutant, at_call: u32) -> Vec<Fault> {
    let each = mutant.faults.iter();
    each.map(|what| Fault {
        what: *what,
        at_call,
    })
    .collect()
}

/// What breaks without the rule and does not with it.
fn killed(mutant: &Mutant, scenario: &Scenario) -> Option<(Vec<Fault>, Violation)> {
    let calls = if mutant.faults.is_empty() { 1 } else { 100 };
    let hint_first = std::iter::once(mutant.hint).chain(0..calls);
    for at_call in hint_first {
        let faults = faults(mutant, at_call);
        mutants::switch_off(Some(mutant.rule));
        let broken = run(scenario, &faults, false).err();
        mutants::switch_off(None);
        if let Some(violation) = broken
            && run(scenario, &faults, false).is_ok()
        {
            return Some((faults, violation));
        }
    }
    None
}

#[test]
fn each_rule_is_needed_on_some_bad_day() {
    let mut survivors = Vec::new();
    for mutant in MUTANTS {
        let scenario = scenario::find(mutant.scenario).unwrap();
        match killed(mutant, scenario) {
            Some((faults, violation)) => println!(
                "{}: {} with {faults:?} breaks {}: {}",
                mutant.rule, scenario.name, violation.rule, violation.seen
            ),
            None => survivors.push(mutant.rule),
        }
    }
    assert!(survivors.is_empty(), "no bad day kills {survivors:?}");
}

#[test]
fn without_faults_the_scenarios_without_a_budget_end_well() {
    mutants::switch_off(None);
    for scenario in scenario::ALONE {
        if let Err(violation) = run(scenario, &[], true) {
            let trace = violation.trace.join("\n");
            panic!(
                "{}: {}: {}\n{trace}",
                scenario.name, violation.rule, violation.seen
            );
        }
    }
}
