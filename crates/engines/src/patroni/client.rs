//! What is asked of Patroni's REST API.

use super::{Role, Sighting, config, look, reply};
use crate::access::{Access, AccessError};
use crate::failure::Failure;
use crate::speaks::{Contact, Later, Means, Speaks};
use crate::target::Target;
use crate::wire::{self, Question, Wire};
use ensemble_planner::engine::{Answer, EngineAct, Reply};
use ensemble_planner::time::Time;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where a member says who it is, with 503 unless its PostgreSQL runs.
const HEALTH: &str = "/health";
/// How long a member may take to say who it is.
const LOOK: Duration = Duration::from_secs(2);
/// How long it may take to store a configuration.
const STORE: Duration = Duration::from_secs(5);
/// Patroni answers a switchover after twice its loop at the latest, which is 20 s as it comes.
const SWITCH: Duration = Duration::from_secs(35);
/// A replica that restarts first waits until commits no longer wait for it. A restart may well take
/// longer, for a checkpoint or a recovery: then it goes on without being listened to, and what comes of it
/// is seen by looking.
const RESTART: Duration = Duration::from_secs(60);

/// Speaks with Patroni. Cheap to clone.
#[derive(Clone)]
pub struct Patroni {
    wire: Wire,
}

impl Patroni {
    /// With what a Secret brought.
    pub fn new(access: &Access) -> Result<Self, AccessError> {
        let wire = Wire::new(access)?;
        Ok(Self { wire })
    }

    /// Asks a member who it is.
    pub async fn look(&self, target: &Target) -> Sighting {
        // Not `/patroni`: while PostgreSQL cannot be reached, that tries again every second before it
        // answers, and what happens meanwhile is heard of late. This one says the same at once.
        let (status, cluster) =
            tokio::join!(self.get(target, HEALTH), self.get(target, "/cluster"));
        let mut said = match status {
            Ok(status) => look::read(target, &status, cluster),
            Err(failure) => return Sighting::unknown(failure.why()),
        };
        // After `/cluster`, which makes Patroni look afresh at what `/config` is answered from.
        if said.role == Role::Leader {
            match self.get(target, "/config").await.and_then(config::read) {
                Ok(config) => config.told_by(&mut said),
                // Whether commits wait for a replica is not known: this one must not be touched.
                Err(failure) => said.role = Role::Unknown(failure.why()),
            }
        }
        said
    }

    /// Asks that the lead goes from `leader` to `candidate`. If somebody else leads, it is refused.
    pub async fn switch_over(&self, target: &Target, leader: &str, candidate: &str) -> Reply {
        let body = json!({"leader": leader, "candidate": candidate});
        let question = act(Method::POST, "/switchover", &body, SWITCH);
        let answer = self.wire.ask(target, &question).await;
        heard("POST /switchover", answer, reply::to_switchover)
    }

    /// Wakes Patroni's loop in that member, which would sleep for up to its `loop_wait`.
    ///
    /// There is no call for it. A patch that removes what is not there stores nothing, and Patroni
    /// wakes its loop after every patch that it accepts; an empty patch it does not accept.
    pub async fn nudge(&self, target: &Target) -> Reply {
        let question = act(Method::PATCH, "/config", &json!({"ensemble": null}), STORE);
        let answer = self.wire.ask(target, &question).await;
        heard("PATCH /config", answer, reply::to_nudge)
    }

    /// Stores parameters in the dynamic configuration; one without a value is removed. Those that
    /// are not named stay.
    pub async fn set_parameters(
        &self,
        target: &Target,
        parameters: &BTreeMap<String, Option<String>>,
    ) -> Reply {
        let body = json!({"postgresql": {"parameters": parameters}});
        let question = act(Method::PATCH, "/config", &body, STORE);
        let answer = self.wire.ask(target, &question).await;
        heard("PATCH /config", answer, reply::to_parameters)
    }

    /// Restarts PostgreSQL in that member, and not Patroni, if it still waits for a restart: nobody
    /// restarts for what was put back meanwhile, or was restarted for already. Never with a filter by
    /// role: its words differ between versions.
    pub async fn restart(&self, target: &Target) -> Reply {
        let body = json!({"restart_pending": true});
        let question = act(Method::POST, "/restart", &body, RESTART);
        let answer = self.wire.ask(target, &question).await;
        heard("POST /restart", answer, reply::to_restart)
    }

    async fn get(&self, target: &Target, path: &'static str) -> Result<Value, Failure> {
        let question = Question {
            method: Method::GET,
            path,
            body: Vec::new(),
            token: None,
            patience: LOOK,
        };
        let answer = self.wire.ask(target, &question).await;
        let read = answer.and_then(|answer| match (path, answer.status) {
            (HEALTH, StatusCode::SERVICE_UNAVAILABLE) => unwell(&answer),
            _ => readable(&answer),
        });
        read.map_err(|failure| failure.of(&format!("GET {path}")))
    }
}

/// How it is reached.
pub(super) const CONTACT: Contact = Contact {
    field: "spec.engine.patroni",
    by: |engine| {
        let patroni = engine.patroni.as_ref()?;
        Some(Means {
            port: patroni.port,
            secret: patroni.secret_name.as_deref(),
            tls: patroni.tls,
        })
    },
    with: |access| Ok(Arc::new(Patroni::new(access)?)),
};

impl Speaks for Patroni {
    fn observe<'a>(&'a self, target: &'a Target, asked: Time) -> Later<'a, Answer> {
        Box::pin(async move { self.look(target).await.answers(asked) })
    }

    fn tell<'a>(&'a self, target: &'a Target, act: &'a EngineAct) -> Later<'a, Reply> {
        Box::pin(async move {
            match act {
                EngineAct::SwitchOver { leader, candidate } => {
                    self.switch_over(target, leader, candidate).await
                }
                EngineAct::Nudge => self.nudge(target).await,
                EngineAct::Configure(parameters) => self.set_parameters(target, parameters).await,
                EngineAct::Restart => self.restart(target).await,
            }
        })
    }
}

fn act(method: Method, path: &'static str, body: &Value, patience: Duration) -> Question {
    Question {
        method,
        path,
        body: body.to_string().into_bytes(),
        token: None,
        patience,
    }
}

/// It answers in the same words although its PostgreSQL does not run, or somebody else refuses.
fn unwell(answer: &wire::Answer) -> Result<Value, Failure> {
    let said: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let said = said.filter(|said| said["state"].is_string());
    said.ok_or_else(|| Failure::Unreadable(reply::words(answer)))
}

fn readable(answer: &wire::Answer) -> Result<Value, Failure> {
    let words = || reply::words(answer);
    match answer.status {
        StatusCode::OK => serde_json::from_slice(&answer.body)
            .map_err(|e| Failure::Unreadable(format!("it is not JSON: {e}"))),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Failure::Unauthorised(words())),
        status if status.is_redirection() => {
            let cause = format!("{}: redirects are not followed", status.as_u16());
            Err(Failure::Unreadable(cause))
        }
        _ => Err(Failure::Unreadable(words())),
    }
}

fn heard(
    what: &str,
    answer: Result<wire::Answer, Failure>,
    judge: fn(&wire::Answer) -> Reply,
) -> Reply {
    match answer.map_err(|failure| failure.of(what)) {
        Ok(answer) => judge(&answer),
        Err(Failure::Unauthorised(cause)) => Reply::Unauthorised(cause),
        Err(Failure::Unreachable(cause) | Failure::Unreadable(cause)) => Reply::Unknown(cause),
    }
}
