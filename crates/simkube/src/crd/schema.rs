//! A structural schema, parsed once into the form that the walkers need.

use std::collections::BTreeMap;

use kube_cel::{CompilationError, CompiledSchema, compile_schema};
use regex::Regex;
use serde_json::Value;

use super::cel::Rule;
use super::formats::Format;
use crate::value::{flag, items, text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// Bounds of numbers, strings, lists and maps.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<usize>,
    pub max_length: Option<usize>,
    pub min_items: Option<usize>,
    pub max_items: Option<usize>,
    pub min_properties: Option<usize>,
    pub max_properties: Option<usize>,
}

/// One node of a schema.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub kind: Option<Type>,
    pub nullable: bool,
    pub int_or_string: bool,
    pub preserve_unknown: bool,
    pub embedded: bool,
    pub properties: BTreeMap<String, Node>,
    pub additional: Option<Box<Node>>,
    /// `additionalProperties: true`.
    pub any_additional: bool,
    pub items: Option<Box<Node>>,
    pub list_type: ListType,
    pub required: Vec<String>,
    pub values: Option<Vec<Value>>,
    pub bounds: Bounds,
    pub pattern: Option<(String, Regex)>,
    pub format: Option<Format>,
    pub default: Option<Value>,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
    pub rules: Vec<Rule>,
    pub has_rules_below: bool,
    /// Some rule here or below compares with the old value, so unchanged parts are not skipped.
    pub has_transitions_below: bool,
}

impl Node {
    pub fn compile(schema: &Value) -> Result<Node, String> {
        Node::build(schema, compile_schema(schema), "")
    }

    /// Whether fields that the schema does not name are kept.
    pub fn keeps_unknown(&self) -> bool {
        self.preserve_unknown || self.any_additional
    }

    fn build(schema: &Value, mut compiled: CompiledSchema, path: &str) -> Result<Node, String> {
        let mut node = Node::plain(schema, path)?;
        for (name, child) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let compiled = compiled
                .properties
                .remove(name)
                .unwrap_or_else(|| compile_schema(child));
            let child = Node::build(child, compiled, &format!("{path}.{name}"))?;
            node.properties.insert(name.clone(), child);
        }
        if let (Some(child), Some(compiled)) = (schema.get("items"), compiled.items) {
            node.items = Some(Box::new(Node::build(
                child,
                *compiled,
                &format!("{path}[]"),
            )?));
        }
        match schema.get("additionalProperties") {
            Some(Value::Bool(any)) => node.any_additional = *any,
            Some(child) => {
                let compiled = compiled
                    .additional_properties
                    .map_or_else(|| compile_schema(child), |b| *b);
                node.additional = Some(Box::new(Node::build(
                    child,
                    compiled,
                    &format!("{path}.*"),
                )?));
            }
            None => {}
        }
        node.rules = rules(compiled.validations, path)?;
        let below = || {
            node.properties
                .values()
                .chain(node.items.as_deref())
                .chain(node.additional.as_deref())
        };
        node.has_rules_below = !node.rules.is_empty() || below().any(|n| n.has_rules_below);
        node.has_transitions_below =
            node.rules.iter().any(|r| r.transition) || below().any(|n| n.has_transitions_below);
        Ok(node)
    }

    /// Everything but children and rules.
    fn plain(schema: &Value, path: &str) -> Result<Node, String> {
        let branches = |key: &str| -> Result<Vec<Node>, String> {
            items(schema, key)
                .iter()
                .map(|s| Node::build(s, compile_schema(s), path))
                .collect()
        };
        let pattern = match text(schema, "pattern") {
            Some(p) => Some((
                p.to_owned(),
                Regex::new(p).map_err(|e| format!("{path}: {e}"))?,
            )),
            None => None,
        };
        let not = match schema.get("not") {
            Some(s) => Some(Box::new(Node::build(s, compile_schema(s), path)?)),
            None => None,
        };
        Ok(Node {
            kind: node_type(schema),
            nullable: flag(schema, "nullable"),
            int_or_string: flag(schema, "x-kubernetes-int-or-string"),
            preserve_unknown: flag(schema, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(schema, "x-kubernetes-embedded-resource"),
            list_type: list_type(schema),
            required: strings(schema, "required"),
            values: schema.get("enum").and_then(Value::as_array).cloned(),
            bounds: bounds(schema),
            pattern,
            format: text(schema, "format").and_then(Format::parse),
            default: schema.get("default").cloned(),
            all_of: branches("allOf")?,
            any_of: branches("anyOf")?,
            one_of: branches("oneOf")?,
            not,
            ..Node::default()
        })
    }
}

fn node_type(schema: &Value) -> Option<Type> {
    Some(match text(schema, "type")? {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => return None,
    })
}

fn list_type(schema: &Value) -> ListType {
    match text(schema, "x-kubernetes-list-type") {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(strings(schema, "x-kubernetes-list-map-keys")),
        _ => ListType::Atomic,
    }
}

fn strings(schema: &Value, key: &str) -> Vec<String> {
    items(schema, key)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn bounds(schema: &Value) -> Bounds {
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let size = |key: &str| {
        schema
            .get(key)
            .and_then(Value::as_u64)
            .and_then(|n| usize::try_from(n).ok())
    };
    Bounds {
        minimum: number("minimum"),
        maximum: number("maximum"),
        exclusive_minimum: flag(schema, "exclusiveMinimum"),
        exclusive_maximum: flag(schema, "exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: size("minLength"),
        max_length: size("maxLength"),
        min_items: size("minItems"),
        max_items: size("maxItems"),
        min_properties: size("minProperties"),
        max_properties: size("maxProperties"),
    }
}

fn rules(
    compiled: Vec<Result<kube_cel::CompilationResult, CompilationError>>,
    path: &str,
) -> Result<Vec<Rule>, String> {
    compiled
        .into_iter()
        .map(|result| result.map(Rule::new).map_err(|e| format!("{path}: {e}")))
        .collect()
}
