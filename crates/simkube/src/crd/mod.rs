//! Custom resources: pruning, defaults, schema validation and CEL rules, all
//! compiled once per definition and shared between clones of a cluster.

mod cel;
mod convert;
mod decode;
mod formats;
mod schema;
mod validate;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::field::{FieldError, FieldErrorKind};
use crate::kinds::Reading;
use crate::request::FieldValidation;
use crate::resource::Info;
use crate::status::Status;
use crate::value::{at, items, text, text_or_empty};

use schema::Node;

/// Where a custom resource keeps what `scale` shows, as dotted paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub spec: String,
    pub status: String,
    pub selector: Option<String>,
}

/// A compiled CustomResourceDefinition.
#[derive(Debug)]
pub(crate) struct Crd {
    pub info: Info,
    pub selectable: Vec<String>,
    pub scale: Option<ScalePaths>,
    /// It replaced an earlier definition, by which stored objects were read.
    revised: bool,
    root: Node,
}

impl Crd {
    /// Compiles the storage version of a definition.
    pub fn compile(definition: &Value, revised: bool) -> Result<Arc<Crd>, Status> {
        let refuse = |why: &str| {
            let name = text_or_empty(definition, "metadata.name");
            Status::bad_request(format!("CustomResourceDefinition \"{name}\": {why}"))
        };
        let versions = items(definition, "spec.versions");
        let version = versions
            .iter()
            .find(|v| crate::value::flag(v, "storage"))
            .or(versions.first())
            .ok_or_else(|| refuse("it has no version"))?;
        let schema = at(version, "schema.openAPIV3Schema")
            .ok_or_else(|| refuse("its storage version has no schema"))?;
        let root = Node::compile(schema).map_err(|why| refuse(&why))?;
        let own = |path: &str| text_or_empty(definition, path).to_owned();
        let info = Info {
            group: Cow::Owned(own("spec.group")),
            version: Cow::Owned(text_or_empty(version, "name").to_owned()),
            plural: Cow::Owned(own("spec.names.plural")),
            kind: Cow::Owned(own("spec.names.kind")),
            namespaced: own("spec.scope") == "Namespaced",
            status: at(version, "subresources.status").is_some(),
            generation: true,
            unconditional_update: false,
            create_on_update: false,
            returns_deleted: false,
        };
        if info.plural.is_empty() || info.kind.is_empty() || info.group.is_empty() {
            return Err(refuse("group, plural and kind must be given"));
        }
        let selectable = items(version, "selectableFields")
            .iter()
            .filter_map(|f| text(f, "jsonPath"))
            .map(|path| path.trim_start_matches('.').to_owned())
            .collect();
        Ok(Arc::new(Crd {
            info,
            selectable,
            scale: scale_paths(version),
            revised,
            root,
        }))
    }

    /// Prunes, drops nulls and fills in defaults; in strict mode refuses unknown fields.
    pub fn decode(&self, value: &mut Value, reading: &Reading<'_>) -> Result<(), Status> {
        // What did not change was read before, unless by another schema.
        let old = reading.old.filter(|_| !self.revised);
        let unknown = decode::read(&self.root, value, old);
        if !unknown.is_empty() && reading.validation == FieldValidation::Strict {
            return Err(reading.refuse_unknown(&self.info, value, &unknown));
        }
        Ok(())
    }

    /// Everything that is wrong with an object, or with a change of it.
    pub fn validate(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate::schema(&self.root, value, old, "", &mut errors);
        validate::list_types(&self.root, value, old, &mut errors);
        self.validate_scale(value, &mut errors);
        if !self.root.has_rules_below {
            return errors;
        }
        if errors.iter().any(|e| blocks_rules(e.kind)) {
            const SKIPPED: &str = "some validation rules were not checked because the object was \
                invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid("<nil>", Value::Null, SKIPPED));
        } else {
            cel::evaluate(&self.root, value, old, !self.revised, &mut errors);
        }
        errors
    }
}

impl Crd {
    /// What `scale` shows must be a number of replicas.
    fn validate_scale(&self, value: &Value, errors: &mut Vec<FieldError>) {
        let Some(scale) = &self.scale else { return };
        for path in [&scale.spec, &scale.status] {
            let Some(found) = at(value, path) else {
                continue;
            };
            let Some(replicas) = found.as_i64() else {
                errors.push(not_a_number(path, found));
                continue;
            };
            let detail = match replicas {
                ..0 => "should be a non-negative integer".to_owned(),
                n if i32::try_from(n).is_err() => {
                    format!("should be less than or equal to {}", i32::MAX)
                }
                _ => continue,
            };
            errors.push(FieldError::invalid(format!(".{path}"), replicas, detail));
        }
    }
}

fn not_a_number(path: &str, found: &Value) -> FieldError {
    let (shown, kind) = match found {
        Value::String(s) => (s.clone(), "string"),
        Value::Bool(b) => (b.to_string(), "bool"),
        Value::Number(n) => (n.to_string(), "float64"),
        Value::Array(_) => (found.to_string(), "[]interface {}"),
        _ => (found.to_string(), "map[string]interface {}"),
    };
    let detail = format!(".{path} accessor error: {shown} is of the type {kind}, expected int64");
    FieldError::invalid(format!(".{path}"), 0, detail)
}

fn blocks_rules(kind: FieldErrorKind) -> bool {
    use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(
        kind,
        Required | TooLong | TooMany | NotSupported | TypeInvalid
    )
}

fn scale_paths(version: &Value) -> Option<ScalePaths> {
    let scale = at(version, "subresources.scale")?;
    let path = |field: &str| text(scale, field).map(|p| p.trim_start_matches('.').to_owned());
    Some(ScalePaths {
        spec: path("specReplicasPath")?,
        status: path("statusReplicasPath")?,
        selector: path("labelSelectorPath"),
    })
}
