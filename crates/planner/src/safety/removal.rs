//! Whether a person may have a member removed at once. It is asked before anything is written down: once a
//! member is to leave, every rule is asked again when its turn has come, and what does not hold then is
//! waited for.

use super::{Refusal, Safety, refuse};
use crate::roster::MemberId;
use crate::wish::Act;
use ensemble_api::{Reason, Rule};

impl Safety<'_> {
    /// Whether those that stay are enough without a member: its copy and its vote are not needed, somebody
    /// can take its lead over, and as many serve as the user wants at least.
    pub fn may_remove(&self, who: MemberId, stay: &[MemberId]) -> Result<(), Refusal> {
        self.minimum_kept(who, stay)?;
        if self.snap.our_pod(who).is_none() {
            return self.known_not_to_be_missed(who);
        }
        let Err(refused) = self.judge(who, &Act::Leave) else {
            return Ok(());
        };
        match refused.promise() {
            // It hands over first, if anybody can take over.
            Rule::PrimaryHandedOver => self.has_heir(who, stay),
            // What passes by itself is waited for when it leaves.
            Rule::WithinBudget | Rule::OneChangeAtATime | Rule::ViewCurrent => Ok(()),
            Rule::IdentityKnown => Ok(()),
            _ => Err(refused),
        }
    }

    fn minimum_kept(&self, who: MemberId, stay: &[MemberId]) -> Result<(), Refusal> {
        let scaling = self.snap.ensemble.spec.scaling.as_ref();
        let least = scaling.and_then(|s| s.min).unwrap_or(0);
        let serve = stay.iter().filter(|m| self.snap.fit(**m)).count();
        let counts = self.snap.roster().wants(who) && self.snap.fit(who);
        if !counts || serve >= least as usize || !self.on(Rule::MinimumKept, who) {
            return Ok(());
        }
        refuse(
            Rule::MinimumKept,
            Reason::BudgetUsed,
            format!("{serve} members serve without {}", self.snap.name_of(who)),
            format!("spec.scaling.min {least}"),
        )
    }

    /// One without a pod holds its claims. While nobody leads, they may have the newest data.
    fn known_not_to_be_missed(&self, who: MemberId) -> Result<(), Refusal> {
        let matters = self.snap.engine().matter() && self.snap.ledger().is_born(who);
        match matters && self.on(Rule::CopiesLeft, who) {
            true => self.lead_known().map(drop),
            false => Ok(()),
        }
    }

    fn has_heir(&self, who: MemberId, stay: &[MemberId]) -> Result<(), Refusal> {
        let mut why = Vec::new();
        for heir in stay.iter().filter(|m| **m != who) {
            match self.may_succeed(*heir) {
                Ok(()) => return Ok(()),
                Err(cause) => why.push(format!("{}: {cause}", self.snap.name_of(*heir))),
            }
        }
        refuse(
            Rule::PrimaryHandedOver,
            Reason::NoSuccessor,
            format!("no replica can take over; {}", why.join("; ")),
            "one in sync",
        )
    }
}
