//! Who plays which role: what is asked of the agents beside the members, and what they answer.
//!
//! Looking never fails: what cannot be told is `Unknown`, with its cause. Acting says whether it
//! was taken, refused, or whether nobody knows; what came of it is seen by looking again. Nothing
//! here decides, retries or remembers.

mod access;
mod failure;
mod patroni;
mod target;
mod tls;
mod wire;

pub use access::{Access, AccessError};
pub use patroni::Patroni;
pub use target::Target;
