//! Engines that have to restart for changed parameters, in the order of their turns.

use super::{Act, Round, Wish};
use crate::cast::Cast;
use crate::parameters::{pending, restarting};
use crate::roster::MemberId;
use crate::safety::in_second_turn;
use std::cmp::Reverse;

/// One wish for each of them.
pub(super) fn due(cast: &Cast<'_>) -> Vec<Wish> {
    let Some(cause) = restarting(cast) else {
        return Vec::new();
    };
    let mut members = pending(cast);
    members.sort_by_key(|m| (in_second_turn(cast, *m), Reverse(*m)));
    let wish = |who: MemberId| {
        let run = cast.engine().standing(who).map(|s| s.run.clone());
        Wish {
            who,
            act: Act::RestartEngine {
                run: run.unwrap_or_default(),
            },
            cause: cause.clone(),
            round: Round::Restart,
        }
    };
    members.into_iter().map(wish).collect()
}
