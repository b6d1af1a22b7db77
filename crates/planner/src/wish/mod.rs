//! What is to change: one list of wishes, made once in a pass and without looking at safety.
//!
//! A plan takes turns by it, and whoever looks again before a disruption asks it afresh: what was
//! granted and is still wished for is what is confirmed.

mod restart;
mod roll;

pub(crate) use roll::replicas_before;

use crate::cast::Cast;
use crate::ledger::Ledgers;
use crate::presence::{Presence, ProofOfDown};
use crate::revision::Revisions;
use crate::roster::{MemberId, Place, Roster};
use ensemble_api::report::Action;
use ensemble_api::status::{Intent, Method};
use std::fmt;

/// Something that is to change of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Of whom.
    pub who: MemberId,
    /// How.
    pub act: Act,
    /// Why.
    pub cause: Cause,
    /// With whom it takes its turn.
    pub round: Round,
}

/// Those of one round take their turns one after the other; rounds do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Round {
    /// What has ended makes way.
    Clear,
    /// Those that are no longer asked for leave.
    Leave,
    /// A new template, member by member.
    Roll,
    /// Engines restart for their parameters.
    Restart,
}

/// How a member is changed: the least that suffices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Its pod goes and comes again on the same claims, at the newest revision.
    Recreate,
    /// Its pod has ended for good, and makes way for the next on the same claims.
    Clear,
    /// It leaves for good.
    Leave,
    /// Its pod gets labels and annotations of that revision; nothing restarts.
    Relabel {
        /// The revision.
        to: String,
    },
    /// Its pod gets CPU and memory of that revision; nothing restarts.
    Resize {
        /// The revision.
        to: String,
    },
    /// Its pod gets that revision, and containers of it restart.
    InPlace {
        /// The revision.
        to: String,
    },
    /// Its engine restarts in its container.
    RestartEngine {
        /// The run that is to end.
        run: String,
    },
}

impl Act {
    /// What an intent wrote down. How little of a pod restarts in place, it does not say.
    pub fn of(intent: &Intent) -> Self {
        let target = intent.target.clone();
        match intent.method {
            Method::Recreate => Act::Recreate,
            Method::Clear => Act::Clear,
            Method::Remove => Act::Leave,
            Method::InPlace => Act::InPlace { to: target },
            Method::Restart => Act::RestartEngine { run: target },
        }
    }

    /// As an intent stores it.
    pub fn method(&self) -> Method {
        match self {
            Act::Recreate => Method::Recreate,
            Act::Clear => Method::Clear,
            Act::Leave => Method::Remove,
            Act::Relabel { .. } | Act::Resize { .. } | Act::InPlace { .. } => Method::InPlace,
            Act::RestartEngine { .. } => Method::Restart,
        }
    }

    /// As the report calls it.
    pub fn action(&self) -> Action {
        match self {
            Act::Recreate => Action::Recreate,
            Act::Clear => Action::Clear,
            Act::Leave => Action::Remove,
            Act::Relabel { .. } => Action::Relabel,
            Act::Resize { .. } => Action::Resize,
            Act::InPlace { .. } => Action::InPlace,
            Act::RestartEngine { .. } => Action::Restart,
        }
    }

    /// What it brings to the same pod, or which run of the engine it ends.
    pub fn target(&self) -> &str {
        match self {
            Act::Recreate | Act::Clear | Act::Leave => "",
            Act::Relabel { to } | Act::Resize { to } | Act::InPlace { to } => to,
            Act::RestartEngine { run } => run,
        }
    }

    /// Whether it is what an intent wrote down.
    pub fn is_of(&self, intent: &Intent) -> bool {
        self.method() == intent.method && self.target() == intent.target
    }
}

/// Why a member is to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Another template than it runs is asked for.
    Template {
        /// The revision that last reached everybody, if one did.
        from: String,
        /// The one that is asked for.
        to: String,
        /// Why its pod is recreated although it could be changed in place.
        surprise: Option<String>,
        /// Whether nothing of it restarts.
        quiet: bool,
    },
    /// Its pod ended by itself: how.
    Ended(String),
    /// So many members are asked for.
    ScaledIn(u32),
    /// The user takes it out.
    Offline,
    /// A person had it removed for good.
    Removed,
    /// Parameters of its engine changed: which.
    Parameters(String),
    /// Parameters that nobody came up with are put back.
    PutBack,
}

impl Cause {
    /// Why a member that is not asked for leaves.
    pub fn of_leaving(roster: &Roster, who: MemberId) -> Self {
        match roster.place(who) {
            Place::Offline => Cause::Offline,
            Place::Retired => Cause::Removed,
            Place::Wanted | Place::Surplus => Cause::ScaledIn(roster.size()),
        }
    }

    /// In words, without what concerns one member alone.
    pub fn plain(&self) -> String {
        let mut plain = self.clone();
        if let Cause::Template {
            surprise, quiet, ..
        } = &mut plain
        {
            (*surprise, *quiet) = (None, false);
        }
        plain.to_string()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Template {
                from,
                to,
                surprise,
                quiet,
            } => {
                f.write_str("the template changed")?;
                if !from.is_empty() {
                    write!(f, " ({from} -> {to})")?;
                }
                match surprise {
                    Some(surprise) => write!(f, "; recreated: {surprise}"),
                    None if *quiet => f.write_str("; nothing restarts"),
                    None => Ok(()),
                }
            }
            Cause::Ended(how) => write!(f, "its pod ended ({how})"),
            Cause::ScaledIn(replicas) => write!(f, "replicas is {replicas}"),
            Cause::Offline => f.write_str("spec.offline lists it"),
            Cause::Removed => f.write_str("removed by request"),
            Cause::Parameters(which) => f.write_str(which),
            Cause::PutBack => f.write_str("the old parameters are put back"),
        }
    }
}

/// All that is to change, in the order of turns.
pub fn wishes(cast: &Cast<'_>, ledger: &Ledgers, revisions: &Revisions) -> Vec<Wish> {
    let mut all: Vec<Wish> = ended(cast).collect();
    all.extend(surplus(cast));
    all.extend(roll::outdated(cast, ledger, revisions));
    all.extend(restart::due(cast));
    all
}

/// Pods that have ended for good make way for the next on the same claims.
fn ended(cast: &Cast<'_>) -> impl Iterator<Item = Wish> {
    let is_ended = |m: &MemberId| cast.presence(*m) == Presence::Down(ProofOfDown::Ended);
    cast.wanted().filter(is_ended).map(|who| {
        let how = cast.our_pod(who).map(|p| p.ended.clone());
        Wish {
            who,
            act: Act::Clear,
            cause: Cause::Ended(how.unwrap_or_default()),
            round: Round::Clear,
        }
    })
}

/// Those that are no longer asked for leave, from the highest ordinal. The one that leads comes last: it
/// has what everybody else has, and whoever commits wait for may have to leave before it can hand over.
fn surplus(cast: &Cast<'_>) -> impl Iterator<Item = Wish> {
    let leads = |m: &MemberId| cast.engine().leads(*m);
    let replicas = cast.surplus().rev().filter(move |m| !leads(m));
    let leader = cast.surplus().filter(move |m| leads(m));
    replicas.chain(leader).map(|who| Wish {
        who,
        act: Act::Leave,
        cause: Cause::of_leaving(cast.roster(), who),
        round: Round::Leave,
    })
}
