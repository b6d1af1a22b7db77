//! A cluster, controllers in it, and words for what a test does and expects.

mod cluster;
mod process;
mod stage;

pub use cluster::{cluster, install_crds};
pub use process::{ControllerProcess, serve};
pub use stage::{Controller, Stage};
