//! Faults about roles, done to the model.

use crate::fault::What;
use crate::model;
use crate::world::World;

/// Makes the engine misbehave; without roles nothing happens.
pub fn apply(world: &mut World, what: What) {
    if what == What::LeaderCrashes {
        let node = model::of(world).and_then(|m| m.leader_node());
        if let Some(node) = node {
            world.cluster.reboot_node(&node);
        }
        return;
    }
    if what.is_about_roles() {
        model::with(world, |model, now| model.suffer(now, what));
    }
}
