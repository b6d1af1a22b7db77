//! What holds in every world, however it came about.

#[path = "../common/mod.rs"]
mod common;

mod ledger;
mod names;
mod plans;
mod worlds;
