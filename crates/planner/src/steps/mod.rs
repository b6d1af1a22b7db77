//! The steps of a plan, one file each. A step is given what it needs of the others, as what they
//! returned, and a sheet to add to; it returns what others need of it.

pub mod claims;
pub mod deletion;
pub mod evicted;
pub mod growth;
pub mod intents;
pub mod members;
pub mod parameters;
pub mod prepare;
pub mod pulling;
pub mod removal;
pub mod requests;
pub mod resize;
pub mod roles;
pub mod services;
pub mod status;
pub mod switch;
pub mod turns;
pub mod upkeep;
