//! A real Kubernetes on one Linux machine, for tests.
//!
//! [`ControlPlane`] starts etcd, API servers and the controller manager without root, with
//! simulated nodes on request; see `docs/testbed.md` for the profiles and the commands.

pub mod background;
pub mod cache;
pub mod client;
pub mod command;
mod control_plane;
pub mod fake;
pub mod forward;
pub mod full;
pub mod golang;
pub mod harness;
pub mod image;
pub mod parts;
pub mod phase;
mod pki;
mod plane;
mod ports;
pub mod process;
pub mod standing;
pub mod versions;
pub mod volumes;
pub mod wait;

pub use control_plane::{ControlPlane, Options};
pub use parts::Version;
pub use plane::{Component, NodeTimers};
pub use wait::eventually;
