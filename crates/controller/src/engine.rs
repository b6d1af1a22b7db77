//! Asking engines what a conductor wants asked, with what the user's Secret brings.

use ensemble_api::engine::Patroni as Spec;
use ensemble_conductor::{Ask, EngineCall, EngineOutcome};
use ensemble_engines::{Access, Patroni, Target};
use ensemble_planner::engine::{Reply, Sighting, WhyUnknown};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long what a Secret brought is used before it is read again: a rotated one is noticed.
const READ_AGAIN: Duration = Duration::from_secs(30);

type Key = (String, Option<String>, bool);

/// Asks engines.
#[derive(Clone)]
pub struct Asker {
    client: Client,
    known: Arc<Mutex<BTreeMap<Key, (Instant, Patroni)>>>,
}

impl Asker {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    /// Asks, and says what came of it.
    pub async fn ask(&self, call: &EngineCall, leading: impl Fn() -> bool) -> EngineOutcome {
        let engine = call.spec().engine.as_ref();
        let Some(spec) = engine.and_then(|e| e.patroni.as_ref()) else {
            let cause = "spec.engine names no engine that can be asked".to_owned();
            return refused(call, cause);
        };
        let key = (
            call.namespace().to_owned(),
            spec.secret_name.clone(),
            spec.tls,
        );
        let patroni = match self.patroni(&key).await {
            Ok(patroni) => patroni,
            Err(cause) => return refused(call, cause),
        };
        let target = target(call, spec);
        let reply = match call.ask() {
            Ask::Observe => {
                let said = patroni.observe(&target, call.asked()).await;
                return EngineOutcome::Saw(Box::new(said));
            }
            _ if !leading() => Reply::Refused("not asked: this controller does not lead".into()),
            Ask::SwitchOver { leader, candidate } => {
                patroni.switch_over(&target, leader, candidate).await
            }
            Ask::Nudge => patroni.nudge(&target).await,
            Ask::SetParameters(parameters) => patroni.set_parameters(&target, parameters).await,
            Ask::Restart => patroni.restart(&target).await,
        };
        let Reply::Unauthorised(cause) = reply else {
            return EngineOutcome::Replied(reply);
        };
        self.known.lock().await.remove(&key);
        let whence = described(&key.1);
        EngineOutcome::Replied(Reply::Unauthorised(format!(
            "{cause}, with the credentials of {whence}"
        )))
    }

    async fn patroni(&self, key: &Key) -> Result<Patroni, String> {
        let mut known = self.known.lock().await;
        if let Some((read, patroni)) = known.get(key)
            && read.elapsed() < READ_AGAIN
        {
            return Ok(patroni.clone());
        }
        let (namespace, name, tls) = key;
        let data = match name {
            Some(name) => self.secret(namespace, name).await?,
            None => BTreeMap::new(),
        };
        let access = Access::from_secret(*tls, &data);
        let access = access.map_err(|e| format!("{}: {e}", described(name)))?;
        let patroni = Patroni::new(&access).map_err(|e| format!("{}: {e}", described(name)))?;
        known.insert(key.clone(), (Instant::now(), patroni.clone()));
        Ok(patroni)
    }

    async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = api.get(name).await;
        let secret = secret.map_err(|e| format!("Secret {name} cannot be read: {e}"))?;
        let data = secret.data.unwrap_or_default();
        Ok(data.into_iter().map(|(k, v)| (k, v.0)).collect())
    }
}

fn described(name: &Option<String>) -> String {
    name.as_ref()
        .map_or_else(|| "spec.engine.patroni".into(), |n| format!("Secret {n}"))
}

fn target(call: &EngineCall, spec: &Spec) -> Target {
    Target {
        member: call.member().to_owned(),
        address: call.address().to_owned(),
        port: spec.port,
        peers: call.peers().clone(),
    }
}

/// Nothing could be asked, for that cause.
fn refused(call: &EngineCall, cause: String) -> EngineOutcome {
    match call.ask() {
        Ask::Observe => {
            let why = WhyUnknown::Unauthorised(cause);
            EngineOutcome::Saw(Box::new(Sighting::unknown(call.asked(), why)))
        }
        _ => EngineOutcome::Replied(Reply::Unauthorised(cause)),
    }
}
