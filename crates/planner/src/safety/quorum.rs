//! Where members vote, enough of them are left when one is disrupted.

use super::{Refusal, Safety, refuse};
use crate::engine::{Cohort, Quorum};
use crate::roster::MemberId;
use crate::wish::Act;
use ensemble_api::{Predicate, Reason, Rule};
use std::collections::BTreeSet;

/// How many must be left. Of one or two no quorum is left whatever is done: then it is all others, since
/// a change that nobody can ever get is no protection.
fn needed(quorum: &Quorum) -> u32 {
    let others = quorum.size().saturating_sub(1);
    if crate::mutants::is_off(Rule::FewVotersGiveWay) {
        return quorum.needed;
    }
    quorum.needed.min(others)
}

impl Safety<'_> {
    /// Voters that serve, have what their leader has, and are not being changed.
    fn present(&self, quorum: &Quorum) -> impl Iterator<Item = MemberId> {
        let there = |m: &MemberId| self.snap.fit(*m) && !self.in_flight.contains(m);
        quorum.voters.iter().copied().filter(there)
    }

    /// A voter is missed as soon as it is touched.
    pub(super) fn quorum_holds(&self, who: MemberId, act: &Act) -> Result<(), Refusal> {
        let cast = self.snap;
        let cohort = cast.engine().cohort_of(who);
        let Some(quorum) = cohort.and_then(|c| c.quorum.as_ref()) else {
            return Ok(());
        };
        if !self.touches_engine(who, act) || !quorum.voters.contains(&who) {
            return Ok(());
        }
        let others = self.present(quorum).filter(|m| *m != who).count();
        let (others, needed) = (u32::try_from(others).unwrap_or(u32::MAX), needed(quorum));
        if others >= needed || !self.on(Rule::QuorumHolds, who) || self.is_missed_already(who) {
            return Ok(());
        }
        let name = cast.roster().name(who);
        let missing = self.missing(quorum, who);
        refuse(
            Rule::QuorumHolds,
            Reason::QuorumAtRisk,
            format!(
                "{others} of {} voters are there without {name}{missing}",
                quorum.size()
            ),
            format!("{needed} needed"),
        )
    }

    /// Those that are missed beside a member, in words.
    fn missing(&self, quorum: &Quorum, who: MemberId) -> String {
        let present: BTreeSet<MemberId> = self.present(quorum).collect();
        let missing = quorum.voters.difference(&present).filter(|m| **m != who);
        let mut names: Vec<String> = missing.map(|m| self.snap.roster().name(*m)).collect();
        if quorum.elsewhere > 0 {
            names.push(format!("{} that Ensemble does not know", quorum.elsewhere));
        }
        match names.is_empty() {
            true => String::new(),
            false => format!("; missing: {}", names.join(", ")),
        }
    }

    /// One that is proven down, or has not come up for long, votes for nobody as it is.
    fn is_missed_already(&self, who: MemberId) -> bool {
        let missed = self.snap.presence(who).is_down() || self.recovering(who);
        missed && self.on(Rule::VoterMissedAlready, who)
    }

    /// The rule with its values now, for each cohort that votes.
    pub(super) fn quorum_predicates(&self) -> Vec<Predicate> {
        let quorum = |c: &Cohort| c.quorum.clone();
        let all = self.snap.engine().cohorts.iter().filter_map(quorum);
        all.map(|quorum| {
            let present = u32::try_from(self.present(&quorum).count()).unwrap_or(u32::MAX);
            Predicate {
                name: Rule::QuorumHolds.to_string(),
                holds: present >= quorum.needed,
                observed: format!("{present} of {} voters are there", quorum.size()),
                limit: format!("{} needed", quorum.needed),
            }
        })
        .collect()
    }
}
