//! What a client may ask, and what it gets.

use std::sync::Arc;

use serde_json::Value;

use crate::resource::Resource;
use crate::status::Status;
use crate::value::Object;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH, in one of its four dialects.
    Patch(PatchType),
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

/// Dialects of PATCH. Only merge patches are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 7386.
    Merge,
    /// RFC 6902; answered with 501.
    Json,
    /// Kubernetes' own; answered with 501.
    Strategic,
    /// Server-side apply; answered with 501.
    Apply,
}

/// A part of an object that has its own endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// `status`
    Status,
    /// `scale`
    Scale,
    /// `pods/binding`
    Binding,
    /// `pods/eviction`
    Eviction,
    /// `pods/resize`
    Resize,
}

/// How unknown fields are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped; the real server also sends a warning header.
    #[default]
    Warn,
    /// Dropped in silence.
    Ignore,
    /// Refused.
    Strict,
}

/// What becomes of dependents when their owner is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The owner goes first, dependents follow.
    Background,
    /// Dependents go first.
    Foreground,
    /// Dependents stay and lose their owner.
    Orphan,
}

/// Options; the defaults are those of a bare request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    /// `dryRun=All`.
    pub dry_run: bool,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// Deletes only an object with this uid.
    pub uid: Option<String>,
    /// Deletes: only at this version. Lists: see `exact`.
    pub resource_version: Option<String>,
    /// Lists: exactly the state at `resource_version` (`resourceVersionMatch=Exact`).
    pub exact: bool,
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`.
    pub propagation: Option<Propagation>,
    /// `labelSelector`.
    pub label_selector: Option<String>,
    /// `fieldSelector`.
    pub field_selector: Option<String>,
    /// `limit` of a list; zero for none.
    pub limit: usize,
    /// `continue` of a list.
    pub continue_token: Option<String>,
}

/// One call to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Who asks; kept in the log.
    pub client: Arc<str>,
    /// What is to be done.
    pub verb: Verb,
    /// On which resource.
    pub resource: Resource,
    /// In which namespace; empty for cluster-scoped resources and lists over all namespaces.
    pub namespace: String,
    /// On which object; empty for collections.
    pub name: String,
    /// On which part of it.
    pub subresource: Option<Subresource>,
    /// The object or patch sent along.
    pub body: Option<Object>,
    /// Options.
    pub params: Params,
}

impl Request {
    fn new(verb: Verb, resource: Resource, namespace: &str, name: &str) -> Request {
        Request {
            client: Arc::from("client"),
            verb,
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: None,
            body: None,
            params: Params::default(),
        }
    }

    /// GET one object. `namespace` is empty for cluster-scoped resources.
    #[must_use]
    pub fn get(resource: Resource, namespace: &str, name: &str) -> Request {
        Request::new(Verb::Get, resource, namespace, name)
    }

    /// GET a collection. `namespace` is empty for all namespaces.
    #[must_use]
    pub fn list(resource: Resource, namespace: &str) -> Request {
        Request::new(Verb::List, resource, namespace, "")
    }

    /// POST an object.
    #[must_use]
    pub fn create(resource: Resource, namespace: &str, body: impl Into<Object>) -> Request {
        Request::new(Verb::Create, resource, namespace, "").body(body)
    }

    /// PUT an object.
    #[must_use]
    pub fn update(
        resource: Resource,
        namespace: &str,
        name: &str,
        body: impl Into<Object>,
    ) -> Request {
        Request::new(Verb::Update, resource, namespace, name).body(body)
    }

    /// PATCH an object with a JSON merge patch.
    #[must_use]
    pub fn patch(
        resource: Resource,
        namespace: &str,
        name: &str,
        body: impl Into<Object>,
    ) -> Request {
        Request::new(Verb::Patch(PatchType::Merge), resource, namespace, name).body(body)
    }

    /// DELETE an object.
    #[must_use]
    pub fn delete(resource: Resource, namespace: &str, name: &str) -> Request {
        Request::new(Verb::Delete, resource, namespace, name)
    }

    /// DELETE a collection.
    #[must_use]
    pub fn delete_collection(resource: Resource, namespace: &str) -> Request {
        Request::new(Verb::DeleteCollection, resource, namespace, "")
    }

    /// POST to `pods/eviction`. Grace, dry-run and preconditions are set as for deletes.
    #[must_use]
    pub fn evict(namespace: &str, pod: &str) -> Request {
        Request::new(Verb::Create, Resource::Pods, namespace, pod).part(Subresource::Eviction)
    }

    /// POST to `pods/binding`.
    #[must_use]
    pub fn bind(namespace: &str, pod: &str, node: &str) -> Request {
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod}, "target": {"kind": "Node", "name": node},
        });
        Request::new(Verb::Create, Resource::Pods, namespace, pod)
            .part(Subresource::Binding)
            .body(body)
    }

    /// Names the client, for the log.
    #[must_use]
    pub fn client(mut self, client: impl Into<Arc<str>>) -> Request {
        self.client = client.into();
        self
    }

    /// Sends `body` along.
    #[must_use]
    pub fn body(mut self, body: impl Into<Object>) -> Request {
        self.body = Some(body.into());
        self
    }

    /// Addresses a subresource.
    #[must_use]
    pub fn part(mut self, subresource: Subresource) -> Request {
        self.subresource = Some(subresource);
        self
    }

    /// Addresses the `status` subresource.
    #[must_use]
    pub fn status(self) -> Request {
        self.part(Subresource::Status)
    }

    /// Uses another dialect of PATCH.
    #[must_use]
    pub fn patch_type(mut self, dialect: PatchType) -> Request {
        self.verb = Verb::Patch(dialect);
        self
    }

    /// Asks for the whole pipeline but no write.
    #[must_use]
    pub fn dry_run(mut self) -> Request {
        self.params.dry_run = true;
        self
    }

    /// Refuses unknown fields.
    #[must_use]
    pub fn strict(mut self) -> Request {
        self.params.field_validation = FieldValidation::Strict;
        self
    }

    /// Deletes or evicts only the object with this uid.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Request {
        self.params.uid = Some(uid.to_owned());
        self
    }

    /// Deletes or evicts only at this version; lists not older than it.
    #[must_use]
    pub fn resource_version(mut self, version: &str) -> Request {
        self.params.resource_version = Some(version.to_owned());
        self
    }

    /// Lists exactly the state at the resource version given.
    #[must_use]
    pub fn exact(mut self) -> Request {
        self.params.exact = true;
        self
    }

    /// Sets the grace period.
    #[must_use]
    pub fn grace(mut self, seconds: i64) -> Request {
        self.params.grace_period_seconds = Some(seconds);
        self
    }

    /// Sets what becomes of dependents.
    #[must_use]
    pub fn propagation(mut self, policy: Propagation) -> Request {
        self.params.propagation = Some(policy);
        self
    }

    /// Selects by labels.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Request {
        self.params.label_selector = Some(selector.to_owned());
        self
    }

    /// Selects by fields.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Request {
        self.params.field_selector = Some(selector.to_owned());
        self
    }

    /// Asks for a page of a list.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Request {
        self.params.limit = limit;
        self
    }

    /// Asks for the page after the one that gave this token.
    #[must_use]
    pub fn continue_from(mut self, token: &str) -> Request {
        self.params.continue_token = Some(token.to_owned());
        self
    }
}

/// A successful answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// HTTP code: 200 or 201.
    pub code: u16,
    /// What came back.
    pub body: Body,
}

/// The body of a successful answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One object.
    Object(Object),
    /// A collection.
    List(List),
    /// A bare success.
    Status(Status),
}

/// A collection, in key order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    /// The objects. Unlike on the wire, each carries kind and apiVersion.
    pub items: Vec<Object>,
    /// The store-wide revision of this view.
    pub resource_version: u64,
    /// Where the next page begins.
    pub continue_token: Option<String>,
    /// How many objects follow; only known without selectors.
    pub remaining: Option<usize>,
}

impl Response {
    pub(crate) fn object(object: Object) -> Response {
        Response {
            code: 200,
            body: Body::Object(object),
        }
    }

    pub(crate) fn created(object: Object) -> Response {
        Response {
            code: 201,
            body: Body::Object(object),
        }
    }

    pub(crate) fn status(status: Status) -> Response {
        Response {
            code: status.code,
            body: Body::Status(status),
        }
    }

    /// The object, if the answer is one.
    #[must_use]
    pub fn into_object(self) -> Option<Object> {
        match self.body {
            Body::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The object, if the answer is one.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        match &self.body {
            Body::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The list, if the answer is one.
    #[must_use]
    pub fn into_list(self) -> Option<List> {
        match self.body {
            Body::List(list) => Some(list),
            _ => None,
        }
    }

    /// The body as it would be on the wire.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match &self.body {
            Body::Object(object) => (**object).clone(),
            Body::Status(status) => status.to_value(),
            Body::List(list) => list.to_value(),
        }
    }
}

impl List {
    fn to_value(&self) -> Value {
        let mut metadata =
            serde_json::json!({"resourceVersion": self.resource_version.to_string()});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let items: Vec<Value> = self.items.iter().map(|o| (**o).clone()).collect();
        serde_json::json!({"metadata": metadata, "items": items})
    }
}
