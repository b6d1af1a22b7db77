//! What the controller does, seen on a real API server. Every row of the behaviour table that
//! concerns the API server has its tests here.
#![allow(clippy::unwrap_used)]

mod adoption;
mod chaos;
mod claims;
mod create;
mod definitions;
mod disaster;
mod disruption;
mod fidelity;
mod limits;
mod names;
mod offline;
mod plan;
mod quiet;
mod repair;
mod rollout;
mod samples;
mod scale;
mod validation;
mod waive;
mod zones;
