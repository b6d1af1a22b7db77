//! The `scale` subresource of custom resources.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Server, patch};
use crate::crd::ScalePaths;
use crate::request::{Request, Response, Verb};
use crate::status::Status;
use crate::value::{Object, at, int, set, text_or_empty};

impl Server {
    pub(super) fn get_scale(&mut self, request: &Request) -> Answer {
        let paths = self.scale_paths(request)?;
        let object = self.existing(request.resource, &request.namespace, &request.name)?;
        scale_of(&object, &paths).map(|scale| Response::object(Arc::new(scale)))
    }

    pub(super) fn put_scale(&mut self, request: &Request) -> Answer {
        let paths = self.scale_paths(request)?;
        let Some(body) = &request.body else {
            return Err(Status::bad_request("no body in request"));
        };
        let old = self.existing(request.resource, &request.namespace, &request.name)?;
        let info = self.info(request.resource)?.clone();
        let mut scale = scale_of(&old, &paths)?;
        match request.verb {
            Verb::Update => scale = (**body).clone(),
            _ => patch::merge(&mut scale, body),
        }
        if super::sent_revision(&scale).is_some_and(|rv| rv != crate::value::revision(&old)) {
            return Err(Status::stale(&info, &request.name));
        }
        let mut new = (*old).clone();
        set(
            &mut new,
            &paths.spec,
            int(&scale, "spec.replicas").unwrap_or(0),
        );
        let mut whole = request.clone();
        whole.subresource = None;
        let updated: Object = match self.update_object(&whole, &info, old, new)?.into_object() {
            Some(object) => object,
            None => return Err(Status::internal("an update answered without an object")),
        };
        scale_of(&updated, &paths).map(|scale| Response::object(Arc::new(scale)))
    }

    fn scale_paths(&self, request: &Request) -> Result<ScalePaths, Status> {
        let crd = self
            .crd(request.resource)
            .ok_or_else(Status::no_such_path)?;
        crd.scale.clone().ok_or_else(Status::no_such_path)
    }
}

/// An autoscaling/v1 Scale made from a custom resource.
pub(crate) fn scale_of(object: &Value, paths: &ScalePaths) -> Result<Value, Status> {
    let Some(replicas) = at(object, &paths.spec).and_then(Value::as_i64) else {
        return Err(Status::internal(format!(
            "the spec replicas field \".{}\" does not exist",
            paths.spec
        )));
    };
    let meta = |field: &str| text_or_empty(object, &format!("metadata.{field}")).to_owned();
    let mut scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": meta("name"), "namespace": meta("namespace"), "uid": meta("uid"),
            "resourceVersion": meta("resourceVersion"), "creationTimestamp": meta("creationTimestamp"),
        },
        // Zero replicas are not shown.
        "spec": if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) },
        "status": {"replicas": int(object, &paths.status).unwrap_or(0)},
    });
    if let Some(selector) = paths
        .selector
        .as_ref()
        .and_then(|p| crate::value::text(object, p))
    {
        scale["status"]["selector"] = selector.into();
    }
    Ok(scale)
}
