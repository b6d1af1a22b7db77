//! The real conductor on a Kubernetes in memory, under virtual time.
//!
//! A [`scenario`] is what users do; a [`fault`] is what goes wrong; [`run`] plays one with the other,
//! checks the [`invariants`] after every step, then heals everything and requires that all ends
//! well. The conductor is the one that runs in production: only its driver is another.

mod asked;
pub mod demo;
pub mod desk;
pub mod driver;
pub mod etcd;
pub mod explore;
pub mod fault;
pub mod fingerprint;
pub mod forecast;
pub mod hands_off;
pub mod invariants;
pub mod model;
pub mod named;
pub mod outcomes;
pub mod patroni;
pub mod process;
pub mod role_faults;
pub mod role_rules;
pub mod roles;
mod rolls;
pub mod run;
pub mod scenario;
pub mod settings;
pub mod sizes;
pub mod tight;
pub mod translate;
mod vote_rules;
pub mod votes;
pub mod waived;
pub mod world;
pub mod zoned;

pub use explore::{Findings, explore};
pub use fault::Fault;
pub use run::{Run, Violation, run};
pub use scenario::Scenario;
