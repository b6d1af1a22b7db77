//! Sending a conductor's call as it is, and saying what came of it.

use crate::resources;
use ensemble_api::labels::MANAGER;
use ensemble_conductor::{ApiCall, ApiError, Outcome, Verb};
use http::{Method, Request};
use kube::Client;
use serde_json::Value;
use std::time::Duration;

/// After that long nobody knows what became of a call.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends one call.
pub async fn send(client: &Client, call: &ApiCall) -> Outcome {
    let request = match request(call) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("cannot be asked: {error}");
            return Outcome::Refused(ApiError {
                code: 400,
                reason: "BadRequest".into(),
                message,
            });
        }
    };
    match tokio::time::timeout(PATIENCE, client.request::<Value>(request)).await {
        Ok(Ok(answer)) => Outcome::Done(answer.into()),
        Ok(Err(kube::Error::Api(status))) if status.code > 0 => Outcome::Refused(ApiError {
            code: status.code,
            reason: status.reason.clone(),
            message: describe(&status),
        }),
        Ok(Err(error)) => Outcome::Unknown(error.to_string()),
        Err(_) => Outcome::Unknown(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

/// A refused eviction says which budget only in its causes.
fn describe(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|d| &d.causes);
    let causes: Vec<&str> = causes
        .map(|c| c.message.as_str())
        .filter(|m| !m.is_empty())
        .collect();
    if status.code == 429 && !causes.is_empty() {
        return format!("{} {}", status.message, causes.join("; "));
    }
    status.message.clone()
}

/// Where and how something is asked.
fn address(
    verb: &Verb,
    collection: &str,
    name: &str,
    selector: &str,
) -> (Method, String, &'static str) {
    let object = format!("{collection}/{name}");
    let by = format!("?fieldManager={MANAGER}");
    match verb {
        Verb::Create { dry_run: false } => (Method::POST, format!("{collection}{by}"), JSON),
        Verb::Create { dry_run: true } => {
            let uri = format!("{collection}{by}&dryRun=All&fieldValidation=Strict");
            (Method::POST, uri, JSON)
        }
        Verb::MergePatch => (Method::PATCH, format!("{object}{by}"), MERGE),
        Verb::MergePatchStatus => (Method::PATCH, format!("{object}/status{by}"), MERGE),
        Verb::Replace => (Method::PUT, format!("{object}{by}"), JSON),
        Verb::ReplaceResize => (Method::PUT, format!("{object}/resize{by}"), JSON),
        Verb::ReplaceStatus => (Method::PUT, format!("{object}/status{by}"), JSON),
        Verb::Delete => (Method::DELETE, object, JSON),
        Verb::Evict => (Method::POST, format!("{object}/eviction"), JSON),
        Verb::Get => (Method::GET, object, JSON),
        Verb::List => {
            let selector = selector.replace('/', "%2F").replace('=', "%3D");
            let uri = format!("{collection}?labelSelector={selector}");
            (Method::GET, uri, JSON)
        }
    }
}

fn request(call: &ApiCall) -> Result<Request<Vec<u8>>, http::Error> {
    let collection = resources::collection(call.kind(), call.namespace());
    let (method, uri, content) = address(call.verb(), &collection, call.name(), &call.selector());
    let body = if call.body().is_null() {
        Vec::new()
    } else {
        as_go_writes_it(&call.body().to_string()).into_bytes()
    };
    Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", content)
        .body(body)
}

/// Some characters written as escapes, as the API server itself writes them. It keeps the data of a
/// ControllerRevision as bytes and holds every later patch against them, in its own writing: with
/// `&&` in a template, as we would write it, no patch of that revision would ever be accepted. Such
/// characters stand in no place but strings.
fn as_go_writes_it(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => text.push(c),
        }
    }
    text
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_goes_to_its_own_door() {
        let cases = [
            (Verb::Create { dry_run: false }, "POST /pods?fieldManager=*"),
            (
                Verb::Create { dry_run: true },
                "POST /pods?fieldManager=*&dryRun=All&fieldValidation=Strict",
            ),
            (Verb::MergePatch, "PATCH /pods/a-0?fieldManager=*"),
            (
                Verb::MergePatchStatus,
                "PATCH /pods/a-0/status?fieldManager=*",
            ),
            (Verb::Replace, "PUT /pods/a-0?fieldManager=*"),
            (Verb::ReplaceResize, "PUT /pods/a-0/resize?fieldManager=*"),
            (Verb::ReplaceStatus, "PUT /pods/a-0/status?fieldManager=*"),
            (Verb::Delete, "DELETE /pods/a-0"),
            (Verb::Evict, "POST /pods/a-0/eviction"),
            (Verb::Get, "GET /pods/a-0"),
            (Verb::List, "GET /pods?labelSelector=a.b%2Fc%3Da"),
        ];
        for (verb, door) in cases {
            let (method, uri, content) = address(&verb, "/pods", "a-0", "a.b/c=a");
            assert_eq!(
                format!("{method} {uri}"),
                door.replace('*', MANAGER),
                "{verb:?}"
            );
            assert_eq!(content == MERGE, method == Method::PATCH, "{verb:?}");
        }
    }

    #[test]
    fn a_refused_eviction_names_the_budget_that_refuses_it() {
        let status = |code: u16| -> kube::core::Status {
            serde_json::from_value(serde_json::json!({
                "code": code,
                "message": "Cannot evict pod.",
                "details": {"causes": [
                    {"message": "The disruption budget orders needs 2 healthy pods"},
                    {"message": ""},
                ]},
            }))
            .unwrap()
        };
        let told = "Cannot evict pod. The disruption budget orders needs 2 healthy pods";
        assert_eq!(describe(&status(429)), told);
        assert_eq!(describe(&status(422)), "Cannot evict pod.");
    }

    #[test]
    fn what_the_api_server_writes_as_an_escape_is_sent_as_one() {
        let value = serde_json::json!({"x": "a && b <c> \u{2028}\u{2029} ä \"\\"});
        let text = as_go_writes_it(&value.to_string());
        assert_eq!(
            text,
            r#"{"x":"a \u0026\u0026 b \u003cc\u003e \u2028\u2029 ä \"\\"}"#
        );
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back, value);
    }
}
