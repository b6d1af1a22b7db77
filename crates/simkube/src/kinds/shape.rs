//! The fields of built-in kinds. Like the real server, which decodes into
//! typed structs, this drops unknown fields, nulls and empty lists and maps,
//! refuses values of the wrong type and gives quantities one spelling.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::quantity;
use crate::time::SimTime;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Int,
    Number,
    Bool,
    Quantity,
    Time,
    MicroTime,
    IntOrText,
    Any,
    Struct(usize),
    List(Box<Kind>),
    Map(Box<Kind>),
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    kind: Kind,
    always_shown: bool,
}

#[derive(Debug)]
struct Struct {
    name: &'static str,
    /// Sorted by name.
    fields: Vec<Field>,
}

static STRUCTS: LazyLock<Vec<Struct>> = LazyLock::new(|| parse(include_str!("shapes.txt")));

/// Fields that Go leaves out when they are zero, because they are no pointers.
const ZERO_IS_ABSENT: [&str; 13] = [
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "initialDelaySeconds",
    "minReadySeconds",
    "nodePort",
    "publishNotReadyAddresses",
    "readOnly",
    "stdin",
    "stdinOnce",
    "tty",
    "unschedulable",
];

/// Times and structures that Go shows even when nobody set them.
const SHOWN_UNSET: [(&str, &[&str], &[&str]); 7] = [
    ("ContainerStateRunning", &["startedAt"], &[]),
    (
        "ContainerStateTerminated",
        &["finishedAt", "startedAt"],
        &[],
    ),
    ("ContainerStatus", &[], &["lastState", "state"]),
    (
        "JobCondition",
        &["lastProbeTime", "lastTransitionTime"],
        &[],
    ),
    (
        "NodeCondition",
        &["lastHeartbeatTime", "lastTransitionTime"],
        &[],
    ),
    (
        "PersistentVolumeClaimCondition",
        &["lastProbeTime", "lastTransitionTime"],
        &[],
    ),
    (
        "PodCondition",
        &["lastProbeTime", "lastTransitionTime"],
        &[],
    ),
];

/// What was found while reading an object.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Paths of fields that the kind does not have.
    pub unknown: Vec<String>,
    /// The first value of a wrong type.
    pub wrong: Option<String>,
}

fn parse(text: &'static str) -> Vec<Struct> {
    let lines = || {
        text.lines()
            .filter(|l| !l.starts_with('#') && !l.is_empty())
    };
    let names: BTreeMap<&str, usize> = lines()
        .enumerate()
        .map(|(i, l)| (l.split(' ').next().unwrap_or(""), i))
        .collect();
    lines()
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or("");
            let mut fields: Vec<Field> = words.filter_map(|w| parse_field(w, &names)).collect();
            fields.sort_by_key(|f| f.name);
            Struct { name, fields }
        })
        .collect()
}

fn parse_field(word: &'static str, names: &BTreeMap<&str, usize>) -> Option<Field> {
    let (name, kind) = word.split_once(':')?;
    let always_shown = kind.ends_with('!');
    Some(Field {
        name,
        kind: parse_kind(kind.trim_end_matches('!'), names),
        always_shown,
    })
}

fn parse_kind(word: &str, names: &BTreeMap<&str, usize>) -> Kind {
    if let Some(inner) = word.strip_prefix('[').and_then(|w| w.strip_suffix(']')) {
        return Kind::List(Box::new(parse_kind(inner, names)));
    }
    if let Some(inner) = word.strip_prefix('{').and_then(|w| w.strip_suffix('}')) {
        return Kind::Map(Box::new(parse_kind(inner, names)));
    }
    match word {
        "s" => Kind::Text,
        "i" => Kind::Int,
        "n" => Kind::Number,
        "b" => Kind::Bool,
        "q" => Kind::Quantity,
        "t" => Kind::Time,
        "u" => Kind::MicroTime,
        "x" => Kind::IntOrText,
        name => names.get(name).map_or(Kind::Any, |i| Kind::Struct(*i)),
    }
}

impl Struct {
    fn field(&self, name: &str) -> Option<&Field> {
        self.fields
            .binary_search_by_key(&name, |f| f.name)
            .ok()
            .map(|i| &self.fields[i])
    }
}

/// Reads an object of a kind. Parts that equal those of `old` were read before.
pub(super) fn normalise(kind: &str, value: &mut Value, old: Option<&Value>) -> Findings {
    let mut findings = Findings::default();
    let Ok(index) = STRUCTS.binary_search_by_key(&kind, |s| s.name) else {
        return findings;
    };
    if let Value::Object(map) = value {
        let mut path = String::new();
        read_struct(index, map, old, &mut path, &mut findings);
    }
    findings
}

fn read_struct(
    index: usize,
    map: &mut Map<String, Value>,
    old: Option<&Value>,
    path: &mut String,
    findings: &mut Findings,
) {
    let shape = &STRUCTS[index];
    map.retain(|key, value| {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        let keep = match shape.field(key) {
            None => {
                findings.unknown.push(path.clone());
                false
            }
            Some(_) if old.is_some_and(|o| o.get(key) == Some(value)) => true,
            Some(field) => {
                read(&field.kind, shape.name, value, path, findings);
                !is_absent(field, value)
            }
        };
        path.truncate(length);
        keep
    });
    show_unset(shape.name, map);
}

fn show_unset(name: &str, map: &mut Map<String, Value>) {
    let Ok(row) = SHOWN_UNSET.binary_search_by_key(&name, |(name, ..)| name) else {
        return;
    };
    let (_, times, structs) = SHOWN_UNSET[row];
    for field in times {
        map.entry(*field).or_insert(Value::Null);
    }
    for field in structs {
        map.entry(*field)
            .or_insert_with(|| Value::Object(Map::new()));
    }
}

fn is_absent(field: &Field, value: &Value) -> bool {
    let zero = || ZERO_IS_ABSENT.contains(&field.name);
    match value {
        Value::Null => true,
        _ if field.always_shown => false,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty() && matches!(field.kind, Kind::Map(_)),
        Value::Bool(false) => zero(),
        Value::Number(n) => n.as_i64() == Some(0) && zero(),
        _ => false,
    }
}

fn read(kind: &Kind, owner: &str, value: &mut Value, path: &mut String, findings: &mut Findings) {
    if value.is_null() {
        return;
    }
    let fits = match kind {
        Kind::Any => true,
        Kind::Text => value.is_string(),
        Kind::Int => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Kind::Number => value.is_number(),
        Kind::Bool => value.is_boolean(),
        Kind::IntOrText => value.is_string() || value.is_i64(),
        Kind::Quantity => read_quantity(value),
        Kind::Time => read_time(value, to_seconds),
        Kind::MicroTime => read_time(value, to_micros),
        Kind::Struct(_) | Kind::Map(_) => value.is_object(),
        Kind::List(_) => value.is_array(),
    };
    if !fits {
        findings
            .wrong
            .get_or_insert_with(|| mismatch(kind, owner, value, path));
        return;
    }
    match (kind, value) {
        (Kind::Struct(index), Value::Object(map)) => {
            read_struct(*index, map, None, path, findings);
        }
        (Kind::Map(inner), Value::Object(map)) => {
            map.retain(|_, v| !v.is_null());
            for v in map.values_mut() {
                read(inner, owner, v, path, findings);
            }
        }
        (Kind::List(inner), Value::Array(list)) => {
            for (i, item) in list.iter_mut().enumerate() {
                let length = path.len();
                path.push_str(&format!("[{i}]"));
                read(inner, owner, item, path, findings);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn read_quantity(value: &mut Value) -> bool {
    match quantity::of(value) {
        Some(quantity) => {
            *value = quantity.canonical().into();
            true
        }
        None => false,
    }
}

fn read_time(value: &mut Value, write: fn(SimTime, &str) -> String) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let Some(time) = SimTime::parse(text) else {
        return false;
    };
    *value = write(time, text).into();
    true
}

fn to_seconds(time: SimTime, _: &str) -> String {
    time.rfc3339()
}

/// Virtual time has milliseconds only; the microseconds come from the text.
fn to_micros(time: SimTime, text: &str) -> String {
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits: String = fraction
        .chars()
        .take_while(char::is_ascii_digit)
        .take(6)
        .collect();
    format!("{}.{digits:0<6}Z", time.rfc3339().trim_end_matches('Z'))
}

fn mismatch(kind: &Kind, owner: &str, value: &Value, path: &str) -> String {
    let found = match value {
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        _ => "object",
    };
    let wanted = match kind {
        Kind::Quantity => {
            return "quantities must match the regular expression \
                '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                .to_owned();
        }
        Kind::Text => "string".to_owned(),
        Kind::Int => "int32".to_owned(),
        Kind::Number => "float64".to_owned(),
        Kind::Bool => "bool".to_owned(),
        Kind::Struct(i) => format!("v1.{}", STRUCTS[*i].name),
        Kind::List(inner) => match &**inner {
            Kind::Struct(i) => format!("[]v1.{}", STRUCTS[*i].name),
            _ => "[]string".to_owned(),
        },
        Kind::Map(_) => "map[string]string".to_owned(),
        _ => "Time".to_owned(),
    };
    // Go names the field without the positions in lists.
    let plain: String = path
        .split('[')
        .map(|part| part.split_once(']').map_or(part, |(_, rest)| rest))
        .collect();
    format!("json: cannot unmarshal {found} into Go struct field {owner}.{plain} of type {wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_found_wherever_they_are_and_dropped() {
        let mut pod = json!({"kind": "Pod", "spec": {
            "contaners": [], "containers": [{"name": "a", "imge": "x", "ports": [], "env": null}],
            "hostNetwork": false, "nodeSelector": {},
        }});
        let findings = normalise("Pod", &mut pod, None);
        assert_eq!(
            findings.unknown,
            ["spec.containers[0].imge", "spec.contaners"]
        );
        assert_eq!(findings.wrong, None);
        assert_eq!(
            pod,
            json!({"kind": "Pod", "spec": {"containers": [{"name": "a"}]}})
        );
    }

    #[test]
    fn values_of_the_wrong_type_are_named() {
        let mut pod = json!({"spec": {"containers": [{"name": 5}]}});
        let findings = normalise("Pod", &mut pod, None);
        let wrong = findings.wrong.unwrap();
        assert_eq!(
            wrong,
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string"
        );
    }

    #[test]
    fn quantities_and_times_get_their_one_spelling() {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "resources": {
            "limits": {"cpu": "1000m", "memory": "1024Mi"},
        }}]}});
        normalise("Pod", &mut pod, None);
        let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
        assert_eq!(*limits, json!({"cpu": "1", "memory": "1Gi"}));
        let mut lease = json!({"spec": {"renewTime": "2026-01-01T00:00:00.5Z"}});
        normalise("Lease", &mut lease, None);
        assert_eq!(lease["spec"]["renewTime"], "2026-01-01T00:00:00.500000Z");
    }
}
