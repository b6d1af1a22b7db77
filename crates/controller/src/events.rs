//! Events on the Ensemble: one for each transition, never more than a few a minute.

use crate::queue::EnsembleKey;
use ensemble_api::{GROUP, VERSION};
use ensemble_conductor::Happening;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// How many events an ensemble may have at once, and how many seconds each takes to come back.
const BURST: f64 = 25.0;
const SECONDS_EACH: f64 = 6.0;

struct Bucket {
    tokens: f64,
    at: Instant,
}

/// Announces what happened.
pub struct Announcer {
    recorder: Recorder,
    buckets: BTreeMap<EnsembleKey, Bucket>,
}

impl Announcer {
    pub fn new(client: Client, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: "ensemble.dev/controller".into(),
            instance,
        };
        Self {
            recorder: Recorder::new(client, reporter),
            buckets: BTreeMap::new(),
        }
    }

    fn may_speak(&mut self, key: &EnsembleKey) -> bool {
        let now = Instant::now();
        let fresh = || Bucket {
            tokens: BURST,
            at: now,
        };
        let bucket = self.buckets.entry(key.clone()).or_insert_with(fresh);
        let earned = now.duration_since(bucket.at).as_secs_f64() / SECONDS_EACH;
        bucket.tokens = (bucket.tokens + earned).min(BURST);
        bucket.at = now;
        let may = bucket.tokens >= 1.0;
        if may {
            bucket.tokens -= 1.0;
        }
        may
    }

    /// An ensemble is gone.
    pub fn forget(&mut self, key: &EnsembleKey) {
        self.buckets.remove(key);
    }

    pub fn announce(&mut self, key: &EnsembleKey, uid: String, happening: Happening) {
        tracing::info!(namespace = %key.0, ensemble = %key.1, reason = %happening.reason, "{}", happening.note);
        if !self.may_speak(key) {
            return;
        }
        let reference =
            |api_version: String, kind: &str, name: &str, uid: Option<String>| ObjectReference {
                api_version: Some(api_version),
                kind: Some(kind.into()),
                name: Some(name.into()),
                namespace: Some(key.0.clone()),
                uid,
                ..ObjectReference::default()
            };
        let regarding = reference(format!("{GROUP}/{VERSION}"), "Ensemble", &key.1, Some(uid));
        let related = happening
            .member
            .map(|m| reference("v1".into(), "Pod", &m, None));
        let event = Event {
            type_: if happening.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: happening.reason,
            note: Some(happening.note.chars().take(1000).collect()),
            action: happening.action,
            secondary: related,
        };
        let recorder = self.recorder.clone();
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event, &regarding).await {
                tracing::debug!(%error, reason = %event.reason, "the event was not stored");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ApiServer;
    use std::time::Duration;

    fn key(name: &str) -> EnsembleKey {
        ("shop".to_owned(), name.to_owned())
    }

    /// How many of so many events are let pass.
    fn pass(announcer: &mut Announcer, name: &str, events: usize) -> usize {
        let key = key(name);
        (0..events).filter(|_| announcer.may_speak(&key)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn an_ensemble_that_chatters_is_cut_short_and_others_are_heard() {
        let mut announcer = Announcer::new(ApiServer::new().client(), None);
        assert_eq!(pass(&mut announcer, "chatters", 1000), 25);
        assert_eq!(pass(&mut announcer, "calm", 3), 3);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(pass(&mut announcer, "chatters", 1000), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_not_saved_up_beyond_one_burst() {
        let mut announcer = Announcer::new(ApiServer::new().client(), None);
        assert_eq!(pass(&mut announcer, "orders", 5), 5);
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert_eq!(pass(&mut announcer, "orders", 1000), 25);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_of_an_ensemble_that_is_gone() {
        let mut announcer = Announcer::new(ApiServer::new().client(), None);
        pass(&mut announcer, "orders", 1);
        announcer.forget(&key("orders"));
        assert!(announcer.buckets.is_empty());
    }
}
