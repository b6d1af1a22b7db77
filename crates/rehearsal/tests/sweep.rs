//! Every single fault at every call of every scenario.
#![allow(clippy::unwrap_used)]

use ensemble_rehearsal::explore::{Plan, explore};
use ensemble_rehearsal::{run, scenario};

#[test]
fn every_scenario_ends_well_on_a_calm_day() {
    for scenario in scenario::EQUALS {
        match run(scenario, &[], true) {
            Ok(run) => println!(
                "{}: {} calls, {} ms, {:?}",
                scenario.name, run.calls, run.virtual_ms, run.counts
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
fn no_single_fault_breaks_an_invariant() {
    // `ENSEMBLE_SWEEP=all` tries every fault at every call; without it each kind is tried at every
    // sixth, in turns, which takes a minute instead of many.
    let all = std::env::var("ENSEMBLE_SWEEP").is_ok_and(|v| v == "all");
    let plan = Plan {
        stride: if all { 1 } else { 6 },
        ..Plan::default()
    };
    let started = std::time::Instant::now();
    // One thread for every other scenario: each schedule is on its own.
    let sweep = |half: usize| {
        let mine: Vec<_> = scenario::EQUALS
            .iter()
            .skip(half)
            .step_by(2)
            .copied()
            .collect();
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
