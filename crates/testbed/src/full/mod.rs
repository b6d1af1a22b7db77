//! The full testbed: three real nodes in three zones, each in namespaces of its own.

mod cgroups;
mod down;
pub mod faults;
pub mod layout;
mod mounts;
mod network;
mod node;
mod requirements;
mod services;
mod storage;
mod up;

pub use down::down;
pub use faults::Testbed;
pub use services::registry_storage;
pub use up::{build, is_well, up};
