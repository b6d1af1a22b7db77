//! Members that play roles, on calm days.
#![allow(clippy::unwrap_used)]

use ensemble_rehearsal::explore::{Plan, explore};
use ensemble_rehearsal::{roles, run};

#[test]
fn every_script_about_roles_ends_well_on_a_calm_day() {
    let only = std::env::var("ENSEMBLE_SCENARIO").unwrap_or_default();
    for scenario in roles::ALL.iter().filter(|s| s.name.contains(&only)) {
        match run(scenario, &[], true) {
            Ok(run) => println!(
                "{}: {} calls, {} asked, {} ms, {} changes of leader, longest pause {} ms, {} in place, {} ended",
                scenario.name,
                run.calls,
                run.asked,
                run.virtual_ms,
                run.leader_changes,
                run.longest_pause_ms,
                run.in_place,
                run.disruptions
            ),
            Err(violation) => panic!(
                "{}: {}: {}\n{}",
                scenario.name,
                violation.rule,
                violation.seen,
                violation.trace.join("\n")
            ),
        }
    }
}

#[test]
fn no_single_fault_breaks_an_invariant_about_roles() {
    // `ENSEMBLE_SWEEP=all` tries every fault at every call; without it each kind is tried at few,
    // in turns. `ENSEMBLE_SCENARIO` picks scripts by a part of their name.
    let all = std::env::var("ENSEMBLE_SWEEP").is_ok_and(|v| v == "all");
    let only = std::env::var("ENSEMBLE_SCENARIO").unwrap_or_default();
    let plan = Plan {
        stride: if all { 1 } else { 40 },
        ..Plan::default()
    };
    let started = std::time::Instant::now();
    let scenarios = roles::ALL.iter().filter(|s| s.name.contains(&only));
    let scenarios: Vec<_> = scenarios.copied().collect();
    let sweep = |half: usize| {
        let mine: Vec<_> = scenarios.iter().skip(half).step_by(2).copied().collect();
        explore(&mine, &plan, |_, _| {})
    };
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| sweep(1));
        (sweep(0), odd.join().unwrap())
    });
    let failures: Vec<_> = even.failures.iter().chain(&odd.failures).collect();
    for failure in &failures {
        println!("{}: {} ({})", failure.rule, failure.seen, failure.replay());
    }
    let schedules = even.schedules + odd.schedules;
    println!(
        "{schedules} schedules, {} checks, {:?}",
        even.checks + odd.checks,
        started.elapsed()
    );
    assert!(
        failures.is_empty(),
        "{} of {schedules} schedules failed",
        failures.len()
    );
}

/// Plays one script with the faults in `ENSEMBLE_FAULTS` and prints what happened.
#[test]
#[ignore = "for people: ENSEMBLE_SCENARIO=roles-image-0 ENSEMBLE_FAULTS=RolesLie@40"]
fn one_schedule_by_hand() {
    let name = std::env::var("ENSEMBLE_SCENARIO").unwrap_or_default();
    let faults = std::env::var("ENSEMBLE_FAULTS").unwrap_or_default();
    let faults: Vec<_> = faults.split(',').filter_map(|f| f.parse().ok()).collect();
    let scenario = roles::ALL.iter().find(|s| s.name == name).unwrap();
    match run(scenario, &faults, true) {
        Ok(run) => println!("{}", run.trace.join("\n")),
        Err(v) => println!("{}\n{}: {}", v.trace.join("\n"), v.rule, v.seen),
    }
}
