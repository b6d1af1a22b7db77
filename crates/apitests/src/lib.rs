//! A cluster, controllers in it, and words for what a test does and expects.

pub mod cluster;
mod process;
pub mod real;
mod stage;

pub use cluster::{cluster, install_crds};
pub use process::{ControllerProcess, serve};
pub use stage::{Controller, Stage};
