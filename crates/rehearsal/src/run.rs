//! One rehearsal: a scenario, the faults, and all the checks.

mod faults;

use crate::driver::{Driver, Scene};
use crate::fault::{Fault, What};
use crate::fingerprint::Fingerprint;
use crate::invariants::{Broken, Checker};
use crate::model;
use crate::outcomes::{Outcomes, Rate};
use crate::patroni;
use crate::process::Process;
use crate::role_rules::RoleRules;
use crate::scenario::{self, Line, Scenario};
use crate::translate;
use crate::vote_rules::VoteRules;
use crate::world::{self, World};
use crate::zoned::Stays;
use ensemble_conductor::{ApiCall, Ask, CallId, EngineCall, Outcome, Time, Verb};
use simkube::{Change, Request, Resource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long one line of a script may take, in virtual time.
const PATIENCE_MS: u64 = 40 * 60 * 1000;
/// How long all may take to settle once nothing is wrong any more.
const SETTLE_MS: u64 = 120_000;
/// How long nothing is written once all is well, and how long that is watched on a calm day.
const QUIET_MS: u64 = 60_000;
const QUIET_CALM_MS: u64 = 300_000;
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
    /// The most in any minute: writes that came of nothing, what engines were told, wake-ups.
    pub most_a_minute: [u32; 3],
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
pub enum Stop {
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
    scene: Scene,
    faults: Vec<Fault>,
    run: Run,
    checker: Checker,
    roles: RoleRules,
    votes: VoteRules,
    outcomes: Outcomes,
    stays: Stays,
    rate: Rate,
    /// Of the journal, how much was looked at for volumes that are gone.
    volumes: usize,
    heal: Vec<(u64, &'static str)>,
    late: Vec<(u64, Request)>,
    /// Whose container ends when.
    crashes: Vec<(u64, String)>,
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
        let scene = Scene::new(world::fresh(), 1);
        Self {
            lines: scenario.lines,
            place: Place::default(),
            stops: false,
            stopped: false,
            began: scene.now(),
            scene,
            faults: faults.to_vec(),
            run: Run::default(),
            checker: Checker::default(),
            roles: RoleRules::default(),
            votes: VoteRules::default(),
            outcomes: Outcomes::default(),
            stays: Stays::default(),
            rate: Rate::default(),
            volumes: 0,
            heal: Vec::new(),
            late: Vec::new(),
            crashes: Vec::new(),
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
        print.end(&self.scene.world, how);
        (print, end)
    }

    /// Plays up to the next call, whose number is returned, or to the end.
    pub fn next_stop(&mut self) -> Result<Option<u32>, Violation> {
        self.stops = true;
        match self.script() {
            Ok(()) => Ok(None),
            Err(Stop::AtCall) => {
                self.stopped = true;
                Ok(Some(self.scene.calls))
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
        run.calls = self.scene.calls;
        run.virtual_ms = self.scene.now() - self.began;
        run.checks = self.checker.checks;
        run.disruptions = self.checker.disruptions;
        run.fewest_ready = self.checker.fewest_ready;
        run.asked = self.scene.desk.asked;
        run.in_place = self.roles.in_place;
        run.most_a_minute = self.rate.most;
        if let Some(model) = model::of(&self.scene.world) {
            let changes = model.changes().saturating_sub(1);
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
        let now = self.scene.now();
        let first = self.place.since.is_none();
        (*self.place.since.get_or_insert(now), first)
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if self.tracing {
            let ms = self.scene.now() % 100_000_000;
            self.run
                .trace
                .push(format!("{:>9}.{:03}  {}", ms / 1000, ms % 1000, what()));
        }
    }

    fn print_call(&mut self, request: &Request) {
        if let Some(print) = &mut self.print {
            print.call(&self.scene.world, request);
        }
    }

    fn print_answer(&mut self, code: u16) {
        if let Some(print) = &mut self.print {
            print.answer(&self.scene.world, code);
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
                act(&mut self.scene.world);
                Ok(self.check()?)
            }
            Line::Repeat(what, act, holds) => {
                if first {
                    self.say(|| format!("user, again and again: {what}"));
                }
                while self.stopped || !holds(&self.scene.world) {
                    if !self.stopped {
                        act(&mut self.scene.world);
                        self.check()?;
                        let now = self.scene.now();
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
                let status = scenario::status(&self.scene.world);
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
            self.place.calls = self.scene.calls;
        }
        let quiet = match self.faults.is_empty() {
            true => QUIET_CALM_MS,
            false => QUIET_MS,
        };
        self.play(start + quiet, |_| false)?;
        let calls = self.scene.calls - self.place.calls;
        if calls != 0 {
            let seen = format!("{calls} calls although nothing happened");
            return Err(self.violation("quiescence", seen).into());
        }
        let quiet = self.roles.quiet(&self.scene.world);
        Ok(quiet.map_err(|b| self.broken(b))?)
    }

    /// How long what faults left behind may take to be over.
    fn leftovers_ms(&self) -> u64 {
        let now = self.scene.now();
        let ends = self.trouble_ends();
        ends.map_or(0, |end| end.saturating_sub(now) + SETTLE_MS)
    }

    /// When what faults left behind is over.
    fn trouble_ends(&self) -> Option<u64> {
        let as_ms = |t: Time| u64::try_from(t.0).unwrap_or(0);
        let blind = self
            .scene
            .controllers
            .iter()
            .filter_map(Process::blind_until);
        let heal = self.heal.iter().map(|(at, _)| *at);
        let late = self.late.iter().map(|(at, _)| *at);
        let model = model::of(&self.scene.world).and_then(|m| m.troubled_until());
        let crashes = self.crashes.iter().map(|(at, _)| *at);
        let other = heal.chain(late).chain(crashes).chain(model);
        blind.map(as_ms).chain(other).max()
    }

    fn broken(&mut self, broken: Broken) -> Violation {
        self.violation(broken.rule, broken.seen)
    }

    /// What was on a volume is gone with its claim.
    fn lose_volumes(&mut self) {
        let log = self.scene.world.cluster.log();
        let gone = log[self.volumes..].iter().filter(|e| {
            e.resource == Resource::PersistentVolumeClaims && e.change == Change::Deleted
        });
        let labels = gone.filter_map(|e| e.object["metadata"]["labels"].as_object());
        let ordinals = labels.filter_map(|l| l.get("ensemble.dev/ordinal")?.as_str());
        let members: Vec<String> = ordinals.map(|o| format!("orders-{o}")).collect();
        self.volumes = log.len();
        for member in members {
            patroni::with(&mut self.scene.world, |m, _| m.lose_volume(&member));
        }
    }

    fn look_at_rate(&mut self) -> Result<(), Broken> {
        let now = self.scene.now();
        for controller in &mut self.scene.controllers {
            let (woken, spun) = controller.wakes();
            self.rate.woke(now, woken, spun)?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Violation> {
        self.lose_volumes();
        self.rate.look(&self.scene.world);
        let checked = self.checker.check(&self.scene.world);
        let checked = checked.and_then(|()| self.roles.check(&self.scene.world));
        let checked = checked.and_then(|()| self.votes.check(&self.scene.world));
        let calm = self.faults.is_empty();
        let checked = checked.and_then(|()| self.outcomes.check(&self.scene.world, calm));
        let checked = checked.and_then(|()| self.stays.check(&self.scene.world));
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
            let version = model::of(&self.scene.world).map(|m| m.version());
            let revision = Some((self.scene.world.cluster.revision(), version));
            if looked_at != revision && holds(&self.scene.world) {
                return Ok(true);
            }
            looked_at = revision;
            let now = self.scene.now();
            if now >= until {
                return Ok(false);
            }
            self.step(until)?;
        }
    }

    fn execute(
        &mut self,
        process: usize,
        call: &ApiCall,
        number: u32,
    ) -> Result<Outcome, Violation> {
        let name = self.scene.controllers[process].name.clone();
        let mut request = translate::request(&self.scene.world, call, &name);
        translate::forget_version(&self.scene.world, &mut request);
        let answer = self.scene.world.cluster.call(&request);
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

    /// The call arrives, and so does its answer.
    fn arrives(
        &mut self,
        process: usize,
        id: CallId,
        call: &ApiCall,
        number: u32,
    ) -> Result<(), Violation> {
        let outcome = self.execute(process, call, number)?;
        self.scene.answer(process, id, outcome);
        Ok(())
    }
}

impl Driver for Rehearsal {
    type Stop = Stop;

    fn scene(&mut self) -> &mut Scene {
        &mut self.scene
    }

    /// Nodes come back, late writes arrive.
    fn due(&mut self) -> Result<(), Stop> {
        let now = self.scene.now();
        let due = self.heal.extract_if(.., |(at, _)| *at <= now);
        for (_, node) in due.collect::<Vec<_>>() {
            self.say(|| format!("{node} is back"));
            self.scene.world.cluster.heal_node(node);
        }
        let crashes = self.crashes.extract_if(.., |(at, _)| *at <= now);
        for (_, pod) in crashes.collect::<Vec<_>>() {
            self.say(|| format!("the process of {pod} ends"));
            let cluster = &mut self.scene.world.cluster;
            cluster.crash_container(world::NAMESPACE, &pod, "db");
        }
        let late = self.late.extract_if(.., |(at, _)| *at <= now);
        for (_, mut request) in late.collect::<Vec<_>>() {
            translate::forget_version(&self.scene.world, &mut request);
            let answer = self.scene.world.cluster.call(&request);
            let code = answer.as_ref().map_or_else(|s| s.code, |r| r.code);
            self.print_call(&request);
            self.print_answer(code);
            self.say(|| format!("late write {:?} {} -> {code}", request.verb, request.name));
            self.check()?;
        }
        Ok(())
    }

    fn planned(&self) -> Option<u64> {
        let heal = self.heal.iter().map(|(at, _)| *at);
        let crashes = self.crashes.iter().map(|(at, _)| *at);
        let late = self.late.iter().map(|(at, _)| *at);
        heal.chain(crashes).chain(late).min()
    }

    fn asks(&mut self, controller: &Arc<str>, call: &EngineCall) -> Result<(), Stop> {
        if *call.ask() != Ask::Observe {
            self.say(|| format!("{controller} asks {}: {:?}", call.member(), call.ask()));
        }
        if let Some(print) = &mut self.print {
            print.ask(&self.scene.world, controller, call);
        }
        let mut asked = self.roles.asked(&self.scene.world, call);
        if let Ask::Do(act) = call.ask() {
            let now = self.scene.now();
            asked = asked.and_then(|()| self.outcomes.asked(&self.scene.world, call));
            let what = || format!("{}: {act:?}", call.member());
            asked = asked.and_then(|()| self.rate.tells(now, what));
        }
        Ok(asked.map_err(|b| self.broken(b))?)
    }

    fn thought(&mut self) -> Result<(), Stop> {
        let rate = self.look_at_rate();
        rate.map_err(|b| self.broken(b))?;
        match self.scene.whose_turn() {
            Some(_) if self.stops => Err(Stop::AtCall),
            _ => Ok(()),
        }
    }

    fn written(&mut self) -> Result<(), Stop> {
        Ok(self.check()?)
    }

    /// Sends a call, with all that goes wrong at it.
    fn send(&mut self, controller: usize, id: CallId, call: &ApiCall) -> Result<(), Stop> {
        let number = self.scene.calls - 1;
        *self.run.counts.entry(describe(call)).or_insert(0) += 1;
        if is_write(call) {
            let now = self.scene.now();
            let what = || format!("{} {}", describe(call), call.name());
            let written = self.rate.writes(now, what);
            written.map_err(|b| self.broken(b))?;
        }
        if self.print.is_some() {
            let name = &self.scene.controllers[controller].name;
            self.print_call(&translate::request(&self.scene.world, call, name));
        }
        let here = self.faults.iter().filter(|f| f.at_call == number);
        let faults: Vec<What> = here.map(|f| f.what).collect();
        let Some((first, more)) = faults.split_first() else {
            return Ok(self.arrives(controller, id, call, number)?);
        };
        for what in &faults {
            self.say(|| format!("FAULT {what:?} at call {number}"));
        }
        self.faulty(controller, id, call, number, *first)?;
        for what in more {
            self.surroundings(*what);
        }
        Ok(())
    }
}

fn is_write(call: &ApiCall) -> bool {
    use Verb::{Create, Get, List};
    !matches!(call.verb(), Get | List | Create { dry_run: true })
}

fn describe(call: &ApiCall) -> String {
    let verb = match call.verb() {
        Verb::Create { dry_run: true } => "dry-run".to_owned(),
        Verb::Create { .. } => "create".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{verb} {:?}", call.kind())
}
