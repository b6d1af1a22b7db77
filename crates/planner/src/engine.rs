//! What engines say of members, and who leads by it.
//!
//! A [`Sighting`] is one member's answer, with the time before the question was sent, so that its
//! age cannot be forgotten. [`Lead`] is judged from all of them. Unknown is not Follower.

use crate::cast::Cast;
use crate::presence::Presence;
use crate::roster::{MemberId, Roster};
use crate::snapshot::Snapshot;
use crate::time::Time;
use crate::view::PodView;
use ensemble_api::Rule;
use ensemble_api::status::ParameterState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An answer older than this counts as none.
pub const FRESH_MS: i64 = 12_000;

/// What a member plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads: it says so itself, and holds the lock by its own word.
    Leader,
    /// It follows.
    Follower,
    /// It cannot be told.
    Unknown(WhyUnknown),
}

/// Why a role cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyUnknown {
    /// It was not asked yet, or not since its container started.
    NotAsked,
    /// It was asked too long ago.
    Stale,
    /// It did not answer, for that cause.
    Unreachable(String),
    /// It wants other credentials.
    Unauthorised(String),
    /// It is on its way up.
    Starting,
    /// It is on its way down, or leads without the lock.
    Stopping,
    /// Its answer cannot be read, for that cause.
    Unreadable(String),
    /// Somebody else answers at its address.
    Stranger(String),
}

impl std::fmt::Display for WhyUnknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WhyUnknown::NotAsked => f.write_str("not asked yet"),
            WhyUnknown::Stale => f.write_str("its last answer is too old"),
            WhyUnknown::Unreachable(cause) => write!(f, "it does not answer: {cause}"),
            WhyUnknown::Unauthorised(cause) => write!(f, "it refuses our credentials: {cause}"),
            WhyUnknown::Starting => f.write_str("it is starting"),
            WhyUnknown::Stopping => f.write_str("it is stopping"),
            WhyUnknown::Unreadable(cause) => write!(f, "its answer cannot be read: {cause}"),
            WhyUnknown::Stranger(who) => write!(f, "{who} answers at its address"),
        }
    }
}

/// How a replica is attached to the member that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Whether it streams, rather than catching up.
    pub streaming: bool,
    /// Whether commits wait for it.
    pub synchronous: bool,
}

/// Whether commits wait for a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// They do not.
    #[default]
    Off,
    /// They do while one is there.
    On,
    /// They always do.
    Strict,
}

/// What one member said.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// By our clock, before the question was sent: the answer is at least as new.
    pub asked: Time,
    /// What it plays.
    pub role: Role,
    /// Which cluster it belongs to, empty if unknown.
    pub cluster: String,
    /// The order of leaderships, rising. 0 if unknown.
    pub term: u64,
    /// Who holds the lock, by this member's word: a member's name.
    pub lock: Option<String>,
    /// Who is attached to it, by member's name.
    pub attached: BTreeMap<String, Stream>,
    /// Those that commits wait for, by this member's word.
    pub sync_standbys: BTreeSet<String>,
    /// How far it is behind the leader, in bytes, if known.
    pub lag: Option<u64>,
    /// Whether it may lead at all, by its own configuration.
    pub electable: bool,
    /// Whether commits wait for a replica; only a leader says so.
    pub synchronous: Synchronous,
    /// Whether high availability is paused.
    pub paused: bool,
    /// Whether a parameter waits for a restart.
    pub pending_restart: bool,
    /// When the engine in it was started, in the engine's own words: another word is another run.
    pub started: String,
    /// How often the engine looks at its cluster, in seconds; only a leader says so.
    pub loop_wait: Option<u32>,
    /// The dynamic parameters as stored; only a leader says so.
    pub parameters: Option<BTreeMap<String, String>>,
    /// The agent's version, for people.
    pub version: String,
}

impl Sighting {
    /// Whether another says the same, whenever it was asked.
    fn says_as(&self, other: &Self) -> bool {
        let same_time = Self {
            asked: self.asked,
            ..other.clone()
        };
        *self == same_time
    }

    /// A member of which nothing is known but why.
    pub fn unknown(asked: Time, why: WhyUnknown) -> Self {
        Self {
            asked,
            role: Role::Unknown(why),
            cluster: String::new(),
            term: 0,
            lock: None,
            attached: BTreeMap::new(),
            sync_standbys: BTreeSet::new(),
            lag: None,
            electable: true,
            synchronous: Synchronous::Off,
            paused: false,
            pending_restart: false,
            started: String::new(),
            loop_wait: None,
            parameters: None,
            version: String::new(),
        }
    }
}

/// Who leads, as judged from all that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// There are no roles: members are equals.
    Equals,
    /// That member, at that term, backed by the lock.
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

/// What is known of roles, from one snapshot.
#[derive(Clone, Debug)]
pub struct Roles {
    /// Who leads.
    pub lead: Lead,
    sightings: BTreeMap<MemberId, Arc<Sighting>>,
    max_lag: u64,
    by_labels: bool,
}

/// A lag rounded down to a power of two: status is written when it says something new, and a figure
/// that is new every second says nothing new.
fn roughly(lag: u64) -> u64 {
    1 << lag.max(1).ilog2()
}

impl Roles {
    /// Members are equals.
    pub(crate) fn equals() -> Self {
        Self {
            lead: Lead::Equals,
            sightings: BTreeMap::new(),
            max_lag: 0,
            by_labels: false,
        }
    }

    /// Looks at what was said, and when.
    pub(crate) fn of(cast: &Cast<'_>) -> Self {
        let Some(engine) = &cast.ensemble.spec.engine else {
            return Self::equals();
        };
        let by_labels = engine.labels.is_some();
        let sightings: BTreeMap<MemberId, Arc<Sighting>> = cast
            .members()
            .filter_map(|m| Some((m, cast.our_pod(m)?)))
            .filter(|(m, _)| !cast.presence(*m).is_down())
            .map(|(m, pod)| {
                let said = if by_labels {
                    Arc::new(by_label(cast, pod))
                } else {
                    heard(cast, pod)
                };
                (m, said)
            })
            .collect();
        let label = engine.role_label();
        let labelled = |m: &MemberId| {
            let pod = cast.our_pod(*m);
            pod.is_some_and(|p| p.meta.label(label.key) == label.primary)
        };
        let labelled = sightings.keys().copied().filter(labelled).collect();
        Self {
            lead: judge(cast.roster(), &sightings, &labelled),
            sightings,
            max_lag: engine.max_lag_bytes(),
            by_labels,
        }
    }

    /// What that member said; nothing of one that is down or absent.
    pub fn sighting(&self, who: MemberId) -> Option<&Sighting> {
        self.sightings.get(&who).map(Arc::as_ref)
    }

    /// Who leads, if somebody does.
    pub fn leader(&self) -> Option<MemberId> {
        match self.lead {
            Lead::One { who, .. } => Some(who),
            _ => None,
        }
    }

    /// What the leader said.
    pub fn leader_says(&self) -> Option<&Sighting> {
        self.sighting(self.leader()?)
    }

    /// Whether there are roles at all.
    pub fn matter(&self) -> bool {
        self.lead != Lead::Equals
    }

    /// Whether commits wait for replicas.
    pub fn synchronous(&self) -> bool {
        let leader = self.leader_says();
        leader.is_some_and(|s| s.synchronous != Synchronous::Off)
    }

    /// Whether a member is as good as the leader would need it to be: the leader itself, or a
    /// replica that the leader sees streaming, at its term, within the limit. Else why not.
    pub fn in_sync(&self, roster: &Roster, who: MemberId) -> Result<(), String> {
        if !self.matter() || crate::mutants::is_off(Rule::ReadyIsNotInSync) {
            return Ok(());
        }
        let Lead::One { who: leader, term } = self.lead else {
            return Err("no leader is known".into());
        };
        if leader == who {
            return Ok(());
        }
        let Some(own) = self.sighting(who) else {
            return Err("it does not run".into());
        };
        match &own.role {
            Role::Follower => {}
            Role::Leader => return Err("it claims the lead".into()),
            Role::Unknown(why) => return Err(why.to_string()),
        }
        if self.by_labels {
            return Ok(());
        }
        let name = roster.name(who);
        let attached = self.leader_says().and_then(|l| l.attached.get(&name));
        if !attached.is_some_and(|s| s.streaming) {
            let leader = roster.name(leader);
            return Err(format!("{leader} does not see it streaming"));
        }
        if own.term != term && !crate::mutants::is_off(Rule::SyncAtItsTerm) {
            return Err(format!("it is at term {} of {term}", own.term));
        }
        match own.lag {
            Some(lag) if lag > self.max_lag => Err(format!(
                "over {} bytes behind, at most {} allowed",
                roughly(lag).max(self.max_lag),
                self.max_lag
            )),
            _ => Ok(()),
        }
    }

    /// Whether a replica could take over now; else why not.
    pub fn may_succeed(&self, roster: &Roster, who: MemberId) -> Result<(), String> {
        self.in_sync(roster, who)?;
        let own = self.sighting(who).ok_or("it does not run")?;
        if !own.electable {
            return Err("it may not lead, by its own configuration".into());
        }
        let name = roster.name(who);
        let named = self
            .leader_says()
            .is_some_and(|l| l.sync_standbys.contains(&name));
        if self.synchronous() && !named && !crate::mutants::is_off(Rule::SyncStandbyNamed) {
            return Err("it is not the synchronous standby".into());
        }
        Ok(())
    }

    /// Whether high availability is paused, by the leader's word.
    pub fn paused(&self) -> bool {
        self.sightings.values().any(|s| s.paused)
    }
}

/// What a member said, if it is fresh and of this run of its container.
fn heard(cast: &Cast<'_>, pod: &PodView) -> Arc<Sighting> {
    let uid = &pod.meta.pin.uid;
    let known = cast.memory.pod(uid);
    let Some(said) = known.said.as_ref().filter(|s| s.asked >= cast.since()) else {
        return Sighting::unknown(Time(0), WhyUnknown::NotAsked).into();
    };
    let before_this_run = known.run.as_ref().is_some_and(|run| said.asked < run.since);
    if before_this_run && !crate::mutants::is_off(Rule::SightingOfThisRun) {
        return Sighting::unknown(said.asked, WhyUnknown::NotAsked).into();
    }
    if said.asked.plus_ms(FRESH_MS) < cast.now && !crate::mutants::is_off(Rule::SightingFresh) {
        return Sighting::unknown(said.asked, WhyUnknown::Stale).into();
    }
    said.clone()
}

/// Whether a member said the same as before, and a plan that was made from that still holds: only
/// when it was asked is new, and no rule that looks at that would now judge otherwise.
pub fn is_no_news(snap: &Snapshot, uid: &str, before: &Sighting, said: &Sighting) -> bool {
    let changes = snap.ensemble.status.parameters.as_ref();
    let noticing = changes.is_some_and(|c| {
        matches!(
            c.state,
            ParameterState::Applying | ParameterState::RollingBack
        )
    });
    let run = snap.memory.pod(uid).run.as_ref();
    let of_this_run = |s: &Sighting| run.is_none_or(|run| s.asked >= run.since);
    let fresh = before.asked.plus_ms(FRESH_MS) >= snap.now;
    !noticing && fresh && of_this_run(before) == of_this_run(said) && before.says_as(said)
}

/// What the label says that another agent sets.
fn by_label(cast: &Cast<'_>, pod: &PodView) -> Sighting {
    let mut said = Sighting::unknown(cast.now, WhyUnknown::NotAsked);
    let Some(engine) = &cast.ensemble.spec.engine else {
        return said;
    };
    let label = engine.role_label();
    said.role = match pod.meta.label(label.key) {
        value if value == label.primary => Role::Leader,
        value if value == label.replica => Role::Follower,
        "" => Role::Unknown(WhyUnknown::NotAsked),
        other => Role::Unknown(WhyUnknown::Unreadable(format!(
            "label {} is {other:?}",
            label.key
        ))),
    };
    said
}

/// Who leads. One that claims it is believed if nobody denies it and somebody else bears it out: the
/// label that its agent wrote through the API server, or another member that names it as the holder
/// of the lock. The only one that runs needs no witness.
fn judge(
    roster: &Roster,
    sightings: &BTreeMap<MemberId, Arc<Sighting>>,
    labelled: &BTreeSet<MemberId>,
) -> Lead {
    let claims: Vec<MemberId> = sightings
        .iter()
        .filter(|(_, s)| s.role == Role::Leader)
        .map(|(m, _)| *m)
        .collect();
    let unknown: Vec<MemberId> = sightings
        .iter()
        .filter(|(_, s)| matches!(s.role, Role::Unknown(_)))
        .map(|(m, _)| *m)
        .collect();
    match claims.as_slice() {
        [] if unknown.is_empty() => Lead::Nobody,
        [] => Lead::Unknown(unknown),
        [one] => {
            let name = roster.name(*one);
            let denies = |s: &Sighting| s.lock.as_ref().is_some_and(|l| *l != name);
            let denying = sightings.iter().filter(|(_, s)| denies(s)).map(|(m, _)| *m);
            let mut doubtful: Vec<MemberId> = denying.collect();
            let named =
                |(m, s): (&MemberId, &Arc<Sighting>)| m != one && s.lock.as_ref() == Some(&name);
            let borne_out = labelled.contains(one)
                || sightings.len() == 1
                || sightings.iter().any(named)
                || crate::mutants::is_off(Rule::LeaderBorneOut);
            if !borne_out {
                return Lead::Unknown(sightings.keys().copied().collect());
            }
            if doubtful.is_empty() || crate::mutants::is_off(Rule::LeaderBacked) {
                return Lead::One {
                    who: *one,
                    term: sightings[one].term,
                };
            }
            doubtful.push(*one);
            Lead::Unknown(doubtful)
        }
        _ if crate::mutants::is_off(Rule::LeadContested) => Lead::One {
            who: claims[0],
            term: sightings[&claims[0]].term,
        },
        _ => Lead::Contested(claims),
    }
}

/// What came of asking an engine for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It took it; whether it came about is seen by looking.
    Taken(String),
    /// It refused: nothing was done. Its own words.
    Refused(String),
    /// It wants other credentials, or the Secret cannot be read.
    Unauthorised(String),
    /// Nobody knows whether it was done.
    Unknown(String),
}

/// The word for a member's role in a status.
pub fn word(roles: &Roles, who: MemberId, presence: Presence) -> String {
    if !roles.matter() || matches!(presence, Presence::Absent) {
        return String::new();
    }
    match roles.sighting(who).map(|s| &s.role) {
        Some(Role::Leader) if roles.leader() == Some(who) => "Primary",
        Some(Role::Leader) => "Claims",
        Some(Role::Follower) => "Replica",
        Some(Role::Unknown(_)) => "Unknown",
        None => "",
    }
    .into()
}
