//! What is asked of etcd, through its own gateway for HTTP and JSON.

use super::{Sighting, look};
use crate::access::{Access, AccessError};
use crate::failure::Failure;
use crate::speaks::{Contact, Later, Means, Speaks};
use crate::target::Target;
use crate::wire::{self, Question, Wire};
use ensemble_planner::engine::{Answer, EngineAct, Reply, WhyUnknown};
use ensemble_planner::time::Time;
use http::header::HeaderValue;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const STATUS: &str = "/v3/maintenance/status";
const MEMBERS: &str = "/v3/cluster/member/list";
const TRANSFER: &str = "/v3/maintenance/transfer-leadership";
const LOGIN: &str = "/v3/auth/authenticate";

/// How long a member may take to say who it is, or to let us in.
const LOOK: Duration = Duration::from_secs(2);
/// etcd itself gives a transfer seven seconds, with its default election timeout.
const SWITCH: Duration = Duration::from_secs(15);
/// The longest text that is passed on.
const LONGEST: usize = 300;

/// Codes of gRPC.
const PERMISSION_DENIED: u64 = 7;
const FAILED_PRECONDITION: u64 = 9;
const UNAUTHENTICATED: u64 = 16;

/// Speaks with etcd. Cheap to clone.
#[derive(Clone)]
pub struct Etcd {
    wire: Wire,
    login: Option<Arc<Login>>,
}

/// A name, a password, and the token that they were last exchanged for. To check a password costs etcd
/// tens of milliseconds, on purpose; a token is good for all members.
struct Login {
    body: Value,
    token: Mutex<Option<HeaderValue>>,
}

impl Login {
    fn token(&self) -> Option<HeaderValue> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.clone()
    }

    fn keep(&self, token: Option<HeaderValue>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }
}

impl Etcd {
    /// With what a Secret brought.
    pub fn new(access: &Access) -> Result<Self, AccessError> {
        // Even a look needs the password where authentication is on, and an address may have gone to a
        // stranger: only whom the authority has signed gets to see it.
        if access.username.is_some() && !access.tls {
            let cause = "etcd's password is only sent over TLS: set spec.engine.etcd.tls".into();
            let key = "password";
            return Err(AccessError::Unusable { key, cause });
        }
        let login = access.username.as_ref().zip(access.password.as_ref());
        let login = login.map(|(name, password)| Login {
            body: json!({"name": name, "password": password}),
            token: Mutex::new(None),
        });
        let basic_is_unknown_here = Access {
            username: None,
            password: None,
            ..access.clone()
        };
        Ok(Self {
            wire: Wire::new(&basic_is_unknown_here)?,
            login: login.map(Arc::new),
        })
    }

    /// Asks a member who it is.
    pub async fn look(&self, target: &Target) -> Result<Sighting, WhyUnknown> {
        self.see(target).await.map_err(Failure::why)
    }

    async fn see(&self, target: &Target) -> Result<Sighting, Failure> {
        let token = self.token(target).await?;
        // Its own list: the common one could not be had while nobody leads.
        let (nothing, own_list) = (json!({}), json!({"linearizable": false}));
        let (status, list) = tokio::join!(
            self.ask(target, STATUS, &nothing, token.clone()),
            self.ask(target, MEMBERS, &own_list, token),
        );
        look::read(&status?, list)
    }

    /// Asks that the lead goes from `leader`, which is the one that is asked, to `candidate`. If somebody
    /// else leads, it is refused.
    pub async fn switch_over(&self, target: &Target, leader: &str, candidate: &str) -> Reply {
        let to = match self.see(target).await {
            Ok(said) => numbered(&said, leader, candidate),
            Err(Failure::Unauthorised(cause)) => return Reply::Unauthorised(cause),
            Err(Failure::Unreachable(cause) | Failure::Unreadable(cause)) => Err(cause),
        };
        let body = match to {
            Ok(to) => json!({"targetID": to.to_string()}),
            Err(cause) => return Reply::Refused(format!("not asked: {cause}")),
        };
        let token = match self.token(target).await {
            Ok(token) => token,
            Err(failure) => return Reply::Refused(format!("not asked: {}", failure.why())),
        };
        let question = question(TRANSFER, &body, SWITCH, token);
        let heard = self.wire.ask(target, &question).await;
        match heard.map_err(|failure| failure.of(&format!("POST {TRANSFER}"))) {
            Ok(answer) => to_transfer(&answer),
            Err(Failure::Unauthorised(cause)) => Reply::Unauthorised(cause),
            Err(Failure::Unreachable(cause) | Failure::Unreadable(cause)) => Reply::Unknown(cause),
        }
    }

    /// What lets us in, if we have to be let in.
    async fn token(&self, target: &Target) -> Result<Option<HeaderValue>, Failure> {
        let Some(login) = &self.login else {
            return Ok(None);
        };
        if let Some(token) = login.token() {
            return Ok(Some(token));
        }
        let said = self.ask(target, LOGIN, &login.body, None).await?;
        let token = said["token"].as_str().unwrap_or_default();
        let mut token = HeaderValue::from_str(token)
            .map_err(|_| Failure::Unreadable("its token cannot be sent back".into()))?;
        token.set_sensitive(true);
        login.keep(Some(token.clone()));
        Ok(Some(token))
    }

    async fn ask(
        &self,
        target: &Target,
        path: &'static str,
        body: &Value,
        token: Option<HeaderValue>,
    ) -> Result<Value, Failure> {
        let question = question(path, body, LOOK, token);
        let answer = self.wire.ask(target, &question).await;
        let read = answer.and_then(|answer| readable(&answer));
        // Tokens are forgotten when a member restarts, and run out: the next question gets a new one.
        if let (Some(login), Err(Failure::Unauthorised(_))) = (&self.login, &read) {
            login.keep(None);
        }
        read.map_err(|failure| failure.of(&format!("POST {path}")))
    }
}

/// How it is reached.
pub(super) const CONTACT: Contact = Contact {
    field: "spec.engine.etcd",
    by: |engine| {
        let etcd = engine.etcd.as_ref()?;
        Some(Means {
            port: etcd.port,
            secret: etcd.secret_name.as_deref(),
            tls: etcd.tls,
        })
    },
    with: |access| Ok(Arc::new(Etcd::new(access)?)),
};

impl Speaks for Etcd {
    fn observe<'a>(&'a self, target: &'a Target, asked: Time) -> Later<'a, Answer> {
        Box::pin(async move {
            match self.look(target).await {
                Ok(said) => said.answers(asked),
                Err(why) => Answer::unknown(asked, why),
            }
        })
    }

    fn tell<'a>(&'a self, target: &'a Target, act: &'a EngineAct) -> Later<'a, Reply> {
        Box::pin(async move {
            match act {
                EngineAct::SwitchOver { leader, candidate } => {
                    self.switch_over(target, leader, candidate).await
                }
                EngineAct::Nudge | EngineAct::Configure(_) | EngineAct::Restart => {
                    Reply::Refused("etcd has no such request".into())
                }
            }
        })
    }
}

/// The number of the one that is to lead, by the list of the one that does.
fn numbered(said: &Sighting, leader: &str, candidate: &str) -> Result<u64, String> {
    let find = |name: &str| {
        let mut found = said.listed.iter();
        let found = found.find(|(_, l)| l.called().any(|n| n == name));
        found.ok_or_else(|| format!("etcd lists no member {name}"))
    };
    let (own, _) = find(leader)?;
    if *own != said.member || !said.claims() {
        return Err(format!("{leader} does not lead"));
    }
    match find(candidate)? {
        (_, listed) if listed.learner => Err(format!("{candidate} is a learner")),
        (id, _) => Ok(*id),
    }
}

/// `Refused` is said only where nothing was done: of a transfer that takes too long nobody knows.
fn to_transfer(answer: &wire::Answer) -> Reply {
    let said = Said::of(answer);
    match answer.status {
        StatusCode::OK => Reply::Taken(String::new()),
        _ if said.is_unauthorised(answer.status) => Reply::Unauthorised(said.words),
        _ if said.code == Some(FAILED_PRECONDITION) => Reply::Refused(said.words),
        _ => Reply::Unknown(said.words),
    }
}

fn question(
    path: &'static str,
    body: &Value,
    patience: Duration,
    token: Option<HeaderValue>,
) -> Question {
    Question {
        method: Method::POST,
        path,
        body: body.to_string().into_bytes(),
        patience,
        token,
    }
}

fn readable(answer: &wire::Answer) -> Result<Value, Failure> {
    let said = Said::of(answer);
    match answer.status {
        StatusCode::OK => serde_json::from_slice(&answer.body)
            .map_err(|e| Failure::Unreadable(format!("it is not JSON: {e}"))),
        status if said.is_unauthorised(status) => Err(Failure::Unauthorised(said.words)),
        status if status.is_redirection() => {
            let cause = format!("{}: redirects are not followed", status.as_u16());
            Err(Failure::Unreadable(cause))
        }
        StatusCode::NOT_FOUND => {
            let cause = "not found; is etcd's --enable-grpc-gateway off?".to_owned();
            Err(Failure::Unreadable(cause))
        }
        _ => Err(Failure::Unreadable(said.words)),
    }
}

/// What is said beside an HTTP status that is no success.
struct Said {
    code: Option<u64>,
    words: String,
}

impl Said {
    fn of(answer: &wire::Answer) -> Self {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = body["message"].as_str().or(body["error"].as_str());
        let words = text.map_or_else(
            || format!("status {}", answer.status.as_u16()),
            |text| text.chars().take(LONGEST).collect(),
        );
        let code = body["code"].as_u64();
        Self { code, words }
    }

    /// Wrong passwords and missing tokens are said to be wrong arguments, in these words.
    fn is_unauthorised(&self, status: StatusCode) -> bool {
        let by_words = [
            "user name is empty",
            "authentication failed",
            "invalid auth token",
        ];
        matches!(self.code, Some(PERMISSION_DENIED | UNAUTHENTICATED))
            || [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status)
            || by_words.iter().any(|words| self.words.contains(words))
    }
}
