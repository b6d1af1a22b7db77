//! Members that are equals: what goes wrong at every call.

mod common;

use ensemble_rehearsal::explore::Plan;
use ensemble_rehearsal::fault::What;
use ensemble_rehearsal::{Scenario, scenario, sizes};

/// All scripts with members that are equals.
fn equals() -> Vec<Scenario> {
    [scenario::EQUALS, sizes::EQUALS].concat()
}

#[test]
fn every_scenario_ends_well_on_a_calm_day() {
    common::calm(&common::chosen(&equals()), |run| {
        format!(
            "{} calls, {} ms, {:?}",
            run.calls, run.virtual_ms, run.counts
        )
    });
}

#[test]
fn no_single_fault_breaks_an_invariant() {
    common::sweep(&common::swept(&equals()), common::Part::chosen(12));
}

#[test]
fn the_parts_of_a_sweep_together_are_all_of_it() {
    let create = scenario::EQUALS.iter().filter(|s| s.name == "create");
    let create: Vec<_> = create.copied().collect();
    let bad_days = |stride, turn| {
        let plan = Plan {
            kinds: vec![What::Conflict, What::Stale],
            stride,
            turn,
            ..Plan::default()
        };
        let calm = 1;
        common::on_all_cores(&create, &plan)[0].schedules - calm
    };
    let all = bad_days(1, 0);
    assert!(all > 20, "only {all}");
    for parts in [2, 3, 5] {
        let played: Vec<u64> = (0..parts).map(|turn| bad_days(parts, turn)).collect();
        assert_eq!(played.iter().sum::<u64>(), all, "{played:?}");
    }
}
