//! Who is who where there is a vote.

use super::Word;
use ensemble_planner::engine::{
    Cohort, Duty, EngineView, Hearing, Lead, Quorum, Standing, Sync, WhyUnknown,
};
use ensemble_planner::roster::MemberId;
use std::collections::{BTreeMap, BTreeSet};

type Said<'a> = BTreeMap<MemberId, Result<&'a Word, WhyUnknown>>;

/// One cohort of all that vote. Whoever says that it leads does if a majority says so of it, at its term.
pub(super) fn judge(hearing: &Hearing<'_>) -> EngineView {
    let said: Said<'_> = hearing.heard.iter().map(|(m, h)| (*m, h.words())).collect();
    let voters = voters(&said);
    let ours: BTreeSet<MemberId> = voters
        .iter()
        .filter_map(|n| hearing.roster.named(n))
        .collect();
    let elsewhere = u32::try_from(voters.len() - ours.len()).unwrap_or(u32::MAX);
    let quorum = Quorum::majority(ours, elsewhere);
    let lead = lead(hearing, &said, &quorum);
    let standings = said.iter().map(|(who, word)| {
        let asked = hearing.heard[who].asked();
        let own = match word {
            Ok(word) => Standing {
                run: hearing.heard[who].run().to_owned(),
                ..standing(&lead, word)
            },
            Err(why) => Standing::unknown(asked, why.clone()),
        };
        (*who, Standing { asked, ..own })
    });
    EngineView {
        standings: standings.collect(),
        held: false,
        cohorts: vec![Cohort {
            quorum: (quorum.size() > 0).then_some(quorum),
            ..Cohort::led(hearing.everybody.clone(), lead)
        }],
    }
}

/// Who votes, by the word of whoever is at the highest term.
fn voters(said: &Said<'_>) -> BTreeSet<String> {
    let words = said.values().filter_map(|w| w.as_ref().ok());
    let newest = words.max_by_key(|w| w.term);
    newest.map(|w| w.voters.clone()).unwrap_or_default()
}

fn standing(lead: &Lead, word: &Word) -> Standing {
    let sync = match lead {
        Lead::One { term, .. } if word.term != *term => {
            Sync::Out(format!("it is at term {} of {term}", word.term))
        }
        // How much is new in every answer, and says nothing new.
        _ if word.missing > 0 => Sync::Out("it has not caught up".into()),
        _ => Sync::In,
    };
    Standing {
        duty: if word.leads {
            Duty::Leads
        } else {
            Duty::Follows
        },
        term: word.term,
        sync,
        ..Standing::unknown(Default::default(), WhyUnknown::NotAsked)
    }
}

fn lead(hearing: &Hearing<'_>, said: &Said<'_>, quorum: &Quorum) -> Lead {
    let words = || {
        said.iter()
            .filter_map(|(m, w)| Some((*m, *w.as_ref().ok()?)))
    };
    let claims: Vec<(MemberId, &Word)> = words().filter(|(_, w)| w.leads).collect();
    let backed = |(who, word): &&(MemberId, &Word)| {
        let name = hearing.roster.name(*who);
        let says_so = |w: &Word| w.term == word.term && w.leader.as_ref() == Some(&name);
        let voices = words().filter(|(m, w)| quorum.voters.contains(m) && says_so(w));
        u32::try_from(voices.count()).unwrap_or(0) >= quorum.needed
    };
    // At most one is: two majorities share a voter, and nobody names two at one term.
    if let Some((who, word)) = claims.iter().filter(backed).max_by_key(|(_, w)| w.term) {
        return Lead::One {
            who: *who,
            term: word.term,
        };
    }
    let unknown = said.iter().filter(|(_, w)| w.is_err()).map(|(m, _)| *m);
    let unknown: Vec<MemberId> = unknown.collect();
    match (claims.is_empty(), unknown.is_empty()) {
        (true, true) => Lead::Nobody,
        (true, false) => Lead::Unknown(unknown),
        // It claims to lead, and too few bear it out.
        (false, _) => Lead::Unknown(said.keys().copied().collect()),
    }
}
