//! A call can only be made by a conductor, from a harmless write, a warrant or a letting: what of it does
//! not compile elsewhere.
//!
//! On stable Rust it is not compared with which error a piece is refused. So none of them names a field
//! or an argument, whose change would be refused too, and each stands beside one that differs in a single
//! expression and compiles: what else might be wrong with it would be wrong with both.

/// A struct whose fields are public could be made like this.
///
/// ```
/// use ensemble_conductor::ApiCall;
/// fn again(one: ApiCall) -> ApiCall { let ApiCall { .. } = &one; one }
/// ```
/// ```compile_fail,E0451
/// use ensemble_conductor::ApiCall;
/// fn again(one: ApiCall) -> ApiCall { let ApiCall { .. } = &one; ApiCall { ..one } }
/// ```
///
/// Who could name one of these could call it.
///
/// ```
/// let _ = ensemble_conductor::ApiCall::verb;
/// ```
/// ```compile_fail,E0624
/// let _ = ensemble_conductor::ApiCall::new;
/// ```
/// ```compile_fail,E0624
/// let _ = ensemble_conductor::ApiCall::discard;
/// ```
mod api_call {}

/// ```
/// use ensemble_conductor::EngineCall;
/// fn again(one: EngineCall) -> EngineCall { let EngineCall { .. } = &one; one }
/// ```
/// ```compile_fail,E0451
/// use ensemble_conductor::EngineCall;
/// fn again(one: EngineCall) -> EngineCall { let EngineCall { .. } = &one; EngineCall { ..one } }
/// ```
mod engine_call {}
