//! What would happen: the real conductor, played to its end on a cluster in memory that begins where
//! a real one is, or with nothing.

mod record;
mod seed;
mod trouble;

pub use record::{End, Event, Forecast, Stride};
pub use seed::Given;
pub use trouble::{TROUBLES, Trouble, asked_for};

use crate::desk::Desk;
use crate::invariants::Checker;
use crate::patroni::{self, Patroni};
use crate::process::{Process, now};
use crate::scenario;
use crate::translate;
use crate::world::{self, World};
use record::Recorder;
use serde_json::Value;
pub use simkube::Status;
use simkube::config::Config;
use simkube::{Request, Resource, SimTime};

/// How long a call takes.
const CALL_MS: u64 = 5;
/// So long without anything new, and it is taken to stay as it is.
const PATIENCE_MS: u64 = 15 * 60 * 1000;
/// No forecast reaches further.
const HORIZON_MS: u64 = 24 * 3600 * 1000;

/// A cluster in memory, a controller, and a record of what happens.
pub struct Stage {
    world: World,
    controller: Process,
    desk: Desk,
    checker: Checker,
    recorder: Recorder,
    troubles: trouble::Pending,
}

impl Stage {
    /// A cluster of so many nodes in three zones, with nothing in it.
    pub fn blank(namespace: &str, name: &str, nodes: u8, classes: &[String]) -> Self {
        let mut world = world::empty(Config::default(), namespace, name);
        world::add_nodes(&mut world, nodes);
        world::add_class(&mut world, "standard", true);
        for class in classes.iter().filter(|c| *c != "standard") {
            world::add_class(&mut world, class, false);
        }
        world.cluster.advance_ms(5_000);
        Self::on(world, 1)
    }

    /// A cluster that begins where a real one is.
    pub fn like(given: &Given) -> Result<Self, Status> {
        let world = seed::plant(given)?;
        let epoch = scenario::status(&world).epoch;
        Ok(Self::on(world, epoch))
    }

    fn on(mut world: World, epoch: i64) -> Self {
        let mut checker = Checker::default();
        checker.begin_here(&world);
        let controller = Process::start(&mut world, "controller-1", epoch);
        let recorder = Recorder::new(&world);
        Self {
            world,
            controller,
            desk: Desk::default(),
            checker,
            recorder,
            troubles: trouble::Pending::default(),
        }
    }

    /// The user creates or changes the Ensemble. What was done before is not counted.
    pub fn put(&mut self, ensemble: &Value) -> Result<(), Status> {
        let (at, namespace) = (self.world.ensembles, self.world.namespace.clone());
        if patroni::of(&self.world).is_none()
            && let Some(model) = Patroni::of_spec(&ensemble["spec"], &namespace)
        {
            self.world.cluster.attach_workload(Box::new(model));
        }
        let request = match scenario::ensemble(&self.world) {
            None => Request::create(at, &namespace, unborn(ensemble)),
            Some(old) => {
                let mut body = (*old).clone();
                body["spec"] = ensemble["spec"].clone();
                Request::update(at, &namespace, &self.world.name, body)
            }
        };
        self.world.cluster.call(&request.strict().client("user"))?;
        self.recorder = Recorder::new(&self.world);
        Ok(())
    }

    /// Makes these images behave as the troubles say, for those troubles that are about images.
    pub fn spoil(&mut self, troubles: &[Trouble], images: &[String]) {
        trouble::spoil_images(&mut self.world, troubles, images);
    }

    /// The names of the nodes.
    pub fn nodes(&self) -> Vec<String> {
        let nodes = self.world.cluster.objects(Resource::Nodes, "");
        let names = nodes.iter().filter_map(|n| n["metadata"]["name"].as_str());
        names.map(str::to_owned).collect()
    }

    /// All that a reader of this cluster would bring home.
    pub fn given(&self) -> Given {
        let world = &self.world;
        let read = |resource: Resource, namespace: &str| -> Vec<Value> {
            let objects = world.cluster.objects(resource, namespace);
            objects.iter().map(|o| (**o).clone()).collect()
        };
        let here = &*world.namespace;
        Given {
            now_ms: self.now(),
            namespace: here.to_owned(),
            name: world.name.to_string(),
            ensemble: self.ensemble(),
            requests: read(world.requests, here),
            pods: read(Resource::Pods, here),
            claims: read(Resource::PersistentVolumeClaims, here),
            revisions: read(Resource::ControllerRevisions, here),
            services: read(Resource::Services, here),
            budgets: read(Resource::PodDisruptionBudgets, here),
            nodes: read(Resource::Nodes, ""),
            volumes: read(Resource::PersistentVolumes, ""),
            classes: read(Resource::StorageClasses, ""),
        }
    }

    /// The Ensemble as it stands.
    pub fn ensemble(&self) -> Option<Value> {
        scenario::ensemble(&self.world).map(|e| (*e).clone())
    }

    /// Plays until nothing new happens any more, with these troubles on the way: each once the
    /// first step of the change is under way, or at once if there is none.
    pub fn play(&mut self, troubles: &[Trouble]) {
        self.troubles.wait(troubles);
        let horizon = self.now() + HORIZON_MS;
        while self.now() < horizon && self.recorder.broken.is_none() {
            if self.at_rest() {
                if !self
                    .troubles
                    .begin(&mut self.world, &mut self.controller, &mut self.recorder)
                {
                    break;
                }
            } else if self.recorder.disrupted() {
                self.troubles
                    .begin(&mut self.world, &mut self.controller, &mut self.recorder);
            }
            self.piece();
        }
    }

    /// What it came to.
    pub fn forecast(self) -> Forecast {
        let status = scenario::status(&self.world);
        self.recorder.finish(&self.world, &status, &self.checker)
    }

    fn now(&self) -> u64 {
        self.world.cluster.now().0
    }

    fn at_rest(&self) -> bool {
        if self.troubles.under_way() {
            return false;
        }
        let quiet = self.now().saturating_sub(self.recorder.last_news());
        let ready = scenario::ready(&self.world) && self.controller.calls.is_empty();
        ready && quiet >= 2_000 || quiet >= PATIENCE_MS + self.recorder.settling_ms
    }

    /// The controller thinks; then its next call is made, or time passes to whatever comes next.
    fn piece(&mut self) {
        self.troubles.due(&mut self.world, &mut self.recorder);
        let controllers = std::slice::from_mut(&mut self.controller);
        self.desk.deliver(&self.world, controllers);
        self.controller.turn(&mut self.world);
        while let Some((id, call)) = self.controller.asks.pop_front() {
            let name = self.controller.name.clone();
            self.desk.ask(&mut self.world, &name, id, &call);
        }
        self.recorder.look(&self.world, &self.controller);
        let Some((id, call)) = self.controller.calls.pop_front() else {
            let to = self.next_event();
            return self.pass(to);
        };
        let request = translate::request(&self.world, &call, &self.controller.name);
        let answer = self.world.cluster.call(&request);
        self.check();
        self.controller
            .answer(now(&self.world), id, translate::outcome(answer));
        let to = self.now() + CALL_MS;
        while self.now() < to {
            self.pass(to);
        }
    }

    fn next_event(&self) -> u64 {
        let now = self.now();
        let wake = self.controller.wake.and_then(|at| u64::try_from(at.0).ok());
        let own = wake.filter(|at| *at > now).unwrap_or(u64::MAX);
        own.min(self.troubles.next_at().unwrap_or(u64::MAX))
            .min(self.desk.next().unwrap_or(u64::MAX))
            .max(now + 1)
            .min(now + 1_000)
    }

    fn pass(&mut self, to: u64) {
        if self.world.cluster.step_until(SimTime(to)) {
            return self.check();
        }
        self.world.cluster.advance_to(SimTime(to));
    }

    fn check(&mut self) {
        if let Err(broken) = self.checker.check(&self.world) {
            self.recorder.broken.get_or_insert(broken);
        }
    }
}

/// Without what an API server adds.
fn unborn(ensemble: &Value) -> Value {
    let mut ensemble = ensemble.clone();
    if let Some(metadata) = ensemble["metadata"].as_object_mut() {
        let ours = ["name", "namespace", "labels", "annotations"];
        metadata.retain(|field, _| ours.contains(&field.as_str()));
    }
    ensemble
}

#[cfg(test)]
mod tests;
