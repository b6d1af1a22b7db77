//! Clusters whose owners have rules of their own: what goes wrong at every call.

mod common;

use ensemble_rehearsal::{tight, zoned};

#[test]
fn every_script_in_a_tight_cluster_ends_well_on_a_calm_day() {
    let all: Vec<_> = tight::ALL.iter().chain(tight::ALONE).copied().collect();
    common::calm(&common::chosen(&all), |run| {
        format!(
            "{} calls, {} ms, {} in place, {} ended, {} changes of leader, {:?}",
            run.calls,
            run.virtual_ms,
            run.in_place,
            run.disruptions,
            run.leader_changes,
            run.counts
        )
    });
}

#[test]
fn no_single_fault_breaks_an_invariant_in_a_tight_cluster() {
    common::sweep(&common::swept(tight::ALL), common::Part::chosen(12));
}

#[test]
fn every_script_with_zones_ends_well_on_a_calm_day() {
    common::calm(&common::chosen(zoned::ALL), |run| {
        format!("{} disruptions", run.disruptions)
    });
}

#[test]
fn no_single_fault_moves_a_member_to_another_zone() {
    common::sweep(&common::swept(zoned::ALL), common::Part::chosen(8));
}
