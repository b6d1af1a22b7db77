//! GET of collections: selectors, pages, past states.

use super::{Answer, Server};
use crate::request::{Body, List, Request, Response};
use crate::resource::Resource;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Status;
use crate::store::{Key, in_namespace};
use crate::value::Object;

/// Where a page of a list begins.
struct Page {
    revision: u64,
    after: String,
}

impl Server {
    pub(super) fn list(&mut self, request: &Request) -> Answer {
        let (labels, fields) = self.selectors(
            request.resource,
            request.params.label_selector.as_deref(),
            request.params.field_selector.as_deref(),
        )?;
        let page = self.page(request)?;
        let wanted = |k: &Key, o: &Object| {
            in_namespace(k, &request.namespace)
                && page.as_ref().is_none_or(|p| **k > *p.after)
                && labels.matches(o)
                && fields.matches(o)
        };
        let (mut found, revision): (Vec<(Key, Object)>, u64) = match self.past(request, &page)? {
            Some(revision) => {
                let past = self.store.state_at(request.resource, revision);
                (
                    past.into_iter().filter(|(k, o)| wanted(k, o)).collect(),
                    revision,
                )
            }
            None => {
                let now = self
                    .store
                    .all(request.resource)
                    .filter(|(k, o)| wanted(k, o));
                (
                    now.map(|(k, o)| (k.clone(), o.clone())).collect(),
                    self.store.revision(),
                )
            }
        };
        let mut list = List {
            resource_version: revision,
            ..List::default()
        };
        let limit = self.page_limit(request);
        if limit > 0 && found.len() > limit {
            let selective = !labels.is_empty() || fields != FieldSelector::default();
            list.remaining = (!selective).then_some(found.len() - limit);
            list.continue_token = Some(format!("{revision}:{}", found[limit - 1].0));
            found.truncate(limit);
        }
        list.items = found.into_iter().map(|(_, o)| o).collect();
        Ok(Response {
            code: 200,
            body: Body::List(list),
        })
    }

    /// With resourceVersion 0 the limit is ignored: the whole cache comes back.
    fn page_limit(&self, request: &Request) -> usize {
        if request.params.resource_version.as_deref() == Some("0") {
            0
        } else {
            request.params.limit
        }
    }

    fn page(&self, request: &Request) -> Result<Option<Page>, Status> {
        let Some(token) = &request.params.continue_token else {
            return Ok(None);
        };
        let parsed = token
            .split_once(':')
            .and_then(|(rv, after)| Some((rv.parse().ok()?, after)));
        let Some((revision, after)) = parsed else {
            return Err(Status::bad_request(
                "continue key is not valid: the token cannot be read",
            ));
        };
        if revision < self.store.oldest(request.resource) {
            return Err(Status::new(410, "Expired", CONTINUE_EXPIRED));
        }
        Ok(Some(Page {
            revision,
            after: after.to_owned(),
        }))
    }

    /// The past revision to list at, if not the present.
    fn past(&self, request: &Request, page: &Option<Page>) -> Result<Option<u64>, Status> {
        if let Some(page) = page {
            return Ok(Some(page.revision));
        }
        let Some(text) = &request.params.resource_version else {
            return Ok(None);
        };
        let Ok(revision) = text.parse::<u64>() else {
            return Err(Status::bad_request(format!(
                "invalid resource version {text:?}"
            )));
        };
        let current = self.store.revision();
        if revision > current {
            let message =
                format!("Timeout: Too large resource version: {revision}, current: {current}");
            let refusal = Status::new(504, "Timeout", message).retry_after(1);
            return Err(refusal.with_cause(
                "ResourceVersionTooLarge",
                "Too large resource version",
                "",
            ));
        }
        let exact = request.params.exact || request.params.limit > 0 && revision > 0;
        if !exact {
            return Ok(None);
        }
        if revision < self.store.oldest(request.resource) {
            const MESSAGE: &str = "The resourceVersion for the provided list is too old.";
            return Err(Status::new(410, "Expired", MESSAGE));
        }
        Ok(Some(revision))
    }

    pub(crate) fn selectors(
        &self,
        resource: Resource,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<(LabelSelector, FieldSelector), Status> {
        let labels = LabelSelector::parse(labels.unwrap_or("")).map_err(Status::bad_request)?;
        let supported = |field: &str| self.selectable(resource, field);
        let fields =
            FieldSelector::parse(fields.unwrap_or(""), supported).map_err(Status::bad_request)?;
        Ok((labels, fields))
    }

    fn selectable(&self, resource: Resource, field: &str) -> bool {
        if matches!(field, "metadata.name" | "metadata.namespace") {
            return true;
        }
        match resource {
            Resource::Pods => matches!(
                field,
                "spec.nodeName"
                    | "spec.restartPolicy"
                    | "spec.schedulerName"
                    | "spec.serviceAccountName"
                    | "spec.hostNetwork"
                    | "status.phase"
                    | "status.podIP"
                    | "status.nominatedNodeName"
            ),
            Resource::Nodes => field == "spec.unschedulable",
            Resource::Secrets => field == "type",
            Resource::Services => matches!(field, "spec.clusterIP" | "spec.type"),
            Resource::Namespaces => field == "status.phase",
            Resource::Jobs => field == "status.successful",
            Resource::Events => {
                field.starts_with("involvedObject.")
                    || matches!(field, "reason" | "reportingComponent" | "source" | "type")
            }
            Resource::Custom(_) => self
                .crd(resource)
                .is_some_and(|c| c.selectable.iter().any(|f| f == field)),
            _ => false,
        }
    }
}

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent \
    list result. You can start a new list without the continue parameter, or use the continue token \
    in this response to retrieve the remainder of the results. Continuing with the provided token \
    results in an inconsistent list - objects that were created, modified, or deleted between the \
    time the first chunk was returned and now may show up in the list.";
