//! One pass: a straight list of steps, each of which is given what those before it found out.

use crate::cast::Cast;
use crate::engine::Tell;
use crate::revision::Revisions;
use crate::safety::{Letting, Permit, Safety};
use crate::sheet::Sheet;
use crate::snapshot::Snapshot;
use crate::steps::status::Durable;
use crate::steps::turns::Turns;
use crate::steps::{
    claims, deletion, evicted, intents, members, parameters, prepare, requests, resize, roles,
    status, switch, upkeep,
};
use crate::time::Time;
use crate::wish::wishes;
use crate::write::Write;
use ensemble_api::{Blocker, Reason, Report, Rule};

/// What is to happen next, and why.
#[derive(Debug)]
#[must_use]
pub struct Plan {
    /// Writes that hurt nobody.
    pub writes: Vec<Write>,
    /// Members that may be disrupted, once each is written down and looked at again. The status in
    /// `writes` has them as intents.
    pub permits: Vec<Permit>,
    /// Claims that may be let go.
    pub lettings: Vec<Letting>,
    /// What the engine is to be told that disrupts nobody.
    pub engine: Vec<Tell>,
    /// How closely the engine has to be watched.
    pub watch: Watch,
    /// What the plan says.
    pub report: Report,
    /// When something changes by time alone.
    pub wake_at: Option<Time>,
}

/// How closely an engine has to be watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watch {
    /// There is no engine.
    #[default]
    None,
    /// Nothing is in flight.
    Rest,
    /// Something is in flight, or waits for the engine.
    Closely,
    /// The lead is being handed over, or a member is about to follow.
    Eagerly,
}

/// Decides what happens next. What a step returns is what others know of it; all of them add to the
/// sheet, which only the status reads.
pub fn plan(snap: &Snapshot) -> Plan {
    let cast = Cast::of(snap);
    let revisions = Revisions::of(snap);
    let mut safety = Safety::assess(&cast);
    let mut sheet = Sheet::new(&cast);
    if snap.ensemble.meta.deleting {
        return deletion::run(&cast, &revisions, &safety, sheet);
    }
    if snap.ensemble.spec.suspend {
        return status::suspended(&cast, &revisions, &safety, sheet);
    }
    let settled = intents::settle(&cast, &mut sheet);
    let mut succession = switch::follow(&cast, &revisions, &mut sheet);
    let prepared = prepare::run(&cast, &revisions, &mut sheet);
    roles::run(&cast, &mut safety, &mut succession, &mut sheet);
    let answered = requests::answer(&cast, &revisions, &mut safety, &mut succession, &mut sheet);
    let claimed = claims::run(&cast, answered, &prepared, &safety, &mut sheet);
    members::run(&cast, &prepared, &claimed, &mut sheet);
    resize::run(&cast, &revisions, &mut sheet);
    let wishes = wishes(&cast, &claimed.lives.ledgers, &revisions);
    let turns = Turns::new(
        &cast,
        &revisions,
        &settled,
        &prepared,
        &mut safety,
        &mut succession,
        &mut sheet,
    );
    let permits = turns.take(&wishes);
    let configured = parameters::run(&cast, &safety, &mut sheet);
    evicted::run(&cast, &safety, &mut sheet);
    let marked = upkeep::run(&cast, &revisions, &claimed, &mut sheet);
    let durable = Durable {
        settled,
        succession,
        claimed,
        permits,
        configured,
        marked,
    };
    status::write(&cast, &revisions, &safety, sheet, durable)
}

/// What a person types to do without a rule for one member and a while.
pub(crate) fn waive_command(snap: &Snapshot, rule: Rule, member: &str) -> String {
    format!(
        "ensemble waive {} {rule} --member {member} --reason TEXT --for 10m -n {}",
        snap.name(),
        snap.ensemble.namespace
    )
}

/// A blocker with what its reason's page says.
pub(crate) fn blocker(snap: &Snapshot, reason: Reason, message: String) -> Blocker {
    let page = reason.page();
    Blocker {
        reason,
        message,
        observed: String::new(),
        limit: String::new(),
        clears_when: page.clears_when.to_owned(),
        next_command: reason.next_command(snap.name()),
    }
}
