//! What it takes to speak with an engine: the same for all of them.

use crate::access::{Access, AccessError};
use crate::target::Target;
use ensemble_api::engine::Engine;
use ensemble_planner::engine::{Answer, EngineAct, Reply};
use ensemble_planner::time::Time;
use std::pin::Pin;
use std::sync::Arc;

/// What comes of it, later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Speaks with the members of one kind of engine. Looking never fails: what cannot be told is unknown,
/// with its cause. Acting says whether it was taken, refused, or whether nobody knows.
pub trait Speaks: Send + Sync {
    /// Asks a member who it is. `asked` is the time by our clock, before this call.
    fn observe<'a>(&'a self, target: &'a Target, asked: Time) -> Later<'a, Answer>;

    /// Tells a member to do something.
    fn tell<'a>(&'a self, target: &'a Target, act: &'a EngineAct) -> Later<'a, Reply>;
}

/// How an engine is spoken with.
pub struct Contact {
    /// Where in a spec people look for what is wrong.
    pub field: &'static str,
    /// By which Secret, with which port and whether over TLS, by its spec.
    pub by: fn(&Engine) -> Option<Means<'_>>,
    /// With what that Secret brought.
    pub with: fn(&Access) -> Result<Arc<dyn Speaks>, AccessError>,
}

/// What a spec says about how its engine is reached.
pub struct Means<'a> {
    /// The port in each member.
    pub port: u16,
    /// The Secret with credentials, if there is one.
    pub secret: Option<&'a str>,
    /// Whether it speaks TLS.
    pub tls: bool,
}
