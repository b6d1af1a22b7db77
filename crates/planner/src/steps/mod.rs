//! The steps of a plan, one file each, in the order in which they run.

pub mod claims;
pub mod deletion;
pub mod evicted;
pub mod intents;
pub mod members;
pub mod parameters;
pub mod prepare;
pub mod requests;
pub mod resize;
pub mod roles;
pub mod status;
pub mod switch;
pub mod turns;
pub mod upkeep;
