//! Shared watches: one a kind, selected by our label where that is possible.

use crate::clock::Clock;
use crate::stage::{Message, News};
use crate::{Options, resources};
use ensemble_api::labels;
use ensemble_conductor::{KINDS, Kind};
use futures::{FutureExt, StreamExt, TryStreamExt, stream::BoxStream};
use kube::api::{ApiResource, DynamicObject};
use kube::core::{DynamicResourceScope, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// How soon after a list another may follow.
const BETWEEN_LISTS: Duration = Duration::from_secs(5);

/// All watches, with a way to make each list again.
#[derive(Default)]
pub struct Watches {
    again: BTreeMap<Kind, Arc<Notify>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Watches {
    /// Starts them all.
    pub fn start(
        client: &Client,
        clock: &Clock,
        options: &Options,
        tell: &mpsc::Sender<Message>,
    ) -> Self {
        let mut watches = Self::default();
        for kind in KINDS.iter().map(|info| info.kind) {
            if kind == Kind::Node && !options.nodes {
                let tell = tell.clone();
                watches.tasks.push(tokio::spawn(async move {
                    let _ = tell.send(Message::NoNodes).await;
                }));
                continue;
            }
            let again = Arc::new(Notify::new());
            watches.again.insert(kind, again.clone());
            let (client, tell) = (client.clone(), tell.clone());
            let fresh = {
                let namespaced = kind.info().is_namespaced();
                let namespace = options.namespace.clone().filter(|_| namespaced);
                move || stream(kind, client.clone(), namespace.as_deref())
            };
            watches.tasks.push(tokio::spawn(follow(
                kind,
                fresh,
                clock.clone(),
                again,
                tell,
            )));
        }
        watches
    }

    /// Makes a watch list again.
    pub fn relist(&self, kind: Kind) {
        if let Some(again) = self.again.get(&kind) {
            again.notify_one();
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

type Events = BoxStream<'static, watcher::Result<watcher::Event<Arc<Value>>>>;

/// A new watch of that kind, in that namespace or in all.
fn stream(kind: Kind, client: Client, namespace: Option<&str>) -> Events {
    if kind.info().metadata_only {
        return stream_of::<PartialObjectMeta<DynamicObject>>(kind, client, namespace);
    }
    stream_of::<DynamicObject>(kind, client, namespace)
}

fn stream_of<K>(kind: Kind, client: Client, namespace: Option<&str>) -> Events
where
    K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + DeserializeOwned
        + Send
        + 'static,
{
    let mut config = watcher::Config::default();
    if kind.info().is_labelled() {
        config = config.labels(labels::ENSEMBLE);
    }
    let resource = resources::api_resource(kind);
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    watcher(api, config)
        .default_backoff()
        .map_ok(|e| convert(e, plain))
        .boxed()
}

fn convert<K>(
    event: watcher::Event<K>,
    plain: impl Fn(K) -> Arc<Value>,
) -> watcher::Event<Arc<Value>> {
    match event {
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(plain(object)),
        watcher::Event::Apply(object) => watcher::Event::Apply(plain(object)),
        watcher::Event::Delete(object) => watcher::Event::Delete(plain(object)),
    }
}

/// As plain JSON, without the bookkeeping of server-side apply, which nobody here reads.
fn plain<K: ResourceExt + serde::Serialize>(mut object: K) -> Arc<Value> {
    object.managed_fields_mut().clear();
    Arc::new(serde_json::to_value(&object).unwrap_or(Value::Null))
}

async fn follow(
    kind: Kind,
    fresh: impl Fn() -> Events,
    clock: Clock,
    again: Arc<Notify>,
    tell: mpsc::Sender<Message>,
) {
    loop {
        // Whoever wanted a list before this one is asked for has it now.
        again.notified().now_or_never();
        let mut wanted = false;
        let mut events = fresh();
        let mut list = Vec::new();
        let mut asked = clock.now();
        // A list under way is not broken off for another, or under load none would ever end.
        let mut listed: Option<Instant> = None;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                // Kept in mind while other things come in between.
                () = again.notified(), if !wanted => {
                    wanted = true;
                    continue;
                }
                () = due(listed), if wanted => break,
            };
            let news = match event {
                None => break,
                Some(Ok(watcher::Event::Init)) => {
                    list.clear();
                    asked = clock.now();
                    listed = None;
                    continue;
                }
                Some(Ok(watcher::Event::InitApply(object))) => {
                    list.push(object);
                    continue;
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    listed = Some(Instant::now());
                    News::Listed(std::mem::take(&mut list), asked)
                }
                Some(Ok(watcher::Event::Apply(object))) => News::Applied(object),
                Some(Ok(watcher::Event::Delete(object))) => News::Deleted(object),
                Some(Err(error)) => {
                    report(kind, &error, &tell).await;
                    continue;
                }
            };
            if tell.send(Message::Watch(kind, news)).await.is_err() {
                return;
            }
        }
    }
}

/// Waits until a new list may follow: until the last is done and some seconds old, since all ensembles
/// share a watch and each may want one.
async fn due(listed: Option<Instant>) {
    match listed {
        Some(listed) => tokio::time::sleep_until(listed + BETWEEN_LISTS).await,
        None => std::future::pending().await,
    }
}

/// Nodes that may not be read are something to live with; everything else is tried again.
async fn report(kind: Kind, error: &watcher::Error, tell: &mpsc::Sender<Message>) {
    tracing::warn!(kind = resources::plural(kind), %error, "watch failed, trying again");
    let forbidden = matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403
    );
    if kind == Kind::Node && forbidden {
        let _ = tell.send(Message::NoNodes).await;
    }
}

#[cfg(test)]
mod tests;
