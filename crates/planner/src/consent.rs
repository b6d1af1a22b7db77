//! Consent cannot be made outside of [`crate::safety`]: what of it does not compile elsewhere.
//!
//! On stable Rust it is not compared with which error a piece is refused. So none of them names a field,
//! whose new name would be refused too, and each stands beside one that differs in a single expression
//! and compiles: what else might be wrong with it would be wrong with both. That consent cannot be
//! copied, made from nothing or read from a file is asserted in `tests/behaviour/consent.rs`.

/// A struct whose fields are public could be made like this.
///
/// ```
/// use ensemble_planner::Permit;
/// fn again(one: Permit) -> Permit { let Permit { .. } = &one; one }
/// ```
/// ```compile_fail,E0451
/// use ensemble_planner::Permit;
/// fn again(one: Permit) -> Permit { let Permit { .. } = &one; Permit { ..one } }
/// ```
mod permit {}

/// ```
/// use ensemble_planner::Warrant;
/// fn again(one: Warrant) -> Warrant { let Warrant { .. } = &one; one }
/// ```
/// ```compile_fail,E0451
/// use ensemble_planner::Warrant;
/// fn again(one: Warrant) -> Warrant { let Warrant { .. } = &one; Warrant { ..one } }
/// ```
mod warrant {}

/// ```
/// use ensemble_planner::ErrandWarrant;
/// fn again(one: ErrandWarrant) -> ErrandWarrant { let ErrandWarrant { .. } = &one; one }
/// ```
/// ```compile_fail,E0451
/// use ensemble_planner::ErrandWarrant;
/// fn again(one: ErrandWarrant) -> ErrandWarrant { let ErrandWarrant { .. } = &one; ErrandWarrant { ..one } }
/// ```
mod errand_warrant {}

/// ```
/// use ensemble_planner::Letting;
/// fn again(one: Letting) -> Letting { let Letting { .. } = &one; one }
/// ```
/// ```compile_fail,E0451
/// use ensemble_planner::Letting;
/// fn again(one: Letting) -> Letting { let Letting { .. } = &one; Letting { ..one } }
/// ```
mod letting {}
