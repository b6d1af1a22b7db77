//! After each act of ours there is somebody left who has the data and runs.

use super::act::{Act, How};
use super::{LOOK_MS, broken};
use crate::asked::asked;
use crate::invariants::Broken;
use crate::patroni::Patroni;
use crate::scenario::ensemble;
use crate::world::World;
use ensemble_api::Rule;
use std::collections::BTreeMap;

/// A member that is further behind, in writes of 64 KiB, is no copy: 16 MiB, as `engine.maxLag` is by default.
const COPY_BEHIND: u64 = 256;

/// Members that we disrupted, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    disrupted: BTreeMap<String, Disrupted>,
}

/// A run of an engine that we ended.
#[derive(Clone, Debug)]
struct Disrupted {
    uid: String,
    start: u64,
    at: u64,
}

impl Disrupted {
    /// Whether it is still away by our act. One that does not run was in sync again since, or not.
    fn lasts(&self, model: &Patroni, name: &str) -> bool {
        match model.run_of(name) {
            Some((uid, start)) => uid == self.uid && start == self.start,
            None => model.synced_at(name) <= self.at + LOOK_MS,
        }
    }
}

impl Copies {
    /// So many others run and have what the leader has, as the size that the user asked for allows:
    /// one while a member restarts, and two once one is gone for good; and where commits wait for a
    /// replica, the leader and one that they can wait for.
    pub fn act(&mut self, world: &World, model: &Patroni, act: &Act) -> Result<(), Broken> {
        let needed = needed(world, model, act);
        let left = self.left(model, act);
        let start = model.start_of(&act.uid);
        let run = Disrupted {
            uid: act.uid.clone(),
            start,
            at: act.at,
        };
        self.disrupted.insert(act.name.clone(), run);
        // What has ended by itself is not ended by us.
        let ends = start > 0 && is_copy(model, &act.name, act.at);
        if !ends || left.len() >= needed {
            return Ok(());
        }
        let seen = format!(
            "{:?} of {} leaves {left:?} where {needed} are to be left; {}",
            act.how,
            act.name,
            model.describe()
        );
        broken(Rule::CopiesLeft.as_str(), seen)
    }

    fn left(&self, model: &Patroni, act: &Act) -> Vec<String> {
        // One that has just ended by itself counts as long as nobody could know.
        let ending = |name: &str| {
            let ours = self.disrupted.get(name);
            ours.is_some_and(|run| run.lasts(model, name))
        };
        let others = model.names().filter(|n| *n != act.name && !ending(n));
        let copies = others.filter(|n| is_copy(model, n, act.at));
        copies.map(str::to_owned).collect()
    }
}

fn is_copy(model: &Patroni, name: &str, at: u64) -> bool {
    let streams = model.in_sync(name) || model.synced_at(name) + LOOK_MS >= at;
    streams && model.behind(name) <= COPY_BEHIND
}

fn needed(world: &World, model: &Patroni, act: &Act) -> usize {
    let Some(object) = ensemble(world) else {
        return 0;
    };
    let spec = &object["spec"];
    let size = match spec["hibernate"] == true {
        true => 0,
        false => spec["replicas"].as_u64().unwrap_or(1) as usize,
    };
    let asked = asked(world, &object);
    let wanted = size > 0 && act.ordinal().is_some_and(|o| asked.contains(&o));
    let promised = if model.is_synchronous() { 2 } else { 1 };
    match (act.how, wanted) {
        (How::End, false) => size.min(2),
        _ => size.saturating_sub(1).min(promised),
    }
}
