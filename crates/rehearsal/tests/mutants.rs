//! Each rule is needed: switched off, some bad day ends badly that ends well with it.
//!
//! The rules, scenarios and kinds of fault are fixed. The call at which the faults come is looked for
//! from a hint on, so that this stays quick and does not break when calls move. A rule counts as needed
//! if an invariant is broken without it. That the script does not end is not enough, except for those
//! that say so.
#![allow(clippy::unwrap_used)]

use ensemble_planner::mutants;
use ensemble_rehearsal::fault::{Fault, What};
use ensemble_rehearsal::scenario::{self, Scenario};
use ensemble_rehearsal::{Violation, roles, run};

/// A rule, and the bad day on which its absence shows.
struct Mutant {
    rule: &'static str,
    scenario: &'static str,
    /// What goes wrong, all at one call; nothing on a calm day.
    faults: &'static [What],
    /// At which call it was last seen to matter.
    hint: u32,
    /// Without it the script does not end; no invariant is required to break.
    stalls: bool,
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
        stalls: false,
    }
}

const fn stalls(
    rule: &'static str,
    scenario: &'static str,
    faults: &'static [What],
    hint: u32,
) -> Mutant {
    Mutant {
        stalls: true,
        ..bad(rule, scenario, faults, hint)
    }
}

/// The view stands still while the one that is to lead dies.
const GONE: &[What] = &[What::Stale, What::NodeDies];
const BLIND: &[What] = &[What::ServerError, What::PodsStale, What::PodDeleted];

const MUTANTS: &[Mutant] = &[
    bad("intent-by-version", "lost-claim", &[What::LateWrite], 3),
    bad("live-confirmation", "roll-alone", BLIND, 32),
    calm("delete-by-uid", "roll-alone"),
    stalls("read-your-writes", "roll-alone", &[What::Stale], 7),
    calm("wait-for-terminating", "roll-alone"),
    stalls("owner-check", "foreign", &[], 0),
    calm("ledger-first", "scale"),
    calm("born-keeps-its-claims", "lost-claim"),
    calm("born-knows-its-claims", "claim-applied-again"),
    calm("unhealthy-is-not-down", "unwell-alone"),
    stalls("budget-counts-grants", "roll-alone", &[], 0),
    calm("resize-seen-done", "resize"),
    // Roles: what a member is.
    calm("ready-is-not-in-sync", "roles-window"),
    bad("role-known", "roles-careless", &[What::RolesSilent], 32),
    bad("lead-contested", "roles-careless", &[What::RolesLie], 32),
    bad(
        "engine-not-paused",
        "roles-image-0",
        &[What::EnginePaused],
        30,
    ),
    bad(
        "primary-handed-over",
        "roles-scale-in",
        &[What::SwitchRefused],
        3,
    ),
    // Roles: a switchover before it is asked for, while it is under way, and if it does not end.
    calm("sync-standby-named", "roles-switch-unnamed"),
    bad("successor-synced", "roles-image-0", GONE, 54),
    bad(
        "switch-within-budget",
        "roles-image-2",
        &[What::PodDeleted],
        61,
    ),
    calm("switch-stored-first", "roles-image-0"),
    // Roles: parameters.
    calm("parameters-in-order", "roles-parameters"),
    calm("parameters-noticed", "roles-parameters"),
    stalls(
        "switch-has-a-deadline",
        "roles-image-0",
        &[What::NodeDies],
        57,
    ),
];

/// Rules about roles that no outcome has shown to be needed; tests of the planner kill all of them. With
/// what stands before the harm here, or what was tried.
const NOT_SHOWN: &[(&str, &str)] = &[
    (
        "sighting-fresh",
        "who is disrupted is asked again just before",
    ),
    (
        "sighting-of-this-run",
        "who is disrupted is asked again just before",
    ),
    (
        "engine-asked-again",
        "tried: the leader changes at every call of roles-careless",
    ),
    (
        "sync-at-its-term",
        "in the model who streams is at the leader's term",
    ),
    (
        "leader-backed",
        "in the model a liar is silent again before the leader loses its lock",
    ),
    (
        "leader-borne-out",
        "in the model a liar is silent again before the leader loses its lock",
    ),
    (
        "engine-settled",
        "in the model a rewind takes no longer than an answer may",
    ),
    (
        "primary-has-successor",
        "tried: lag and losses of replicas at every call of roles-careless-restart",
    ),
    (
        "switch-at-the-same-term",
        "after somebody else's change of leader one of ours is allowed",
    ),
    (
        "arrived-at-a-higher-term",
        "in the model every leader, and every liar, has a higher term",
    ),
    (
        "switch-by-its-author",
        "only one of two can store it as asked, and only who stored it asks",
    ),
    (
        "no-change-in-a-switch",
        "tried: SwitchElsewhere and RolesSlow at every call of roles-switch-and-image",
    ),
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
            && (mutant.stalls || violation.rule != "converges")
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

/// Nobody moves a rule from one list to the other without noticing.
#[test]
fn a_rule_is_either_shown_to_be_needed_or_said_not_to_be() {
    for (rule, why) in NOT_SHOWN {
        assert!(MUTANTS.iter().all(|m| m.rule != *rule), "{rule}: {why}");
    }
}

#[test]
fn without_faults_the_scenarios_without_a_budget_end_well() {
    mutants::switch_off(None);
    for scenario in scenario::ALONE.iter().chain(roles::ALONE) {
        if let Err(violation) = run(scenario, &[], true) {
            let trace = violation.trace.join("\n");
            panic!(
                "{}: {}: {}\n{trace}",
                scenario.name, violation.rule, violation.seen
            );
        }
    }
}
