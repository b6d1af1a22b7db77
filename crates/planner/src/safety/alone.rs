//! A primary that nobody is to be beside: there is nobody to hand over to, so downtime is unavoidable, and
//! asked for. That holds only once nobody else runs. Whoever still does may take the lead while the
//! primary is away, and would leave with what was written meanwhile.

use super::{Refusal, Safety, refuse};
use crate::roster::MemberId;
use ensemble_api::{Reason, Rule};

impl Safety<'_> {
    /// Whether nobody but that member is to be: it is the only one asked for, or nobody is.
    pub(super) fn is_asked_for_alone(&self, who: MemberId) -> bool {
        self.snap.wanted().all(|m| m == who)
    }

    /// Nobody else runs.
    pub(super) fn runs_alone(&self, who: MemberId) -> Result<(), Refusal> {
        let cast = self.snap;
        let runs = |m: &MemberId| *m != who && !cast.presence(*m).is_down();
        let others: Vec<MemberId> = cast.members().filter(runs).collect();
        if others.is_empty() || !self.on(Rule::SingleRunsAlone, who) {
            return Ok(());
        }
        refuse(
            Rule::SingleRunsAlone,
            Reason::Terminating,
            format!("{} still run", cast.roster().names(others)),
            "no other member runs",
        )
    }
}
