//! Worlds in which members vote, by an engine that only these tests have.

use super::World;
use ensemble_planner::engine::{
    Cohort, Duty, EngineView, Hearing, Judge, Lead, Quorum, Standing, WhyUnknown,
};
use serde_json::json;

impl World {
    /// Converged: the first leads, all vote and have everything.
    pub fn voting(replicas: u32) -> Self {
        let mut world = Self::led(replicas, 0);
        world.spec(&json!({"rollout": {"method": "Recreate"}}));
        world.judge = Some(Judge(first_leads));
        world
    }
}

/// How many members each budget is to keep.
pub fn kept_by_budgets(world: &World) -> Vec<i64> {
    let budgets = ensemble_planner::render::budgets(&world.snapshot());
    let kept = |b: ensemble_planner::render::Wanted| b.spec["minAvailable"].as_i64();
    budgets.into_iter().filter_map(kept).collect()
}

fn first_leads(hearing: &Hearing<'_>) -> EngineView {
    let lead = match hearing.heard.keys().next() {
        Some(who) => Lead::One { who: *who, term: 7 },
        None => Lead::Nobody,
    };
    let standings = hearing.heard.keys().enumerate().map(|(at, who)| {
        let duty = if at == 0 { Duty::Leads } else { Duty::Follows };
        let standing = Standing {
            duty,
            ..Standing::unknown(hearing.now, WhyUnknown::NotAsked)
        };
        (*who, standing)
    });
    EngineView {
        standings: standings.collect(),
        held: false,
        cohorts: vec![Cohort {
            quorum: Some(Quorum::majority(hearing.everybody.clone(), 0)),
            ..Cohort::led(hearing.everybody.clone(), lead)
        }],
    }
}
