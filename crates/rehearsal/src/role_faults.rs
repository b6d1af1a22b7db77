//! Faults about roles, done to the model.

use crate::fault::What;
use crate::patroni::{self, Trouble};
use crate::world::World;

/// Makes the engine misbehave; without roles nothing happens.
pub fn apply(world: &mut World, what: What) {
    let trouble = match what {
        What::RolesSilent => Trouble::Silent,
        What::RolesSlow => Trouble::Slow,
        What::RolesLie => Trouble::Lies,
        What::ReplicasLag => Trouble::Lag,
        What::SwitchRefused => Trouble::Refuses,
        What::SwitchElsewhere => Trouble::Elsewhere,
        What::SwitchUnanswered => Trouble::AnswerLost,
        What::EnginePaused => Trouble::Paused,
        What::LeadUsurped => Trouble::Usurped,
        What::LiarAlone => Trouble::Alone,
        What::PromotedLate => Trouble::LatePromotion,
        What::OldTermFirst => Trouble::OldTerm,
        What::FailsOver => {
            patroni::with(world, |model, now| model.fail_over(now, None));
            return;
        }
        What::LeaderCrashes => {
            let node = patroni::of(world).and_then(patroni::Patroni::leader_node);
            if let Some(node) = node {
                world.cluster.reboot_node(&node);
            }
            return;
        }
        _ => return,
    };
    patroni::with(world, |model, now| model.trouble(now, trouble));
}
