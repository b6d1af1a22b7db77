//! Label and field selectors.

use serde_json::Value;

use crate::value::{at, items, object, text_or_empty};

/// What is asked of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

/// A set of requirements on labels, all of which must hold. Empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Reads the query form: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    ///
    /// # Errors
    /// A sentence that names the part that cannot be read.
    pub fn parse(text: &str) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if part.is_empty() {
                if text.trim().is_empty() {
                    continue;
                }
                return Err(format!(
                    "unable to parse requirement: found '', expected: identifier in {text:?}"
                ));
            }
            requirements.push(parse_requirement(part)?);
        }
        Ok(LabelSelector { requirements })
    }

    /// Reads the object form: `{matchLabels: {}, matchExpressions: []}`. An absent
    /// selector selects nothing, an empty one everything.
    #[must_use]
    pub fn from_object(selector: Option<&Value>) -> Option<LabelSelector> {
        let selector = selector.filter(|s| !s.is_null())?;
        let mut requirements = Vec::new();
        for (key, value) in object(selector, "matchLabels").into_iter().flatten() {
            let value = value.as_str().unwrap_or("").to_owned();
            requirements.push(Requirement {
                key: key.clone(),
                test: Test::In(vec![value]),
            });
        }
        for expression in items(selector, "matchExpressions") {
            requirements.push(Requirement {
                key: text_or_empty(expression, "key").to_owned(),
                test: expression_test(expression)?,
            });
        }
        Some(LabelSelector { requirements })
    }

    /// Reads a plain map of labels, as Services have it.
    #[must_use]
    pub fn from_map(labels: &serde_json::Map<String, Value>) -> LabelSelector {
        let requirements = labels
            .iter()
            .map(|(key, value)| Requirement {
                key: key.clone(),
                test: Test::In(vec![value.as_str().unwrap_or("").to_owned()]),
            })
            .collect();
        LabelSelector { requirements }
    }

    /// Whether the object's labels satisfy every requirement.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.requirements.is_empty() || self.matches_labels(at(object, "metadata.labels"))
    }

    /// Whether a map of labels satisfies every requirement.
    #[must_use]
    pub fn matches_labels(&self, labels: Option<&Value>) -> bool {
        self.requirements.iter().all(|r| {
            let value = labels.and_then(|l| l.get(&r.key)).and_then(Value::as_str);
            match (&r.test, value) {
                (Test::In(set), Some(v)) => set.iter().any(|s| s == v),
                (Test::NotIn(set), Some(v)) => set.iter().all(|s| s != v),
                (Test::Exists, v) => v.is_some(),
                (Test::Absent, v) => v.is_none(),
                (Test::In(_), None) => false,
                (Test::NotIn(_), None) => true,
            }
        })
    }

    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

fn expression_test(expression: &Value) -> Option<Test> {
    let values = || {
        items(expression, "values")
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    match text_or_empty(expression, "operator") {
        "In" => Some(Test::In(values())),
        "NotIn" => Some(Test::NotIn(values())),
        "Exists" => Some(Test::Exists),
        "DoesNotExist" => Some(Test::Absent),
        _ => None,
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_requirement(part: &str) -> Result<Requirement, String> {
    let of = |key: &str, test| Requirement {
        key: key.trim().to_owned(),
        test,
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(key) = part.strip_prefix('!') {
        return Ok(of(key, Test::Absent));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(of(key, Test::NotIn(one(value))));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(of(key, Test::In(one(value))));
    }
    let mut words = part.splitn(2, char::is_whitespace);
    let key = words.next().unwrap_or("");
    match words.next().map(str::trim) {
        None => Ok(of(key, Test::Exists)),
        Some(rest) => parse_set(part, key, rest),
    }
}

fn parse_set(part: &str, key: &str, rest: &str) -> Result<Requirement, String> {
    let unreadable = || format!("unable to parse requirement: {part:?}");
    let open = rest.find('(').ok_or_else(|| {
        let found = rest.split_whitespace().nth(1).unwrap_or("");
        format!("unable to parse requirement: found '{found}' expected: '('")
    })?;
    let list = rest[open + 1..].strip_suffix(')').ok_or_else(unreadable)?;
    let values = list.split(',').map(|v| v.trim().to_owned()).collect();
    let test = match rest[..open].trim() {
        "in" => Test::In(values),
        "notin" => Test::NotIn(values),
        _ => return Err(unreadable()),
    };
    Ok(Requirement {
        key: key.to_owned(),
        test,
    })
}

/// A set of equalities on fields, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    tests: Vec<(String, bool, String)>,
}

impl FieldSelector {
    /// Reads `a=b,c!=d`; only fields that `supported` knows are accepted.
    ///
    /// # Errors
    /// The sentence with which the API server refuses the field.
    pub fn parse(text: &str, supported: impl Fn(&str) -> bool) -> Result<FieldSelector, String> {
        let mut tests = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (field, equal, value) = if let Some((f, v)) = part.split_once("!=") {
                (f, false, v)
            } else if let Some((f, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (f, true, v)
            } else {
                return Err(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ));
            };
            let field = field.trim();
            if !supported(field) {
                return Err(format!("field label not supported: {field}"));
            }
            tests.push((field.to_owned(), equal, value.trim().to_owned()));
        }
        Ok(FieldSelector { tests })
    }

    /// Whether every equality holds. Absent fields equal the empty string.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.tests.iter().all(|(field, equal, value)| {
            let same = match at(object, field) {
                None | Some(Value::Null) => {
                    value.is_empty() || (field == "spec.unschedulable" && value == "false")
                }
                Some(Value::String(s)) => s == value,
                Some(other) => *value == *other.to_string(),
            };
            same == *equal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selects(selector: &str, labels: Value) -> bool {
        LabelSelector::parse(selector)
            .unwrap()
            .matches(&json!({"metadata": {"labels": labels}}))
    }

    #[test]
    fn label_selectors_know_equality_sets_and_existence() {
        assert!(selects("", json!({})));
        assert!(selects("a=1", json!({"a": "1"})));
        assert!(selects("a==1,b!=2", json!({"a": "1", "b": "3"})));
        assert!(selects("a!=1", json!({})));
        assert!(selects("a in (1, 2),c", json!({"a": "2", "c": ""})));
        assert!(!selects("a notin (1,2)", json!({"a": "2"})));
        assert!(selects("!a", json!({"b": "1"})));
        assert!(!selects("a", json!({"b": "1"})));
        assert!(LabelSelector::parse("a in 1").is_err());
    }

    #[test]
    fn an_absent_object_selector_selects_nothing_and_an_empty_one_everything() {
        assert_eq!(LabelSelector::from_object(None), None);
        let all = LabelSelector::from_object(Some(&json!({}))).unwrap();
        assert!(all.matches(&json!({})));
        let some = LabelSelector::from_object(Some(&json!({
            "matchLabels": {"a": "1"},
            "matchExpressions": [{"key": "r", "operator": "NotIn", "values": ["primary"]}],
        })))
        .unwrap();
        assert!(some.matches(&json!({"metadata": {"labels": {"a": "1"}}})));
        assert!(!some.matches(&json!({"metadata": {"labels": {"a": "1", "r": "primary"}}})));
    }

    #[test]
    fn field_selectors_refuse_fields_they_do_not_know() {
        let known = |f: &str| f == "spec.nodeName";
        let s = FieldSelector::parse("spec.nodeName!=", known).unwrap();
        assert!(s.matches(&json!({"spec": {"nodeName": "n1"}})));
        assert!(!s.matches(&json!({"spec": {}})));
        let refusal = FieldSelector::parse("spec.foo=1", known).unwrap_err();
        assert_eq!(refusal, "field label not supported: spec.foo");
    }
}
