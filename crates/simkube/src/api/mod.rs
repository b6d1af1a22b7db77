//! The API server: every call goes through here, also those of the actors.

pub(crate) mod admission;
mod binding;
mod create;
mod delete;
mod evict;
mod list;
pub(crate) mod meta;
mod names;
mod patch;
mod scale;
mod update;

pub(crate) use patch::merge;
pub(crate) use scale::scale_of;

use std::sync::Arc;

use serde_json::Value;

use crate::crd::Crd;
use crate::ids::Ids;
use crate::request::{PatchType, Request, Response, Subresource, Verb};
use crate::resource::{Info, Resource};
use crate::status::Status;
use crate::store::{Key, Origin, Store, key};
use crate::time::SimTime;
use crate::value::{Object, revision};

/// Switches of the API server.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Refuse pods whose service account does not exist.
    pub service_accounts: bool,
    /// What the owners of the cluster have set up.
    pub admission: admission::Rules,
}

/// The API server and its store.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub store: Store,
    pub crds: Vec<Arc<Crd>>,
    pub now: SimTime,
    pub ids: Ids,
    pub settings: Settings,
    origin: Origin,
}

pub(crate) type Answer = Result<Response, Status>;

impl Server {
    pub fn new(seed: u64) -> Server {
        Server {
            store: Store::new(),
            crds: Vec::new(),
            now: SimTime::START,
            ids: Ids::new(seed),
            settings: Settings {
                service_accounts: false,
                admission: admission::Rules::default(),
            },
            origin: Origin {
                client: Arc::from("simkube"),
                verb: Verb::Get,
                subresource: None,
                uid_given: false,
                version_given: false,
            },
        }
    }

    pub fn info(&self, resource: Resource) -> Result<&Info, Status> {
        match resource {
            Resource::Custom(n) => self
                .crds
                .get(usize::from(n))
                .map(|c| &c.info)
                .ok_or_else(Status::no_such_path),
            other => other.built_in().ok_or_else(Status::no_such_path),
        }
    }

    pub fn crd(&self, resource: Resource) -> Option<&Arc<Crd>> {
        match resource {
            Resource::Custom(n) => self.crds.get(usize::from(n)),
            _ => None,
        }
    }

    pub fn call(&mut self, request: &Request) -> Answer {
        let info = self.info(request.resource)?;
        if !info.namespaced && !request.namespace.is_empty() {
            return Err(Status::no_such_path());
        }
        self.origin = Origin {
            client: request.client.clone(),
            verb: request.verb,
            subresource: request.subresource,
            uid_given: names_uid(request),
            version_given: names_version(request),
        };
        use Subresource::{Binding, Eviction, Resize, Scale, Status as StatusPart};
        match (request.verb, request.subresource) {
            (Verb::Get, None | Some(StatusPart | Resize)) => self.get(request),
            (Verb::Get, Some(Scale)) => self.get_scale(request),
            (Verb::List, None) => self.list(request),
            (Verb::Create, None) => self.create(request),
            (Verb::Create, Some(Binding)) => self.bind(request),
            (Verb::Create, Some(Eviction)) => self.evict(request),
            (Verb::Patch(PatchType::Json), _) => Err(Status::not_modelled("JSON patch (RFC 6902)")),
            (Verb::Patch(PatchType::Strategic), _) if request.resource.is_custom() => {
                Err(unsupported_media_type())
            }
            (Verb::Patch(PatchType::Strategic), _) => {
                Err(Status::not_modelled("strategic merge patch"))
            }
            (Verb::Patch(PatchType::Apply), _) => Err(Status::not_modelled("server-side apply")),
            (Verb::Update | Verb::Patch(_), Some(Scale)) => self.put_scale(request),
            (Verb::Update | Verb::Patch(_), None | Some(StatusPart | Resize)) => {
                self.update(request)
            }
            (Verb::Delete, None) => self.delete(request),
            (Verb::DeleteCollection, None) => self.delete_collection(request),
            _ => Err(Status::no_such_path()),
        }
    }

    fn get(&mut self, request: &Request) -> Answer {
        self.check_subresource(request)?;
        self.existing(request.resource, &request.namespace, &request.name)
            .map(Response::object)
    }

    pub fn existing(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Object, Status> {
        match self.store.get(resource, &key(namespace, name)) {
            Some(object) => Ok(object.clone()),
            None => Err(Status::not_found(self.info(resource)?, name)),
        }
    }

    fn check_subresource(&self, request: &Request) -> Result<(), Status> {
        let served = match request.subresource {
            Some(Subresource::Status) => self.info(request.resource)?.status,
            Some(Subresource::Resize | Subresource::Binding | Subresource::Eviction) => {
                request.resource == Resource::Pods
            }
            Some(Subresource::Scale) | None => true,
        };
        if served {
            Ok(())
        } else {
            Err(Status::no_such_path())
        }
    }

    pub(crate) fn put(&mut self, resource: Resource, key: Key, value: Value) -> Object {
        self.store
            .put(self.now, self.origin.clone(), resource, key, value)
    }

    pub(crate) fn remove(&mut self, resource: Resource, key: &str) -> Option<Object> {
        self.store
            .remove(self.now, self.origin.clone(), resource, key)
    }

    /// Lets the following direct writes be logged under an actor's name.
    pub(crate) fn act_as(&mut self, client: &Arc<str>, verb: Verb, part: Option<Subresource>) {
        self.origin = Origin {
            client: client.clone(),
            verb,
            subresource: part,
            uid_given: true,
            version_given: false,
        };
    }
}

fn names_uid(request: &Request) -> bool {
    request.params.uid.is_some() || body_meta(request, "uid")
}

fn names_version(request: &Request) -> bool {
    request.params.resource_version.is_some() || body_meta(request, "resourceVersion")
}

fn body_meta(request: &Request, field: &str) -> bool {
    let body = request.body.as_deref();
    let found = body
        .and_then(|b| b.get("metadata"))
        .and_then(|m| m.get(field));
    found.and_then(Value::as_str).is_some_and(|s| !s.is_empty())
}

fn unsupported_media_type() -> Status {
    const MESSAGE: &str = "the body of the request was in an unknown format - accepted media types \
        include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    Status::new(415, "UnsupportedMediaType", MESSAGE)
}

/// The resourceVersion an object was sent with; `None` if absent, empty or 0.
fn sent_revision(object: &Value) -> Option<u64> {
    Some(revision(object)).filter(|rv| *rv > 0)
}
