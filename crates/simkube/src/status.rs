//! Answers that are not objects: Kubernetes `Status`, with the codes, reasons
//! and sentences of a real API server.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::field::{FieldError, aggregate};
use crate::resource::Info;

/// A refusal (or, for some deletes and subresources, a bare success).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// HTTP code.
    pub code: u16,
    /// Machine-readable reason; empty where the API server gives none.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
    /// What it is about.
    pub details: Option<Box<Details>>,
}

/// The `details` of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// API group.
    pub group: String,
    /// Usually the plural resource, for some errors the kind.
    pub kind: String,
    /// Object name.
    pub name: String,
    /// Object uid, given by successful deletes.
    pub uid: String,
    /// Single causes.
    pub causes: Vec<Cause>,
    /// When to try again, zero for "not said".
    pub retry_after_seconds: u32,
}

/// One cause in [`Details`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable type of the cause.
    pub reason: String,
    /// The sentence for people.
    pub message: String,
    /// Path of the field concerned.
    pub field: String,
}

impl Status {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Status {
        Status {
            code,
            reason,
            message: message.into(),
            details: None,
        }
    }

    fn about(mut self, kind: &str, group: &str, name: &str) -> Status {
        let details = self.details.get_or_insert_default();
        details.kind = kind.to_owned();
        details.group = group.to_owned();
        details.name = name.to_owned();
        self
    }

    fn on(self, info: &Info, name: &str) -> Status {
        self.about(&info.plural, &info.group, name)
    }

    pub(crate) fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Status {
        self.details.get_or_insert_default().causes.push(Cause {
            reason: reason.to_owned(),
            message: message.to_owned(),
            field: field.to_owned(),
        });
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Status {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// 200 `Success` as DELETE answers for types that do not return the object.
    pub(crate) fn deleted(info: &Info, name: &str, uid: &str) -> Status {
        let mut status = Status::new(200, "", "").on(info, name);
        status.details.get_or_insert_default().uid = uid.to_owned();
        status
    }

    /// 201 `Success` as the binding and eviction subresources answer.
    pub(crate) fn created() -> Status {
        Status::new(201, "", "")
    }

    pub(crate) fn not_found(info: &Info, name: &str) -> Status {
        let message = format!("{} \"{name}\" not found", info.group_resource());
        Status::new(404, "NotFound", message).on(info, name)
    }

    pub(crate) fn no_such_path() -> Status {
        let message = "the server could not find the requested resource";
        let mut status = Status::new(404, "NotFound", message);
        status.details = Some(Box::default());
        status
    }

    pub(crate) fn already_exists(info: &Info, name: &str, terminating: bool) -> Status {
        let prefix = if terminating {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!(
            "{prefix}{} \"{name}\" already exists",
            info.group_resource()
        );
        Status::new(409, "AlreadyExists", message).on(info, name)
    }

    pub(crate) fn stale(info: &Info, name: &str) -> Status {
        const STALE: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(info, name, STALE)
    }

    pub(crate) fn conflict(info: &Info, name: &str, why: &str) -> Status {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            info.group_resource()
        );
        Status::new(409, "Conflict", message).on(info, name)
    }

    /// DELETE's early precondition check names the kind where others name the resource.
    pub(crate) fn precondition(info: &Info, name: &str, why: &str) -> Status {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            info.group_kind()
        );
        Status::new(409, "Conflict", message).about(&info.kind, &info.group, name)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, "BadRequest", message)
    }

    pub(crate) fn forbidden(info: &Info, name: &str, why: &str) -> Status {
        let message = format!("{} \"{name}\" is forbidden: {why}", info.group_resource());
        Status::new(403, "Forbidden", message).on(info, name)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Status {
        Status::new(500, "InternalError", message)
    }

    pub(crate) fn too_many_requests(message: &str, retry_after: u32) -> Status {
        Status::new(429, "TooManyRequests", message).retry_after(retry_after)
    }

    /// What simkube does not model: said plainly, never approximated.
    pub(crate) fn not_modelled(what: &str) -> Status {
        Status::new(
            501,
            "NotImplemented",
            format!("simkube does not model {what}"),
        )
    }

    pub(crate) fn invalid(info: &Info, name: &str, errors: &[FieldError]) -> Status {
        let message = format!(
            "{} \"{name}\" is invalid: {}",
            info.group_kind(),
            aggregate(errors)
        );
        let mut status = Status::new(422, "Invalid", message).about(&info.kind, &info.group, name);
        for error in errors {
            status = status.with_cause(error.kind.cause(), &error.body(), &error.path);
        }
        status
    }

    /// Reads a Status as an API server writes it. Reasons that are not known
    /// here become the empty one; the code always says enough.
    #[must_use]
    pub fn from_value(value: &Value) -> Status {
        let text = |pointer: &str| {
            value
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or("")
                .to_owned()
        };
        let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        let reason = text("/reason");
        let causes = value.pointer("/details/causes").and_then(Value::as_array);
        let cause = |c: &Value| {
            let of = |field: &str| {
                c.get(field)
                    .and_then(Value::as_str)
                    .unwrap_or("")
                    .to_owned()
            };
            Cause {
                reason: of("reason"),
                message: of("message"),
                field: of("field"),
            }
        };
        let details = value.get("details").map(|_| {
            Box::new(Details {
                group: text("/details/group"),
                kind: text("/details/kind"),
                name: text("/details/name"),
                uid: text("/details/uid"),
                causes: causes.into_iter().flatten().map(cause).collect(),
                retry_after_seconds: u32::try_from(number("/details/retryAfterSeconds"))
                    .unwrap_or(u32::MAX),
            })
        });
        Status {
            code: u16::try_from(number("/code")).unwrap_or(0),
            reason: REASONS
                .iter()
                .find(|r| **r == reason)
                .copied()
                .unwrap_or(""),
            message: text("/message"),
            details,
        }
    }

    /// Whether it says that something went well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code < 300
    }

    /// The Status as the API server writes it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut out =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": self.code});
        let map = out.as_object_mut().expect("a literal map");
        let word = if self.is_success() {
            "Success"
        } else {
            "Failure"
        };
        map.insert("status".into(), word.into());
        put(map, "message", &self.message);
        put(map, "reason", self.reason);
        if let Some(details) = &self.details {
            map.insert("details".into(), details.to_value());
        }
        if self.is_success() {
            map.remove("code");
        }
        out
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        put(&mut map, "group", &self.group);
        put(&mut map, "kind", &self.kind);
        put(&mut map, "name", &self.name);
        put(&mut map, "uid", &self.uid);
        if !self.causes.is_empty() {
            map.insert(
                "causes".into(),
                self.causes.iter().map(Cause::to_value).collect(),
            );
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(map)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        put(&mut map, "reason", &self.reason);
        put(&mut map, "message", &self.message);
        put(&mut map, "field", &self.field);
        Value::Object(map)
    }
}

/// Reasons that an API server gives.
const REASONS: [&str; 18] = [
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "NotImplemented",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "Timeout",
    "TooManyRequests",
    "UnsupportedMediaType",
];

fn put(map: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key.to_owned(), text.into());
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Status {}
