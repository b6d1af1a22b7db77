//! Members that play roles: what goes wrong at every call.
#![allow(clippy::unwrap_used)]

mod common;

use ensemble_rehearsal::explore::Plan;
use ensemble_rehearsal::run::Rehearsal;
use ensemble_rehearsal::{Fault, Run, roles, run, votes};

#[test]
fn every_script_about_roles_ends_well_on_a_calm_day() {
    common::calm(&common::chosen(&roles::ALL), |run| {
        format!(
            "{} calls, {} asked, {} ms, {} changes of leader, longest pause {} ms, {} in place, {} ended",
            run.calls,
            run.asked,
            run.virtual_ms,
            run.leader_changes,
            run.longest_pause_ms,
            run.in_place,
            run.disruptions
        )
    });
}

#[test]
fn a_primary_that_goes_first_moves_the_lead_twice_and_not_for_ever() {
    let named = |s: &&ensemble_rehearsal::Scenario| s.name == "roles-primary-first";
    let scenario = roles::ALL.iter().find(named).unwrap();
    let run = run(scenario, &[], false).unwrap();
    assert_eq!((run.leader_changes, run.in_place), (2, 3));
}

fn named(name: &str) -> &'static ensemble_rehearsal::Scenario {
    roles::ALL.iter().find(|s| s.name == name).unwrap()
}

/// Whom an engine's restart was asked of, in order.
fn restarts(name: &str) -> Vec<String> {
    let run = run(named(name), &[], true).unwrap();
    let asked = run.trace.iter().filter(|l| l.contains("Do(Restart)"));
    let whom = asked.filter_map(|l| l.split_once("asks ")?.1.split(':').next());
    whom.map(str::to_owned).collect()
}

#[test]
fn a_restart_that_takes_minutes_is_let_finish_and_asked_for_once() {
    let asked = restarts("roles-parameters-slow");
    assert_eq!(asked, ["orders-1", "orders-2", "orders-0"]);
}

#[test]
fn while_the_rollout_is_paused_no_engine_is_restarted_for_a_parameter() {
    // That nothing is written at its end is what every script has to show.
    assert_eq!(restarts("roles-parameters-paused"), [""; 0]);
}

#[test]
fn no_single_fault_breaks_an_invariant_about_roles() {
    common::sweep(&common::swept(&roles::ALL), common::Part::chosen(60));
}

/// What is compared of two runs.
fn in_short(run: &Run) -> String {
    format!("{run:?}")
}

#[test]
fn a_day_that_parts_from_another_ends_as_if_it_had_been_played_from_the_start() {
    let scenario = roles::ALL.iter().find(|s| s.name == "roles-drain").unwrap();
    let kinds = Plan::default().kinds;
    let mut day = Rehearsal::start(scenario, &[], false);
    let mut parted = 0;
    while let Ok(Some(at_call)) = day.next_stop() {
        let what = kinds[at_call as usize % kinds.len()];
        let faults = [Fault { what, at_call }];
        let from_here = day.part(&faults).finish();
        let from_the_start = run(scenario, &faults, false);
        assert_eq!(
            from_here.map(|r| in_short(&r)).map_err(|v| v.seen),
            from_the_start.map(|r| in_short(&r)).map_err(|v| v.seen),
            "{faults:?}"
        );
        parted += 1;
    }
    assert!(parted > 40, "only {parted} calls");
    assert_eq!(
        in_short(&day.result()),
        in_short(&run(scenario, &[], false).unwrap())
    );
}

#[test]
fn every_script_about_votes_ends_well_on_a_calm_day() {
    common::calm(&common::chosen(votes::ALL), |run| {
        format!(
            "{} calls, {} ms, {} changes of leader, longest pause {} ms",
            run.calls, run.virtual_ms, run.leader_changes, run.longest_pause_ms
        )
    });
}

#[test]
fn no_single_fault_breaks_a_quorum() {
    common::sweep(&common::swept(votes::ALL), common::Part::chosen(20));
}
