//! Who is who in PostgreSQL under Patroni.

use super::chain::Chain;
use super::{ALSO_PRIMARY, Role, Sighting, Synchronous};
use ensemble_api::Rule;
use ensemble_planner::engine::{
    Cohort, Commits, Duty, EngineView, Heard, Hearing, Lead, Standing, Sync,
};
use ensemble_planner::mutants;
use ensemble_planner::roster::MemberId;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What each of those that run said.
pub(super) type Said<'a> = BTreeMap<MemberId, Cow<'a, Sighting>>;

/// One cohort: there is one lock.
pub(super) fn judge(hearing: &Hearing<'_>) -> EngineView {
    let said: Said<'_> = hearing.heard.iter().map(|(m, h)| (*m, words(h))).collect();
    let lead = lead(hearing, &said);
    let leader = match &lead {
        Lead::One { who, .. } => said.get(who).map(Cow::as_ref),
        _ => None,
    };
    let chain = Chain::of(hearing, &lead, &said);
    let standings = said.iter().map(|(who, own)| {
        let asked = hearing.heard[who].asked();
        (
            *who,
            standing(hearing, (&lead, leader, &chain), *who, asked, own),
        )
    });
    EngineView {
        standings: standings.collect(),
        held: said.values().any(|s| s.paused),
        cohorts: vec![Cohort {
            named: named(hearing, &said),
            commits: leader.map(commits).unwrap_or_default(),
            round_seconds: leader.and_then(|l| l.loop_wait),
            parameters: leader.and_then(|l| l.parameters.clone()),
            ..Cohort::led(hearing.everybody.clone(), lead)
        }],
    }
}

/// Those that somebody names as the holder of the lock.
fn named(hearing: &Hearing<'_>, said: &Said<'_>) -> BTreeSet<MemberId> {
    let holders = said.values().filter_map(|s| s.lock.as_deref());
    holders.filter_map(|n| hearing.roster.named(n)).collect()
}

fn words<'a>(heard: &'a Heard<'_>) -> Cow<'a, Sighting> {
    match heard.words() {
        Ok(said) => Cow::Borrowed(said),
        Err(why) => Cow::Owned(Sighting::unknown(why)),
    }
}

fn commits(leader: &Sighting) -> Commits {
    match leader.synchronous {
        Synchronous::Off => Commits::Alone,
        Synchronous::On | Synchronous::Strict => Commits::Await {
            named: !leader.sync_standbys.is_empty(),
        },
    }
}

fn standing(
    hearing: &Hearing<'_>,
    leader: (&Lead, Option<&Sighting>, &Chain),
    who: MemberId,
    asked: ensemble_planner::Time,
    own: &Sighting,
) -> Standing {
    let (lead, leader, chain) = leader;
    let known = match &own.role {
        Role::Unknown(why) => Standing::unknown(asked, why.clone()),
        Role::Leader | Role::Follower => Standing {
            asked,
            duty: match own.role {
                Role::Leader => Duty::Leads,
                _ => Duty::Follows,
            },
            ..Standing::unknown(asked, ensemble_planner::engine::WhyUnknown::NotAsked)
        },
    };
    let name = hearing.roster.name(who);
    Standing {
        term: own.term,
        sync: leader.map_or(Sync::In, |_| sync(hearing, (lead, chain), &name, own)),
        behind: own.lag,
        unapplied: own.unreplayed,
        may_lead: may_lead(leader, chain, &name, own),
        run: own.started.clone(),
        pending_restart: own.pending_restart,
        ..known
    }
}

/// In sync is whom the leader sees streaming, at its term; or another member does that is in sync itself.
fn sync(hearing: &Hearing<'_>, (lead, chain): (&Lead, &Chain), name: &str, own: &Sighting) -> Sync {
    let Lead::One { who, term } = lead else {
        return Sync::In;
    };
    if !own.streams {
        return Sync::Apart("its tag nostream keeps it from streaming".into());
    }
    if let Some(upstream) = chain.apart.get(name) {
        return Sync::Apart(format!("it follows {upstream}, which does not stream"));
    }
    if !chain.fed.contains_key(name) {
        let leader = hearing.roster.name(*who);
        return Sync::Out(format!("{leader} does not see it streaming"));
    }
    if own.term != *term && !mutants::is_off(Rule::SyncAtItsTerm) {
        return Sync::Out(format!("it is at term {} of {term}", own.term));
    }
    Sync::In
}

/// In synchronous mode Patroni hands over to a named standby alone: one, several of them, or any of a
/// quorum.
fn may_lead(
    leader: Option<&Sighting>,
    chain: &Chain,
    name: &str,
    own: &Sighting,
) -> Result<(), String> {
    if !own.electable {
        return Err("its tag nofailover or failover_priority forbids it to lead".into());
    }
    let synchronous = leader.filter(|l| l.synchronous != Synchronous::Off);
    let unnamed = synchronous.filter(|l| !l.sync_standbys.contains(name));
    if let Some(leader) = unnamed.filter(|_| !mutants::is_off(Rule::SyncStandbyNamed)) {
        let named: Vec<&str> = leader.sync_standbys.iter().map(String::as_str).collect();
        return Err(match named.as_slice() {
            [] | [_] => "it is not the synchronous standby".into(),
            several => format!(
                "it is none of the synchronous standbys {}",
                several.join(", ")
            ),
        });
    }
    match chain.fed.get(name) {
        Some(Some(upstream)) if !mutants::is_off(Rule::SuccessorFollowsTheLeader) => {
            Err(format!("it follows {upstream}, not the primary"))
        }
        _ => Ok(()),
    }
}

/// Who leads. One that claims it is believed if nobody denies it and somebody else bears it out: the
/// label that its agent wrote through the API server, or another member that names it as the holder
/// of the lock. The only one that runs needs no witness.
fn lead(hearing: &Hearing<'_>, said: &Said<'_>) -> Lead {
    let playing = |plays: fn(&Role) -> bool| -> Vec<MemberId> {
        let found = said.iter().filter(|(_, s)| plays(&s.role));
        found.map(|(m, _)| *m).collect()
    };
    let claims = playing(|role| *role == Role::Leader);
    let unknown = playing(|role| matches!(role, Role::Unknown(_)));
    match claims.as_slice() {
        [] if unknown.is_empty() => Lead::Nobody,
        [] => Lead::Unknown(unknown),
        [one] => only(hearing, said, *one),
        [first, ..] if mutants::is_off(Rule::LeadContested) => Lead::One {
            who: *first,
            term: said[first].term,
        },
        _ => Lead::Contested(claims),
    }
}

/// One claims the lead.
fn only(hearing: &Hearing<'_>, said: &Said<'_>, one: MemberId) -> Lead {
    let name = hearing.roster.name(one);
    let labelled = hearing.engine.role_label().is_some_and(|label| {
        let value = hearing.heard[&one].label(label.key);
        value == label.primary || ALSO_PRIMARY.contains(&value)
    });
    let mut others = said.iter().filter(|(m, _)| **m != one);
    let borne_out = labelled
        || said.len() == 1
        || others.any(|(_, s)| s.lock.as_ref() == Some(&name))
        || mutants::is_off(Rule::LeaderBorneOut);
    if !borne_out {
        return Lead::Unknown(said.keys().copied().collect());
    }
    let denies = |s: &Sighting| s.lock.as_ref().is_some_and(|l| *l != name);
    let denying = said.iter().filter(|(_, s)| denies(s)).map(|(m, _)| *m);
    let mut doubtful: Vec<MemberId> = denying.collect();
    if doubtful.is_empty() || mutants::is_off(Rule::LeaderBacked) {
        return Lead::One {
            who: one,
            term: said[&one].term,
        };
    }
    doubtful.push(one);
    Lead::Unknown(doubtful)
}
