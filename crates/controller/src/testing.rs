//! A client whose other end is a simulated API server in the same process: no sockets, so that
//! tokio's clock can be paused.

use ensemble_conductor::{KINDS, KindInfo};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use simkube::{Cluster, Request as Call, Resource};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What is wrong with the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// It answers everything with this code.
    Fails(u16),
    /// It answers nothing until it is well again.
    Silent,
}

/// A simulated API server, with what it was asked.
pub struct ApiServer {
    cluster: Mutex<Cluster>,
    trouble: watch::Sender<Trouble>,
    asked: Mutex<Vec<(Duration, String)>>,
    started: Instant,
}

impl ApiServer {
    pub fn new() -> Arc<Self> {
        let mut cluster = Cluster::new(1);
        cluster.add_namespace("home");
        cluster.add_namespace("shop");
        for definition in ensemble_api::crd::all_json() {
            cluster
                .register_crd(&definition)
                .expect("our own definition");
        }
        Arc::new(Self {
            cluster: Mutex::new(cluster),
            trouble: watch::Sender::new(Trouble::None),
            asked: Mutex::default(),
            started: Instant::now(),
        })
    }

    /// A client of it, at home in `home`.
    pub fn client(self: &Arc<Self>) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "home")
    }

    pub fn is(&self, trouble: Trouble) {
        self.trouble.send_replace(trouble);
    }

    /// Does something with the cluster, as somebody else would.
    pub fn with<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        act(&mut self.cluster.lock().unwrap())
    }

    /// Lets its time pass, though nobody asks.
    pub fn passes(&self, ms: u64) {
        self.with(|cluster| cluster.advance_ms(ms));
    }

    /// What it was asked so far, and after how long.
    pub fn asked(&self) -> Vec<(Duration, String)> {
        self.asked.lock().unwrap().clone()
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let said = format!("{} {}", parts.method, parts.uri.path());
        let at = self.started.elapsed();
        self.asked.lock().unwrap().push((at, said));
        let mut trouble = self.trouble.subscribe();
        let now = *trouble
            .wait_for(|t| *t != Trouble::Silent)
            .await
            .expect("the server outlives its calls");
        if let Trouble::Fails(code) = now {
            return status(code, "InternalError", "etcd is slow today");
        }
        let body = body.collect().await.expect("a body in memory").to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        self.with(|cluster| answer(cluster, &parts.method, parts.uri.path(), body))
    }
}

/// A client whose other end hears everything and says nothing.
pub fn deaf(heard: impl Fn(String) + Send + 'static) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        heard(request.uri().to_string());
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    Client::new(service, "home")
}

fn resource(cluster: &Cluster, plural: &str) -> Resource {
    match plural {
        "leases" => Resource::Leases,
        "secrets" => Resource::Secrets,
        _ => {
            let info = KINDS.iter().find(|info| info.plural == plural);
            let info = info.unwrap_or_else(|| panic!("nobody asks for {plural}"));
            resource_of(cluster, info)
        }
    }
}

/// Where the simulator keeps a kind.
pub fn resource_of(cluster: &Cluster, info: &KindInfo) -> Resource {
    let found = cluster.resource_of(info.group, info.name);
    found.unwrap_or_else(|| panic!("there is no {}", info.name))
}

fn answer(
    cluster: &mut Cluster,
    method: &Method,
    path: &str,
    body: Value,
) -> Response<Full<Bytes>> {
    let (_, rest) = path
        .split_once("/namespaces/")
        .expect("all is in a namespace");
    let mut rest = rest.split('/');
    let mut part = || rest.next().unwrap_or_default();
    let (namespace, plural, name, subresource) = (part(), part(), part(), part());
    if plural == "events" {
        return status(403, "Forbidden", "nobody looks at events here");
    }
    let resource = resource(cluster, plural);
    let call = match *method {
        Method::GET => Call::get(resource, namespace, name),
        Method::POST => Call::create(resource, namespace, body),
        Method::PUT => Call::update(resource, namespace, name, body),
        Method::PATCH => Call::patch(resource, namespace, name, body),
        _ => panic!("nobody sends {method}"),
    };
    let call = if subresource == "status" {
        call.status()
    } else {
        call
    };
    match cluster.call(&call) {
        Ok(answer) => respond(answer.code, &answer.to_value()),
        Err(refusal) => status(refusal.code, refusal.reason, &refusal.message),
    }
}

fn status(code: u16, reason: &str, message: &str) -> Response<Full<Bytes>> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    respond(code, &body)
}

fn respond(code: u16, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = code.try_into().expect("a code");
    response
}
