//! Who plays which role: what is asked of the agents beside the members, and what they answer.
//!
//! Looking never fails: what cannot be told is `Unknown`, with its cause. Acting says whether it
//! was taken, refused, or whether nobody knows; what came of it is seen by looking again. Nothing
//! here decides, retries or remembers.
//!
//! How what they say is understood, and what each engine can do and demands, is here, too: the planner
//! knows none of them. That part does no I/O, and is all that is left without the feature `wire`.
//!
//! An engine is a folder and a line in the table.

#[cfg(feature = "wire")]
mod access;
pub mod etcd;
#[cfg(feature = "wire")]
mod failure;
mod labels;
pub mod patroni;
mod postgres;
mod ready;
#[cfg(feature = "wire")]
mod speaks;
mod table;
#[cfg(feature = "wire")]
mod target;
#[cfg(feature = "wire")]
mod tls;
#[cfg(feature = "wire")]
mod wire;

#[cfg(feature = "wire")]
pub use access::{Access, AccessError};
pub use patroni::wrong_parameter;
#[cfg(feature = "wire")]
pub use speaks::{Contact, Later, Means, Speaks};
#[cfg(feature = "wire")]
pub use table::contact;
pub use table::{abilities, sign};
#[cfg(feature = "wire")]
pub use target::Target;
