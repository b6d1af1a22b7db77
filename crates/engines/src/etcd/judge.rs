//! Who is who in etcd.

use super::Sighting;
use ensemble_api::Rule;
use ensemble_planner::engine::{
    Cohort, Duty, EngineView, Hearing, Lead, Quorum, Standing, Sync, WhyUnknown,
};
use ensemble_planner::mutants;
use ensemble_planner::roster::MemberId;
use std::collections::{BTreeMap, BTreeSet};

type Said<'a> = BTreeMap<MemberId, Result<&'a Sighting, WhyUnknown>>;

/// One cohort of all members. Whoever says that it leads does if a majority of its voters says so of it, at
/// its term.
pub(super) fn judge(hearing: &Hearing<'_>) -> EngineView {
    let names = Names::of(hearing);
    let said: Said<'_> = hearing
        .heard
        .iter()
        .map(|(who, heard)| (*who, heard.words().and_then(|s| names.own(*who, s))))
        .collect();
    let lead = lead(&said);
    let leading = match lead {
        Lead::One { who, .. } => said.get(&who).and_then(|s| s.as_ref().ok()).copied(),
        _ => None,
    };
    let led_at = match lead {
        Lead::One { who, .. } => hearing.heard.get(&who).map(|h| h.asked()),
        _ => None,
    };
    let standings = said.iter().map(|(who, own)| {
        let asked = hearing.heard[who].asked();
        // What was said before the leader was asked lacks what was written in between: it tells nothing
        // about how far behind that member is. Just before a disruption all are asked at once.
        let after = led_at.is_some_and(|led_at| asked >= led_at);
        let standing = own.clone().and_then(|own| standing(leading, after, own));
        let standing = standing.unwrap_or_else(|why| Standing::unknown(asked, why));
        (*who, Standing { asked, ..standing })
    });
    let standings = standings.collect();
    let named = said.values().filter_map(|s| s.as_ref().ok());
    let named = named.filter_map(|s| names.member(s.leader)).collect();
    EngineView {
        standings,
        held: false,
        cohorts: vec![Cohort {
            named,
            quorum: quorum(hearing, &names, &said, leading),
            ..Cohort::led(hearing.everybody.clone(), lead)
        }],
    }
}

/// Which of our members the members of etcd are, by all lists.
struct Names<'a> {
    hearing: &'a Hearing<'a>,
    members: BTreeMap<u64, MemberId>,
    others: BTreeMap<u64, String>,
}

impl<'a> Names<'a> {
    fn of(hearing: &'a Hearing<'a>) -> Self {
        let said = hearing.heard.values().filter_map(|h| h.words().ok());
        let mut names = Self {
            hearing,
            members: BTreeMap::new(),
            others: BTreeMap::new(),
        };
        for (id, listed) in said.flat_map(|s: &Sighting| &s.listed) {
            let ours = listed.called().find_map(|n| hearing.roster.named(n));
            if let Some(who) = ours {
                names.members.insert(*id, who);
            } else {
                names.others.insert(*id, listed.name.clone());
            }
        }
        names
    }

    fn member(&self, id: u64) -> Option<MemberId> {
        self.members.get(&id).copied()
    }

    /// What a member says, if it is the one that was asked: an address can go to another pod, and another
    /// member's data to a volume.
    fn own<'s>(&self, who: MemberId, said: &'s Sighting) -> Result<&'s Sighting, WhyUnknown> {
        let stranger = |name: String| Err(WhyUnknown::Stranger(name));
        match (self.member(said.member), self.others.get(&said.member)) {
            (Some(own), _) if own == who => Ok(said),
            (Some(other), _) => stranger(self.hearing.roster.name(other)),
            (None, Some(name)) => stranger(format!("a member of etcd that calls itself {name:?}")),
            // A learner does not tell whom it knows, and nobody else may have answered.
            (None, None) if said.learner && said.listed.is_empty() => Ok(said),
            (None, None) => stranger("a member that is in no list of etcd".to_owned()),
        }
    }
}

/// Who votes: by the leader's list, else by the newest one. While nobody tells, all may.
fn quorum(
    hearing: &Hearing<'_>,
    names: &Names<'_>,
    said: &Said<'_>,
    leading: Option<&Sighting>,
) -> Option<Quorum> {
    let known = said.values().filter_map(|s| s.as_ref().ok()).copied();
    let newest = known
        .filter(|s| !s.listed.is_empty())
        .max_by_key(|s| (s.term, s.applied));
    let Some(by) = leading.or(newest) else {
        let anybody = !hearing.heard.is_empty();
        return anybody.then(|| Quorum::majority(hearing.everybody.clone(), 0));
    };
    let voters = by.voters();
    let ours: BTreeSet<MemberId> = voters.iter().filter_map(|id| names.member(*id)).collect();
    let elsewhere = voters.len().saturating_sub(ours.len());
    let elsewhere = u32::try_from(elsewhere).unwrap_or(u32::MAX);
    Some(Quorum::majority(ours, elsewhere))
}

fn lead(said: &Said<'_>) -> Lead {
    let known = || {
        let known = said.iter();
        known.filter_map(|(m, s)| Some((*m, *s.as_ref().ok()?)))
    };
    let claims: Vec<(MemberId, &Sighting)> = known().filter(|(_, s)| s.claims()).collect();
    let backed: Vec<_> = claims
        .iter()
        .filter(|(_, claim)| is_backed(claim, known().map(|(_, s)| s)))
        .collect();
    match backed.as_slice() {
        [(who, claim)] => {
            return Lead::One {
                who: *who,
                term: claim.term,
            };
        }
        // In one cluster two majorities share a voter, and nobody names two: these are two clusters.
        [_, _, ..] => return Lead::Contested(backed.iter().map(|(who, _)| *who).collect()),
        [] => {}
    }
    let unknown = said.iter().filter(|(_, s)| s.is_err()).map(|(m, _)| *m);
    let unknown: Vec<MemberId> = unknown.collect();
    match (claims.is_empty(), unknown.is_empty()) {
        (true, true) => Lead::Nobody,
        (true, false) => Lead::Unknown(unknown),
        // It claims to lead, and too few bear it out.
        (false, _) => Lead::Unknown(said.keys().copied().collect()),
    }
}

/// Whether a majority of those that vote by its own list names it at its term.
fn is_backed<'a>(claim: &Sighting, known: impl Iterator<Item = &'a Sighting>) -> bool {
    let voters = claim.voters();
    let says_so = |s: &&Sighting| {
        let same = s.cluster == claim.cluster && s.term == claim.term;
        same && s.leader == claim.member && voters.contains(&s.member)
    };
    let voices = known.filter(says_so).count();
    voices > voters.len() / 2 || mutants::is_off(Rule::LeaderBorneOut)
}

/// `after` says whether the member was asked when its leader was, or later.
fn standing(
    leading: Option<&Sighting>,
    after: bool,
    own: &Sighting,
) -> Result<Standing, WhyUnknown> {
    let sync = leading.map_or(Ok(Sync::In), |leader| sync(leader, own))?;
    let duty = match own.learner {
        true => Duty::Learns,
        false if own.claims() => Duty::Leads,
        false => Duty::Follows,
    };
    let may_lead = match duty {
        Duty::Learns => Err("it is a learner, and does not vote".to_owned()),
        _ => Ok(()),
    };
    Ok(Standing {
        duty,
        term: own.term,
        sync,
        behind: leading
            .filter(|_| after)
            .map(|l| l.index.saturating_sub(own.index)),
        unapplied: own.index.saturating_sub(own.applied),
        may_lead,
        ..Standing::unknown(Default::default(), WhyUnknown::NotAsked)
    })
}

/// Whether a member hears of the one that leads, and has what that one has.
fn sync(leader: &Sighting, own: &Sighting) -> Result<Sync, WhyUnknown> {
    if own.cluster != leader.cluster {
        let other = format!("a member of another cluster, {:x},", own.cluster);
        return Err(WhyUnknown::Stranger(other));
    }
    if !leader.listed.contains_key(&own.member) {
        let removed = "a member that the leader's list no longer has".to_owned();
        return Err(WhyUnknown::Stranger(removed));
    }
    if leader.says_corrupt(own.member) || own.says_corrupt(own.member) {
        return Ok(Sync::Out("etcd has raised the alarm CORRUPT for it".into()));
    }
    if own.term != leader.term {
        let terms = format!("it is at term {} of {}", own.term, leader.term);
        return Ok(Sync::Out(terms));
    }
    match own.leader {
        id if id == leader.member => Ok(Sync::In),
        0 => Ok(Sync::Out("it hears of no leader".into())),
        _ => Ok(Sync::Out("it follows another leader".into())),
    }
}
