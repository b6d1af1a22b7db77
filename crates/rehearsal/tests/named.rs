//! The member that somebody names: what goes wrong at every call while it leaves and comes back.

mod common;

use ensemble_rehearsal::named;

#[test]
fn every_script_about_a_named_member_ends_well_on_a_calm_day() {
    common::calm(&common::chosen(named::ALL), |run| {
        format!(
            "{} calls, {} ms, {} changes of leader, {} ended, at least {:?} ready",
            run.calls, run.virtual_ms, run.leader_changes, run.disruptions, run.fewest_ready
        )
    });
}

#[test]
fn no_single_fault_breaks_an_invariant_about_a_named_member() {
    common::sweep(&common::swept(named::ALL), common::Part::chosen(24));
}
