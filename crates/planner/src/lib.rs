//! What happens next: pure, [`Snapshot`] in, [`Plan`] out.
//!
//! No async, no client, no clock, no chance, no hash maps. [`plan`] is a straight list of steps;
//! each looks at the snapshot, at what steps before it found out and at the safety ledger, and adds
//! to a sheet what it wants done and, if that is nothing, why. The only room with rules about losing something is [`safety`].

pub mod abilities;
pub mod cast;
pub mod change;
pub mod claims;
#[cfg(doctest)]
mod consent;
pub mod engine;
pub mod errand;
pub mod evidence;
pub mod kinds;
pub mod ledger;
mod lives;
pub mod memory;
pub mod method;
pub mod miscount;
pub mod pace;
mod parameters;
pub mod plan;
pub mod presence;
pub mod pull;
pub mod quantity;
pub mod quota;
pub mod render;
pub mod replaced;
pub mod resize;
pub mod revision;
pub mod roster;
pub mod safety;
mod sheet;
pub mod shelf;
pub mod snapshot;
mod steps;
mod succession;
pub mod time;
pub mod view;
pub mod waivers;
pub mod wanted;
pub mod wish;
pub mod write;
pub mod zones;

pub use plan::{Plan, plan};
pub use safety::{
    ErrandWarrant, Letting, Permit, Refusal, Safety, Warrant, confirm, confirm_errand,
};
pub use snapshot::Snapshot;
pub use time::Time;
pub use write::Write;

/// Rules that a test build can switch off by name, to prove that a test notices.
#[cfg(feature = "mutants")]
pub mod mutants {
    use ensemble_api::Rule;
    use std::cell::Cell;

    thread_local! {
        static OFF: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    /// Switches one rule off on this thread, or all on again.
    pub fn switch_off(rule: Option<Rule>) {
        OFF.set(rule);
    }

    /// Whether that rule is switched off.
    pub fn is_off(rule: Rule) -> bool {
        OFF.get() == Some(rule)
    }
}

/// Without the feature, every rule is on and the question costs nothing.
#[cfg(not(feature = "mutants"))]
pub mod mutants {
    use ensemble_api::Rule;

    /// Whether that rule is switched off: never.
    #[inline(always)]
    pub fn is_off(_rule: Rule) -> bool {
        false
    }
}
