//! Leader election by Lease.
//!
//! A Lease is no fence: what keeps two controllers from hurting anybody is in the conductor. It only
//! sees to it that one of them works at a time. Nobody's clock is compared with another's: a lease
//! has expired when we have seen it unchanged for its whole duration.

use crate::stage::Message;
use crate::{ControllerError, Options};
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Others may take over after that long.
const DURATION: Duration = Duration::from_secs(15);
/// We stop that long after we last renewed.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often we renew or look.
const PERIOD: Duration = Duration::from_secs(2);

/// Until when we may act: read before every call.
#[derive(Clone, Debug, Default)]
pub struct Leading(Arc<Mutex<Option<Instant>>>);

impl Leading {
    /// Whether a call may still be sent.
    pub fn now(&self) -> bool {
        let until = self.0.lock().map(|until| *until).unwrap_or(None);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// One that leads for a year.
    #[cfg(test)]
    pub fn for_a_test() -> Self {
        let leading = Self::default();
        leading.set(Some(Instant::now() + Duration::from_secs(31_536_000)));
        leading
    }

    fn set(&self, until: Option<Instant>) {
        if let Ok(mut guard) = self.0.lock() {
            *guard = until;
        }
    }
}

/// One candidate.
pub struct Lease {
    api: Api<LeaseObject>,
    name: String,
    identity: String,
    leading: Leading,
    seen: Option<(String, Instant)>,
    version: u64,
    epoch: Option<i64>,
}

enum Attempt {
    Leads(i64),
    Follows,
}

impl Lease {
    pub fn new(client: &Client, options: &Options) -> Self {
        let api = match &options.lease_namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::default_namespaced(client.clone()),
        };
        Self {
            api,
            name: options.lease_name.clone(),
            identity: options.identity.clone().unwrap_or_else(default_identity),
            leading: Leading::default(),
            seen: None,
            version: 0,
            epoch: None,
        }
    }

    pub fn leading(&self) -> Leading {
        self.leading.clone()
    }

    /// Stands for election until told to stop, then gives the lead away.
    pub async fn run(
        mut self,
        tell: mpsc::Sender<Message>,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<(), ControllerError> {
        let mut renewed = Instant::now();
        loop {
            let started = Instant::now();
            let attempt = tokio::time::timeout(DEADLINE, self.attempt()).await;
            match attempt {
                Ok(Ok(Attempt::Leads(epoch))) => {
                    renewed = started;
                    self.leading.set(Some(started + DEADLINE));
                    self.announce(Some(epoch), &tell).await;
                }
                Ok(Ok(Attempt::Follows)) => self.step_down(&tell).await,
                Ok(Err(Trouble::WentBack(before, now))) => {
                    self.step_down(&tell).await;
                    return Err(ControllerError::WentBack {
                        lease: self.name,
                        before,
                        now,
                    });
                }
                Ok(Err(Trouble::Api(error))) => {
                    tracing::warn!(lease = %self.name, %error, "cannot renew the Lease");
                    if renewed.elapsed() >= DEADLINE {
                        self.step_down(&tell).await;
                    }
                }
                Err(_) => self.step_down(&tell).await,
            }
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                _ = stopping.wait_for(|stop| *stop) => break,
            }
        }
        self.release().await;
        Ok(())
    }

    async fn announce(&mut self, epoch: Option<i64>, tell: &mpsc::Sender<Message>) {
        if self.epoch != epoch {
            tracing::info!(identity = %self.identity, ?epoch, "leadership changed");
            self.epoch = epoch;
            let _ = tell.send(Message::Lead(epoch)).await;
        }
    }

    async fn step_down(&mut self, tell: &mpsc::Sender<Message>) {
        self.leading.set(None);
        self.announce(None, tell).await;
    }

    async fn attempt(&mut self) -> Result<Attempt, Trouble> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            return self.create().await;
        };
        self.note_version(&lease)?;
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let transitions = spec.lease_transitions.unwrap_or(0);
        if holder == self.identity && self.epoch.is_some() {
            return self.put(lease, transitions).await;
        }
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        if holder.is_empty() || holder == self.identity || self.expired(&version, &spec) {
            return self.put(lease, transitions + 1).await;
        }
        Ok(Attempt::Follows)
    }

    /// Seen unchanged for its whole duration, by our own clock.
    fn expired(&mut self, version: &str, spec: &LeaseSpec) -> bool {
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or(15);
        match &self.seen {
            Some((seen, since)) if seen == version => {
                since.elapsed() >= Duration::from_secs(seconds)
            }
            _ => {
                self.seen = Some((version.to_owned(), Instant::now()));
                false
            }
        }
    }

    fn note_version(&mut self, lease: &LeaseObject) -> Result<(), Trouble> {
        let version = lease
            .metadata
            .resource_version
            .as_deref()
            .and_then(|v| v.parse().ok());
        let now = version.unwrap_or(self.version);
        if now < self.version {
            return Err(Trouble::WentBack(self.version, now));
        }
        self.version = now;
        Ok(())
    }

    fn spec(&self, transitions: i32) -> LeaseSpec {
        let now = MicroTime(jiff::Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// A Lease that somebody deleted must not take epochs back: a new one begins at the number of
    /// minutes since 2020, which no count of transitions overtakes.
    async fn create(&mut self) -> Result<Attempt, Trouble> {
        let minutes = (jiff::Timestamp::now().as_second() - 1_577_836_800) / 60;
        let first = i32::try_from(minutes.max(1)).unwrap_or(i32::MAX);
        let lease = LeaseObject {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(self.spec(first)),
        };
        match self.api.create(&PostParams::default(), &lease).await {
            Ok(created) => {
                self.note_version(&created)?;
                Ok(Attempt::Leads(i64::from(first)))
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Attempt::Follows),
            Err(error) => Err(error.into()),
        }
    }

    async fn put(&mut self, mut lease: LeaseObject, transitions: i32) -> Result<Attempt, Trouble> {
        let acquired = lease.spec.as_ref().and_then(|s| s.acquire_time.clone());
        let same = lease.spec.as_ref().and_then(|s| s.lease_transitions) == Some(transitions);
        let mut spec = self.spec(transitions);
        if same {
            spec.acquire_time = acquired;
        }
        lease.spec = Some(spec);
        match self
            .api
            .replace(&self.name, &PostParams::default(), &lease)
            .await
        {
            Ok(stored) => {
                self.note_version(&stored)?;
                Ok(Attempt::Leads(i64::from(transitions)))
            }
            // Somebody else was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Attempt::Follows),
            Err(error) => Err(error.into()),
        }
    }

    /// So that a successor need not wait.
    async fn release(&mut self) {
        let leads = self.epoch.take().is_some();
        self.leading.set(None);
        if !leads {
            return;
        }
        let Ok(mut lease) = self.api.get(&self.name).await else {
            return;
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() == Some(&self.identity) {
            spec.holder_identity = None;
            if let Err(error) = self
                .api
                .replace(&self.name, &PostParams::default(), &lease)
                .await
            {
                tracing::warn!(%error, "the lead was not handed over; it expires by itself");
            }
        }
    }
}

enum Trouble {
    Api(kube::Error),
    WentBack(u64, u64),
}

impl From<kube::Error> for Trouble {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

/// The host name tells pods apart; the process and the time tell two runs on one host apart.
fn default_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "ensemble" } else { host };
    let since = jiff::Timestamp::now().as_millisecond();
    format!("{host}_{}_{since}", std::process::id())
}

#[cfg(test)]
mod tests;
