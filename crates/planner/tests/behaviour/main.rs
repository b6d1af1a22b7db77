//! What the planner decides, situation by situation: each test is a sentence, each file a topic.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod abilities;
mod admitted;
mod claims;
mod consent;
mod create;
mod deletion;
mod etcd;
mod evicted;
mod growth;
mod in_place;
mod intents;
mod ledger;
mod limits;
mod names_taken;
mod offline;
mod parameters;
mod people;
mod prepare;
mod presence;
mod quiet;
mod quorum;
mod quota;
mod removal;
mod repair;
mod requests;
mod revisions;
mod roles;
mod rollout;
mod routing;
mod safety;
mod scale;
mod services;
mod sizes;
mod status;
mod unsticking;
mod upkeep;
mod waivers;
mod wild;
mod zones;
