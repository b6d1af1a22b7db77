//! Bad days by the thousand: every kind of fault at every call of every scenario, then pairs.

use crate::fault::{self, Fault, What};
use crate::run::{Rehearsal, Run, Violation, run};
use crate::scenario::Scenario;
use serde::Serialize;
use std::ops::ControlFlow;

/// What exploring found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// How many rehearsals were played.
    pub schedules: u64,
    /// How many writes were checked.
    pub checks: u64,
    /// What went wrong, smallest first.
    pub failures: Vec<Failure>,
}

/// One that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The scenario.
    pub scenario: &'static str,
    /// The faults, as small as they could be made.
    pub faults: Vec<Fault>,
    /// The rule that was broken.
    pub rule: String,
    /// What was seen.
    pub seen: String,
}

impl Failure {
    /// What to type to see it again.
    pub fn replay(&self) -> String {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        format!(
            "ensemble explore --scenario {} --replay {}",
            self.scenario,
            faults.join(",")
        )
    }
}

impl Findings {
    /// These too; what is known already is not said twice.
    pub fn add(&mut self, more: Self) {
        self.schedules += more.schedules;
        self.checks += more.checks;
        for failure in more.failures {
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
    }

    fn note(&mut self, scenario: &Scenario, faults: &[Fault], result: Result<Run, Violation>) {
        self.schedules += 1;
        match result {
            Ok(run) => self.checks += run.checks,
            Err(violation) => {
                let faults = shrink(scenario, faults);
                self.failures.push(Failure {
                    scenario: scenario.name,
                    faults,
                    rule: violation.rule,
                    seen: violation.seen,
                });
            }
        }
    }
}

/// Fewer faults that still break something.
fn shrink(scenario: &Scenario, faults: &[Fault]) -> Vec<Fault> {
    for left_out in 0..faults.len() {
        let fewer: Vec<Fault> = faults
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != left_out)
            .map(|(_, f)| *f)
            .collect();
        if run(scenario, &fewer, false).is_err() {
            return shrink(scenario, &fewer);
        }
    }
    faults.to_vec()
}

/// What to explore.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Kinds of fault.
    pub kinds: Vec<What>,
    /// Whether single faults are tried.
    pub singles: bool,
    /// How many pairs a scenario is sampled for, beside all single faults.
    pub pairs: u64,
    /// Where the samples begin.
    pub seed: u64,
    /// Every how many calls a fault is tried; 1 is at every call. Kinds take turns, so that
    /// together they come to every call.
    pub stride: u32,
    /// Who begins: as many plans as the stride is long, each with its own, try every kind at every
    /// call once.
    pub turn: u32,
    /// Stop at the first failure.
    pub stop_early: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            kinds: fault::ALL.to_vec(),
            singles: true,
            pairs: 0,
            seed: 1,
            stride: 1,
            turn: 0,
            stop_early: false,
        }
    }
}

impl Plan {
    /// Whether a kind, which has that number, is tried at a call.
    fn is_due(&self, number: usize, what: What, call: u32) -> bool {
        let stride = self.stride.max(1);
        let turn = (number as u32 % stride + self.turn % stride) % stride;
        let here = match what.is_from_the_start() {
            true => call == 0 && turn == 0,
            false => call % stride == turn,
        };
        self.singles && here
    }
}

/// How far one scenario is explored.
pub struct Progress<'a> {
    /// Which.
    pub scenario: &'a Scenario,
    /// How many of its rehearsals were played.
    pub played: u64,
    /// How many there are.
    pub of: u64,
    /// What the one just played came to, if it went wrong.
    pub found: Option<&'a Failure>,
}

/// Plays every single fault at every call of the scenarios, and sampled pairs. Whoever watches hears
/// of every rehearsal and may say that it is enough.
pub fn explore(
    scenarios: &[Scenario],
    plan: &Plan,
    mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
) -> Findings {
    let mut findings = Findings::default();
    for scenario in scenarios {
        let mut exploring = Exploring {
            scenario,
            plan,
            findings: Findings::default(),
            of: 1,
            watch: &mut watch,
        };
        let end = exploring.all();
        findings.add(exploring.findings);
        if end.is_break() {
            break;
        }
    }
    findings
}

/// One scenario that is being explored.
struct Exploring<'a, W> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    findings: Findings,
    of: u64,
    watch: &'a mut W,
}

impl<W: FnMut(&Progress) -> ControlFlow<()>> Exploring<'_, W> {
    /// Plays the calm day up to each call, and from there every bad day that begins with it: what
    /// comes before is played once for all of them.
    fn all(&mut self) -> ControlFlow<()> {
        let (scenario, plan) = (self.scenario, self.plan);
        let calm = run(scenario, &[], false);
        let calls = calm.as_ref().map_or(0, |r| r.calls);
        let roles = calm.as_ref().is_ok_and(|r| r.asked > 0);
        let kinds = possible(&plan.kinds, scenario, roles);
        let due = |call: u32| {
            let due = kinds
                .iter()
                .filter(move |(n, what)| plan.is_due(*n, *what, call));
            due.map(move |(_, what)| Fault {
                what: *what,
                at_call: call,
            })
        };
        let mut pairs = pairs(plan, &kinds, calls);
        let singles: usize = (0..calls).map(|call| due(call).count()).sum();
        self.of += (singles + pairs.len()) as u64;
        self.note(&[], calm)?;
        let mut day = Rehearsal::start(scenario, &[], false);
        while let Ok(Some(call)) = day.next_stop() {
            let begins_here = |pair: &mut Vec<Fault>| pair.iter().any(|f| f.at_call == call);
            let pairs = pairs.extract_if(.., begins_here);
            for faults in due(call).map(|f| vec![f]).chain(pairs) {
                self.note(&faults, day.part(&faults).finish())?;
            }
        }
        ControlFlow::Continue(())
    }

    fn note(&mut self, faults: &[Fault], result: Result<Run, Violation>) -> ControlFlow<()> {
        let before = self.findings.failures.len();
        self.findings.note(self.scenario, faults, result);
        let found = self.findings.failures.get(before);
        (self.watch)(&Progress {
            scenario: self.scenario,
            played: self.findings.schedules,
            of: self.of,
            found,
        })?;
        match found {
            Some(_) if self.plan.stop_early => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The kinds that can happen in a scenario and are to end well there, each with its turn.
pub(crate) fn possible(kinds: &[What], scenario: &Scenario, roles: bool) -> Vec<(usize, What)> {
    let fits = |w: &What| roles || !w.is_about_roles();
    let kinds = kinds.iter().copied().filter(fits).enumerate();
    kinds
        .filter(|(_, w)| !scenario.without.contains(w))
        .collect()
}

/// Pairs of faults, the same for the same seed.
fn pairs(plan: &Plan, kinds: &[(usize, What)], calls: u32) -> Vec<Vec<Fault>> {
    let mut dice = Dice(plan.seed ^ 0x9e37_79b9_7f4a_7c15);
    if kinds.is_empty() || calls == 0 {
        return Vec::new();
    }
    let mut fault = |calls: u64| Fault {
        what: kinds[dice.below(kinds.len() as u64) as usize].1,
        at_call: dice.below(calls) as u32,
    };
    let calls = u64::from(calls);
    // A fault makes a run longer: the second may come after the calm run's end.
    let mut pair = || vec![fault(calls), fault(calls * 3 / 2 + 1)];
    (0..plan.pairs).map(|_| pair()).collect()
}

/// Splitmix64: small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }
}
