//! Members that are equals: what goes wrong at every call.

mod common;

use ensemble_rehearsal::scenario;

#[test]
fn every_scenario_ends_well_on_a_calm_day() {
    common::calm(&common::chosen(scenario::EQUALS), |run| {
        format!(
            "{} calls, {} ms, {:?}",
            run.calls, run.virtual_ms, run.counts
        )
    });
}

#[test]
fn no_single_fault_breaks_an_invariant() {
    common::sweep(&common::chosen(scenario::EQUALS), common::Part::chosen(4));
}
