//! A conductor's calls in the simulator's words, and the simulator's answers in the conductor's.

use crate::world::World;
use ensemble_api::Rule;
use ensemble_api::labels;
use ensemble_conductor::{ApiCall, ApiError, Belongs, Kind, Outcome, Verb, ensemble_of};
use ensemble_planner::mutants;
use serde_json::Value;
use simkube::{Body, Propagation, Request, Resource, Response, Status, Subresource, WatchOptions};

/// Where a kind lives.
pub fn resource(world: &World, kind: Kind) -> Resource {
    let info = kind.info();
    let found = world.cluster.resource_of(info.group, info.name);
    // One that nobody has: whoever asks for it is answered 404.
    found.unwrap_or(Resource::Custom(u16::MAX))
}

/// What of a kind is watched.
pub fn watch(world: &World, kind: Kind) -> WatchOptions {
    let info = kind.info();
    WatchOptions {
        namespace: if info.is_namespaced() {
            world.namespace.to_string()
        } else {
            String::new()
        },
        label_selector: info.is_labelled().then(|| labels::ENSEMBLE.to_owned()),
        ..WatchOptions::default()
    }
}

/// Whether an object concerns the ensemble of that name.
pub fn concerns(kind: Kind, object: &Value, ensemble: &str) -> bool {
    match kind.info().belongs {
        Belongs::InNamespace | Belongs::InCluster => true,
        _ => ensemble_of(kind, object) == Some(ensemble),
    }
}

fn preconditions(request: Request, options: &Value) -> Request {
    let given = |field: &str| options["preconditions"][field].as_str();
    let mut request = request.propagation(Propagation::Background);
    if let Some(uid) = given("uid") {
        request = request.uid(uid);
    }
    if let Some(version) = given("resourceVersion") {
        request = request.resource_version(version);
    }
    request
}

/// The call, as the simulator takes it.
pub fn request(world: &World, call: &ApiCall, client: &str) -> Request {
    let at = resource(world, call.kind());
    let (namespace, name) = (call.namespace(), call.name());
    let body = call.body().clone();
    let request = match call.verb() {
        Verb::Create { dry_run: false } => Request::create(at, namespace, body),
        Verb::Create { dry_run: true } => Request::create(at, namespace, body).dry_run().strict(),
        Verb::MergePatch => Request::patch(at, namespace, name, body),
        Verb::MergePatchStatus => Request::patch(at, namespace, name, body).status(),
        Verb::Replace => Request::update(at, namespace, name, body),
        Verb::ReplaceResize => Request::update(at, namespace, name, body).part(Subresource::Resize),
        Verb::ReplaceStatus => Request::update(at, namespace, name, body).status(),
        Verb::Delete => preconditions(Request::delete(at, namespace, name), &body),
        Verb::Evict => preconditions(Request::evict(namespace, name), &body["deleteOptions"]),
        Verb::Get => Request::get(at, namespace, name),
        Verb::List => Request::list(at, namespace).labels(&call.selector()),
    };
    request.client(client)
}

/// A mutant whose status overwrites whatever is there: it names the version that it meets.
pub fn forget_version(world: &World, request: &mut Request) {
    let status = request.verb == simkube::Verb::Update && request.resource == world.ensembles;
    if !status || !mutants::is_off(Rule::IntentByVersion) {
        return;
    }
    let met = world
        .cluster
        .get(request.resource, &request.namespace, &request.name);
    if let (Some(met), Some(body)) = (met, &request.body) {
        let mut body = (**body).clone();
        body["metadata"]["resourceVersion"] = met["metadata"]["resourceVersion"].clone();
        request.body = Some(body.into());
    }
}

/// The answer, as a conductor takes it.
pub fn outcome(answer: Result<Response, Status>) -> Outcome {
    match answer {
        Ok(response) => Outcome::Done(match response.body {
            Body::Object(object) => object,
            Body::List(_) | Body::Status(_) => response.to_value().into(),
        }),
        Err(status) => Outcome::Refused(ApiError {
            code: status.code,
            reason: status.reason.to_owned(),
            message: status.message,
        }),
    }
}
