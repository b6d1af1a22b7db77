//! Scaling in: what stays must have all that was acknowledged, and a successor.

use super::{Refusal, Safety, refuse};
use crate::roster::MemberId;
use crate::wish::Act;
use ensemble_api::status::Method;
use ensemble_api::{Reason, Rule};

impl Safety<'_> {
    /// A member does not leave if it is the last replica that has what the primary has, or the one that
    /// commits wait for and no other could take that over. Where only the primary is to stay, or nobody,
    /// that is what was asked for: it has everything, and leaves last.
    ///
    /// Down does not matter here: while nobody leads, nobody knows whose data is the newest.
    pub(super) fn copies_left(&self, who: MemberId, act: &Act) -> Result<(), Refusal> {
        let cast = self.snap;
        let leaves = act.method() == Method::Remove && cast.ledger().is_born(who);
        // Where members vote, the quorum says how many copies are enough.
        let cohort = cast.engine().cohort_of(who).filter(|c| c.quorum.is_none());
        if !leaves || cohort.is_none() || !self.on(Rule::CopiesLeft, who) {
            return Ok(());
        }
        let Some(leader) = cast.engine().leader() else {
            return self.leaves_unled(who);
        };
        let alone = cast.wanted().all(|m| m == leader);
        if who == leader || alone || !self.is_copy(who) {
            return Ok(());
        }
        let others = cast.members().filter(|m| *m != who && *m != leader);
        let mut missing = Vec::new();
        for other in others {
            match self.is_good_copy(other) {
                Ok(()) => return Ok(()),
                Err(why) => missing.push(format!("{}: {why}", cast.roster().name(other))),
            }
        }
        let in_sync = cast.in_sync(who).is_ok();
        let (who, leader) = (cast.roster().name(who), cast.roster().name(leader));
        let state = match in_sync {
            true => "in sync",
            false => "about to be in sync",
        };
        let mut observed = format!("{who} is the last replica {state} with {leader}");
        if !missing.is_empty() {
            observed += &format!("; {}", missing.join("; "));
        }
        let limit = "another replica in sync".to_owned();
        refuse(Rule::CopiesLeft, Reason::LastInSync, observed, limit)
    }

    /// Nobody leads, so the newest data may be anybody's. If nobody is to stay, all of it is kept as it is.
    fn leaves_unled(&self, who: MemberId) -> Result<(), Refusal> {
        if self.snap.roster().size() == 0 {
            return Ok(());
        }
        let name = self.snap.roster().name(who);
        refuse(
            Rule::CopiesLeft,
            Reason::NoLeader,
            format!("no primary is known, and {name} may have the newest data"),
            "one leader",
        )
    }

    /// Whether a member has what the primary has, or commits wait for it; or it is on its way to follow, as
    /// one that has just handed the lead over is: a moment ago it had everything.
    fn is_copy(&self, who: MemberId) -> bool {
        let cast = self.snap;
        let standing = cast.engine().standing(who);
        let named = cast.engine().synchronous() && standing.is_some_and(|s| s.may_lead.is_ok());
        let on_its_way = || self.expected_until(who).is_some_and(|at| at > cast.now);
        cast.in_sync(who).is_ok() || named || on_its_way()
    }

    /// Whether a member could be the copy that is left; else why not. Where commits wait for one that
    /// is named, another is named as soon as that one goes.
    fn is_good_copy(&self, who: MemberId) -> Result<(), String> {
        let able = self.may_succeed(who);
        let cast = self.snap;
        let named_later = cast.engine().synchronous()
            && cast.available(who)
            && !self.in_flight.contains(&who)
            && cast.in_sync(who).is_ok();
        if named_later { Ok(()) } else { able }
    }
}
