//! What may come of what we do, by the truth of the simulator and of the engine's model. These know
//! nothing of our reasons: no exemption, no patience, no word of a plan. A wrong exemption in the planner
//! shows here, because nobody repeats it.

pub(crate) mod act;
mod copies;
mod data;
mod hands_off;
mod rate;
mod routing;
mod silence;

pub use rate::Rate;

use crate::invariants::Broken;
use crate::patroni::{self, Patroni};
use crate::scenario::ensemble;
use crate::world::{NAMESPACE, World};
use act::{Act, How};
use copies::Copies;
use ensemble_conductor::{Ask, EngineCall};
use ensemble_planner::engine::EngineAct;
use routing::Routing;
use silence::Silence;
use simkube::Resource;

/// Whoever acts has asked just before: what has come to be since then it could not know. A question is
/// given up after two seconds, and what is done by its answer comes a moment later.
pub(crate) const LOOK_MS: u64 = 3_000;

pub(crate) fn broken(rule: &'static str, seen: String) -> Result<(), Broken> {
    Err(Broken { rule, seen })
}

/// All of them, for an engine with a lead.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    read: usize,
    changes: usize,
    copies: Copies,
    silence: Silence,
    routing: Routing,
}

impl Outcomes {
    /// Looks at what was written since, and at what came of it. `calm` says that nothing was made to go wrong.
    pub fn check(&mut self, world: &World, calm: bool) -> Result<(), Broken> {
        let entries = world.cluster.log().len();
        let Some(model) = patroni::of(world) else {
            self.read = entries;
            return Ok(());
        };
        let mut look = self.changes != model.changes().len();
        self.changes = model.changes().len();
        for at in self.read..entries {
            let entry = &world.cluster.log()[at];
            self.read = at + 1;
            look |= entry.resource == Resource::PersistentVolumeClaims;
            if let Some(act) = Act::of(entry) {
                self.act(world, model, &act)?;
            }
        }
        if look {
            data::is_there(model)?;
        }
        if calm {
            self.routing.passes(world, model)?;
        }
        self.silence.passes(model, calm)
    }

    /// A controller asks an engine for something.
    pub fn asked(&mut self, world: &World, call: &EngineCall) -> Result<(), Broken> {
        let Some(model) = patroni::of(world) else {
            return Ok(());
        };
        let at = world.cluster.now().0;
        match call.ask() {
            Ask::Do(EngineAct::SwitchOver { leader, .. }) => {
                hands_off::switch(world, model, leader, at)?;
                self.silence.begins(model, leader, at);
            }
            Ask::Do(EngineAct::Restart) => {
                let pod = world.cluster.get(Resource::Pods, NAMESPACE, call.member());
                let Some(pod) = pod else { return Ok(()) };
                self.act(world, model, &Act::on(&pod, How::Restart, at))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn act(&mut self, world: &World, model: &Patroni, act: &Act) -> Result<(), Broken> {
        hands_off::act(world, model, act)?;
        self.copies.act(world, model, act)?;
        // Where the user asks for nobody, silence is what was asked for.
        if ensemble(world).is_some_and(|e| e["spec"]["replicas"] == 0) {
            self.silence = Silence::default();
        } else {
            self.silence.begins(model, &act.name, act.at);
        }
        Ok(())
    }
}
