//! A Kubernetes in memory, under virtual time.
//!
//! [`Cluster`] holds an API server with exact write semantics and, around it,
//! the actors that make a cluster move: scheduler, kubelets, volume and node
//! controllers and the rest. Nothing runs by itself: a driver makes calls and
//! lets time pass, so a run is decided by its inputs and its seed alone.
//!
//! ```
//! use serde_json::json;
//! use simkube::{Cluster, NodeSpec, Resource};
//!
//! # fn main() -> Result<(), simkube::Status> {
//! let mut cluster = Cluster::new(1);
//! cluster.add_node(NodeSpec::new("n1").zone("a"))?;
//! cluster.create(Resource::Pods, "default", json!({
//!     "metadata": {"name": "web-0"},
//!     "spec": {"containers": [{"name": "main", "image": "web:1"}]},
//! }))?;
//! let running = cluster.advance_until(60_000, |c| {
//!     c.get(Resource::Pods, "default", "web-0").is_some_and(|p| p["status"]["phase"] == "Running")
//! });
//! assert!(running);
//! assert_eq!(cluster.running_processes().len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # What is not modelled
//!
//! Server-side apply, strategic merge patch and JSON patch are answered with
//! 501 and a sentence. There are no managedFields, so a write that would change
//! nothing but them is no write here. Warnings, webhooks, quotas, authorisation,
//! OpenAPI, CEL costs and several versions of one definition do not exist.
//! Node heartbeats are implied rather than written, and actors write no Events.
//! An eviction that names a wrong uid is refused at once; a real server tries
//! for ten seconds first. Differences between structures, which a real server
//! prints in some refusals, are left out of the sentences. A real server keeps
//! the data of a ControllerRevision as bytes and compares them in its own
//! writing, so that a client that does not write `&` as an escape can never
//! patch it; here there are no bytes.
#![warn(missing_docs)]

mod actors;
mod api;
mod cluster;
pub mod config;
mod crd;
mod faults;
pub mod fidelity;
mod field;
mod ids;
mod kinds;
pub mod probes;
mod quantity;
mod request;
mod resource;
mod restore;
mod selector;
mod status;
mod store;
mod time;
pub mod trace;
mod value;
mod watch;
mod workload;

pub use actors::kubelet::NodeSpec;
pub use cluster::Cluster;
pub use faults::Part;
pub use request::{
    Body, FieldValidation, List, Params, PatchType, Propagation, Request, Response, Subresource,
    Verb,
};
pub use resource::{Info, Resource};
pub use selector::{FieldSelector, LabelSelector};
pub use status::{Cause, Details, Status};
pub use store::{Change, Entry, Key, Origin, key, split_key};
pub use time::SimTime;
pub use value::Object;
pub use watch::{EventType, WatchEvent, WatchId, WatchOptions};
pub use workload::{Process, ProcessEvent, Readiness, Workload, WorkloadApi};
