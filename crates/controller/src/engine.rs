//! Asking engines what a conductor wants asked, with what the user's Secret brings.

use ensemble_conductor::{Ask, EngineCall, EngineOutcome};
use ensemble_engines::{Access, Contact, Means, Speaks, Target};
use ensemble_planner::engine::{Answer, Reply, WhyUnknown};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long what a Secret brought is used before it is read again: a rotated one is noticed.
const READ_AGAIN: Duration = Duration::from_secs(30);
/// How long a Secret that brought nothing is left alone, however many members are to be asked.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// How long the API server may take to give a Secret.
const PATIENCE: Duration = Duration::from_secs(5);
/// After that long unused, what a Secret brought is forgotten.
const FORGET: Duration = Duration::from_secs(300);

/// Which engine, in which namespace, by which Secret, over TLS or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    engine: &'static str,
    namespace: String,
    secret: Option<String>,
    tls: bool,
}

/// What a Secret brought, or why it brought nothing, and when.
type Brought = (Instant, Result<Arc<dyn Speaks>, String>);

/// The same, while it is read and afterwards: read once for all who need that very Secret. They wait
/// for it without holding anything that others need.
type Reading = Shared<BoxFuture<'static, Brought>>;

/// Asks engines.
#[derive(Clone)]
pub struct Asker {
    client: Client,
    known: Arc<Mutex<BTreeMap<Key, Reading>>>,
}

impl Asker {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    /// One who speaks like that wherever no Secret is named.
    #[cfg(test)]
    pub fn speaks(&self, engine: Arc<dyn Speaks>) {
        let key = Key {
            engine: "spec.engine.patroni",
            namespace: "shop".to_owned(),
            secret: None,
            tls: false,
        };
        let long_after = Instant::now() + Duration::from_secs(3_600);
        let reading = futures::future::ready((long_after, Ok(engine)));
        let reading = reading.boxed().shared();
        // Known without anybody asking.
        let _ = reading.clone().now_or_never();
        self.with_known(|known| known.insert(key, reading));
    }

    /// Asks, and says what came of it.
    pub async fn ask(&self, call: &EngineCall, leading: impl Fn() -> bool) -> EngineOutcome {
        let contact = ensemble_engines::contact(call.spec());
        let means = contact.and_then(|(contact, engine)| Some((contact, (contact.by)(engine)?)));
        let Some((contact, means)) = means else {
            let cause = "spec.engine names no engine that can be asked".to_owned();
            return refused(call, cause);
        };
        let key = Key {
            engine: contact.field,
            namespace: call.namespace().to_owned(),
            secret: means.secret.map(str::to_owned),
            tls: means.tls,
        };
        let engine = match self.engine(contact, &key).await {
            Ok(engine) => engine,
            Err(cause) => return refused(call, cause),
        };
        let target = target(call, &means);
        let reply = match call.ask() {
            Ask::Observe => {
                return EngineOutcome::Saw(engine.observe(&target, call.asked()).await);
            }
            Ask::Do(_) if !leading() => {
                Reply::Refused("not asked: this controller does not lead".into())
            }
            Ask::Do(act) => engine.tell(&target, act).await,
        };
        let Reply::Unauthorised(cause) = reply else {
            return EngineOutcome::Replied(reply);
        };
        self.forget(&key);
        let whence = described(&key);
        EngineOutcome::Replied(Reply::Unauthorised(format!(
            "{cause}, with the credentials of {whence}"
        )))
    }

    /// For a moment: nobody waits for anything in `act`.
    fn with_known<T>(&self, act: impl FnOnce(&mut BTreeMap<Key, Reading>) -> T) -> T {
        act(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn forget(&self, key: &Key) {
        self.with_known(|known| known.remove(key));
    }

    async fn engine(
        &self,
        contact: &'static Contact,
        key: &Key,
    ) -> Result<Arc<dyn Speaks>, String> {
        self.reading(contact, key).await.1
    }

    /// What is known, or is being read; otherwise it begins to be.
    fn reading(&self, contact: &'static Contact, key: &Key) -> Reading {
        self.with_known(|known| {
            if let Some(reading) = known.get(key).filter(|reading| is_good(reading)) {
                return reading.clone();
            }
            known.retain(|_, reading| is_used(reading));
            let (asker, of) = (self.clone(), key.clone());
            let reading = async move {
                let result = asker.read(contact, &of).await;
                (Instant::now(), result)
            };
            let reading = reading.boxed().shared();
            known.insert(key.clone(), reading.clone());
            reading
        })
    }

    async fn read(&self, contact: &Contact, key: &Key) -> Result<Arc<dyn Speaks>, String> {
        let data = match &key.secret {
            Some(name) => self.secret(&key.namespace, name).await?,
            None => BTreeMap::new(),
        };
        let wrong = |e| format!("{}: {e}", described(key));
        let access = Access::from_secret(key.tls, &data).map_err(wrong)?;
        (contact.with)(&access).map_err(wrong)
    }

    async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = match timeout(PATIENCE, api.get(name)).await {
            Ok(secret) => secret.map_err(|e| format!("Secret {name} cannot be read: {e}"))?,
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                return Err(format!(
                    "Secret {name} cannot be read: no answer within {seconds} s"
                ));
            }
        };
        let data = secret.data.unwrap_or_default();
        Ok(data.into_iter().map(|(k, v)| (k, v.0)).collect())
    }
}

/// Whether it is being read, or need not be read again yet.
fn is_good(reading: &Reading) -> bool {
    reading.peek().is_none_or(|(read, result)| {
        let good_for = if result.is_ok() {
            READ_AGAIN
        } else {
            TRY_AGAIN
        };
        read.elapsed() < good_for
    })
}

/// Whether it is being read, or was lately.
fn is_used(reading: &Reading) -> bool {
    let read = reading.peek().map(|(read, _)| *read);
    read.is_none_or(|read| read.elapsed() < FORGET)
}

fn described(key: &Key) -> String {
    let secret = key.secret.as_ref().map(|name| format!("Secret {name}"));
    secret.unwrap_or_else(|| key.engine.to_owned())
}

fn target(call: &EngineCall, means: &Means<'_>) -> Target {
    Target {
        member: call.member().to_owned(),
        address: call.address().to_owned(),
        port: means.port,
        peers: call.peers().clone(),
    }
}

/// Nothing could be asked, for that cause.
fn refused(call: &EngineCall, cause: String) -> EngineOutcome {
    match call.ask() {
        Ask::Observe => {
            let why = WhyUnknown::Unauthorised(cause);
            EngineOutcome::Saw(Answer::unknown(call.asked(), why))
        }
        _ => EngineOutcome::Replied(Reply::Unauthorised(cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ApiServer, Trouble};
    use serde_json::json;
    use simkube::{Request as Call, Resource};

    fn key(name: &str) -> Key {
        Key {
            engine: "spec.engine.patroni",
            namespace: "shop".to_owned(),
            secret: Some(name.to_owned()),
            tls: false,
        }
    }

    /// How Patroni is spoken with, as an asker finds it.
    fn contact() -> &'static Contact {
        let spec = json!({"replicas": 3, "template": {}, "engine": {"patroni": {}}});
        let spec = serde_json::from_value(spec).unwrap();
        ensemble_engines::contact(&spec).unwrap().0
    }

    /// An API server with a Secret of that name, and who asks it.
    fn stage(name: &str) -> (Arc<ApiServer>, Asker) {
        let server = ApiServer::new();
        let secret = json!({
            "metadata": {"name": name},
            // ensemble, secret
            "data": {"username": "ZW5zZW1ibGU=", "password": "c2VjcmV0"},
        });
        server
            .with(|cluster| cluster.create(Resource::Secrets, "shop", secret))
            .unwrap();
        let asker = Asker::new(server.client());
        (server, asker)
    }

    async fn seconds(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_is_read_once_for_all_members_that_are_asked_at_once() {
        let (server, asker) = stage("patroni");
        let all = (0..100).map(|_| {
            let asker = asker.clone();
            tokio::spawn(async move { asker.engine(contact(), &key("patroni")).await.is_ok() })
        });
        for one in all.collect::<Vec<_>>() {
            assert!(one.await.unwrap());
        }
        assert_eq!(server.asked().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rotated_secret_is_noticed_after_half_a_minute() {
        let (server, asker) = stage("patroni");
        for _ in 0..60 {
            assert!(asker.engine(contact(), &key("patroni")).await.is_ok());
            seconds(1).await;
        }
        assert_eq!(server.asked().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_cannot_be_read_is_tried_again_soon_but_not_by_everybody() {
        let (server, asker) = stage("patroni");
        for _ in 0..100 {
            let cause = asker
                .engine(contact(), &key("missing"))
                .await
                .err()
                .unwrap();
            assert!(cause.contains("Secret missing cannot be read"), "{cause}");
        }
        assert_eq!(server.asked().len(), 1);
        seconds(TRY_AGAIN.as_secs()).await;
        assert!(asker.engine(contact(), &key("missing")).await.is_err());
        assert_eq!(server.asked().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_one_secret_keeps_nobody_waiting_for_another() {
        let (server, asker) = stage("patroni");
        assert!(asker.engine(contact(), &key("patroni")).await.is_ok());
        server.is(Trouble::Silent);
        let slow = tokio::spawn({
            let asker = asker.clone();
            async move { asker.engine(contact(), &key("slow")).await }
        });
        seconds(1).await;
        let asked = Instant::now();
        assert!(asker.engine(contact(), &key("patroni")).await.is_ok());
        assert_eq!(asked.elapsed(), Duration::ZERO);
        // Nor does it wait for ever.
        let cause = slow.await.unwrap().err().unwrap();
        assert!(cause.contains("no answer within 5 s"), "{cause}");
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_were_refused_are_read_again_at_once() {
        let (server, asker) = stage("patroni");
        assert!(asker.engine(contact(), &key("patroni")).await.is_ok());
        asker.forget(&key("patroni"));
        assert!(asker.engine(contact(), &key("patroni")).await.is_ok());
        assert_eq!(server.asked().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_uses_any_more_is_forgotten() {
        let (server, asker) = stage("patroni");
        assert!(asker.engine(contact(), &key("patroni")).await.is_ok());
        seconds(FORGET.as_secs()).await;
        let other = json!({"metadata": {"name": "other"}});
        let create = Call::create(Resource::Secrets, "shop", other);
        server.with(|cluster| cluster.call(&create)).unwrap();
        assert!(asker.engine(contact(), &key("other")).await.is_ok());
        assert_eq!(asker.with_known(|known| known.len()), 1);
    }
}
