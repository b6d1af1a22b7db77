//! A cluster, controllers in it, and words for what a test does and expects.

pub mod cluster;
pub mod real;
mod stage;

pub use cluster::cluster;
pub use stage::{Controller, Stage};
