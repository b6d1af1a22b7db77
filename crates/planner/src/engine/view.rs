//! Who is who, as an engine's judge has it: the same for every engine.

use super::WhyUnknown;
use crate::presence::Presence;
use crate::roster::MemberId;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Who leads a cohort, as judged from all that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// There are no roles: members are equals.
    Equals,
    /// That member, at that term, and somebody else bears it out.
    One {
        /// The member.
        who: MemberId,
        /// The term.
        term: u64,
    },
    /// More than one says that it leads.
    Contested(Vec<MemberId>),
    /// All that run have answered, and nobody leads.
    Nobody,
    /// These run, nothing is known of them, and one of them may lead.
    Unknown(Vec<MemberId>),
}

/// What a member does in its cohort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duty {
    /// It leads, by its own word.
    Leads,
    /// It follows, and counts.
    Follows,
    /// It gets what its leader writes, and does not vote yet.
    Learns,
    /// It cannot be told, for that cause.
    Unknown(WhyUnknown),
}

/// Whether a member has what its leader has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sync {
    /// It has, but for what it is behind.
    In,
    /// It has not, for that cause.
    Out(String),
    /// Its own configuration keeps it from getting what its leader writes as it is written: it follows in
    /// its own time, is no copy that counts, and nothing is wrong with it.
    Apart(String),
}

/// What one member is.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// By our clock, before it was asked.
    pub asked: Time,
    /// What it does.
    pub duty: Duty,
    /// The order of leaderships as it knows it, rising. 0 if unknown.
    pub term: u64,
    /// Whether it has what its leader has; of a leader and of one that is not known it says nothing.
    pub sync: Sync,
    /// How far it is behind its leader, in the engine's own measure (bytes, entries), if known.
    pub behind: Option<u64>,
    /// How much of what it has it must still work through before it could lead, in the same measure.
    pub unapplied: u64,
    /// Whether the engine would let it lead, were it in sync; else why not.
    pub may_lead: Result<(), String>,
    /// What it is at work on that must not be cut short.
    pub at_work: Option<String>,
    /// Which run of the engine it is, in the engine's own words: another word is another run.
    pub run: String,
    /// Whether a parameter waits for its restart.
    pub pending_restart: bool,
}

impl Standing {
    /// Nothing is known of it, but why.
    pub fn unknown(asked: Time, why: WhyUnknown) -> Self {
        let busy = matches!(why, WhyUnknown::Starting | WhyUnknown::Stopping);
        Self {
            asked,
            at_work: busy.then(|| why.to_string()),
            duty: Duty::Unknown(why),
            term: 0,
            sync: Sync::In,
            behind: None,
            unapplied: 0,
            may_lead: Ok(()),
            run: String::new(),
            pending_restart: false,
        }
    }

    /// Whether it is known what it does.
    pub fn is_known(&self) -> bool {
        !matches!(self.duty, Duty::Unknown(_))
    }
}

/// Whom commits wait for, beside a quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commits {
    /// Nobody.
    #[default]
    Alone,
    /// Followers that the leader names.
    Await {
        /// Whether it names any now.
        named: bool,
    },
}

/// Members that vote, and how many of them it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// Those that vote.
    pub voters: BTreeSet<MemberId>,
    /// Voters that are no members of ours: they cannot be seen, and do not count as present.
    pub elsewhere: u32,
    /// How many of them must be there.
    pub needed: u32,
}

impl Quorum {
    /// A majority of these.
    pub fn majority(voters: BTreeSet<MemberId>, elsewhere: u32) -> Self {
        let all = u32::try_from(voters.len()).unwrap_or(u32::MAX);
        Self {
            voters,
            elsewhere,
            needed: (all + elsewhere) / 2 + 1,
        }
    }

    /// How many vote.
    pub fn size(&self) -> u32 {
        let ours = u32::try_from(self.voters.len()).unwrap_or(u32::MAX);
        ours.saturating_add(self.elsewhere)
    }
}

/// Members with one lead.
#[derive(Clone, Debug, PartialEq)]
pub struct Cohort {
    /// All of them, those that are down, too.
    pub members: BTreeSet<MemberId>,
    /// Who leads.
    pub lead: Lead,
    /// Those that members name as the holder of the lead; one that is down may be named still.
    pub named: BTreeSet<MemberId>,
    /// Those that vote, where there is a vote.
    pub quorum: Option<Quorum>,
    /// Whom commits wait for.
    pub commits: Commits,
    /// How many seconds one of its rounds takes, if its leader says so.
    pub round_seconds: Option<u32>,
    /// The parameters that it keeps, if its leader says so.
    pub parameters: Option<BTreeMap<String, String>>,
}

impl Cohort {
    /// Members with that lead and nothing else to say of them.
    pub fn led(members: BTreeSet<MemberId>, lead: Lead) -> Self {
        Self {
            members,
            lead,
            named: BTreeSet::new(),
            quorum: None,
            commits: Commits::Alone,
            round_seconds: None,
            parameters: None,
        }
    }

    /// Who leads, if somebody does.
    pub fn leader(&self) -> Option<MemberId> {
        match self.lead {
            Lead::One { who, .. } => Some(who),
            _ => None,
        }
    }
}

/// Who is who in an ensemble, from one snapshot. Without cohorts members are equals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineView {
    /// Members with one lead each. An ensemble has one of them, until it has groups.
    pub cohorts: Vec<Cohort>,
    /// Of everybody who runs.
    pub standings: BTreeMap<MemberId, Standing>,
    /// A person holds the engine's own high availability: nobody may be touched.
    pub held: bool,
}

impl EngineView {
    /// Whether there are roles at all.
    pub fn matter(&self) -> bool {
        !self.cohorts.is_empty()
    }

    /// The cohort of a member.
    pub fn cohort_of(&self, who: MemberId) -> Option<&Cohort> {
        self.cohorts.iter().find(|c| c.members.contains(&who))
    }

    /// What that member is; nothing of one that is down or absent.
    pub fn standing(&self, who: MemberId) -> Option<&Standing> {
        self.standings.get(&who)
    }

    /// The one cohort.
    pub fn cohort(&self) -> Option<&Cohort> {
        self.cohorts.first()
    }

    /// Who leads it.
    pub fn lead(&self) -> &Lead {
        self.cohort().map_or(&Lead::Equals, |c| &c.lead)
    }

    /// Who leads it, if somebody does.
    pub fn leader(&self) -> Option<MemberId> {
        self.cohort()?.leader()
    }

    /// Whether that member leads.
    pub fn leads(&self, who: MemberId) -> bool {
        self.cohort_of(who).is_some_and(|c| c.leader() == Some(who))
    }

    /// How far a member is behind, as far as that is known.
    pub fn behind(&self, who: MemberId) -> u64 {
        self.standing(who).and_then(|s| s.behind).unwrap_or(0)
    }

    /// Whether commits wait for followers that the leader names.
    pub fn synchronous(&self) -> bool {
        let commits = self.cohort().map(|c| c.commits);
        commits.is_some_and(|c| c != Commits::Alone)
    }
}

/// The word for a member's role in a status.
pub fn word(view: &EngineView, who: MemberId, presence: Presence) -> String {
    if !view.matter() || matches!(presence, Presence::Absent) {
        return String::new();
    }
    match view.standing(who).map(|s| &s.duty) {
        Some(Duty::Leads) if view.leads(who) => "Primary",
        Some(Duty::Leads) => "Claims",
        Some(Duty::Follows) => "Replica",
        Some(Duty::Learns) => "Learner",
        Some(Duty::Unknown(_)) => "Unknown",
        None => "",
    }
    .into()
}
