//! A real API server behind the questions that simkube answers too.

use anyhow::{Context, Result};
use http::Method;
use kube::Client;
use kube::client::Body as HttpBody;
use serde_json::{Value, json};
use simkube::probes::Api;
use simkube::{
    Body, EventType, FieldValidation, List, PatchType, Request, Resource, Response, Status,
    Subresource, Verb, WatchEvent, WatchOptions,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

const JSON: &str = "application/json";
/// A call that takes longer is answered with 0: a test that says so is better than one that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A definition that the server has.
struct Known {
    /// Group, version and plural.
    key: [String; 3],
    /// All of it, as it was last given.
    definition: Value,
}

/// A real API server. To be used outside of the runtime's own threads.
pub struct Real {
    client: Client,
    runtime: Handle,
    /// Shared by all that ask the same server.
    definitions: Arc<Mutex<Vec<Known>>>,
    /// How many calls were made.
    pub calls: usize,
}

fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes()
        .map(|b| match plain(b) {
            true => char::from(b).to_string(),
            false => format!("%{b:02X}"),
        })
        .collect()
}

impl Real {
    /// Asks by that client, on that runtime.
    pub fn new(client: Client, runtime: Handle) -> Self {
        Self {
            client,
            runtime,
            definitions: Arc::default(),
            calls: 0,
        }
    }

    /// Another who asks the same server at the same time.
    pub fn another(&self) -> Self {
        Self {
            client: self.client.clone(),
            runtime: self.runtime.clone(),
            definitions: self.definitions.clone(),
            calls: 0,
        }
    }

    fn send(
        &mut self,
        method: Method,
        path: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> (u16, String) {
        self.calls += 1;
        let client = self.client.clone();
        let asked = async move {
            let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
            let request = http::Request::builder()
                .method(method)
                .uri(path)
                .header("Content-Type", kind)
                .header("Accept", JSON)
                .body(HttpBody::from(bytes))
                .context("build the request")?;
            let answer = client.send(request).await.context("send it")?;
            let code = answer.status().as_u16();
            let bytes = answer.into_body().collect_bytes().await?;
            anyhow::Ok((code, String::from_utf8_lossy(&bytes).into_owned()))
        };
        let patient = async { tokio::time::timeout(PATIENCE, asked).await };
        match self.runtime.block_on(patient) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => (0, format!("{error:#}")),
            Err(_) => (0, format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }

    /// Creates or replaces a definition, and waits until it counts.
    fn store(&mut self, name: &str, key: &[String; 3], definition: &Value) -> Result<(), Status> {
        let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let one = format!("{all}/{name}");
        let (mut code, mut said) = self.send(Method::POST, all, JSON, Some(definition));
        if code == 409 {
            let (_, stored) = self.send(Method::GET, &one, JSON, None);
            let stored: Value = serde_json::from_str(&stored).unwrap_or_default();
            let mut newer = definition.clone();
            newer["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            (code, said) = self.send(Method::PUT, &one, JSON, Some(&newer));
        }
        if code == 0 || code >= 300 {
            return Err(refusal(code, &said));
        }
        // Served is not enough: a new schema takes a moment to reach the handlers.
        std::thread::sleep(Duration::from_millis(1500));
        let [group, version, plural] = key;
        let list = format!("/apis/{group}/{version}/{plural}");
        let limit = std::time::Instant::now() + PATIENCE;
        loop {
            let (code, said) = self.send(Method::GET, &list, JSON, None);
            // Established, it may still be getting its storage ready.
            match code {
                404 | 429 if std::time::Instant::now() < limit => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                200 => return Ok(()),
                _ => return Err(refusal(code, &said)),
            }
        }
    }

    fn path(&self, resource: Resource, namespace: &str, name: &str) -> String {
        let [group, version, plural] = match (resource.built_in(), resource) {
            (Some(info), _) => [&info.group, &info.version, &info.plural].map(|s| s.to_string()),
            (None, Resource::Custom(n)) => {
                let known = self.definitions.lock();
                let known = known.unwrap_or_else(PoisonError::into_inner);
                known
                    .get(usize::from(n))
                    .map(|k| k.key.clone())
                    .unwrap_or_default()
            }
            (None, _) => Default::default(),
        };
        let mut path = match group.as_str() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        if !namespace.is_empty() {
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push_str(&format!("/{plural}"));
        if !name.is_empty() {
            path.push_str(&format!("/{name}"));
        }
        path
    }
}

fn refusal(code: u16, text: &str) -> Status {
    let value = serde_json::from_str(text).unwrap_or(json!({"message": text}));
    let mut status = Status::from_value(&value);
    status.code = code;
    status
}

fn delete_options(request: &Request) -> Value {
    let params = &request.params;
    let mut options = json!({});
    if let Some(uid) = &params.uid {
        options["preconditions"]["uid"] = json!(uid);
    }
    if let Some(version) = &params.resource_version {
        options["preconditions"]["resourceVersion"] = json!(version);
    }
    if let Some(seconds) = params.grace_period_seconds {
        options["gracePeriodSeconds"] = json!(seconds);
    }
    if let Some(policy) = params.propagation {
        options["propagationPolicy"] = json!(format!("{policy:?}"));
    }
    if params.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}

fn query(request: &Request) -> Vec<String> {
    let params = &request.params;
    let mut query = Vec::new();
    if params.dry_run && request.subresource != Some(Subresource::Eviction) {
        query.push("dryRun=All".to_owned());
    }
    if params.field_validation == FieldValidation::Strict {
        query.push("fieldValidation=Strict".to_owned());
    }
    if let Some(labels) = &params.label_selector {
        query.push(format!("labelSelector={}", encoded(labels)));
    }
    if let Some(fields) = &params.field_selector {
        query.push(format!("fieldSelector={}", encoded(fields)));
    }
    if params.limit > 0 {
        query.push(format!("limit={}", params.limit));
    }
    if let Some(token) = &params.continue_token {
        query.push(format!("continue={}", encoded(token)));
    }
    if let Some(version) = params
        .resource_version
        .as_ref()
        .filter(|_| request.verb == Verb::List)
    {
        query.push(format!("resourceVersion={version}"));
        if params.exact {
            query.push("resourceVersionMatch=Exact".to_owned());
        }
    }
    query
}

fn part(subresource: Subresource) -> &'static str {
    match subresource {
        Subresource::Status => "/status",
        Subresource::Scale => "/scale",
        Subresource::Binding => "/binding",
        Subresource::Eviction => "/eviction",
        Subresource::Resize => "/resize",
    }
}

fn method(verb: Verb) -> (Method, &'static str) {
    match verb {
        Verb::Get | Verb::List => (Method::GET, JSON),
        Verb::Create => (Method::POST, JSON),
        Verb::Update => (Method::PUT, JSON),
        Verb::Patch(PatchType::Merge) => (Method::PATCH, "application/merge-patch+json"),
        Verb::Patch(PatchType::Json) => (Method::PATCH, "application/json-patch+json"),
        Verb::Patch(PatchType::Strategic) => {
            (Method::PATCH, "application/strategic-merge-patch+json")
        }
        Verb::Patch(PatchType::Apply) => (Method::PATCH, "application/apply-patch+yaml"),
        Verb::Delete | Verb::DeleteCollection => (Method::DELETE, JSON),
    }
}

fn response(code: u16, value: Value) -> Response {
    if value["kind"] == "Status" {
        let mut status = Status::from_value(&value);
        status.code = code;
        let body = Body::Status(status);
        return Response { code, body };
    }
    let metadata = &value["metadata"];
    let body = match value["items"].as_array() {
        Some(items) => Body::List(List {
            items: items.iter().cloned().map(Arc::new).collect(),
            resource_version: metadata["resourceVersion"]
                .as_str()
                .and_then(|v| v.parse().ok())
                .unwrap_or(0),
            continue_token: metadata["continue"]
                .as_str()
                .filter(|token| !token.is_empty())
                .map(str::to_owned),
            remaining: metadata["remainingItemCount"]
                .as_u64()
                .and_then(|n| usize::try_from(n).ok()),
        }),
        None => Body::Object(Arc::new(value)),
    };
    Response { code, body }
}

impl Api for Real {
    fn call(&mut self, request: &Request) -> Result<Response, Status> {
        let name = format!("{}{}", request.name, request.subresource.map_or("", part));
        let mut path = self.path(request.resource, &request.namespace, &name);
        let query = query(request);
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let body = match (request.verb, request.subresource) {
            (Verb::Create, Some(Subresource::Eviction)) => Some(json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": request.name, "namespace": request.namespace},
                "deleteOptions": delete_options(request),
            })),
            (Verb::Delete | Verb::DeleteCollection, _) => Some(delete_options(request)),
            _ => request.body.as_deref().cloned(),
        };
        let (method, kind) = method(request.verb);
        let (code, text) = self.send(method, &path, kind, body.as_ref());
        if code == 0 || code >= 300 {
            return Err(refusal(code, &text));
        }
        match serde_json::from_str(&text) {
            Ok(value) => Ok(response(code, value)),
            Err(_) => Err(refusal(code, &text)),
        }
    }

    fn register_crd(&mut self, definition: &Value) -> Result<Resource, Status> {
        let text = |path: &str| {
            let found = definition.pointer(path).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let key = [
            text("/spec/group"),
            text("/spec/versions/0/name"),
            text("/spec/names/plural"),
        ];
        // Held until the definition is served: others who want it wait for that, too.
        let definitions = self.definitions.clone();
        let mut definitions = definitions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = definitions.iter().position(|d| d.key == key);
        if known.is_none_or(|n| definitions[n].definition != *definition) {
            self.store(&text("/metadata/name"), &key, definition)?;
        }
        let definition = definition.clone();
        let number = match known {
            Some(number) => {
                definitions[number].definition = definition;
                number
            }
            None => {
                definitions.push(Known { key, definition });
                definitions.len() - 1
            }
        };
        u16::try_from(number)
            .map(Resource::Custom)
            .map_err(|_| refusal(500, "too many definitions"))
    }

    fn watch(
        &mut self,
        resource: Resource,
        options: &WatchOptions,
    ) -> Result<Vec<WatchEvent>, Status> {
        let mut path = self.path(resource, &options.namespace, "");
        path.push_str("?watch=true&timeoutSeconds=1");
        if let Some(version) = options.resource_version {
            path.push_str(&format!("&resourceVersion={version}"));
        }
        if options.bookmarks {
            path.push_str("&allowWatchBookmarks=true");
        }
        if let Some(labels) = &options.label_selector {
            path.push_str(&format!("&labelSelector={}", encoded(labels)));
        }
        if let Some(fields) = &options.field_selector {
            path.push_str(&format!("&fieldSelector={}", encoded(fields)));
        }
        let (mut code, mut text) = self.send(Method::GET, &path, JSON, None);
        if code == 0 {
            // This machine may have stood still meanwhile. To look once more changes nothing.
            (code, text) = self.send(Method::GET, &path, JSON, None);
        }
        if code == 0 || code >= 300 {
            return Err(refusal(code, &text));
        }
        Ok(text.lines().filter_map(event).collect())
    }

    fn compact(&mut self, _: Resource) -> bool {
        false
    }

    fn wait_a_second(&mut self) {
        std::thread::sleep(Duration::from_millis(1100));
    }
}

fn event(line: &str) -> Option<WatchEvent> {
    let value: Value = serde_json::from_str(line).ok()?;
    let kind = match value["type"].as_str()? {
        "ADDED" => EventType::Added,
        "MODIFIED" => EventType::Modified,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => EventType::Bookmark,
        _ => EventType::Error,
    };
    Some(WatchEvent {
        kind,
        object: Arc::new(value["object"].clone()),
    })
}

/// Runs questions on a real API server that has nobody beside it.
pub async fn ask<T: Send + 'static>(
    questions: impl FnOnce(&mut Real) -> T + Send + 'static,
) -> Result<T> {
    let plane = crate::cluster::bare().await?;
    let client = ensemble_testbed::client::that_asks_once(&plane.kubeconfig()).await?;
    let runtime = Handle::current();
    let answer = tokio::task::spawn_blocking(move || questions(&mut Real::new(client, runtime)));
    Ok(answer.await?)
}
