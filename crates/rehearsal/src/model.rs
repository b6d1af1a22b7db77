//! An engine as a rehearsal plays it: what members answer, what goes wrong with it, and what is true of
//! it, whatever they say. One model an engine; a new one has its line in [`of`] and [`with`].

use crate::etcd::Etcd;
use crate::fault::What;
use crate::patroni::Patroni;
use crate::world::World;
use ensemble_conductor::{EngineCall, EngineOutcome};
use ensemble_planner::engine::Reply;
use serde_json::Value;
use simkube::Workload;

/// An answer, and when it arrives.
pub struct Answer {
    /// When.
    pub at: u64,
    /// What; for a switchover it may only be known when it arrives.
    pub what: Said,
}

/// What is said.
#[derive(Clone)]
pub enum Said {
    /// Known already.
    Now(EngineOutcome),
    /// Whether the lead has come to that member.
    Switched(String),
}

/// What an engine replies to something that it is told.
pub(crate) fn replied(reply: Reply) -> EngineOutcome {
    EngineOutcome::Replied(reply)
}

/// An engine.
pub trait Model {
    /// A member is asked; `reachable` says whether its node can be reached.
    fn ask(&mut self, now: u64, call: &EngineCall, reachable: bool) -> Answer;
    /// What a switchover to that member is answered with, once it is.
    fn switched(&self, to: &str) -> EngineOutcome;
    /// Something goes wrong with it; what it cannot have does nothing.
    fn suffer(&mut self, now: u64, what: What);
    /// Who leads.
    fn leader(&self) -> Option<&str>;
    /// In one line, for people.
    fn describe(&self) -> String;
    /// Where its leader runs.
    fn leader_node(&self) -> Option<String>;
    /// Until when something is wrong with it.
    fn troubled_until(&self) -> Option<u64>;
    /// Rises whenever something has changed that no write tells of.
    fn version(&self) -> u64;
    /// How often somebody came to lead.
    fn changes(&self) -> usize;
    /// The longest time between two acknowledged writes.
    fn longest_pause_ms(&self) -> u64;
    /// Whether it labels its pods with their roles.
    fn labels_pods(&self) -> bool;
    /// That member leads from now on, if it can.
    fn give_lead(&mut self, now: u64, to: &str);
    /// Whether all of so many members run, one leads, and the others have what it has.
    fn settled(&self, replicas: usize) -> bool;
}

/// The model of the engine in a spec, if it has one.
pub fn of_spec(spec: &Value, namespace: &str, name: &str) -> Option<Box<dyn Workload>> {
    if let Some(patroni) = Patroni::of_spec(spec, namespace) {
        return Some(Box::new(patroni));
    }
    Some(Box::new(Etcd::of_spec(spec, name)?))
}

/// The model in a world, if there is one.
pub fn of(world: &World) -> Option<&dyn Model> {
    let patroni = world.cluster.workload_as::<Patroni>();
    let etcd = || world.cluster.workload_as::<Etcd>();
    patroni
        .map(|m| m as &dyn Model)
        .or_else(|| etcd().map(|m| m as &dyn Model))
}

/// Does something to the model in a world.
pub fn with<T>(world: &mut World, act: impl FnOnce(&mut dyn Model, u64) -> T) -> Option<T> {
    let now = world.cluster.now().0;
    let any = world.cluster.workload_mut()?.as_any();
    let model: &mut dyn Model = if any.is::<Patroni>() {
        any.downcast_mut::<Patroni>()?
    } else {
        any.downcast_mut::<Etcd>()?
    };
    let done = act(model, now);
    world.cluster.plan_workload_wake();
    Some(done)
}
