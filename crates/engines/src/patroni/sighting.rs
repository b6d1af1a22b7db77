//! What one member says of itself and of the others.

use ensemble_planner::engine::{Answer, WhyUnknown};
use ensemble_planner::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What a member plays, by its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads, and holds the lock.
    Leader,
    /// It follows.
    Follower,
    /// It cannot be told.
    Unknown(WhyUnknown),
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
    /// What it plays.
    pub role: Role,
    /// Which cluster it belongs to, empty if unknown.
    pub cluster: String,
    /// Its timeline. 0 if unknown.
    pub term: u64,
    /// Who holds the lock, by this member's word: a member's name.
    pub lock: Option<String>,
    /// Who is attached to it, by member's name.
    pub attached: BTreeMap<String, Stream>,
    /// Those that commits wait for, by this member's word.
    pub sync_standbys: BTreeSet<String>,
    /// How far it is behind the leader, in bytes, if known.
    pub lag: Option<u64>,
    /// How much of what it received it has not replayed yet, in bytes; rounded down to whole MiB, since a
    /// figure that is new every second says nothing new.
    pub unreplayed: u64,
    /// Whether it may lead at all, by its own configuration.
    pub electable: bool,
    /// Whether it streams at all, by its own configuration.
    pub streams: bool,
    /// Whether commits wait for a replica; only a leader says so.
    pub synchronous: Synchronous,
    /// Whether high availability is paused.
    pub paused: bool,
    /// Whether a parameter waits for a restart.
    pub pending_restart: bool,
    /// When PostgreSQL was started, in its own words: another word is another run.
    pub started: String,
    /// How often Patroni looks at its cluster, in seconds; only a leader says so.
    pub loop_wait: Option<u32>,
    /// The dynamic parameters as stored; only a leader says so.
    pub parameters: Option<BTreeMap<String, String>>,
    /// Patroni's version, for people.
    pub version: String,
}

impl Sighting {
    /// A member of which nothing is known but why.
    pub fn unknown(why: WhyUnknown) -> Self {
        Self {
            role: Role::Unknown(why),
            cluster: String::new(),
            term: 0,
            lock: None,
            attached: BTreeMap::new(),
            sync_standbys: BTreeSet::new(),
            lag: None,
            unreplayed: 0,
            electable: true,
            streams: true,
            synchronous: Synchronous::Off,
            paused: false,
            pending_restart: false,
            started: String::new(),
            loop_wait: None,
            parameters: None,
            version: String::new(),
        }
    }

    /// As the answer to a question that was asked then.
    pub fn answers(self, asked: Time) -> Answer {
        Answer::of(asked, self.started.clone(), self)
    }
}
