//! A Kubernetes in memory, under virtual time.
//!
//! [`Cluster`] holds an API server with exact write semantics and, around it,
//! the actors that make a cluster move: scheduler, kubelets, volume and node
//! controllers and the rest. Nothing runs by itself: a driver makes calls and
//! lets time pass, so a run is decided by its inputs and its seed alone.
//!
//! What is not modelled is answered with 501 and a sentence.
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
mod selector;
mod status;
mod store;
mod time;
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
