//! DELETE: preconditions, grace, finalizers, propagation.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Server, meta};
use crate::kinds;
use crate::request::{Body, Params, Propagation, Request, Response};
use crate::resource::{Info, Resource};
use crate::status::Status;
use crate::store::key;
use crate::time::SimTime;
use crate::value::{
    Object, as_map, int, items, name, set, slot, terminating, text, text_or_empty, uid,
};

/// What the grace period means for an object about to be deleted.
enum Grace {
    /// The kind knows no grace.
    None,
    /// It is on its way out already, and this changes nothing.
    Pending,
    /// The object now carries this grace period.
    Set(i64),
}

impl Server {
    pub(super) fn delete(&mut self, request: &Request) -> Answer {
        let info = self.info(request.resource)?.clone();
        let old = self.existing(request.resource, &request.namespace, &request.name)?;
        check_preconditions(&info, &request.params, &old)?;
        if request.resource == Resource::Namespaces {
            return self.delete_namespace(request, &info, old);
        }
        let mut new = (*old).clone();
        let grace = grace_period(self.now, request, &mut new);
        if matches!(grace, Grace::Pending) {
            return Ok(Response::object(old));
        }
        apply_propagation(request.resource, &request.params, &mut new);
        let finalizers = !items(&new, "metadata.finalizers").is_empty();
        if matches!(grace, Grace::None) && finalizers {
            mark_deleting(&mut new, self.now);
        }
        let remains = finalizers || matches!(grace, Grace::Set(period) if period > 0);
        let freed = !items(&old, "metadata.finalizers").is_empty() && !remains;
        if freed && matches!(grace, Grace::None) {
            // It looked for something to write, found nothing, and goes on with an empty object.
            if request.params.dry_run {
                let nothing = kinds::empty(request.resource, &info);
                return Ok(Response::object(Arc::new(nothing)));
            }
            if request.params.resource_version.is_some() {
                return Err(forgotten_version(&info, request, &old));
            }
        }
        // A kind with grace is first marked, even when nothing holds it back.
        let marked = remains || matches!(grace, Grace::Set(_));
        if request.params.dry_run {
            let shown = remains || info.returns_deleted;
            return Ok(if shown {
                Response::object(Arc::new(new))
            } else {
                gone(&info, &old)
            });
        }
        let key = key(&request.namespace, &request.name);
        let stored = if !marked || new == *old {
            old
        } else {
            self.put(request.resource, key.clone(), new)
        };
        if remains {
            return Ok(Response::object(stored));
        }
        let last = self.remove(request.resource, &key).unwrap_or(stored);
        Ok(gone(&info, &last))
    }

    pub(super) fn delete_collection(&mut self, request: &Request) -> Answer {
        let mut listing = request.clone();
        listing.params.resource_version = None;
        let list = self.list(&listing)?;
        let deleted = list.clone();
        for object in list.into_list().map(|l| l.items).unwrap_or_default() {
            let mut one = request.clone();
            one.namespace = crate::value::namespace(&object).to_owned();
            one.name = name(&object).to_owned();
            match self.delete(&one) {
                Err(refusal) if refusal.code != 404 => return Err(refusal),
                _ => {}
            }
        }
        Ok(Response {
            code: 200,
            body: deleted.body,
        })
    }

    fn delete_namespace(&mut self, request: &Request, info: &Info, old: Object) -> Answer {
        if matches!(
            request.name.as_str(),
            "default" | "kube-system" | "kube-public"
        ) {
            return Err(Status::forbidden(
                info,
                &request.name,
                "this namespace may not be deleted",
            ));
        }
        let held = !items(&old, "spec.finalizers").is_empty()
            || !items(&old, "metadata.finalizers").is_empty();
        if held && terminating(&old) || request.params.dry_run {
            return Ok(Response::object(old));
        }
        if !held {
            let last = self
                .remove(Resource::Namespaces, &request.name)
                .unwrap_or(old);
            return Ok(gone(info, &last));
        }
        let mut new = (*old).clone();
        set(&mut new, "metadata.deletionTimestamp", self.now.rfc3339());
        set(&mut new, "status.phase", "Terminating");
        Ok(Response::object(self.put(
            Resource::Namespaces,
            key("", &request.name),
            new,
        )))
    }
}

/// The API server loses the version that was asked for when the same delete
/// takes the last finalizer away: the object stays as it is.
fn forgotten_version(info: &Info, request: &Request, old: &Value) -> Status {
    let why = super::update::storage_error(
        info,
        request,
        old,
        &format!(
            "ResourceVersion in precondition: , ResourceVersion in object meta: {}",
            text_or_empty(old, "metadata.resourceVersion")
        ),
    );
    Status::conflict(info, name(old), &why)
}

fn gone(info: &Info, last: &Object) -> Response {
    if info.returns_deleted {
        return Response::object(last.clone());
    }
    Response {
        code: 200,
        body: Body::Status(Status::deleted(info, name(last), uid(last))),
    }
}

pub(super) fn check_preconditions(
    info: &Info,
    params: &Params,
    object: &Value,
) -> Result<(), Status> {
    if let Some(wanted) = &params.uid
        && wanted != uid(object)
    {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({}). \
             The object might have been deleted and then recreated",
            uid(object)
        );
        return Err(Status::precondition(info, name(object), &why));
    }
    let found = text_or_empty(object, "metadata.resourceVersion");
    if let Some(wanted) = &params.resource_version
        && wanted != found
    {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the \
             ResourceVersion in record ({found}). The object might have been modified"
        );
        return Err(Status::precondition(info, name(object), &why));
    }
    Ok(())
}

/// Works out the grace period of a pod and writes it into `value`.
fn grace_period(now: SimTime, request: &Request, value: &mut Value) -> Grace {
    if request.resource != Resource::Pods {
        return Grace::None;
    }
    let asked = request
        .params
        .grace_period_seconds
        .map(|s| if s < 0 { 1 } else { s });
    if terminating(value) {
        return shorten(now, asked, value);
    }
    let period = pod_grace(asked, value);
    let end = now.plus_s(u64::try_from(period).unwrap_or(0));
    set(value, "metadata.deletionTimestamp", end.rfc3339());
    set(value, "metadata.deletionGracePeriodSeconds", period);
    meta::next_generation(value);
    Grace::Set(period)
}

fn pod_grace(asked: Option<i64>, pod: &Value) -> i64 {
    let unscheduled = text_or_empty(pod, "spec.nodeName").is_empty();
    let finished = matches!(text(pod, "status.phase"), Some("Succeeded" | "Failed"));
    if unscheduled || finished {
        return 0;
    }
    let own = int(pod, "spec.terminationGracePeriodSeconds").unwrap_or(30);
    let period = asked.unwrap_or(own);
    if period < 0 { 1 } else { period }
}

/// A deletion under way can only be hastened.
fn shorten(now: SimTime, asked: Option<i64>, value: &mut Value) -> Grace {
    let current = int(value, "metadata.deletionGracePeriodSeconds").unwrap_or(0);
    if current == 0 {
        // Its time is over; only finalizers hold it, as with kinds that know no grace.
        return Grace::None;
    }
    let Some(asked) = asked.filter(|s| *s < current) else {
        return Grace::Pending;
    };
    let end = text(value, "metadata.deletionTimestamp")
        .and_then(SimTime::parse)
        .unwrap_or(now);
    let sooner = SimTime(
        end.0
            .saturating_sub(1000 * (current - asked).unsigned_abs()),
    );
    // If even the shorter time is over, a pod that was to have some gets one second.
    let period = if sooner < now { asked.min(1) } else { asked };
    set(
        value,
        "metadata.deletionTimestamp",
        sooner.max(now).rfc3339(),
    );
    set(value, "metadata.deletionGracePeriodSeconds", period);
    Grace::Set(period)
}

fn mark_deleting(value: &mut Value, now: SimTime) {
    if !terminating(value) {
        if int(value, "metadata.generation").unwrap_or(0) > 0 {
            meta::next_generation(value);
        }
        set(value, "metadata.deletionTimestamp", now.rfc3339());
    }
    set(value, "metadata.deletionGracePeriodSeconds", 0);
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Adds or removes the finalizers through which the garbage collector works.
fn apply_propagation(resource: Resource, params: &Params, value: &mut Value) {
    let has = |name: &str| {
        items(value, "metadata.finalizers")
            .iter()
            .any(|f| f == name)
    };
    let policy = match params.propagation {
        Some(policy) => policy,
        None if has(ORPHAN) => Propagation::Orphan,
        None if has(FOREGROUND) => Propagation::Foreground,
        None if resource == Resource::Jobs => Propagation::Orphan,
        None => Propagation::Background,
    };
    let wanted = match policy {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    let before = items(value, "metadata.finalizers");
    let mut after: Vec<Value> = before
        .iter()
        .filter(|f| **f != ORPHAN && **f != FOREGROUND)
        .cloned()
        .collect();
    if let Some(wanted) = wanted {
        after.push(json!(wanted));
    }
    if after.len() == before.len() && before.iter().all(|f| after.contains(f)) {
        return;
    }
    if after.is_empty() {
        as_map(slot(value, "metadata")).remove("finalizers");
    } else {
        set(value, "metadata.finalizers", after);
    }
}
