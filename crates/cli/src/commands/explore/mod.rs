//! `explore`: what goes wrong at every call, by the thousand, or one of them with its trace.

mod watch;

use crate::args::{self, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Format};
use ensemble_rehearsal::explore::{self, Findings, Plan, explore};
use ensemble_rehearsal::fault::{self, Fault};
use ensemble_rehearsal::scenario::{self, Scenario};
use ensemble_rehearsal::{Violation, run as rehearse};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use watch::Watch;

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
    let minutes = args.minutes.map(|m| Duration::from_secs_f64(m * 60.0));
    let watch = Watch::new(format, minutes);
    let jobs = Jobs {
        scenarios,
        plan,
        timed: minutes.is_some(),
    };
    let findings = on_all_cores(&jobs, &watch);
    watch.end();
    let covered = jobs.covered(watch.jobs());
    let text = || in_words(&findings, scenarios.len(), watch.seconds(), covered);
    output::print(&output::render(
        format,
        &as_json(&findings, args.seed, covered),
        text,
    )?)?;
    Ok(exit(findings.failures.is_empty()))
}

fn exit(well: bool) -> Exit {
    if well { Exit::Converged } else { Exit::Stalled }
}

/// With a time, single faults are tried in so many rounds over all scenarios.
const ROUNDS: usize = 16;
/// How many pairs of each scenario are tried in a round, after that.
const PAIRS: u64 = 20;

/// What is to be played, a scenario at a time.
struct Jobs<'a> {
    scenarios: &'a [Scenario],
    plan: Plan,
    /// They go on until the time is over: each round tries other faults, so that what little time
    /// there is is spread over all.
    timed: bool,
}

impl Jobs<'_> {
    fn get(&self, job: usize) -> Option<(&Scenario, Plan)> {
        if !self.timed {
            return Some((self.scenarios.get(job)?, self.plan.clone()));
        }
        let (round, at) = (job / self.scenarios.len(), job % self.scenarios.len());
        let plan = self.plan.clone();
        let plan = if round < ROUNDS {
            Plan {
                stride: ROUNDS as u32,
                turn: ((self.plan.seed % ROUNDS as u64) as usize + round) as u32,
                ..plan
            }
        } else {
            Plan {
                singles: false,
                pairs: PAIRS,
                seed: self.plan.seed.wrapping_add(round as u64),
                ..plan
            }
        };
        Some((self.scenarios.get(at)?, plan))
    }

    /// How much of all single faults was tried, in percent, after so many jobs.
    fn covered(&self, jobs: usize) -> usize {
        let rounds = if self.timed { ROUNDS } else { 1 };
        (jobs * 100 / (rounds * self.scenarios.len())).min(100)
    }
}

/// Each job on one core, in order; what is found does not depend on how many cores, if there is time
/// for all.
fn on_all_cores(jobs: &Jobs, watch: &Watch) -> Findings {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        for at in numbers.take_while(|_| !watch.is_over()) {
            let Some((scenario, plan)) = jobs.get(at) else {
                return;
            };
            let only = std::slice::from_ref(scenario);
            let findings = explore(only, &plan, |progress| watch.played(at, progress));
            watch.done(at, scenario.name, &findings, !watch.is_over());
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push((at, findings));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.scenarios.len()) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(at, _)| *at);
    let mut all = Findings::default();
    found.into_iter().for_each(|(_, f)| all.add(f));
    all
}

fn as_json(findings: &Findings, seed: u64, covered: usize) -> Value {
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
        "singleFaultsPercent": covered,
        "failures": failures.collect::<Vec<Value>>(),
    })
}

/// A failure, for people.
fn told(failure: &explore::Failure) -> String {
    format!(
        "{} broke '{}': {}\n  see it again: {}\n",
        failure.scenario,
        failure.rule,
        failure.seen,
        failure.replay()
    )
}

/// What stands below the failures, which were printed as they came.
fn in_words(findings: &Findings, scenarios: usize, seconds: f64, covered: usize) -> String {
    let mut text = format!(
        "{} rehearsals in {seconds:.1}s, scenarios: {scenarios}, writes checked: {}, failures: {}\n",
        findings.schedules,
        findings.checks,
        findings.failures.len()
    );
    if covered < 100 {
        text.push_str(&format!(
            "The time was over after {covered}% of all single faults; --seed decides with which part it begins.\n"
        ));
    }
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
