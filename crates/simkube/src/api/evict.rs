//! POST to `pods/eviction`: a delete that asks the disruption budget first.

use serde_json::{Value, json};

use super::delete::check_preconditions;
use super::{Answer, Server};
use crate::kinds::conditions;
use crate::request::{Params, Request, Response, Verb};
use crate::resource::{Info, Resource};
use crate::selector::LabelSelector;
use crate::status::Status;
use crate::store::Key;
use crate::value::{
    Object, at, condition_true, int, name, namespace, object, set, terminating, text, text_or_empty,
};

const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const CAUSE: &str = "DisruptionBudget";
const MAX_DISRUPTED_PODS: usize = 2000;

impl Server {
    pub(super) fn evict(&mut self, request: &Request) -> Answer {
        self.check_subresource(request)?;
        let mut params = eviction_params(request)?;
        let info = self.info(Resource::Pods)?.clone();
        let pod = self.existing(Resource::Pods, &request.namespace, &request.name)?;
        let phase = text_or_empty(&pod, "status.phase");
        let free = terminating(&pod) || matches!(phase, "Succeeded" | "Failed" | "Pending");
        if !free {
            match self.budgets_of(&pod).as_slice() {
                [] => {}
                [budget] if spares(&pod, &budget.1) => {
                    // The version that was just read takes the place of the one that the caller
                    // named, whatever that was.
                    params.resource_version =
                        text(&pod, "metadata.resourceVersion").map(str::to_owned);
                }
                [budget] => self.charge(&pod, budget, params.dry_run)?,
                _ => return Err(two_budgets()),
            }
        }
        self.mark_and_delete(request, &info, &pod, params)
    }

    /// Budgets that select a pod, in key order.
    fn budgets_of(&self, pod: &Value) -> Vec<(Key, Object)> {
        let selects = |budget: &Object| {
            let selector = LabelSelector::from_object(at(budget, "spec.selector"));
            selector.is_some_and(|s| s.matches(pod))
        };
        let budgets = self
            .store
            .within(Resource::PodDisruptionBudgets, namespace(pod));
        budgets
            .filter(|(_, b)| selects(b))
            .map(|(k, b)| (k.clone(), b.clone()))
            .collect()
    }

    /// Takes one disruption from the budget, or refuses.
    fn charge(&mut self, pod: &Value, budget: &(Key, Object), dry: bool) -> Result<(), Status> {
        let (key, budget) = budget;
        let status = |field: &str| int(budget, &format!("status.{field}")).unwrap_or(0);
        self.check_budget(budget)?;
        if dry {
            return Ok(());
        }
        let mut new = (**budget).clone();
        let left = status("disruptionsAllowed") - 1;
        set(&mut new, "status.disruptionsAllowed", left);
        let disrupted = crate::value::slot(&mut new, "status.disruptedPods");
        crate::value::as_map(disrupted).insert(name(pod).to_owned(), self.now.rfc3339().into());
        if left == 0 {
            conditions::budget(&mut new, self.now);
        }
        self.put(Resource::PodDisruptionBudgets, key.clone(), new);
        Ok(())
    }

    fn check_budget(&self, budget: &Value) -> Result<(), Status> {
        let status = |field: &str| int(budget, &format!("status.{field}")).unwrap_or(0);
        let budget_name = name(budget);
        let generation = int(budget, "metadata.generation").unwrap_or(0);
        if status("observedGeneration") < generation {
            let why = format!(
                "The disruption budget {budget_name} is still being processed by the server."
            );
            return Err(Status::too_many_requests(REFUSAL, 10).with_cause(CAUSE, &why, ""));
        }
        let info = self.info(Resource::PodDisruptionBudgets)?;
        if status("disruptionsAllowed") < 0 {
            let why = "pdb disruptions allowed is negative";
            return Err(Status::forbidden(info, budget_name, why));
        }
        let disrupted = object(budget, "status.disruptedPods").map_or(0, serde_json::Map::len);
        if disrupted > MAX_DISRUPTED_PODS {
            let why =
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
            return Err(Status::forbidden(info, budget_name, why));
        }
        if status("disruptionsAllowed") == 0 {
            let (desired, current) = (status("desiredHealthy"), status("currentHealthy"));
            let why = if current <= desired {
                format!(
                    "The disruption budget {budget_name} needs {desired} healthy pods and has {current} currently"
                )
            } else {
                format!(
                    "The disruption budget {budget_name} does not allow evicting pods currently"
                )
            };
            return Err(Status::too_many_requests(REFUSAL, 0).with_cause(CAUSE, &why, ""));
        }
        Ok(())
    }

    /// Two writes, as on a real server: the condition, then the delete.
    fn mark_and_delete(
        &mut self,
        request: &Request,
        info: &Info,
        pod: &Object,
        mut params: Params,
    ) -> Answer {
        check_preconditions(info, &params, pod)?;
        if !params.dry_run {
            let mut new = (**pod).clone();
            conditions::set(
                &mut new,
                self.now,
                &conditions::Condition::pod("DisruptionTarget", true)
                    .because("EvictionByEvictionAPI", "Eviction API: evicting"),
            );
            if new != **pod {
                let stored = self.put(
                    Resource::Pods,
                    crate::store::key(namespace(pod), name(pod)),
                    new,
                );
                if params.resource_version.is_some() {
                    params.resource_version =
                        text(&stored, "metadata.resourceVersion").map(str::to_owned);
                }
            }
        }
        let mut delete = Request::delete(Resource::Pods, &request.namespace, &request.name);
        delete.client = request.client.clone();
        delete.params = params;
        self.delete(&delete)?;
        Ok(Response::status(Status::created()))
    }
}

/// A pod that is not Ready costs nothing if the policy says so or the healthy
/// ones suffice.
fn spares(pod: &Value, budget: &Value) -> bool {
    let status = |field: &str| int(budget, &format!("status.{field}")).unwrap_or(0);
    let always = text(budget, "spec.unhealthyPodEvictionPolicy") == Some("AlwaysAllow");
    let desired = status("desiredHealthy");
    let suffices = desired > 0 && status("currentHealthy") >= desired;
    !condition_true(pod, "Ready") && (always || suffices)
}

fn two_budgets() -> Status {
    const MESSAGE: &str = "This pod has more than one PodDisruptionBudget, which the eviction \
        subresource does not support.";
    Status::new(500, "", MESSAGE)
}

/// Options come from the request, or from `deleteOptions` in an Eviction body.
fn eviction_params(request: &Request) -> Result<Params, Status> {
    debug_assert_eq!(request.verb, Verb::Create);
    let mut params = request.params.clone();
    let Some(body) = &request.body else {
        return Ok(params);
    };
    let named = name(body);
    if !named.is_empty() && named != request.name {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let options = at(body, "deleteOptions")
        .cloned()
        .unwrap_or_else(|| json!({}));
    if let Some(grace) = int(&options, "gracePeriodSeconds") {
        params.grace_period_seconds = Some(grace);
    }
    if let Some(uid) = text(&options, "preconditions.uid") {
        params.uid = Some(uid.to_owned());
    }
    if let Some(version) = text(&options, "preconditions.resourceVersion") {
        params.resource_version = Some(version.to_owned());
    }
    params.dry_run |= crate::value::items(&options, "dryRun")
        .iter()
        .any(|d| d == "All");
    Ok(params)
}
