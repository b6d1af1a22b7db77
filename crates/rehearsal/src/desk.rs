//! Questions to engines on their way, and their answers.

use crate::model::{self, Said};
use crate::process::{Process, now};
use crate::world::World;
use ensemble_conductor::{CallId, EngineCall};
use simkube::Resource;
use std::sync::Arc;

#[derive(Clone)]
struct Waiting {
    at: u64,
    asked_by: Arc<str>,
    id: CallId,
    what: Said,
}

/// Answers that have not arrived.
#[derive(Clone, Default)]
pub struct Desk {
    waiting: Vec<Waiting>,
    /// How many questions were asked.
    pub asked: u32,
}

impl Desk {
    /// A controller asks a member's engine.
    pub fn ask(&mut self, world: &mut World, by: &Arc<str>, id: CallId, call: &EngineCall) {
        self.asked += 1;
        let pod = world
            .cluster
            .get(Resource::Pods, call.namespace(), call.member());
        let node = pod.as_ref().and_then(|p| p["spec"]["nodeName"].as_str());
        let reachable = node.is_some_and(|n| world.cluster.is_reachable(n));
        let answer = model::with(world, |model, now| model.ask(now, call, reachable));
        if let Some(answer) = answer {
            self.waiting.push(Waiting {
                at: answer.at,
                asked_by: by.clone(),
                id,
                what: answer.what,
            });
        }
    }

    /// When the next answer arrives.
    pub fn next(&self) -> Option<u64> {
        self.waiting.iter().map(|w| w.at).min()
    }

    /// Brings what has arrived; a controller that is gone hears nothing.
    pub fn deliver(&mut self, world: &World, processes: &mut [Process]) {
        let time = world.cluster.now().0;
        let (due, rest) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|w| w.at <= time);
        self.waiting = rest;
        let due: Vec<Waiting> = due;
        for waiting in due {
            let outcome = match (waiting.what, model::of(world)) {
                (Said::Now(outcome), _) => outcome,
                (Said::Switched(to), Some(model)) => model.switched(&to),
                (Said::Switched(_), None) => continue,
            };
            let asker = processes.iter_mut().find(|p| p.name == waiting.asked_by);
            if let Some(process) = asker {
                process.engine_answer(now(world), waiting.id, outcome);
            }
        }
    }
}
