//! Evictions that are cut off in the middle: entered in the budget, and come to nothing.
#![allow(clippy::unwrap_used)]

use ensemble_rehearsal::fault::{Fault, What};
use ensemble_rehearsal::{Run, run, scenario};

/// Kubernetes counts a pod that lives on as evicted for that long.
const FORGOTTEN_MS: u64 = 120_000;

/// The numbers of the calls that evict.
fn evictions(calm: &Run) -> Vec<u32> {
    let lines = calm.trace.iter();
    let calls = lines.filter_map(|l| l.split_once(" call ")?.1.split_once(": Evict Pod"));
    calls.map(|(number, _)| number.parse().unwrap()).collect()
}

#[test]
fn an_eviction_that_is_cut_off_costs_a_roll_seconds_and_not_two_minutes() {
    for name in ["roll", "roles-recreate"] {
        let scenario = scenario::find(name).unwrap();
        // A day without any fault is watched for longer at its end: this one's comes too late.
        let (what, at_call) = (What::PodTouched, u32::MAX);
        let calm = run(scenario, &[Fault { what, at_call }], true).unwrap();
        assert!(!calm.counts.contains_key("MergePatchStatus Budget"));
        let evictions = evictions(&calm);
        assert!(!evictions.is_empty(), "{name} evicts nobody");
        let mut taken_back = 0;
        for at_call in evictions {
            let what = What::PodTouched;
            let touched = run(scenario, &[Fault { what, at_call }], false).unwrap();
            let longer = touched.virtual_ms - calm.virtual_ms;
            println!("{name}: cut off at call {at_call}: {longer} ms longer");
            // One that was not Ready when it was evicted is not charged.
            taken_back += touched.counts.get("MergePatchStatus Budget").unwrap_or(&0);
            assert!(longer < FORGOTTEN_MS / 4, "{name}@{at_call}: {longer} ms");
        }
        assert!(taken_back >= 2, "{name}: {taken_back}");
    }
}
