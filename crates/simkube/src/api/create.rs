//! POST.

use std::sync::Arc;

use serde_json::Value;

use super::{Answer, Server, meta};
use crate::kinds::{self, Reading};
use crate::request::{Request, Response};
use crate::resource::{Info, Resource};
use crate::status::Status;
use crate::store::key;
use crate::value::{as_map, name, set, terminating, text_or_empty};

/// Longest part of generateName that is kept, so that five letters fit.
const GENERATE_BASE_MAX: usize = 58;
const GENERATE_TRIES: usize = 8;
/// How much of an unreadable object is shown.
const OBJECT_SHOWN: usize = 30;

impl Server {
    pub(super) fn create(&mut self, request: &Request) -> Answer {
        let Some(body) = &request.body else {
            return Err(Status::bad_request("no body in request"));
        };
        self.create_object(request, (**body).clone())
    }

    pub(super) fn create_object(&mut self, request: &Request, mut value: Value) -> Answer {
        let resource = request.resource;
        let info = self.info(resource)?.clone();
        check_type(&info, resource, &value)?;
        if super::sent_revision(&value).is_some() {
            const MESSAGE: &str = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, "", MESSAGE));
        }
        if meta::namespace_mismatch(&value, &request.namespace) {
            return Err(namespace_mismatch());
        }
        stamp_type(&info, &mut value);
        let validation = request.params.field_validation;
        let reading = Reading {
            validation,
            patched: false,
            old: None,
        };
        kinds::decode(self, resource, &mut value, &reading)?;
        meta::wipe_for_create(&mut value);
        if info.namespaced {
            set(&mut value, "metadata.namespace", request.namespace.as_str());
        }
        meta::canonical(&mut value);
        self.check_namespace(&info, request, name(&value))?;
        kinds::admit_create(self, resource, &mut value)?;
        let generated = self.name_it(resource, request, &mut value)?;
        set(&mut value, "metadata.uid", self.ids.uid());
        set(&mut value, "metadata.creationTimestamp", self.now.rfc3339());
        if info.generation {
            set(&mut value, "metadata.generation", 1);
        }
        kinds::prepare_create(self, resource, &mut value)?;
        let mut errors = meta::validate(resource, &info, &value);
        errors.extend(kinds::validate_create(self, resource, &value));
        if !errors.is_empty() {
            return Err(Status::invalid(&info, name(&value), &errors));
        }
        self.within_quota(&info, &request.namespace, &value)?;
        self.store_new(request, &info, value, generated)
    }

    fn store_new(
        &mut self,
        request: &Request,
        info: &Info,
        value: Value,
        generated: bool,
    ) -> Answer {
        let key = key(&request.namespace, name(&value));
        if let Some(existing) = self.store.get(request.resource, &key) {
            let mut refusal = Status::already_exists(info, name(&value), terminating(existing));
            if generated {
                refusal
                    .message
                    .push_str(", the server was not able to generate a unique name for the object");
                refusal = refusal.retry_after(1);
            }
            return Err(refusal);
        }
        if request.params.dry_run {
            return Ok(Response::created(Arc::new(meta::without_revision(value))));
        }
        Ok(Response::created(self.put(request.resource, key, value)))
    }

    /// Gives the object a name if it asked for one; says whether it did.
    fn name_it(
        &mut self,
        resource: Resource,
        request: &Request,
        value: &mut Value,
    ) -> Result<bool, Status> {
        let base = text_or_empty(value, "metadata.generateName").to_owned();
        if !name(value).is_empty() || base.is_empty() {
            return Ok(false);
        }
        let cut: String = base.chars().take(GENERATE_BASE_MAX).collect();
        for _ in 0..GENERATE_TRIES {
            let candidate = format!("{cut}{}", self.ids.name_suffix());
            let taken = self
                .store
                .get(resource, &key(&request.namespace, &candidate))
                .is_some();
            set(value, "metadata.name", candidate);
            if !taken {
                break;
            }
        }
        Ok(true)
    }

    /// Nothing is created in a namespace that is missing or going away.
    fn check_namespace(&self, info: &Info, request: &Request, name: &str) -> Result<(), Status> {
        if !info.namespaced {
            return Ok(());
        }
        let namespace = &request.namespace;
        let Some(object) = self.store.get(Resource::Namespaces, namespace) else {
            return Err(Status::not_found(
                self.info(Resource::Namespaces)?,
                namespace,
            ));
        };
        if !terminating(object) {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = format!("namespace {namespace} is being terminated");
        let refusal = Status::forbidden(info, name, &why);
        Err(refusal.with_cause("NamespaceTerminating", &cause, "metadata.namespace"))
    }
}

/// The body must be of the kind that the URL says, where it says anything.
pub(super) fn check_type(info: &Info, resource: Resource, value: &Value) -> Result<(), Status> {
    if !value.is_object() {
        return Err(Status::bad_request("the object provided is not a map"));
    }
    let kind = text_or_empty(value, "kind");
    let api_version = text_or_empty(value, "apiVersion");
    if resource.is_custom() && (kind.is_empty() || api_version.is_empty()) {
        let field = if kind.is_empty() {
            "Kind"
        } else {
            "apiVersion"
        };
        let text = value.to_string();
        let start: String = text.chars().take(OBJECT_SHOWN).collect();
        let start = if start == text {
            start
        } else {
            format!("{start} ...")
        };
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object '{field}' is missing \
             in '{text}' ({start})",
            info.kind
        )));
    }
    let expected = info.api_version();
    let same_store = resource == Resource::Events && api_version == "events.k8s.io/v1";
    if !api_version.is_empty() && api_version != expected && !same_store {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != info.kind {
        return Err(Status::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: converting (v1.{kind}) to (core.{}): unknown conversion",
            info.version, info.kind, info.kind
        )));
    }
    Ok(())
}

pub(super) fn stamp_type(info: &Info, value: &mut Value) {
    let map = as_map(value);
    map.insert("apiVersion".to_owned(), info.api_version().into());
    map.insert("kind".to_owned(), info.kind.as_ref().into());
}

pub(super) fn namespace_mismatch() -> Status {
    Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}
