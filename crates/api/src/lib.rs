//! What users write, and what Ensemble says in return.
//!
//! The two kinds ([`Ensemble`], [`EnsembleRequest`]), their defaults and validation (CEL inside the
//! CRD, no webhooks), and the [`Report`] that every rendering (status, events, metrics, the command
//! line) is made from. This crate decides nothing.
#![deny(missing_docs)]

pub mod amounts;
pub mod crd;
pub mod engine;
pub mod labels;
pub mod names;
pub mod offline;
pub mod reason;
pub mod report;
pub mod request;
pub mod rule;
pub mod spec;
pub mod status;
pub mod template;
pub mod wrong;

pub use engine::Engine;
pub use reason::Reason;
pub use report::{Blocker, Predicate, Report, State, Step, StepState, Waiver};
pub use request::{EnsembleRequest, EnsembleRequestSpec, EnsembleRequestStatus, Outcome};
pub use rule::Rule;
pub use spec::{Ensemble, EnsembleSpec};
pub use status::EnsembleStatus;
pub use template::{ClaimSpec, Template};
pub use wrong::WrongValue;

/// The API group of both kinds.
pub const GROUP: &str = "ensemble.dev";
/// The version served.
pub const VERSION: &str = "v1alpha1";
