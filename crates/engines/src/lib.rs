//! Who plays which role: what is asked of the agents beside the members, and what they answer.
//!
//! Looking never fails: what cannot be told is `Unknown`, with its cause. Acting says whether it
//! was taken, refused, or whether nobody knows; what came of it is seen by looking again. Nothing
//! here decides, retries or remembers.
//!
//! What each engine can do and demands is here, too: the planner knows none of them. That part does
//! no I/O, and is all that is left without the feature `wire`.

mod abilities;
#[cfg(feature = "wire")]
mod access;
#[cfg(feature = "wire")]
mod failure;
#[cfg(feature = "wire")]
mod patroni;
mod postgres;
mod sign;
#[cfg(feature = "wire")]
mod target;
#[cfg(feature = "wire")]
mod tls;
#[cfg(feature = "wire")]
mod wire;

pub use abilities::{abilities, wrong_parameter};
#[cfg(feature = "wire")]
pub use access::{Access, AccessError};
#[cfg(feature = "wire")]
pub use patroni::Patroni;
pub use sign::sign;
#[cfg(feature = "wire")]
pub use target::Target;
