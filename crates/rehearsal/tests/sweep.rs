//! Members that are equals: what goes wrong at every call.

mod common;

use common::Part;
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
    // All of it takes minutes: whoever asks for a part of more gets it.
    let part = match common::asked() {
        Some(_) => Part::Every(1),
        None => Part::Every(4),
    };
    common::sweep(&common::chosen(scenario::EQUALS), &part);
}
