//! Growth at a measured pace: new members copy their data from the one that leads, and all of them at once
//! would slow it down.

use crate::cast::Cast;
use crate::ledger::Ledgers;
use crate::plan::blocker;
use crate::roster::MemberId;
use crate::sheet::Sheet;
use ensemble_api::report::Action;
use ensemble_api::{Reason, Rule};

/// So many new members may copy their data at a time, or `maxUnavailable` if that is more.
pub const CLONES_AT_A_TIME: usize = 2;

/// Who copies, and how many more may begin.
pub struct Growth {
    copying: Vec<String>,
    most: usize,
}

impl Growth {
    /// Counts those that have a pod and were never Ready. Members that are equals copy from nobody. The
    /// first member of all copies from nobody either, and is not counted; where nobody was ever Ready
    /// and members vote, none would be without the others.
    pub fn of(snap: &Cast<'_>, ledgers: &Ledgers) -> Self {
        let anyone = ledgers.anyone_born();
        let paced = snap.ensemble.spec.engine.is_some() && (anyone || snap.abilities.leads_alone);
        let on = paced && !crate::mutants::is_off(Rule::GrowthPaced);
        let pace = CLONES_AT_A_TIME.max(snap.ensemble.spec.rollout.max_unavailable as usize);
        let new = snap.wanted().filter(|m| !ledgers.is_born(*m));
        let copying = new.filter(|m| snap.our_pod(*m).is_some());
        Self {
            copying: copying.map(|m| snap.name_of(m)).collect(),
            most: if on {
                pace + usize::from(!anyone)
            } else {
                usize::MAX
            },
        }
    }

    /// Whether a member that is to be created has to wait for others; if not, it counts from now on.
    pub fn holds_back(
        &mut self,
        snap: &Cast<'_>,
        ledgers: &Ledgers,
        who: MemberId,
        sheet: &mut Sheet<'_>,
    ) -> bool {
        if ledgers.is_born(who) {
            return false;
        }
        let member = snap.name_of(who);
        if self.copying.len() < self.most {
            self.copying.push(member);
            return false;
        }
        let message = format!(
            "{member} waits: {} copy their data, and at most {} do so at a time",
            self.copying.join(", "),
            self.most
        );
        let mut blocker = blocker(snap, Reason::Cloning, message);
        blocker.observed = format!("{} new members are not Ready", self.copying.len());
        blocker.limit = format!("{} at a time", self.most);
        sheet.block(Action::Create, Some(member), "asked for", blocker);
        true
    }
}
