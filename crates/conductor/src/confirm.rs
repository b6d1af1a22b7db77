//! Looking again before anybody is disrupted: the pods are listed afresh, the engines are asked
//! again, and only then does safety give its warrant.

use crate::call::{ApiCall, Verb};
use crate::conductor::{Conductor, Purpose};
use crate::engine::to_be_asked;
use crate::{Kind, Output, Time};
use ensemble_api::status::{Intent, SwitchPhase};
use ensemble_api::{Reason, Rule};
use ensemble_planner::errand::Errand;
use ensemble_planner::memory::ErrandNews;
use ensemble_planner::safety::How;
use ensemble_planner::view::{PodView, View};
use ensemble_planner::{ErrandWarrant, Refusal, Warrant, confirm, confirm_errand, mutants, safety};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A look that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// What was said before does not count.
    since: Time,
    /// The pods, once they were listed.
    list: Option<Arc<Value>>,
}

/// What safety says on a fresh view.
struct Verdicts {
    intents: Vec<(Intent, Result<Warrant, Refusal>)>,
    errands: Vec<(String, Result<ErrandWarrant, Refusal>)>,
}

fn told(refusal: &Refusal) -> String {
    format!("{}: {}", refusal.predicate, refusal.observed)
}

impl Conductor {
    /// Starts to look again if something that is stored waits for it.
    pub(crate) fn look_again(&mut self, now: Time, out: &mut Vec<Output>) {
        let waits =
            !self.intents_to_confirm(now).is_empty() || !self.errands_to_confirm().is_empty();
        if !waits || self.look.is_some() {
            return;
        }
        let snap = &self.world.snap;
        let namespace = snap.ensemble.namespace.clone();
        let call = ApiCall::new(Verb::List, Kind::Pod, &namespace, snap.name(), Value::Null);
        self.look = Some(Look {
            since: now,
            list: None,
        });
        self.send((Kind::Pod, "list".into()), Purpose::Confirm, call, out);
        self.ask_again();
        self.observe(now, out);
    }

    fn errands_to_confirm(&self) -> Vec<Errand> {
        let snap = &self.world.snap;
        let proposed = Errand::stored(&snap.ensemble.status)
            .filter(|e| e.phase == SwitchPhase::Proposed && e.is_by(snap.epoch));
        proposed
            .filter(|e| !snap.memory.errands.contains_key(&e.id))
            .collect()
    }

    fn intents_to_confirm(&self, now: Time) -> Vec<Intent> {
        let snap = &self.world.snap;
        let ours = snap
            .ensemble
            .status
            .in_flight
            .iter()
            .filter(|i| i.epoch == snap.epoch);
        let live = ours.filter(|i| safety::intent_is_live(snap, i));
        live.filter(|i| !snap.memory.cancelled.contains(&i.uid))
            .filter(|i| {
                let key = (Kind::Pod, i.member.clone());
                let failed = snap
                    .memory
                    .failures
                    .get(&key)
                    .is_some_and(|f| f.retry_at > now);
                !failed && !self.busy.contains(&key)
            })
            .cloned()
            .collect()
    }

    /// The pods were listed.
    pub(crate) fn listed_again(&mut self, list: Arc<Value>) {
        if let Some(look) = &mut self.look {
            look.list = Some(list);
        }
    }

    /// The pods could not be listed.
    pub(crate) fn look_failed(&mut self) {
        self.look = None;
    }

    /// Whether everybody who can be asked has answered since.
    fn all_have_answered(&self, since: Time) -> bool {
        let memory = &self.world.snap.memory;
        to_be_asked(&self.world.snap).iter().all(|pod| {
            let said = memory.pod(&pod.meta.pin.uid).said.as_ref();
            said.is_some_and(|s| s.asked >= since)
        })
    }

    /// Once all is there, gives warrants or refuses, and sends what has a warrant.
    pub(crate) fn confirm_if_complete(&mut self, now: Time, out: &mut Vec<Output>) {
        let complete = self
            .look
            .as_ref()
            .is_some_and(|look| look.list.is_some() && self.all_have_answered(look.since));
        if !complete {
            return;
        }
        let Some(Look {
            since,
            list: Some(list),
        }) = self.look.take()
        else {
            return;
        };
        let items: Vec<&Value> = list
            .get("items")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .collect();
        let verdicts = self.judge_afresh(now, since, &items);
        for (intent, verdict) in verdicts.intents {
            match verdict {
                Ok(warrant) => self.carry_warrant(now, warrant, &items, out),
                Err(refusal) => {
                    let message = told(&refusal);
                    self.cancel(now, &intent.uid, &intent.member, refusal.reason, message);
                }
            }
        }
        for (id, verdict) in verdicts.errands {
            let news = match verdict {
                Ok(warrant) => {
                    self.hold_errand(warrant);
                    ErrandNews::Confirmed
                }
                Err(refusal) => ErrandNews::Refused(told(&refusal)),
            };
            if mutants::is_off(Rule::SwitchStoredFirst) {
                self.begin_errand(now, &id, out);
            }
            self.memory().errands.insert(id, news);
        }
    }

    /// Judges all that waits for it in the world where the pods are those just listed. The snapshot is
    /// lent for that and not copied: nothing else sees it before its own pods are back.
    fn judge_afresh(&mut self, now: Time, since: Time, items: &[&Value]) -> Verdicts {
        let intents = self.intents_to_confirm(now);
        let errands = self.errands_to_confirm();
        let snap = &mut self.world.snap;
        let mut pods: BTreeMap<String, PodView> = items
            .iter()
            .filter_map(|pod| PodView::read(pod).ok())
            .map(|pod| (pod.meta.pin.name.clone(), pod))
            .collect();
        let lend = !mutants::is_off(Rule::LiveConfirmation);
        if lend {
            std::mem::swap(&mut snap.pods, &mut pods);
        }
        let intents = intents.into_iter().map(|intent| {
            let verdict = confirm(snap, &intent, since);
            (intent, verdict)
        });
        let intents = intents.collect();
        let errands = errands.into_iter().map(|errand| {
            let verdict = confirm_errand(snap, &errand, since);
            (errand.id, verdict)
        });
        let verdicts = Verdicts {
            intents,
            errands: errands.collect(),
        };
        if lend {
            std::mem::swap(&mut snap.pods, &mut pods);
        }
        verdicts
    }

    fn carry_warrant(
        &mut self,
        now: Time,
        warrant: Warrant,
        items: &[&Value],
        out: &mut Vec<Output>,
    ) {
        let uid = warrant.pod().uid.clone();
        let member = warrant.pod().name.clone();
        if warrant.how() == How::Restart {
            return self.ask_for_restart(now, warrant, out);
        }
        let purpose = match warrant.how() {
            How::InPlace => Purpose::Change {
                uid: uid.clone(),
                revision: warrant.target().to_owned(),
            },
            _ => Purpose::Disrupt { uid: uid.clone() },
        };
        let pod = items
            .iter()
            .find(|p| p.pointer("/metadata/uid").and_then(Value::as_str) == Some(&uid));
        let revisions = &self.world.snap.revisions;
        let has = pod.and_then(|p| PodView::read(p).ok());
        let revisions = [
            has.and_then(|pod| revisions.get(pod.revision())),
            revisions.get(warrant.target()),
        ];
        let namespace = &self.world.snap.ensemble.namespace;
        let call = ApiCall::disrupt(namespace, warrant, pod.copied(), revisions);
        let Some(call) = call else {
            let message = "the revision or the pod is gone".to_owned();
            return self.cancel(now, &uid, &member, Reason::Conflict, message);
        };
        self.send((Kind::Pod, member), purpose, call, out);
    }
}
