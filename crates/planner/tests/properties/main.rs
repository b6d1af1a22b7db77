//! What holds in every world, however it came about.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod ledger;
mod names;
mod plans;
mod worlds;
