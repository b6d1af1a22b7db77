//! What one member says of itself and of the others.

use ensemble_planner::engine::Answer;
use ensemble_planner::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Positions in the log are told in steps of so many entries: a figure that is new every second says
/// nothing new.
const STEP: u64 = 1 << 10;

/// A member as a list of members has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its name, empty as long as it has not started.
    pub name: String,
    /// The first labels of the host names in the addresses for its peers.
    pub hosts: Vec<String>,
    /// Whether it does not vote yet.
    pub learner: bool,
}

impl Listed {
    /// What it may be called, the likeliest first.
    pub fn called(&self) -> impl Iterator<Item = &str> {
        let hosts = self.hosts.iter().map(String::as_str);
        std::iter::once(self.name.as_str())
            .chain(hosts)
            .filter(|n| !n.is_empty())
    }
}

/// Something that is wrong, and stays so until a person says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// The member that it is about.
    pub member: u64,
    /// `NOSPACE`, `CORRUPT`.
    pub kind: String,
}

/// What one member said. Members are known by numbers, which they keep as long as their data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// Which cluster it belongs to.
    pub cluster: u64,
    /// Its own number.
    pub member: u64,
    /// At which term it is.
    pub term: u64,
    /// Who leads, as it has heard; 0 if it hears of nobody.
    pub leader: u64,
    /// How much of the log it knows to be committed.
    pub index: u64,
    /// How much of that it has applied.
    pub applied: u64,
    /// Whether it does not vote yet.
    pub learner: bool,
    /// All members, by its own list; a learner does not tell.
    pub listed: BTreeMap<u64, Listed>,
    /// What is wrong.
    pub alarms: BTreeSet<Alarm>,
    /// Its version, for people.
    pub version: String,
    /// The size of its database in whole MiB, for people.
    pub database_mib: u64,
}

impl Sighting {
    /// Whether it says that it leads.
    pub fn claims(&self) -> bool {
        self.member != 0 && self.leader == self.member
    }

    /// Those that vote, by its list.
    pub fn voters(&self) -> BTreeSet<u64> {
        let voters = self.listed.iter().filter(|(_, l)| !l.learner);
        voters.map(|(id, _)| *id).collect()
    }

    /// Whether its data is said to differ from the others'.
    pub fn says_corrupt(&self, member: u64) -> bool {
        let about = |a: &Alarm| a.member == member && a.kind == "CORRUPT";
        self.alarms.iter().any(about)
    }

    /// As the answer to a question that was asked then. It does not tell its runs apart: its container's
    /// own number does.
    pub fn answers(mut self, asked: Time) -> Answer {
        self.index = self.index / STEP * STEP;
        self.applied = self.applied / STEP * STEP;
        Answer::of(asked, String::new(), self)
    }
}
