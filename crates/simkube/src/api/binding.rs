//! POST to `pods/binding`: a pod gets its node. No generation passes.

use serde_json::Value;

use super::{Answer, Server};
use crate::kinds::conditions::{self, Condition};
use crate::request::{Request, Response};
use crate::resource::{Info, Resource};
use crate::status::Status;
use crate::store::key;
use crate::value::{
    as_map, at, items, name, object, set, slot, take, terminating, text, text_or_empty, uid,
};

const COPIED_FROM_NODE: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

impl Server {
    pub(super) fn bind(&mut self, request: &Request) -> Answer {
        self.check_subresource(request)?;
        let Some(binding) = &request.body else {
            return Err(Status::bad_request("no body in request"));
        };
        let info = self.info(Resource::Pods)?.clone();
        let node = text_or_empty(binding, "target.name");
        if node.is_empty() {
            let error = crate::field::FieldError::required("target.name", "");
            return Err(Status::invalid(&info, &request.name, &[error]));
        }
        let old = self.existing(Resource::Pods, &request.namespace, &request.name)?;
        check(&info, request, &old, binding)?;
        let mut new = (*old).clone();
        set(&mut new, "spec.nodeName", node);
        take(&mut new, "status.nominatedNodeName");
        merge_map(&mut new, "annotations", binding);
        merge_map(&mut new, "labels", binding);
        self.copy_topology(node, &mut new);
        conditions::set(&mut new, self.now, &Condition::pod("PodScheduled", true));
        if !request.params.dry_run {
            self.put(Resource::Pods, key(&request.namespace, &request.name), new);
        }
        Ok(Response::status(Status::created()))
    }

    fn copy_topology(&self, node: &str, pod: &mut Value) {
        let Some(node) = self.store.get(Resource::Nodes, node) else {
            return;
        };
        for label in COPIED_FROM_NODE {
            if let Some(value) = at(node, "metadata.labels").and_then(|l| l.get(label)) {
                as_map(slot(pod, "metadata.labels")).insert(label.to_owned(), value.clone());
            }
        }
    }
}

fn check(info: &Info, request: &Request, pod: &Value, binding: &Value) -> Result<(), Status> {
    let pod_name = name(pod);
    let refuse = |why: String| {
        let mut refusal = Status::conflict(info, pod_name, &why);
        refusal.message = refusal
            .message
            .replacen(" on pods ", " on pods/binding ", 1);
        if let Some(details) = &mut refusal.details {
            details.kind = "pods/binding".to_owned();
        }
        Err(refusal)
    };
    let sent = |field: &str| text(binding, field).filter(|s| !s.is_empty());
    if let Some(wanted) = sent("metadata.uid")
        && wanted != uid(pod)
    {
        return Err(super::update::other_uid(info, request, pod, wanted));
    }
    if let Some(wanted) = sent("metadata.resourceVersion")
        && Some(wanted) != text(pod, "metadata.resourceVersion")
    {
        return refuse("the object has been modified".to_owned());
    }
    if terminating(pod) {
        return refuse(format!(
            "pod {pod_name} is being deleted, cannot be assigned to a host"
        ));
    }
    let node = text_or_empty(pod, "spec.nodeName");
    if !node.is_empty() {
        return refuse(format!(
            "pod {pod_name} is already assigned to node \"{node}\""
        ));
    }
    if !items(pod, "spec.schedulingGates").is_empty() {
        return refuse(format!(
            "pod {pod_name} has non-empty .spec.schedulingGates"
        ));
    }
    Ok(())
}

fn merge_map(pod: &mut Value, field: &str, binding: &Value) {
    let path = format!("metadata.{field}");
    if let Some(added) = object(binding, &path) {
        as_map(slot(pod, &path)).extend(added.clone());
    }
}
