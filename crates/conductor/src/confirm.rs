//! Looking again before anybody is disrupted: the pods are listed afresh, and the claims if a pod is
//! to go, the engines are asked again, and only then does safety give its warrant.

use crate::call::{ApiCall, Verb};
use crate::conductor::{Conductor, Purpose};
use crate::engine::to_be_asked;
use crate::{Kind, Output, Time};
use ensemble_api::status::{Intent, Method, SwitchPhase};
use ensemble_api::{Reason, Rule};
use ensemble_planner::errand::Errand;
use ensemble_planner::memory::ErrandNews;
use ensemble_planner::safety::How;
use ensemble_planner::view::{ClaimView, Kept, PodView, View};
use ensemble_planner::{
    ErrandWarrant, Refusal, Snapshot, Warrant, confirm, confirm_errand, mutants, safety,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A look that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// What was said before does not count.
    since: Time,
    /// What it was begun for. What is stored later was not stored yet when it began, and has a look
    /// of its own.
    intents: Vec<Intent>,
    errands: Vec<String>,
    /// The pods, once they were listed.
    pods: Option<Arc<Value>>,
    /// The claims, once they were listed; None if nobody's pod is to go.
    claims: Option<Option<Arc<Value>>>,
}

/// A look that takes longer, or that this process slept over, is begun anew: what it saw first is old.
const GOOD_FOR_MS: i64 = 15_000;

/// Under which key a list of a look is kept.
fn list_of(kind: Kind) -> (Kind, String) {
    (kind, "list".to_owned())
}

/// With its pod goes what kept a deleted claim from being removed: the data is gone then.
fn ends_the_pod(intent: &Intent) -> bool {
    match intent.method {
        Method::Recreate | Method::Clear | Method::Remove => true,
        Method::InPlace | Method::Restart => false,
    }
}

/// What safety says on a fresh view.
struct Verdicts {
    intents: Vec<(Intent, Result<Warrant, Refusal>)>,
    errands: Vec<(String, Result<ErrandWarrant, Refusal>)>,
}

/// What is in a list.
fn items(list: Option<&Value>) -> Vec<&Value> {
    let items = list.and_then(|list| list.get("items")?.as_array());
    items.into_iter().flatten().collect()
}

/// Those that can be read, by name.
fn by_name<V: Kept>(objects: &[&Value]) -> BTreeMap<String, V> {
    let read = objects.iter().filter_map(|object| V::read(object).ok());
    read.map(|view| (view.meta().pin.name.clone(), view))
        .collect()
}

fn told(refusal: &Refusal) -> String {
    format!("{}: {}", refusal.predicate, refusal.observed)
}

impl Conductor {
    /// Starts to look again if something that is stored waits for it. When it could not look, it says
    /// when it may try again.
    pub(crate) fn look_again(&mut self, now: Time, out: &mut Vec<Output>) -> Option<Time> {
        let intents = self.intents_to_confirm(now);
        let errands: Vec<String> = self
            .errands_to_confirm()
            .into_iter()
            .map(|e| e.id)
            .collect();
        if self.look.is_some() || intents.is_empty() && errands.is_empty() {
            return None;
        }
        let lists = [list_of(Kind::Pod), list_of(Kind::Claim)];
        // What was listed for another look does not count for this one.
        if lists.iter().any(|key| self.busy.contains(key)) {
            return None;
        }
        let failures = &self.world.snap.memory.failures;
        let failed = lists.iter().filter_map(|key| failures.get(key));
        if let Some(at) = failed.map(|f| f.retry_at).filter(|at| *at > now).max() {
            return Some(at);
        }
        let claims = intents.iter().any(ends_the_pod);
        self.look = Some(Look {
            since: now,
            intents,
            errands,
            pods: None,
            claims: claims.then_some(None),
        });
        self.list_again(Kind::Pod, out);
        if claims {
            self.list_again(Kind::Claim, out);
        }
        self.ask_again();
        self.observe(now, out);
        None
    }

    fn list_again(&mut self, kind: Kind, out: &mut Vec<Output>) {
        let snap = &self.world.snap;
        let namespace = &snap.ensemble.namespace;
        let call = ApiCall::new(Verb::List, kind, namespace, snap.name(), Value::Null);
        self.send(list_of(kind), Purpose::Confirm, call, out);
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

    /// Pods or claims were listed.
    pub(crate) fn listed_again(&mut self, kind: Kind, list: Arc<Value>) {
        self.memory().failures.remove(&list_of(kind));
        let Some(look) = &mut self.look else { return };
        match kind {
            Kind::Claim => look.claims = Some(Some(list)),
            _ => look.pods = Some(list),
        }
    }

    /// They could not be listed.
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
        let complete = |look: &Look| {
            let listed = look.pods.is_some() && look.claims != Some(None);
            listed && self.all_have_answered(look.since)
        };
        if !self.look.as_ref().is_some_and(complete) {
            return;
        }
        let Some(look) = self.look.take() else { return };
        if look.since.plus_ms(GOOD_FOR_MS) < now {
            return;
        }
        let items = items(look.pods.as_deref());
        let verdicts = self.judge_afresh(&look, &items);
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

    /// Judges all that it was begun for and that still waits for it, in the world where pods and claims
    /// are those just listed. The snapshot is lent for that and not copied: nothing else sees it before
    /// its own are back.
    fn judge_afresh(&mut self, look: &Look, pods: &[&Value]) -> Verdicts {
        let now = self.world.snap.now;
        let mut intents = self.intents_to_confirm(now);
        intents.retain(|intent| look.intents.contains(intent));
        let mut errands = self.errands_to_confirm();
        errands.retain(|errand| look.errands.contains(&errand.id));
        let snap = &mut self.world.snap;
        let mut pods = by_name::<PodView>(pods);
        let claims = look.claims.as_ref().and_then(Option::as_deref);
        let mut claims = claims.map(|list| by_name::<ClaimView>(&items(Some(list))));
        let lend = !mutants::is_off(Rule::LiveConfirmation);
        let mut exchange = |snap: &mut Snapshot| {
            if lend {
                std::mem::swap(&mut snap.pods, &mut pods);
                if let Some(claims) = &mut claims {
                    std::mem::swap(&mut snap.claims, claims);
                }
            }
        };
        exchange(snap);
        let intents = intents.into_iter().map(|intent| {
            let verdict = confirm(snap, &intent, look.since);
            (intent, verdict)
        });
        let intents = intents.collect();
        let errands = errands.into_iter().map(|errand| {
            let verdict = confirm_errand(snap, &errand, look.since);
            (errand.id, verdict)
        });
        let verdicts = Verdicts {
            intents,
            errands: errands.collect(),
        };
        exchange(snap);
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
        let snap = &self.world.snap;
        let namespace = &snap.ensemble.namespace;
        let images = snap.memory.images(warrant.target()).clone();
        let call = ApiCall::disrupt(namespace, warrant, pod.copied(), revisions, &images);
        let Some(call) = call else {
            let message = "the revision or the pod is gone".to_owned();
            return self.cancel(now, &uid, &member, Reason::Conflict, message);
        };
        self.send((Kind::Pod, member), purpose, call, out);
    }
}
