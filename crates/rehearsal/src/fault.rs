//! What goes wrong, and when. Faults are counted by the controller's calls, so that "at every step"
//! means just that.

use serde::Serialize;
use std::fmt;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum What {
    /// The controller dies before the call; another starts.
    CrashBefore,
    /// The call is done; the controller dies before it hears so.
    CrashAfter,
    /// The call is done and its answer lost.
    AnswerLost,
    /// The call is refused as made from an older state.
    Conflict,
    /// The API server fails.
    ServerError,
    /// The API server has too much to do.
    TooMany,
    /// The call does not reach the API server.
    NeverSent,
    /// From here the controller sees nothing new for a while.
    Stale,
    /// From here the controller sees nothing new of pods for a while, and all else.
    PodsStale,
    /// From here the controller sees nothing new of claims for a while, and all else.
    ClaimsStale,
    /// The controller's watches expire and it lists again.
    Expired,
    /// The controller sleeps before the call, another takes over, then the call is sent.
    LateWrite,
    /// Another controller starts and believes to lead too.
    SecondLeader,
    /// A node dies.
    NodeDies,
    /// A node loses its connection, and gets it back later.
    NodeParted,
    /// The status is wiped.
    StatusWiped,
    /// Somebody deletes a member's pod.
    PodDeleted,
    /// Somebody takes our label off a pod.
    LabelStripped,
    /// Somebody writes another ensemble's name into our label of a pod.
    LabelEdited,
    /// Somebody touches the pod that the call is about just before it arrives, or another pod. An
    /// eviction is entered in its budget then, and fails.
    PodTouched,
    /// A member's process ends and comes back, three times: the leader's, or orders-1's without roles.
    ContainerCrashes,
    /// From the start: the definition of our kinds is older than we are, and what it does not know of status
    /// is not kept.
    OldDefinition,
    /// The controller dies, and the clock of the one that takes over is an hour behind: whatever is
    /// stored lies in its future.
    ClockBack,
    /// The controller's clock jumps ahead by an hour, or the controller was frozen for one.
    ClockAhead,
    /// No engine answers for a while.
    RolesSilent,
    /// Engines answer slowly for a while.
    RolesSlow,
    /// A second member claims the lead for a while.
    RolesLie,
    /// Replicas get no more of the log for a while.
    ReplicasLag,
    /// Switchovers are refused for a while.
    SwitchRefused,
    /// A switchover goes to another than was asked for.
    SwitchElsewhere,
    /// A switchover is done and its answer lost.
    SwitchUnanswered,
    /// The engine changes its leader by itself.
    FailsOver,
    /// The leader crashes and is started again.
    LeaderCrashes,
    /// The engine's high availability is paused for a while.
    EnginePaused,
    /// The engine is paused and its processes are stopped by hand on all members, as for a restore; then
    /// they are started and it goes on.
    EngineStopped,
    /// A replica's data is rewound, which takes three minutes.
    SlowRewind,
    /// Whoever takes the lead says so well before it is promoted, for a while.
    PromotedLate,
    /// Replicas of a new leader stream the end of the old term first, and take long over it.
    OldTermFirst,
    /// One that led before was asleep and claims the lead for a while, its pod labelled so; the
    /// leader is not heard.
    LeadUsurped,
    /// A second member claims the lead for a while, and nobody else is heard.
    LiarAlone,
}

impl What {
    /// Whether it can only happen where members play roles.
    pub fn is_about_roles(self) -> bool {
        self >= What::RolesSilent
    }

    /// Whether it is how the cluster is, rather than something that happens: tried once, from the first call
    /// on.
    pub fn is_from_the_start(self) -> bool {
        FROM_THE_START.contains(&self)
    }
}

/// Two things that go wrong together: tried where a rule is switched off, and by hand.
pub const TOGETHER: [What; 2] = [What::LeadUsurped, What::LiarAlone];

/// How a cluster is.
pub const FROM_THE_START: [What; 1] = [What::OldDefinition];

/// All of them but those.
pub const ALL: [What; 38] = [
    What::CrashBefore,
    What::CrashAfter,
    What::AnswerLost,
    What::Conflict,
    What::ServerError,
    What::TooMany,
    What::NeverSent,
    What::Stale,
    What::PodsStale,
    What::ClaimsStale,
    What::Expired,
    What::LateWrite,
    What::SecondLeader,
    What::NodeDies,
    What::NodeParted,
    What::StatusWiped,
    What::PodDeleted,
    What::LabelStripped,
    What::LabelEdited,
    What::PodTouched,
    What::ContainerCrashes,
    What::OldDefinition,
    What::ClockBack,
    What::ClockAhead,
    What::RolesSilent,
    What::RolesSlow,
    What::RolesLie,
    What::ReplicasLag,
    What::SwitchRefused,
    What::SwitchElsewhere,
    What::SwitchUnanswered,
    What::FailsOver,
    What::LeaderCrashes,
    What::EnginePaused,
    What::EngineStopped,
    What::SlowRewind,
    What::PromotedLate,
    What::OldTermFirst,
];

/// Every kind that has a name.
pub fn known() -> impl Iterator<Item = What> {
    ALL.into_iter().chain(TOGETHER)
}

/// A kind of fault by its name.
pub fn named(text: &str) -> Result<What, String> {
    let found = known().find(|what| format!("{what:?}").eq_ignore_ascii_case(text));
    let names: Vec<String> = known().map(|what| format!("{what:?}")).collect();
    found.ok_or_else(|| {
        format!(
            "{text:?} is no kind of fault; there are {}",
            names.join(", ")
        )
    })
}

/// A fault at the controller's call of that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// What goes wrong.
    pub what: What,
    /// At which call, counted over all controllers from 0.
    pub at_call: u32,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}", self.what, self.at_call)
    }
}

impl std::str::FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (what, at) = text.split_once('@').ok_or_else(|| {
            format!("{text:?} is no fault: write KIND@CALL, for example CrashAfter@12")
        })?;
        let what = named(what)?;
        let at_call = at
            .parse()
            .map_err(|e| format!("{at:?} is no number of a call: {e}"))?;
        Ok(Self { what, at_call })
    }
}
