//! PUT and PATCH, on objects and on their status and resize endpoints.
//!
//! Order matters: identity, version, decoding, what may not change, validation,
//! admission, and only then the write.

use std::sync::Arc;

use serde_json::Value;

use super::create::{check_type, namespace_mismatch, stamp_type};
use super::{Answer, Server, meta, patch};
use crate::field::FieldError;
use crate::kinds::{self, Reading};
use crate::request::{Request, Response, Subresource, Verb};
use crate::resource::{Info, Resource};
use crate::status::Status;
use crate::store::key;
use crate::value::{
    Object, int, items, name, namespace, set, terminating, text, text_or_empty, uid,
};

impl Server {
    pub(super) fn update(&mut self, request: &Request) -> Answer {
        self.check_subresource(request)?;
        let Some(body) = &request.body else {
            return Err(Status::bad_request("no body in request"));
        };
        let info = self.info(request.resource)?.clone();
        if request.verb == Verb::Update {
            check_type(&info, request.resource, body)?;
            check_url(request, body)?;
        } else if !body.is_object() {
            return Err(Status::bad_request("a merge patch must be a map"));
        }
        let key = key(&request.namespace, &request.name);
        let old = self.store.get(request.resource, &key).cloned();
        if request.verb == Verb::Update {
            return self.replace(request, &info, body, old);
        }
        let Some(old) = old else {
            return Err(Status::not_found(&info, &request.name));
        };
        let mut new = (*old).clone();
        patch::merge(&mut new, body);
        check_url(request, &new)?;
        self.read(request, &info, &mut new, Some(&old))?;
        check_revision(&info, request, &old, &new)?;
        self.update_object(request, &info, old, new)
    }

    /// A claim is stored a little differently when it is created, so its first
    /// update is a write even if it changes nothing.
    fn rewrites_anyway(&self, resource: Resource, old: &Value) -> bool {
        resource == Resource::PersistentVolumeClaims
            && self.store.created_at(resource, crate::value::revision(old))
    }

    /// PUT: what was sent must be readable before anything else is looked at.
    fn replace(
        &mut self,
        request: &Request,
        info: &Info,
        body: &Value,
        old: Option<Object>,
    ) -> Answer {
        let mut new = body.clone();
        self.read(request, info, &mut new, old.as_deref())?;
        let Some(old) = old else {
            if info.create_on_update && request.subresource.is_none() {
                if let Some(sent) = text(body, "metadata.uid").filter(|u| !u.is_empty()) {
                    crate::value::take(&mut new, "metadata.uid");
                    set(&mut new, "metadata.namespace", request.namespace.as_str());
                    return Err(other_uid(info, request, &new, sent));
                }
                return self.create_by_update(request, body.clone());
            }
            return Err(Status::not_found(info, &request.name));
        };
        check_identity(info, request, &old, &new)?;
        check_revision(info, request, &old, &new)?;
        self.update_object(request, info, old, new)
    }

    /// The version that was sent is forgotten, where a POST would be refused for it. It is forgotten
    /// when the object is stored, so the answer to a dry run has it still.
    fn create_by_update(&mut self, request: &Request, mut body: Value) -> Answer {
        let sent = crate::value::take(&mut body, "metadata.resourceVersion");
        let answer = self.create_object(request, body)?;
        let (Some(sent), true) = (sent, request.params.dry_run) else {
            return Ok(answer);
        };
        let mut shown = answer.to_value();
        set(&mut shown, "metadata.resourceVersion", sent);
        Ok(Response::created(Arc::new(shown)))
    }

    fn read(
        &self,
        request: &Request,
        info: &Info,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        stamp_type(info, new);
        let reading = Reading {
            validation: request.params.field_validation,
            patched: request.verb != Verb::Update,
            old,
        };
        kinds::decode(self, request.resource, new, &reading)
    }

    /// The rest of the pipeline, once the new object is known.
    pub(crate) fn update_object(
        &mut self,
        request: &Request,
        info: &Info,
        old: Object,
        mut new: Value,
    ) -> Answer {
        let resource = request.resource;
        let part = request.subresource;
        let meta_differs = new.get("metadata") != old.get("metadata");
        if meta_differs {
            restore_meta(&mut new, &old);
        }
        kinds::prepare_update(self, resource, part, &mut new, &old)?;
        if new == *old && !self.rewrites_anyway(resource, &old) {
            return Ok(Response::object(old));
        }
        let mut errors = Vec::new();
        if meta_differs {
            let meta_errors = meta::validate_update(&new, &old);
            // Checked by the common path and by most kinds again, so errors are there twice.
            if resource != Resource::PodDisruptionBudgets {
                errors.extend(meta_errors.clone());
            }
            errors.extend(meta_errors);
            errors.extend(meta::validate(resource, info, &new));
        }
        errors.extend(kinds::validate_update(self, resource, part, &new, &old));
        if !errors.is_empty() {
            return Err(Status::invalid(info, name(&old), &errors));
        }
        kinds::admit_update(self, resource, part, &new, &old)?;
        if request.params.dry_run {
            return Ok(Response::object(Arc::new(new)));
        }
        let key = key(namespace(&old), name(&old));
        if goes_away(&new, &old) {
            // The last finalizer is gone: the update itself is never stored,
            // the deletion event carries the state before it.
            self.remove(resource, &key);
            return Ok(Response::object(Arc::new(new)));
        }
        Ok(Response::object(self.put(resource, key, new)))
    }

    /// Writes nothing but the status of an object on behalf of an actor. The
    /// status is half of a pod, so the old one is never copied.
    pub(crate) fn write_status(
        &mut self,
        client: &Arc<str>,
        resource: Resource,
        key: &str,
        status: Value,
    ) -> Answer {
        let info = self.info(resource)?;
        let Some((key, old)) = self.store.get_entry(resource, key) else {
            return Err(Status::not_found(info, crate::store::split_key(key).1));
        };
        if old.get("status") == Some(&status) {
            return Ok(Response::object(old.clone()));
        }
        let (key, old) = (key.clone(), old.clone());
        let fields = old
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(k, _)| *k != "status");
        let mut new: serde_json::Map<String, Value> =
            fields.map(|(k, v)| (k.clone(), v.clone())).collect();
        new.insert("status".to_owned(), status);
        let new = Value::Object(new);
        let part = Some(Subresource::Status);
        let errors = kinds::validate_update(self, resource, part, &new, &old);
        if !errors.is_empty() {
            return Err(Status::invalid(self.info(resource)?, name(&old), &errors));
        }
        self.act_as(client, Verb::Update, part);
        Ok(Response::object(self.put(resource, key, new)))
    }

    /// Reads, changes and writes an object on behalf of an actor, through the
    /// same pipeline as a client's PUT.
    pub(crate) fn modify(
        &mut self,
        client: &Arc<str>,
        resource: Resource,
        part: Option<Subresource>,
        key: &str,
        change: impl FnOnce(&mut Value),
    ) -> Answer {
        let (namespace, name) = crate::store::split_key(key);
        let info = self.info(resource)?.clone();
        let Some(old) = self.store.get(resource, key).cloned() else {
            return Err(Status::not_found(&info, name));
        };
        let mut new = (*old).clone();
        change(&mut new);
        let mut request = Request::get(resource, namespace, name).client(client.clone());
        request.verb = Verb::Update;
        request.subresource = part;
        self.act_as(client, Verb::Update, part);
        self.update_object(&request, &info, old, new)
    }
}

/// What of the metadata the request may not touch is as it was.
fn restore_meta(new: &mut Value, old: &Value) {
    meta::canonical(new);
    for (field, value) in [
        ("metadata.name", name(old)),
        ("metadata.namespace", namespace(old)),
        (
            "metadata.resourceVersion",
            text_or_empty(old, "metadata.resourceVersion"),
        ),
    ] {
        if !value.is_empty() {
            set(new, field, value);
        }
    }
    meta::keep_for_update(new, old);
}

fn goes_away(new: &Value, old: &Value) -> bool {
    terminating(old)
        && items(new, "metadata.finalizers").is_empty()
        && int(old, "metadata.deletionGracePeriodSeconds").unwrap_or(0) == 0
}

fn check_url(request: &Request, body: &Value) -> Result<(), Status> {
    if name(body) != request.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            name(body),
            request.name
        )));
    }
    if meta::namespace_mismatch(body, &request.namespace) {
        return Err(namespace_mismatch());
    }
    Ok(())
}

/// A PUT that names another uid lost a race. A patch that does so is merely
/// invalid, which validation will find.
fn check_identity(info: &Info, request: &Request, old: &Value, new: &Value) -> Result<(), Status> {
    match text(new, "metadata.uid") {
        Some(sent) if !sent.is_empty() && sent != uid(old) => {
            Err(other_uid(info, request, old, sent))
        }
        _ => Ok(()),
    }
}

/// The refusal of a write that means another object of the same name.
pub(super) fn other_uid(info: &Info, request: &Request, object: &Value, sent: &str) -> Status {
    let what = format!(
        "UID in precondition: {sent}, UID in object meta: {}",
        uid(object)
    );
    Status::conflict(
        info,
        name(object),
        &storage_error(info, request, object, &what),
    )
}

/// What the store says about a precondition that failed at the last moment.
pub(super) fn storage_error(info: &Info, request: &Request, object: &Value, what: &str) -> String {
    // A dry run looks without the store, which would have said where all keys begin.
    let root = if request.params.dry_run {
        ""
    } else {
        "/registry"
    };
    let path = match request.resource.built_in() {
        Some(_) if request.resource == Resource::Services => "services/specs".to_owned(),
        Some(_) => info.plural.to_string(),
        None => format!("{}/{}", info.group, info.plural),
    };
    let key = key(namespace(object), name(object));
    format!(
        "StorageError: invalid object, Code: 4, Key: {root}/{path}/{key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: {what}"
    )
}

fn check_revision(info: &Info, request: &Request, old: &Value, new: &Value) -> Result<(), Status> {
    match super::sent_revision(new) {
        Some(sent) if sent != crate::value::revision(old) => {
            Err(Status::stale(info, &request.name))
        }
        None if !info.unconditional_update => {
            const DEMAND: &str = "must be specified for an update";
            let error = FieldError::invalid("metadata.resourceVersion", 0, DEMAND);
            // Said of the resource, where other refusals are of the kind.
            let said = Info {
                kind: info.plural.clone(),
                ..info.clone()
            };
            Err(Status::invalid(&said, &request.name, &[error]))
        }
        _ => Ok(()),
    }
}
