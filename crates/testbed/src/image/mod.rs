//! Container images made without Docker and served by a registry on this machine.

mod catalogue;
mod debian;
mod layer;
mod oci;

pub use catalogue::{all, program, publish_all};
pub use oci::{Image, publish_archive};

/// The image that holds a pod's namespaces.
pub const PAUSE: &str = "registry.testbed/pause:1";
