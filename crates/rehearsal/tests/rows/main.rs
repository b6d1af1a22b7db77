//! The rows of the behaviour table that concern the order of calls: intents before disruptions,
//! what is looked at again, what is waited for, and what answers mean.

mod desk;
mod disruption;
mod engines;
mod evicted;
mod members;
