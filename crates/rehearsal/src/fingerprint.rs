//! What was done in a rehearsal, in one number: two builds that behave alike leave the same one.
//!
//! It is made of the simulator's words and of words written out here, never of how a type of ours
//! happens to look, so that types can change where behaviour must not. The Ensemble's status is what
//! we say and not what we do: its bodies have a number of their own.

pub mod sheet;

use crate::world::World;
use ensemble_conductor::{Ask, EngineCall};
use ensemble_planner::engine::EngineAct;
use serde_json::Value;
use simkube::{Request, Subresource};
use std::fmt::{self, Write};

/// FNV-1a with 64 bits: the same in every build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// A value with its keys in order, whatever order they are kept in.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let mut keys: Vec<&String> = fields.keys().collect();
                keys.sort_unstable();
                self.bytes(b"{");
                for key in keys {
                    self.bytes(key.as_bytes());
                    self.bytes(&[0]);
                    self.value(&fields[key]);
                }
                self.bytes(b"}");
            }
            Value::Array(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item));
                self.bytes(b"]");
            }
            Value::String(text) => {
                self.bytes(b"\"");
                self.bytes(text.as_bytes());
                self.bytes(&[0]);
            }
            other => {
                // Writing into a number cannot fail.
                let _ = write!(self, "{other}\0");
            }
        }
    }

    /// The number of one text.
    pub fn of(text: &str) -> u64 {
        let mut fnv = Self::default();
        fnv.bytes(text.as_bytes());
        fnv.0
    }

    fn of_value(value: &Value) -> Self {
        let mut fnv = Self::default();
        fnv.value(value);
        fnv
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

impl fmt::Display for Fnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What was done so far.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint {
    /// Each call in order with its time, its body and its answer's code, and what engines are told.
    pub deeds: Fnv,
    /// The bodies of the Ensemble's status.
    pub status: Fnv,
    /// What `deeds` was made of, line by line, if asked for: bodies as they are, below their call.
    pub lines: Option<Vec<String>>,
}

impl Fingerprint {
    /// One that keeps its lines.
    pub fn with_lines() -> Self {
        Self {
            lines: Some(Vec::new()),
            ..Self::default()
        }
    }

    fn line(&mut self, world: &World, what: fmt::Arguments) {
        let at = world.cluster.now().0;
        let _ = writeln!(self.deeds, "{at} {what}");
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{at} {what}"));
        }
    }

    /// A controller makes a call, which may not arrive.
    pub(crate) fn call(&mut self, world: &World, request: &Request) {
        let nothing = Value::Null;
        let body = request.body.as_deref().unwrap_or(&nothing);
        let says =
            request.resource == world.ensembles && request.subresource == Some(Subresource::Status);
        if says {
            self.status.value(body);
        }
        // At which version a status is written is a deed.
        let body = if says { &body["metadata"] } else { body };
        let number = Fnv::of_value(body);
        let info = world.cluster.info(request.resource);
        let plural = info.map_or("unknown", |info| &info.plural);
        let part = request.subresource;
        self.line(
            world,
            format_args!(
                "{} {:?} {plural} {}/{} part {part:?} {} body {number}",
                request.client,
                request.verb,
                request.namespace,
                request.name,
                params(request),
            ),
        );
        if let Some(lines) = self.lines.as_mut().filter(|_| !body.is_null()) {
            lines.push(format!("    {body}"));
        }
    }

    /// The API server answers.
    pub(crate) fn answer(&mut self, world: &World, code: u16) {
        self.line(world, format_args!("answered {code}"));
    }

    /// A controller asks an engine.
    pub(crate) fn ask(&mut self, world: &World, by: &str, call: &EngineCall) {
        let (member, uid) = (call.member(), call.uid());
        let what = ask(call.ask());
        self.line(world, format_args!("{by} asks {member} {uid} {what}"));
    }

    /// It is over.
    pub(crate) fn end(&mut self, world: &World, how: &str) {
        self.line(world, format_args!("ends {how}"));
    }
}

fn params(request: &Request) -> String {
    let params = &request.params;
    let mut text = String::new();
    let mut add = |name: &str, given: Option<&str>| {
        if let Some(given) = given {
            let _ = write!(text, "{name}={given} ");
        }
    };
    add("dryRun", params.dry_run.then_some("All"));
    add("uid", params.uid.as_deref());
    add("version", params.resource_version.as_deref());
    add("labels", params.label_selector.as_deref());
    add("fields", params.field_selector.as_deref());
    let (validation, propagation) = (params.field_validation, params.propagation);
    let grace = params.grace_period_seconds;
    let _ = write!(text, "{validation:?} {propagation:?} {grace:?}");
    text
}

fn ask(ask: &Ask) -> String {
    match ask {
        Ask::Observe => "observe".into(),
        Ask::Do(EngineAct::SwitchOver { leader, candidate }) => {
            format!("switch from {leader} to {candidate}")
        }
        Ask::Do(EngineAct::Nudge) => "nudge".into(),
        Ask::Do(EngineAct::Configure(parameters)) => {
            let set = parameters.iter().map(|(name, value)| match value {
                Some(value) => format!("{name}={value}"),
                None => format!("{name} removed"),
            });
            format!("set {}", set.collect::<Vec<String>>().join(" "))
        }
        Ask::Do(EngineAct::Restart) => "restart".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world;
    use serde_json::json;

    fn of(request: &Request) -> Fingerprint {
        let mut print = Fingerprint::default();
        print.call(&world::fresh(), request);
        print
    }

    fn status(version: &str, state: &str) -> Request {
        let body = json!({"metadata": {"resourceVersion": version}, "status": {"state": state}});
        Request::update(world::fresh().ensembles, "shop", "orders", body).status()
    }

    #[test]
    fn what_the_status_says_is_no_deed_and_at_which_version_is() {
        let (one, other, later) = (status("1", "a"), status("1", "b"), status("2", "a"));
        assert_eq!(of(&one).deeds, of(&other).deeds);
        assert_ne!(of(&one).status, of(&other).status);
        assert_ne!(of(&one).deeds, of(&later).deeds);
    }

    #[test]
    fn any_other_body_is_a_deed() {
        let pod = |app: &str| json!({"metadata": {"name": "a", "labels": {"app": app}}});
        let make = |app: &str| Request::create(simkube::Resource::Pods, "shop", pod(app));
        assert_ne!(of(&make("a")).deeds, of(&make("b")).deeds);
        assert_eq!(of(&make("a")).deeds, of(&make("a")).deeds);
    }

    #[test]
    fn a_text_is_no_number_and_no_two_texts() {
        let of = Fnv::of_value;
        assert_ne!(of(&json!("1")), of(&json!(1)));
        assert_ne!(of(&json!(["a", "b"])), of(&json!(["ab"])));
        assert_eq!(Fnv::of("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
