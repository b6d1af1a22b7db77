//! The one loop: controllers on a cluster in memory, under virtual time.
//!
//! A rehearsal, a forecast and the demo differ in what they add to it: what was planned, how a call is
//! sent, what is looked at and what is checked.

use crate::desk::Desk;
use crate::process::{Process, now};
use crate::translate;
use crate::world::World;
use ensemble_conductor::{ApiCall, CallId, EngineCall, Outcome, Time};
use simkube::SimTime;
use std::sync::Arc;

/// How long a call takes.
const CALL_MS: u64 = 5;

/// Who is on stage: a cluster, its controllers, and what is on its way between them and the engines.
#[derive(Clone)]
pub struct Scene {
    /// The cluster.
    pub world: World,
    /// The controllers; more than one believe to lead on a bad day.
    pub controllers: Vec<Process>,
    /// Questions to engines.
    pub desk: Desk,
    /// How many calls were made.
    pub calls: u32,
}

impl Scene {
    /// A cluster with one controller, which leads at that epoch.
    pub fn new(mut world: World, epoch: i64) -> Self {
        let first = Process::start(&mut world, "controller-1", epoch);
        Self {
            world,
            controllers: vec![first],
            desk: Desk::default(),
            calls: 0,
        }
    }

    /// The cluster's time, in milliseconds since 1970.
    pub fn now(&self) -> u64 {
        self.world.cluster.now().0
    }

    /// The controller that makes the next call, if there is one to be made. They take turns.
    pub fn whose_turn(&self) -> Option<usize> {
        let count = self.controllers.len();
        let awake = |p: &Process| p.asleep_until.is_none() && !p.calls.is_empty();
        (0..count)
            .map(|n| (self.calls as usize + n) % count)
            .find(|n| awake(&self.controllers[*n]))
    }

    /// Brings a call's outcome to the controller that made it.
    pub fn answer(&mut self, controller: usize, id: CallId, outcome: Outcome) {
        let at = now(&self.world);
        self.controllers[controller].answer(at, id, outcome);
    }

    /// Controllers hear what engines said, see what is new, and think.
    fn think(&mut self) {
        self.desk.deliver(&self.world, &mut self.controllers);
        for controller in &mut self.controllers {
            controller.turn(&mut self.world);
        }
    }

    fn next_event(&self, planned: Option<u64>, until: u64) -> u64 {
        let as_ms = |t: Time| u64::try_from(t.0).unwrap_or(0);
        let times = self.controllers.iter().flat_map(|p| {
            let blind = [
                p.blind_until,
                p.blind_to_pods_until,
                p.blind_to_claims_until,
            ];
            blind
                .into_iter()
                .chain([p.wake, p.asleep_until, p.leads_until])
        });
        let own = times.flatten().map(as_ms);
        let now = self.now();
        own.chain(planned)
            .chain(self.desk.next())
            .filter(|t| *t > now)
            .min()
            .unwrap_or(until)
            .min(until)
    }
}

/// Drives a scene, and says what is added to it.
pub trait Driver {
    /// Why it does not go on.
    type Stop;

    /// What is driven.
    fn scene(&mut self) -> &mut Scene;

    /// What was planned for now happens.
    fn due(&mut self) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// When the next thing that was planned happens; that is later than now.
    fn planned(&self) -> Option<u64> {
        None
    }

    /// A controller is about to ask an engine.
    fn asks(&mut self, _controller: &Arc<str>, _call: &EngineCall) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// All controllers have had their turn.
    fn thought(&mut self) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// Something was written.
    fn written(&mut self) -> Result<(), Self::Stop>;

    /// A controller makes a call.
    fn send(&mut self, controller: usize, id: CallId, call: &ApiCall) -> Result<(), Self::Stop> {
        let scene = self.scene();
        let name = &scene.controllers[controller].name;
        let request = translate::request(&scene.world, call, name);
        let answer = scene.world.cluster.call(&request);
        self.written()?;
        self.scene()
            .answer(controller, id, translate::outcome(answer));
        Ok(())
    }

    /// Controllers think; then the next call is made, or time passes to whatever comes next.
    fn step(&mut self, until: u64) -> Result<(), Self::Stop> {
        self.due()?;
        self.scene().think();
        self.ask_engines()?;
        self.thought()?;
        if self.next_call()? {
            return Ok(());
        }
        let planned = self.planned();
        let to = self.scene().next_event(planned, until);
        self.pass(to)
    }

    /// Asks engines what controllers want to know or have done.
    fn ask_engines(&mut self) -> Result<(), Self::Stop> {
        for controller in 0..self.scene().controllers.len() {
            while let Some((id, call)) = self.scene().controllers[controller].asks.pop_front() {
                let name = self.scene().controllers[controller].name.clone();
                self.asks(&name, &call)?;
                let scene = self.scene();
                scene.desk.ask(&mut scene.world, &name, id, &call);
            }
        }
        Ok(())
    }

    /// Makes the next call of the controller whose turn it is; whether there was one.
    fn next_call(&mut self) -> Result<bool, Self::Stop> {
        let scene = self.scene();
        let Some(chosen) = scene.whose_turn() else {
            return Ok(false);
        };
        let Some((id, call)) = scene.controllers[chosen].calls.pop_front() else {
            return Ok(false);
        };
        scene.calls += 1;
        self.send(chosen, id, &call)?;
        let to = self.scene().now() + CALL_MS;
        while self.scene().now() < to {
            self.pass(to)?;
        }
        Ok(true)
    }

    /// Lets time pass to the next thing that happens in the cluster, or to that time.
    fn pass(&mut self, to: u64) -> Result<(), Self::Stop> {
        let cluster = &mut self.scene().world.cluster;
        if cluster.step_until(SimTime(to)) {
            return self.written();
        }
        cluster.advance_to(SimTime(to));
        Ok(())
    }
}
