//! The order in which engines restart with changed parameters. Raised: replicas first, since a
//! replica must be able to follow what its primary does. Lowered: the primary first, for the same
//! reason. The second turn begins when the first is over, and that is not before everybody in it had
//! the time to notice: whoever has not noticed yet does not say that it waits for a restart.

use super::{Refusal, Safety, refuse};
use crate::cast::Cast;
use crate::roster::MemberId;
use crate::time::Time;
use crate::wish::{Act, Wish};
use ensemble_api::status::ParameterState;
use ensemble_api::{Reason, Rule};

/// Whether the primary has the first turn, by the change that is under way.
fn primary_first(cast: &Cast<'_>) -> Option<bool> {
    let change = cast.ensemble.status.parameters.as_ref()?;
    let lowered = match change.state {
        ParameterState::Applying => cast.abilities.lowers(&change.from, &change.to),
        ParameterState::RollingBack => cast.abilities.raises(&change.from, &change.to),
        ParameterState::Applied | ParameterState::Refused => return None,
    };
    Some(lowered != crate::mutants::is_off(Rule::ParametersInOrder))
}

/// Whether a member restarts in the second turn of the change that is under way.
pub(crate) fn in_second_turn(cast: &Cast<'_>, who: MemberId) -> bool {
    let leads = cast.engine().leads(who);
    primary_first(cast).is_some_and(|primary_first| leads != primary_first)
}

impl Safety<'_> {
    /// When everybody must have noticed what the engine was told.
    pub fn noticed_at(&self) -> Time {
        let cast = self.snap;
        let told = cast.memory.told_since.unwrap_or(cast.now);
        let Some(rounds) = cast.abilities.rounds else {
            return told;
        };
        let said = cast.engine().cohort().and_then(|c| c.round_seconds);
        let one = said.unwrap_or(rounds.seconds);
        told.plus_seconds(one).plus_ms(rounds.notice_ms)
    }

    /// Whether a member's turn to restart has come.
    pub fn turn_has_come(&self, wish: &Wish) -> bool {
        self.in_turn(wish.who, &wish.act).is_ok()
    }

    /// The first turn is over before anybody of the second restarts.
    pub(super) fn in_turn(&self, who: MemberId, act: &Act) -> Result<(), Refusal> {
        let restarts = matches!(act, Act::RestartEngine { .. });
        if !restarts || !in_second_turn(self.snap, who) {
            return Ok(());
        }
        self.first_turn_restarted()?;
        self.first_turn_noticed(who)
    }

    fn first_turn_restarted(&self) -> Result<(), Refusal> {
        let view = self.snap.engine();
        let pending = |m: &MemberId| view.standing(*m).is_some_and(|s| s.pending_restart);
        let mut first = self
            .snap
            .members()
            .filter(|m| !in_second_turn(self.snap, *m));
        match first.find(pending) {
            None => Ok(()),
            Some(other) => refuse(
                Rule::ParametersInOrder,
                Reason::Conflict,
                format!("{} waits for a restart", self.snap.roster().name(other)),
                "it restarts first",
            ),
        }
    }

    /// Those of the first turn had the time to notice, and have answered since.
    fn first_turn_noticed(&self, who: MemberId) -> Result<(), Refusal> {
        let (cast, at) = (self.snap, self.noticed_at());
        let answered = |m: MemberId| {
            let said = cast.engine().standing(m);
            said.is_some_and(|s| s.asked >= at && s.is_known())
        };
        let mut first = cast
            .roster()
            .wanted()
            .filter(|m| !in_second_turn(self.snap, *m));
        match first.find(|m| !answered(*m)) {
            Some(other) if self.on(Rule::ParametersNoticed, who) => refuse(
                Rule::ParametersNoticed,
                Reason::Conflict,
                format!("{} may not have noticed yet", cast.roster().name(other)),
                "it answers after it had time to",
            ),
            _ => Ok(()),
        }
    }
}
