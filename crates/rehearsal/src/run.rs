//! One rehearsal: a scenario, the faults, and all the checks.

mod faults;

use crate::desk::Desk;
use crate::fault::{Fault, What};
use crate::fingerprint::Fingerprint;
use crate::invariants::{Broken, Checker};
use crate::patroni;
use crate::process::{Process, now};
use crate::role_rules::RoleRules;
use crate::scenario::{self, Line, Scenario};
use crate::translate;
use crate::world::{self, World};
use ensemble_conductor::{ApiCall, Ask, CallId, Outcome, Time, Verb};
use simkube::{Request, SimTime};
use std::collections::BTreeMap;

/// How long one line of a script may take, in virtual time.
const PATIENCE_MS: u64 = 40 * 60 * 1000;
/// How long a call takes.
const CALL_MS: u64 = 5;
/// How long all may take to settle once nothing is wrong any more.
const SETTLE_MS: u64 = 120_000;
/// How long a node is away.
const NODE_AWAY_MS: u64 = 420_000;

/// What came of a rehearsal that ended well.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// How many calls the controllers made.
    pub calls: u32,
    /// By verb and kind: how often.
    pub counts: BTreeMap<String, u32>,
    /// How long it took, in virtual time.
    pub virtual_ms: u64,
    /// How many writes were checked.
    pub checks: u64,
    /// How many pods we told to end.
    pub disruptions: u32,
    /// The fewest members that were Ready at once after all had been.
    pub fewest_ready: Option<u32>,
    /// How many questions engines were asked.
    pub asked: u32,
    /// How many members got another image in place.
    pub in_place: u32,
    /// How often the leader changed, after the first.
    pub leader_changes: u32,
    /// The longest time between two acknowledged writes.
    pub longest_pause_ms: u64,
    /// What happened, line by line, if asked for.
    pub trace: Vec<String>,
}

/// What came of a rehearsal that did not.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule that was broken, or `converges` or `quiescence`.
    pub rule: String,
    /// What was seen.
    pub seen: String,
    /// What led to it.
    pub trace: Vec<String>,
}

/// Where in its script a rehearsal is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The line; the two after the last wait until all is quiet and stays so.
    line: usize,
    /// When it began; None before.
    since: Option<u64>,
    /// Until when time passes at most.
    until: u64,
    /// How many calls there had been when it was to be quiet.
    calls: u32,
}

/// Why a rehearsal does not go on.
enum Stop {
    /// It has gone wrong.
    Violated(Violation),
    /// The next thing is a call, and it is to stop there.
    AtCall,
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Self::Violated(violation)
    }
}

/// A rehearsal under way. A clone goes on in a world of its own.
#[derive(Clone)]
pub struct Rehearsal {
    lines: &'static [Line],
    place: Place,
    /// Stops before each call.
    stops: bool,
    /// It has stopped before a call and goes on from there.
    stopped: bool,
    began: u64,
    world: World,
    processes: Vec<Process>,
    faults: Vec<Fault>,
    run: Run,
    checker: Checker,
    roles: RoleRules,
    desk: Desk,
    heal: Vec<(u64, &'static str)>,
    late: Vec<(u64, Request)>,
    epoch: i64,
    started: u32,
    tracing: bool,
    print: Option<Fingerprint>,
}

/// Plays a scenario with faults.
pub fn run(scenario: &Scenario, faults: &[Fault], tracing: bool) -> Result<Run, Violation> {
    Rehearsal::start(scenario, faults, tracing).finish()
}

impl Rehearsal {
    /// Sets the stage.
    pub fn start(scenario: &Scenario, faults: &[Fault], tracing: bool) -> Self {
        let mut world = world::fresh();
        let first = Process::start(&mut world, "controller-1", 1);
        Self {
            lines: scenario.lines,
            place: Place::default(),
            stops: false,
            stopped: false,
            began: world.cluster.now().0,
            world,
            processes: vec![first],
            faults: faults.to_vec(),
            run: Run::default(),
            checker: Checker::default(),
            roles: RoleRules::default(),
            desk: Desk::default(),
            heal: Vec::new(),
            late: Vec::new(),
            epoch: 1,
            started: 1,
            tracing,
            print: None,
        }
    }

    /// Keeps a fingerprint from here on.
    pub fn print(mut self, print: Fingerprint) -> Self {
        self.print = Some(print);
        self
    }

    /// Plays to the end; the fingerprint of all that was done, and what it came to.
    pub fn printed(mut self) -> (Fingerprint, Result<(), Violation>) {
        self.stops = false;
        let end = match self.script() {
            Ok(()) | Err(Stop::AtCall) => Ok(()),
            Err(Stop::Violated(violation)) => Err(violation),
        };
        let mut print = self.print.take().unwrap_or_default();
        let how = end.as_ref().err().map_or("well", |v| v.rule.as_str());
        print.end(&self.world, how);
        (print, end)
    }

    /// Plays up to the next call, whose number is returned, or to the end.
    pub fn next_stop(&mut self) -> Result<Option<u32>, Violation> {
        self.stops = true;
        match self.script() {
            Ok(()) => Ok(None),
            Err(Stop::AtCall) => {
                self.stopped = true;
                Ok(Some(self.run.calls))
            }
            Err(Stop::Violated(violation)) => Err(violation),
        }
    }

    /// Plays to the end.
    pub fn finish(mut self) -> Result<Run, Violation> {
        self.stops = false;
        match self.script() {
            Ok(()) | Err(Stop::AtCall) => Ok(self.result()),
            Err(Stop::Violated(violation)) => Err(violation),
        }
    }

    /// Another that goes on from here and in which these things go wrong.
    pub fn part(&self, faults: &[Fault]) -> Self {
        let mut other = self.clone();
        other.faults = faults.to_vec();
        other
    }

    /// What came of it, once it is over.
    pub fn result(&self) -> Run {
        let mut run = self.run.clone();
        run.virtual_ms = self.world.cluster.now().0 - self.began;
        run.checks = self.checker.checks;
        run.disruptions = self.checker.disruptions;
        run.fewest_ready = self.checker.fewest_ready;
        run.asked = self.desk.asked;
        run.in_place = self.roles.in_place;
        if let Some(model) = patroni::of(&self.world) {
            let changes = model.changes().len().saturating_sub(1);
            run.leader_changes = u32::try_from(changes).unwrap_or(0);
            run.longest_pause_ms = model.longest_pause_ms();
        }
        run
    }

    /// Plays from where it is.
    fn script(&mut self) -> Result<(), Stop> {
        while let Some(line) = self.lines.get(self.place.line) {
            self.line(line)?;
            self.next_line();
        }
        self.quiescence()
    }

    fn next_line(&mut self) {
        let line = self.place.line + 1;
        self.place = Place {
            line,
            ..Place::default()
        };
    }

    /// When the present line began; whether that is now.
    fn begin(&mut self) -> (u64, bool) {
        let now = self.world.cluster.now().0;
        let first = self.place.since.is_none();
        (*self.place.since.get_or_insert(now), first)
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if self.tracing {
            let ms = self.world.cluster.now().0 % 100_000_000;
            self.run
                .trace
                .push(format!("{:>9}.{:03}  {}", ms / 1000, ms % 1000, what()));
        }
    }

    fn print_call(&mut self, request: &Request) {
        if let Some(print) = &mut self.print {
            print.call(&self.world, request);
        }
    }

    fn print_answer(&mut self, code: u16) {
        if let Some(print) = &mut self.print {
            print.answer(&self.world, code);
        }
    }

    fn violation(&mut self, rule: &str, seen: String) -> Violation {
        let trace = std::mem::take(&mut self.run.trace);
        Violation {
            rule: rule.to_owned(),
            seen,
            trace,
        }
    }

    fn line(&mut self, line: &Line) -> Result<(), Stop> {
        let (start, first) = self.begin();
        match line {
            Line::Do(what, act) => {
                self.say(|| format!("user: {what}"));
                act(&mut self.world);
                Ok(self.check()?)
            }
            Line::Repeat(what, act, holds) => {
                if first {
                    self.say(|| format!("user, again and again: {what}"));
                }
                while self.stopped || !holds(&self.world) {
                    if !self.stopped {
                        act(&mut self.world);
                        self.check()?;
                        let now = self.world.cluster.now().0;
                        if now > start + PATIENCE_MS {
                            let seen = format!("not within 40 minutes: {what}");
                            return Err(self.violation("converges", seen).into());
                        }
                        self.place.until = now + 5_000;
                    }
                    self.play(self.place.until, holds)?;
                }
                Ok(())
            }
            Line::Pass(seconds) => self.play(start + seconds * 1000, |_| false).map(|_| ()),
            Line::Until(what, holds) => {
                if self.play(start + PATIENCE_MS, holds)? {
                    self.say(|| format!("seen: {what}"));
                    return Ok(());
                }
                let status = scenario::status(&self.world);
                let waits = status.plan.first_blocked().map(|(_, b)| b.message.clone());
                let seen = format!("not within 40 minutes: {what}; it waits for {waits:?}");
                Err(self.violation("converges", seen).into())
            }
        }
    }

    /// Once all is well, nothing is written.
    fn quiescence(&mut self) -> Result<(), Stop> {
        if self.place.line == self.lines.len() {
            let (start, first) = self.begin();
            if first {
                self.place.until = start + self.leftovers_ms() + 30_000;
            }
            self.play(self.place.until, |_| false)?;
            // A fault at the very last call comes after this was reckoned.
            if let Some(end) = self.trouble_ends().filter(|end| *end > self.place.until) {
                self.place.until = end + SETTLE_MS;
                self.play(self.place.until, |_| false)?;
            }
            self.next_line();
        }
        let (start, first) = self.begin();
        if first {
            self.place.calls = self.run.calls;
        }
        self.play(start + 60_000, |_| false)?;
        let calls = self.run.calls - self.place.calls;
        if calls != 0 {
            let seen = format!("{calls} calls although nothing happened");
            return Err(self.violation("quiescence", seen).into());
        }
        let quiet = self.roles.quiet(&self.world);
        Ok(quiet.map_err(|b| self.broken(b))?)
    }

    /// How long what faults left behind may take to be over.
    fn leftovers_ms(&self) -> u64 {
        let now = self.world.cluster.now().0;
        let ends = self.trouble_ends();
        ends.map_or(0, |end| end.saturating_sub(now) + SETTLE_MS)
    }

    /// When what faults left behind is over.
    fn trouble_ends(&self) -> Option<u64> {
        let as_ms = |t: Time| u64::try_from(t.0).unwrap_or(0);
        let blind = self.processes.iter().filter_map(Process::blind_until);
        let heal = self.heal.iter().map(|(at, _)| *at);
        let late = self.late.iter().map(|(at, _)| *at);
        let model = patroni::of(&self.world).and_then(patroni::Patroni::troubled_until);
        blind.map(as_ms).chain(heal).chain(late).chain(model).max()
    }

    fn broken(&mut self, broken: Broken) -> Violation {
        self.violation(broken.rule, broken.seen)
    }

    fn check(&mut self) -> Result<(), Violation> {
        let checked = self.checker.check(&self.world);
        let checked = checked.and_then(|()| self.roles.check(&self.world));
        checked.map_err(|b| self.broken(b))
    }

    /// Plays until something holds or time is over; whether it held.
    fn play(&mut self, until: u64, holds: impl Fn(&World) -> bool) -> Result<bool, Stop> {
        let mut looked_at = None;
        if std::mem::take(&mut self.stopped) {
            self.next_call()?;
        }
        loop {
            // Only a write, or a change in the engine, can make it hold.
            let version = patroni::of(&self.world).map(patroni::Patroni::version);
            let revision = Some((self.world.cluster.revision(), version));
            if looked_at != revision && holds(&self.world) {
                return Ok(true);
            }
            looked_at = revision;
            let now = self.world.cluster.now().0;
            if now >= until {
                return Ok(false);
            }
            self.due(now)?;
            self.desk.deliver(&self.world, &mut self.processes);
            for process in &mut self.processes {
                process.turn(&mut self.world);
            }
            self.ask_engines()?;
            if self.stops && self.whose_turn().is_some() {
                return Err(Stop::AtCall);
            }
            if self.next_call()? {
                continue;
            }
            let next = self.next_event(until);
            self.pass(next)?;
        }
    }

    /// Lets time pass to the next thing that happens.
    fn pass(&mut self, to: u64) -> Result<(), Violation> {
        if self.world.cluster.step_until(SimTime(to)) {
            return self.check();
        }
        self.world.cluster.advance_to(SimTime(to));
        Ok(())
    }

    fn next_event(&self, until: u64) -> u64 {
        let as_ms = |t: Time| u64::try_from(t.0).unwrap_or(0);
        let times = self
            .processes
            .iter()
            .flat_map(|p| [p.wake, p.blind_until, p.blind_to_pods_until, p.asleep_until]);
        let own = times.flatten().map(as_ms);
        let planned = self
            .heal
            .iter()
            .map(|(at, _)| *at)
            .chain(self.late.iter().map(|(at, _)| *at))
            .chain(self.desk.next());
        let now = self.world.cluster.now().0;
        own.chain(planned)
            .filter(|t| *t > now)
            .min()
            .unwrap_or(until)
            .min(until)
    }

    /// What was planned for now: nodes come back, late writes arrive.
    fn due(&mut self, now: u64) -> Result<(), Violation> {
        let (due, rest) = std::mem::take(&mut self.heal)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.heal = rest;
        let due: Vec<(u64, &str)> = due;
        for (_, node) in due {
            self.say(|| format!("{node} is back"));
            self.world.cluster.heal_node(node);
        }
        let (late, rest) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.late = rest;
        let late: Vec<(u64, Request)> = late;
        for (_, mut request) in late {
            translate::forget_version(&self.world, &mut request);
            let answer = self.world.cluster.call(&request);
            let code = answer.as_ref().map_or_else(|s| s.code, |r| r.code);
            self.print_call(&request);
            self.print_answer(code);
            self.say(|| format!("late write {:?} {} -> {code}", request.verb, request.name));
            self.check()?;
        }
        Ok(())
    }

    /// Asks engines what controllers want to know or have done.
    fn ask_engines(&mut self) -> Result<(), Violation> {
        for process in 0..self.processes.len() {
            while let Some((id, call)) = self.processes[process].asks.pop_front() {
                let name = self.processes[process].name.clone();
                if *call.ask() != Ask::Observe {
                    self.say(|| format!("{name} asks {}: {:?}", call.member(), call.ask()));
                }
                if let Some(print) = &mut self.print {
                    print.ask(&self.world, &name, &call);
                }
                let asked = self.roles.asked(&self.world, &call);
                asked.map_err(|b| self.broken(b))?;
                self.desk.ask(&mut self.world, &name, id, &call);
            }
        }
        Ok(())
    }

    /// Sends the next call of the controller whose turn it is.
    fn next_call(&mut self) -> Result<bool, Violation> {
        let Some(chosen) = self.whose_turn() else {
            return Ok(false);
        };
        let Some((id, call)) = self.processes[chosen].calls.pop_front() else {
            return Ok(false);
        };
        let number = self.run.calls;
        self.run.calls += 1;
        *self.run.counts.entry(describe(&call)).or_insert(0) += 1;
        if self.print.is_some() {
            let name = &self.processes[chosen].name;
            self.print_call(&translate::request(&self.world, &call, name));
        }
        let faults: Vec<What> = self
            .faults
            .iter()
            .filter(|f| f.at_call == number)
            .map(|f| f.what)
            .collect();
        match faults.as_slice() {
            [] => self.send(chosen, id, &call, number)?,
            more => {
                for what in more {
                    self.say(|| format!("FAULT {what:?} at call {number}"));
                }
                self.faulty(chosen, id, &call, number, more[0])?;
                for what in &more[1..] {
                    self.surroundings(*what);
                }
            }
        }
        let to = self.world.cluster.now().0 + CALL_MS;
        while self.world.cluster.now().0 < to {
            self.pass(to)?;
        }
        Ok(true)
    }

    /// The controller that sends the next call, if there is one to be sent.
    fn whose_turn(&self) -> Option<usize> {
        let turn = self.run.calls as usize;
        let count = self.processes.len();
        let awake = |p: &Process| p.asleep_until.is_none() && !p.calls.is_empty();
        (0..count)
            .map(|n| (turn + n) % count)
            .find(|n| awake(&self.processes[*n]))
    }

    fn execute(
        &mut self,
        process: usize,
        call: &ApiCall,
        number: u32,
    ) -> Result<Outcome, Violation> {
        let name = self.processes[process].name.clone();
        let mut request = translate::request(&self.world, call, &name);
        translate::forget_version(&self.world, &mut request);
        let answer = self.world.cluster.call(&request);
        self.print_answer(answer.as_ref().map_or_else(|s| s.code, |r| r.code));
        let code = answer.as_ref().map_or_else(
            |s| format!("{} {}", s.code, s.message),
            |r| r.code.to_string(),
        );
        self.say(|| {
            format!(
                "{name} call {number}: {} {} -> {code}",
                describe(call),
                call.name()
            )
        });
        self.check()?;
        Ok(translate::outcome(answer))
    }

    fn send(
        &mut self,
        process: usize,
        id: CallId,
        call: &ApiCall,
        number: u32,
    ) -> Result<(), Violation> {
        let outcome = self.execute(process, call, number)?;
        let at = now(&self.world);
        self.processes[process].answer(at, id, outcome);
        Ok(())
    }
}

fn describe(call: &ApiCall) -> String {
    let verb = match call.verb() {
        Verb::Create { dry_run: true } => "dry-run".to_owned(),
        Verb::Create { .. } => "create".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{verb} {:?}", call.kind())
}
