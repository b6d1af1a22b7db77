//! The disruption controller: how many pods a budget can spare.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Task;
use crate::api::scale_of;
use crate::cluster::Cluster;
use crate::kinds::conditions::{self, Condition};
use crate::request::Subresource;
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::store::{Key, key};
use crate::time::SimTime;
use crate::value::{
    Object, at, condition_true, controller_ref, int, namespace, object, set, terminating, text,
    text_or_empty, uid,
};

/// How long an evicted pod counts as disrupted although it is still there.
const DISRUPTED_FOR_MS: u64 = 120_000;

struct Numbers {
    expected: i64,
    desired: i64,
    current: i64,
    disrupted: Map<String, Value>,
    /// When one of the disrupted pods will be counted again.
    recheck: Option<SimTime>,
}

impl Cluster {
    pub(crate) fn sync_budget(&mut self, budget_key: &Key) {
        let Some(budget) = self
            .server
            .store
            .get(Resource::PodDisruptionBudgets, budget_key)
            .cloned()
        else {
            return;
        };
        match self.budget_numbers(&budget) {
            Ok(numbers) => self.write_budget(budget_key, &budget, &numbers),
            Err(why) => self.fail_budget(budget_key, &why),
        }
    }

    fn budget_numbers(&self, budget: &Object) -> Result<Numbers, String> {
        let selector = LabelSelector::from_object(at(budget, "spec.selector"));
        let pods: Vec<&Object> = self
            .server
            .store
            .within(Resource::Pods, namespace(budget))
            .map(|(_, p)| p)
            .filter(|p| selector.as_ref().is_some_and(|s| s.matches(p)))
            .collect();
        let (expected, desired) = self.expectations(budget, &pods)?;
        let (disrupted, recheck) = self.still_disrupted(budget, &pods);
        let healthy = pods.iter().filter(|p| {
            condition_true(p, "Ready")
                && !terminating(p)
                && !disrupted.contains_key(crate::value::name(p))
        });
        let current = i64::try_from(healthy.count()).unwrap_or(i64::MAX);
        Ok(Numbers {
            expected,
            desired,
            current,
            disrupted,
            recheck,
        })
    }

    /// How many pods there should be, and how many must stay healthy.
    fn expectations(&self, budget: &Object, pods: &[&Object]) -> Result<(i64, i64), String> {
        if let Some(max) = at(budget, "spec.maxUnavailable") {
            let expected = self.scale_of_owners(pods)?;
            let spare = int_or_percent(max, expected)?;
            return Ok((expected, (expected - spare).max(0)));
        }
        match at(budget, "spec.minAvailable") {
            Some(Value::String(percent)) => {
                let expected = self.scale_of_owners(pods)?;
                Ok((expected, int_or_percent(&json!(percent), expected)?))
            }
            Some(number) => {
                let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
                Ok((count, int_or_percent(number, count)?))
            }
            None => Ok((i64::try_from(pods.len()).unwrap_or(i64::MAX), 0)),
        }
    }

    /// The replicas of all distinct controllers of the pods, by their scale subresource.
    fn scale_of_owners(&self, pods: &[&Object]) -> Result<i64, String> {
        let mut scales: BTreeMap<String, i64> = BTreeMap::new();
        for pod in pods {
            let Some(owner) = controller_ref(pod) else {
                continue;
            };
            let owner_uid = text_or_empty(owner, "uid");
            if !scales.contains_key(owner_uid) {
                scales.insert(
                    owner_uid.to_owned(),
                    self.owner_scale(namespace(pod), owner)?,
                );
            }
        }
        Ok(scales.values().sum())
    }

    fn owner_scale(&self, ns: &str, owner: &Value) -> Result<i64, String> {
        let kind = text_or_empty(owner, "kind");
        let owner_name = text_or_empty(owner, "name");
        let (group, _) = text_or_empty(owner, "apiVersion")
            .split_once('/')
            .unwrap_or(("", ""));
        let no_scale = || format!("{kind}.{group} does not implement the scale subresource");
        let resource = self.resource_of(group, kind).ok_or_else(no_scale)?;
        let crd = self.server.crd(resource).ok_or_else(no_scale)?;
        let paths = crd.scale.as_ref().ok_or_else(no_scale)?;
        let found = self.server.store.get(resource, &key(ns, owner_name));
        let found = found.filter(|o| uid(o) == text_or_empty(owner, "uid"));
        let found = found.ok_or_else(|| format!("{kind} \"{owner_name}\" not found"))?;
        let scale = scale_of(found, paths).map_err(|e| e.message)?;
        Ok(int(&scale, "spec.replicas").unwrap_or(0))
    }

    /// Evicted pods that are neither gone nor on their way out yet, for a while.
    fn still_disrupted(
        &self,
        budget: &Object,
        pods: &[&Object],
    ) -> (Map<String, Value>, Option<SimTime>) {
        let mut kept = Map::new();
        let mut recheck: Option<SimTime> = None;
        for (pod_name, since) in object(budget, "status.disruptedPods").into_iter().flatten() {
            let until = since
                .as_str()
                .and_then(SimTime::parse)
                .map(|t| t.plus_ms(DISRUPTED_FOR_MS));
            let pod = pods.iter().find(|p| crate::value::name(p) == pod_name);
            let pending = pod.is_some_and(|p| !terminating(p));
            if let Some(until) = until.filter(|u| pending && *u > self.now()) {
                kept.insert(pod_name.clone(), since.clone());
                recheck = Some(recheck.map_or(until, |r| r.min(until)));
            }
        }
        (kept, recheck)
    }

    fn write_budget(&mut self, budget_key: &Key, budget: &Object, numbers: &Numbers) {
        let spare = (numbers.current - numbers.desired).max(0);
        let allowed = if numbers.expected <= 0 { 0 } else { spare };
        let generation = int(budget, "metadata.generation").unwrap_or(0);
        let now = self.now();
        let mut status = json!({"status": {
            "observedGeneration": generation, "expectedPods": numbers.expected,
            "desiredHealthy": numbers.desired, "currentHealthy": numbers.current,
            "disruptionsAllowed": allowed,
            "conditions": at(budget, "status.conditions").cloned().unwrap_or_else(|| json!([])),
        }});
        if !numbers.disrupted.is_empty() {
            status["status"]["disruptedPods"] = Value::Object(numbers.disrupted.clone());
        }
        conditions::budget(&mut status, now);
        let client = self.actors.disruption.clone();
        let status = status["status"].take();
        let resource = Resource::PodDisruptionBudgets;
        let _gone = self
            .server
            .write_status(&client, resource, budget_key, status);
        if let Some(at) = numbers.recheck {
            self.queue.add(Task::Budget(budget_key.clone()), at);
        }
    }

    /// What cannot be computed allows nothing.
    fn fail_budget(&mut self, budget_key: &Key, why: &str) {
        let now = self.now();
        let client = self.actors.disruption.clone();
        let part = Some(Subresource::Status);
        let resource = Resource::PodDisruptionBudgets;
        let _gone = self
            .server
            .modify(&client, resource, part, budget_key, |b| {
                set(b, "status.disruptionsAllowed", 0);
                for number in ["currentHealthy", "desiredHealthy", "expectedPods"] {
                    crate::value::set_default(b, &format!("status.{number}"), 0);
                }
                let failed = Condition {
                    kind: "DisruptionAllowed",
                    status: "False",
                    reason: "SyncFailed",
                    message: why,
                    probe_time: false,
                    observed_generation: int(b, "status.observedGeneration"),
                };
                conditions::set(b, now, &failed);
            });
    }
}

/// `3` or `"50%"`, the latter of `of` and rounded up.
fn int_or_percent(value: &Value, of: i64) -> Result<i64, String> {
    if let Some(number) = value.as_i64() {
        return Ok(number);
    }
    let percent = value
        .as_str()
        .and_then(|s| s.strip_suffix('%'))
        .and_then(|p| p.parse::<i64>().ok());
    match percent {
        Some(percent) => Ok((of * percent + 99).div_euclid(100)),
        None => Err(format!(
            "invalid value for IntOrString: {}",
            text(value, "").unwrap_or("invalid")
        )),
    }
}
