//! What would happen: the real conductor, played to its end on a cluster in memory that begins where
//! a real one is, or with nothing.

mod record;
mod seed;
mod trouble;

pub use record::{End, Event, Forecast, Stride};
pub use seed::Given;
pub use trouble::{TROUBLES, Trouble, asked_for};

use crate::driver::{Driver, Scene};
use crate::invariants::Checker;
use crate::model;
use crate::scenario;
use crate::world::{self, World};
use ensemble_api::spec::Zones;
use record::Recorder;
use serde_json::Value;
pub use simkube::Status;
use simkube::config::Config;
use simkube::{Request, Resource};
use std::convert::Infallible;

/// The most time that passes in one piece.
const PIECE_MS: u64 = 1_000;
/// So long without anything new, and it is taken to stay as it is.
const PATIENCE_MS: u64 = 15 * 60 * 1000;
/// No forecast reaches further.
const HORIZON_MS: u64 = 24 * 3600 * 1000;

/// A cluster in memory, a controller, and a record of what happens.
pub struct Stage {
    scene: Scene,
    checker: Checker,
    recorder: Recorder,
    troubles: trouble::Pending,
}

impl Stage {
    /// A cluster of so many nodes in three zones, with nothing in it.
    pub fn blank(namespace: &str, name: &str, nodes: u8, classes: &[String]) -> Self {
        Self::in_zones(namespace, name, nodes, classes, None)
    }

    /// The same, with a node at least in each of these zones.
    pub fn in_zones(
        namespace: &str,
        name: &str,
        nodes: u8,
        classes: &[String],
        zones: Option<&Zones>,
    ) -> Self {
        let mut world = world::empty(Config::default(), namespace, name);
        match zones {
            Some(zones) => world::add_nodes_in(&mut world, nodes, zones),
            None => world::add_nodes(&mut world, nodes),
        }
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

    fn on(world: World, epoch: i64) -> Self {
        let mut checker = Checker::default();
        checker.begin_here(&world);
        let scene = Scene::new(world, epoch);
        let recorder = Recorder::new(&scene.world);
        Self {
            scene,
            checker,
            recorder,
            troubles: trouble::Pending::default(),
        }
    }

    /// The user creates or changes the Ensemble. What was done before is not counted.
    pub fn put(&mut self, ensemble: &Value) -> Result<(), Status> {
        let (at, namespace) = (
            self.scene.world.ensembles,
            self.scene.world.namespace.clone(),
        );
        let name = &self.scene.world.name;
        if model::of(&self.scene.world).is_none()
            && let Some(model) = model::of_spec(&ensemble["spec"], &namespace, name)
        {
            self.scene.world.cluster.attach_workload(model);
        }
        let request = match scenario::ensemble(&self.scene.world) {
            None => Request::create(at, &namespace, unborn(ensemble)),
            Some(old) => {
                let mut body = (*old).clone();
                body["spec"] = ensemble["spec"].clone();
                Request::update(at, &namespace, &self.scene.world.name, body)
            }
        };
        self.scene
            .world
            .cluster
            .call(&request.strict().client("user"))?;
        self.recorder = Recorder::new(&self.scene.world);
        Ok(())
    }

    /// Makes these images behave as the troubles say, for those troubles that are about images.
    pub fn spoil(&mut self, troubles: &[Trouble], images: &[String]) {
        trouble::spoil_images(&mut self.scene.world, troubles, images);
    }

    /// The names of the nodes.
    pub fn nodes(&self) -> Vec<String> {
        let nodes = self.scene.world.cluster.objects(Resource::Nodes, "");
        let names = nodes.iter().filter_map(|n| n["metadata"]["name"].as_str());
        names.map(str::to_owned).collect()
    }

    /// All that a reader of this cluster would bring home.
    pub fn given(&self) -> Given {
        let world = &self.scene.world;
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
        scenario::ensemble(&self.scene.world).map(|e| (*e).clone())
    }

    /// Plays until nothing new happens any more, with these troubles on the way: each once the
    /// first step of the change is under way, or at once if there is none.
    pub fn play(&mut self, troubles: &[Trouble]) {
        self.troubles.wait(troubles);
        let horizon = self.now() + HORIZON_MS;
        while self.now() < horizon && self.recorder.broken.is_none() {
            if self.at_rest() {
                if !self.trouble_begins() {
                    break;
                }
            } else if self.recorder.disrupted() {
                self.trouble_begins();
            }
            let Ok(()) = self.step(self.now() + PIECE_MS);
        }
    }

    /// What it came to.
    pub fn forecast(self) -> Forecast {
        let status = scenario::status(&self.scene.world);
        self.recorder
            .finish(&self.scene.world, &status, &self.checker)
    }

    fn now(&self) -> u64 {
        self.scene.now()
    }

    /// What waits to go wrong does; whether there was anything.
    fn trouble_begins(&mut self) -> bool {
        let scene = &mut self.scene;
        self.troubles.begin(
            &mut scene.world,
            &mut scene.controllers[0],
            &mut self.recorder,
        )
    }

    fn at_rest(&self) -> bool {
        if self.troubles.under_way() {
            return false;
        }
        let quiet = self.now().saturating_sub(self.recorder.last_news());
        let ready =
            scenario::ready(&self.scene.world) && self.scene.controllers[0].calls.is_empty();
        ready && quiet >= 2_000 || quiet >= PATIENCE_MS + self.recorder.settling_ms
    }
}

impl Driver for Stage {
    /// It goes on, whatever happens: a rule that is broken is told at the end.
    type Stop = Infallible;

    fn scene(&mut self) -> &mut Scene {
        &mut self.scene
    }

    fn due(&mut self) -> Result<(), Infallible> {
        self.troubles.due(&mut self.scene.world, &mut self.recorder);
        Ok(())
    }

    fn planned(&self) -> Option<u64> {
        self.troubles.next_at()
    }

    fn thought(&mut self) -> Result<(), Infallible> {
        let scene = &self.scene;
        self.recorder.look(&scene.world, &scene.controllers[0]);
        Ok(())
    }

    fn written(&mut self) -> Result<(), Infallible> {
        if let Err(broken) = self.checker.check(&self.scene.world) {
            self.recorder.broken.get_or_insert(broken);
        }
        Ok(())
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
