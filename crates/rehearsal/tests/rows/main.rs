//! The rows of the behaviour table that concern the order of calls: intents before disruptions,
//! what is looked at again, what is waited for, and what answers mean.

#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod admission;
mod desk;
mod disruption;
mod engines;
mod evicted;
mod limits;
mod members;
mod pruned;
mod time;
