//! Roles by a label that somebody else's agent sets: nobody can be asked, nothing is handed over, and a
//! follower is as good as its leader, since nobody says otherwise.

use crate::table::Row;
use ensemble_api::Rule;
use ensemble_api::engine::{Engine, RoleLabel};
use ensemble_planner::abilities::Abilities;
use ensemble_planner::engine::{
    Cohort, Duty, EngineView, Heard, Hearing, Judge, Lead, Standing, WhyUnknown,
};
use ensemble_planner::mutants;
use ensemble_planner::roster::MemberId;
use std::collections::BTreeMap;

/// Its line in the table.
pub(crate) const ROW: Row = Row {
    is_meant: |engine| engine.labels.is_some(),
    abilities,
    sign: |_, _| None,
    #[cfg(feature = "wire")]
    contact: None,
};

fn abilities(_: &Engine) -> Abilities {
    Abilities {
        judge: Some(Judge(judge)),
        ..Abilities::default()
    }
}

fn judge(hearing: &Hearing<'_>) -> EngineView {
    let standings: BTreeMap<MemberId, Standing> = hearing
        .heard
        .iter()
        .map(|(who, heard)| (*who, standing(hearing, heard)))
        .collect();
    EngineView {
        cohorts: vec![Cohort::led(hearing.everybody.clone(), lead(&standings))],
        standings,
        held: false,
    }
}

fn standing(hearing: &Hearing<'_>, heard: &Heard<'_>) -> Standing {
    let duty = hearing.engine.role_label().map(|label| duty(heard, label));
    Standing {
        duty: duty.unwrap_or(Duty::Unknown(WhyUnknown::NotAsked)),
        ..Standing::unknown(hearing.now, WhyUnknown::NotAsked)
    }
}

fn duty(heard: &Heard<'_>, label: RoleLabel<'_>) -> Duty {
    match heard.label(label.key) {
        value if value == label.primary => Duty::Leads,
        value if value == label.replica => Duty::Follows,
        "" => Duty::Unknown(WhyUnknown::NotAsked),
        other => Duty::Unknown(WhyUnknown::Unreadable(format!(
            "label {} is {other:?}",
            label.key
        ))),
    }
}

/// The one that is labelled leads; there are no terms.
fn lead(standings: &BTreeMap<MemberId, Standing>) -> Lead {
    let with = |found: fn(&Duty) -> bool| -> Vec<MemberId> {
        let found = standings.iter().filter(|(_, s)| found(&s.duty));
        found.map(|(m, _)| *m).collect()
    };
    let claims = with(|duty| *duty == Duty::Leads);
    let unknown = with(|duty| matches!(duty, Duty::Unknown(_)));
    match claims.as_slice() {
        [] if unknown.is_empty() => Lead::Nobody,
        [] => Lead::Unknown(unknown),
        [one] => Lead::One { who: *one, term: 0 },
        [first, ..] if mutants::is_off(Rule::LeadContested) => Lead::One {
            who: *first,
            term: 0,
        },
        _ => Lead::Contested(claims),
    }
}
