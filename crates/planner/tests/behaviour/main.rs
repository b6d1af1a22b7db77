//! What the planner decides, situation by situation: each test is a sentence, each file a topic.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod abilities;
mod claims;
mod consent;
mod create;
mod deletion;
mod evicted;
mod in_place;
mod intents;
mod ledger;
mod names_taken;
mod parameters;
mod prepare;
mod presence;
mod quiet;
mod quorum;
mod repair;
mod requests;
mod revisions;
mod roles;
mod rollout;
mod safety;
mod scale;
mod status;
mod unsticking;
mod upkeep;
