//! What the sweeps share: threads, strides and the report.
#![allow(clippy::unwrap_used)]

use ensemble_rehearsal::explore::{Failure, Findings, Plan, Progress, explore};
use ensemble_rehearsal::{Run, Scenario, run};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A rehearsal makes and drops small objects most of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The scenarios whose name contains `ENSEMBLE_SCENARIO`, if that is set.
pub fn chosen(all: &[Scenario]) -> Vec<Scenario> {
    let only = std::env::var("ENSEMBLE_SCENARIO").unwrap_or_default();
    let named = all.iter().filter(|s| s.name.contains(&only));
    named.copied().collect()
}

/// Plays each scenario without any fault.
pub fn calm(scenarios: &[Scenario], describe: impl Fn(&Run) -> String) {
    for scenario in scenarios {
        match run(scenario, &[], true) {
            Ok(run) => println!("{}: {}", scenario.name, describe(&run)),
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

/// At every how manieth call a fault is tried, kinds in turns: at each where `ENSEMBLE_SWEEP` is `all`.
pub fn stride(otherwise: u32) -> u32 {
    match std::env::var("ENSEMBLE_SWEEP").as_deref() {
        Ok("all") => 1,
        Ok(other) => panic!("ENSEMBLE_SWEEP is {other:?}; it may be \"all\", or not set"),
        Err(_) => otherwise,
    }
}

/// Plays every kind of fault at so many of the calls of each scenario, and fails if one ends badly.
pub fn sweep(scenarios: &[Scenario], stride: u32) {
    let plan = Plan {
        stride,
        ..Plan::default()
    };
    let began = Instant::now();
    let found = on_all_cores(scenarios, &plan);
    let schedules: u64 = found.iter().map(|f| f.schedules).sum();
    let checks: u64 = found.iter().map(|f| f.checks).sum();
    let failures: Vec<&Failure> = found.iter().flat_map(|f| &f.failures).collect();
    for failure in &failures {
        println!("{}: {} ({})", failure.rule, failure.seen, failure.replay());
    }
    println!(
        "{schedules} schedules, {checks} checks, {:?}",
        began.elapsed()
    );
    assert!(
        failures.is_empty(),
        "{} of {schedules} schedules failed",
        failures.len()
    );
}

/// Each scenario on its own: whoever is free takes the next.
fn on_all_cores(scenarios: &[Scenario], plan: &Plan) -> Vec<Findings> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
            let on = |_: &Progress| ControlFlow::Continue(());
            let findings = explore(std::slice::from_ref(scenario), plan, on);
            println!("{}: {} schedules", scenario.name, findings.schedules);
            found.lock().unwrap().push(findings);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    found.into_inner().unwrap()
}
