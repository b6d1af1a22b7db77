//! A cluster, controllers in it, and words for what a test does and expects.

mod cluster;
mod stage;

pub use cluster::cluster;
pub use stage::{Controller, Stage};
