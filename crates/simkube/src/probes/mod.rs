//! Questions to an API server, with the answers that Kubernetes gives.
//!
//! The table is written once and asked of anything that implements [`Api`]: of
//! a [`Cluster`] in this crate's tests, of a real
//! kube-apiserver elsewhere. No probe needs a controller or a node to act.

mod crds;
mod creating;
mod deleting;
mod eviction;
mod kinds;
mod lab;
mod listing;
mod normal;
mod pods;
mod updating;
mod watching;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::request::{Request, Response};
use crate::resource::Resource;
use crate::status::Status;
use crate::watch::{WatchEvent, WatchOptions};

pub(crate) use crds::widget_definition;
pub use lab::{Lab, Seen};
pub(crate) use normal::Normaliser;

/// An API server that can be asked.
pub trait Api {
    /// One call.
    ///
    /// # Errors
    /// The Status with which the server refuses.
    fn call(&mut self, request: &Request) -> Result<Response, Status>;

    /// Registers a definition, and waits until its resource is served.
    /// Registering it again replaces its schema.
    ///
    /// # Errors
    /// The Status with which the server refuses.
    fn register_crd(&mut self, definition: &Value) -> Result<Resource, Status>;

    /// What a watch says up to the present, after which it is closed.
    ///
    /// # Errors
    /// The Status with which the server refuses the watch.
    fn watch(
        &mut self,
        resource: Resource,
        options: &WatchOptions,
    ) -> Result<Vec<WatchEvent>, Status>;

    /// Forgets history up to now; false if that cannot be done.
    fn compact(&mut self, resource: Resource) -> bool;

    /// Lets at least a second pass.
    fn wait_a_second(&mut self);
}

impl Api for Cluster {
    fn call(&mut self, request: &Request) -> Result<Response, Status> {
        Cluster::call(self, request)
    }

    fn register_crd(&mut self, definition: &Value) -> Result<Resource, Status> {
        Cluster::register_crd(self, definition)
    }

    fn watch(
        &mut self,
        resource: Resource,
        options: &WatchOptions,
    ) -> Result<Vec<WatchEvent>, Status> {
        let id = Cluster::watch(self, resource, options)?;
        let events = self.poll(id);
        self.close(id);
        Ok(events)
    }

    fn compact(&mut self, resource: Resource) -> bool {
        Cluster::compact(self, resource);
        true
    }

    fn wait_a_second(&mut self) {
        // Only the clock: actors would answer questions that were not asked.
        self.jump_to(self.now().plus_s(1));
    }
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Probe {
    /// Its number in the plan of conformance.
    pub id: &'static str,
    /// What it shows, in a sentence.
    pub says: &'static str,
    ask: fn(&mut Lab<'_>),
}

/// What came of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Every answer, with uids, versions and times replaced: comparable between servers.
    pub transcript: Vec<String>,
    /// Answers that are not those of Kubernetes.
    pub failures: Vec<String>,
}

impl Probe {
    pub(crate) const fn new(id: &'static str, says: &'static str, ask: fn(&mut Lab<'_>)) -> Probe {
        Probe { id, says, ask }
    }

    /// Whether it is about simkube's own limits, and not to be asked of a real server.
    #[must_use]
    pub fn is_about_simkube(&self) -> bool {
        self.id.starts_with('S')
    }

    /// Asks a server. Everything happens in a namespace of the probe's own,
    /// which must not exist.
    pub fn run(&self, api: &mut dyn Api) -> Report {
        let mut lab = Lab::new(api, self.id);
        (self.ask)(&mut lab);
        lab.finish()
    }
}

/// The whole table.
#[must_use]
pub fn all() -> Vec<Probe> {
    [
        creating::PROBES,
        updating::PROBES,
        deleting::PROBES,
        pods::PROBES,
        kinds::PROBES,
        listing::PROBES,
        watching::PROBES,
        crds::PROBES,
        eviction::PROBES,
    ]
    .concat()
}
