//! Writes numbered rows to PostgreSQL all the time, and compares what was acknowledged with what is
//! there: the measure of what a change of the cluster costs its clients.

pub mod check;
pub mod connection;
pub mod log;
pub mod run;
pub mod tally;
