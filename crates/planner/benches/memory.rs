//! What 500 ensembles with 5,000 pods and 10,000 claims weigh, as the planner sees them.
//!
//! Prints the growth of the process (Linux only); the objects' JSON is dropped as soon as it is read,
//! as in the controller.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It reads files; the planner does not.

#[path = "../tests/common/mod.rs"]
mod common;

use common::World;
use ensemble_planner::Snapshot;
use std::hint::black_box;

const ENSEMBLES: usize = 500;
const MEMBERS: u32 = 10;

/// Resident memory of this process in KiB, if the system tells.
fn resident() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn main() {
    let world = World::settled(MEMBERS);
    drop(black_box(world.snapshot()));
    let before = resident();
    let all: Vec<Snapshot> = (0..ENSEMBLES).map(|_| world.snapshot()).collect();
    let after = resident();
    black_box(&all);
    match before.zip(after) {
        Some((before, after)) => {
            let each = (after - before) / (ENSEMBLES as i64 * i64::from(MEMBERS));
            let total = (after - before) / 1024;
            println!(
                "{ENSEMBLES} ensembles of {MEMBERS} members: {total} MiB, {each} KiB a member"
            );
        }
        None => println!("this system does not tell how much memory a process has"),
    }
}
