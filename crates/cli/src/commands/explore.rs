//! `explore`: what goes wrong at every call, by the thousand, or one of them with its trace.

use crate::args::{self, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Format};
use ensemble_rehearsal::explore::{Findings, Plan, explore};
use ensemble_rehearsal::fault::{self, Fault};
use ensemble_rehearsal::scenario::{self, Scenario};
use ensemble_rehearsal::{Violation, run as rehearse};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Explores, or replays one rehearsal.
pub fn run(global: &Global, args: &args::Explore) -> Result<Exit, Failure> {
    let scenarios = match args.scenario.as_slice() {
        [] => scenario::ALL.to_vec(),
        some => some.to_vec(),
    };
    match (&args.replay, scenarios.as_slice()) {
        (None, scenarios) => search(global.output, scenarios, args),
        (Some(faults), [one]) => replay(global.output, one, faults),
        (Some(_), _) => Err(Failure::error("--replay plays one scenario alone")
            .hint("name it once: --scenario NAME --replay KIND@CALL,...")),
    }
}

fn search(format: Format, scenarios: &[Scenario], args: &args::Explore) -> Result<Exit, Failure> {
    let kinds = match args.faults.as_slice() {
        [] => fault::ALL.to_vec(),
        some => some.to_vec(),
    };
    let plan = Plan {
        kinds,
        pairs: args.schedules,
        seed: args.seed,
        ..Plan::default()
    };
    let began = Instant::now();
    let findings = on_all_cores(scenarios, &plan);
    let seconds = began.elapsed().as_secs_f64();
    let text = || in_words(&findings, scenarios.len(), seconds);
    output::print(&output::render(
        format,
        &as_json(&findings, args.seed),
        text,
    )?)?;
    Ok(exit(findings.failures.is_empty()))
}

fn exit(well: bool) -> Exit {
    if well { Exit::Converged } else { Exit::Stalled }
}

/// Each scenario on one core, in the order given; what is found does not depend on how many cores.
fn on_all_cores(scenarios: &[Scenario], plan: &Plan) -> Findings {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        for at in numbers.take_while(|at| *at < scenarios.len()) {
            let findings = one(&scenarios[at], plan);
            let mut found = found
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            found.push((at, findings));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(scenarios.len()) {
            scope.spawn(work);
        }
    });
    let mut found = found
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    found.sort_by_key(|(at, _)| *at);
    found
        .into_iter()
        .map(|(_, f)| f)
        .fold(Findings::default(), add)
}

fn one(scenario: &Scenario, plan: &Plan) -> Findings {
    let began = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let line = |findings: &Findings| {
        format!(
            "{:<18} rehearsals: {:>6}  failures: {:>3}  {:>7.1}s",
            scenario.name,
            findings.schedules,
            findings.failures.len(),
            began.elapsed().as_secs_f64()
        )
    };
    let findings = explore(std::slice::from_ref(scenario), plan, |findings, _| {
        if terminal {
            // The next line takes its place.
            output::say(format!("{}\x1b[K\x1b[A\r", line(findings)));
        }
    });
    output::say(line(&findings));
    findings
}

fn add(mut sum: Findings, more: Findings) -> Findings {
    sum.schedules += more.schedules;
    sum.checks += more.checks;
    sum.failures.extend(more.failures);
    sum
}

fn as_json(findings: &Findings, seed: u64) -> Value {
    let failures = findings.failures.iter().map(|failure| {
        json!({
            "scenario": failure.scenario,
            "faults": names(&failure.faults),
            "rule": failure.rule,
            "seen": failure.seen,
            "replay": failure.replay(),
        })
    });
    json!({
        "rehearsals": findings.schedules,
        "checks": findings.checks,
        "seed": seed,
        "failures": failures.collect::<Vec<Value>>(),
    })
}

fn in_words(findings: &Findings, scenarios: usize, seconds: f64) -> String {
    let mut text = String::new();
    for failure in &findings.failures {
        text.push_str(&format!(
            "{} broke '{}': {}\n  see it again: {}\n",
            failure.scenario,
            failure.rule,
            failure.seen,
            failure.replay()
        ));
    }
    text.push_str(&format!(
        "{} rehearsals in {seconds:.1}s, scenarios: {scenarios}, writes checked: {}, failures: {}\n",
        findings.schedules,
        findings.checks,
        findings.failures.len()
    ));
    text
}

fn replay(format: Format, scenario: &Scenario, faults: &[Fault]) -> Result<Exit, Failure> {
    let (trace, violation) = match rehearse(scenario, faults, true) {
        Ok(run) => (run.trace, None),
        Err(mut violation) => (std::mem::take(&mut violation.trace), Some(violation)),
    };
    let value = json!({
        "scenario": scenario.name,
        "faults": names(faults),
        "rule": violation.as_ref().map(|v| &v.rule),
        "seen": violation.as_ref().map(|v| &v.seen),
        "trace": trace,
    });
    let text = || {
        let verdict = verdict(scenario, violation.as_ref());
        format!("{}\n{verdict}\n", trace.join("\n"))
    };
    output::print(&output::render(format, &value, text)?)?;
    Ok(exit(violation.is_none()))
}

fn verdict(scenario: &Scenario, violation: Option<&Violation>) -> String {
    match violation {
        None => format!("{} ended well; no rule was broken", scenario.name),
        Some(violation) => format!("BROKEN {}: {}", violation.rule, violation.seen),
    }
}

fn names(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// A scenario by its name.
pub fn scenario_name(text: &str) -> Result<Scenario, String> {
    let names: Vec<&str> = scenario::ALL.iter().map(|s| s.name).collect();
    let found = scenario::find(text).copied();
    found.ok_or_else(|| format!("there is no such scenario; there are {}", names.join(", ")))
}
