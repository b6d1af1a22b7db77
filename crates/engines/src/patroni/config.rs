//! The dynamic configuration: the answer to `GET /config`.

use super::{ROUNDS, Sighting, Synchronous};
use crate::failure::Failure;
use serde_json::Value;
use std::collections::BTreeMap;

/// What of it matters to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Config {
    synchronous: Synchronous,
    loop_wait: u32,
    parameters: BTreeMap<String, String>,
    paused: bool,
}

impl Config {
    /// Adds it to what a leader said.
    pub(super) fn told_by(self, said: &mut Sighting) {
        said.synchronous = self.synchronous;
        said.loop_wait = Some(self.loop_wait);
        said.parameters = Some(self.parameters);
        said.paused |= self.paused;
    }
}

pub(super) fn read(config: Value) -> Result<Config, Failure> {
    if !config.is_object() {
        return Err(Failure::Unreadable("GET /config: it is no object".into()));
    }
    let parameters = config["postgresql"]["parameters"].as_object();
    let as_text = |(name, value): (&String, &Value)| Some((name.clone(), text(value)?));
    Ok(Config {
        synchronous: synchronous(&config),
        loop_wait: seconds(&config["loop_wait"]).unwrap_or(ROUNDS.seconds),
        parameters: parameters
            .into_iter()
            .flatten()
            .filter_map(as_text)
            .collect(),
        paused: is_on(&config["pause"]),
    })
}

fn synchronous(config: &Value) -> Synchronous {
    let mode = &config["synchronous_mode"];
    let quorum = mode
        .as_str()
        .is_some_and(|m| m.eq_ignore_ascii_case("quorum"));
    match (
        is_on(mode) || quorum,
        is_on(&config["synchronous_mode_strict"]),
    ) {
        (false, _) => Synchronous::Off,
        (true, false) => Synchronous::On,
        (true, true) => Synchronous::Strict,
    }
}

/// What Patroni takes for yes.
pub(super) fn is_on(value: &Value) -> bool {
    match value {
        Value::Bool(on) => *on,
        Value::Number(number) => number.as_i64() == Some(1),
        Value::String(word) => {
            let word = word.to_ascii_lowercase();
            matches!(word.as_str(), "on" | "true" | "yes" | "1")
        }
        _ => false,
    }
}

fn seconds(value: &Value) -> Option<u32> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u32::try_from(number).ok()
}

/// As PostgreSQL would read it. A parameter without a value is none.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(on) => Some(if *on { "on" } else { "off" }.into()),
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn synchronous_mode_is_read_as_patroni_reads_it() {
        use Synchronous::{Off, On, Strict};
        for (mode, strict, expected) in [
            (json!(null), json!(null), Off),
            (json!(false), json!(true), Off),
            (json!("off"), json!(false), Off),
            (json!(true), json!(null), On),
            (json!("on"), json!(false), On),
            (json!("Yes"), json!("off"), On),
            (json!(1), json!(0), On),
            (json!("quorum"), json!(null), On),
            (json!("quorum"), json!(true), Strict),
            (json!(true), json!("on"), Strict),
        ] {
            let config = json!({"synchronous_mode": mode, "synchronous_mode_strict": strict});
            assert_eq!(
                read(config).unwrap().synchronous,
                expected,
                "{mode} {strict}"
            );
        }
    }

    #[test]
    fn parameters_are_text_as_postgresql_would_read_it() {
        let parameters = json!({"max_connections": 50, "shared_buffers": "16MB", "jit": false,
            "hot_standby_feedback": true, "checkpoint_completion_target": 0.9, "gone": null});
        let config = json!({"postgresql": {"parameters": parameters}});
        let found = read(config).unwrap().parameters;
        let expected = [
            ("checkpoint_completion_target", "0.9"),
            ("hot_standby_feedback", "on"),
            ("jit", "off"),
            ("max_connections", "50"),
            ("shared_buffers", "16MB"),
        ];
        assert_eq!(found, expected.map(|(k, v)| (k.into(), v.into())).into());
    }

    #[test]
    fn the_loop_is_patronis_default_unless_it_is_said() {
        for (value, expected) in [
            (json!(null), 10),
            (json!(5), 5),
            (json!("7"), 7),
            (json!(-1), 10),
            (json!([]), 10),
        ] {
            let config = read(json!({"loop_wait": value})).unwrap();
            assert_eq!(config.loop_wait, expected, "{value}");
        }
    }

    #[test]
    fn what_is_no_object_is_no_configuration() {
        for config in [json!(null), json!([]), json!("x")] {
            assert!(read(config).is_err());
        }
    }
}
