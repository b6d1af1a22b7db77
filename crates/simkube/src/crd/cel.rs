//! `x-kubernetes-validations`: kube-cel compiles and runs the rules; which of
//! them run, and on which values, is decided here, because correlation of old
//! values and ratcheting are the API server's business, not CEL's.

use std::sync::{Arc, LazyLock, Mutex};

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, Program, Value as Cel};
use kube_cel::{CompilationResult, KubeCelExt};
use serde_json::Value;

use super::convert::{to_cel, to_cel_with};
use super::schema::Node;
use super::validate::{correlated, join};
use crate::field::{FieldError, FieldErrorKind};

/// One compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    program: Program,
    message_program: Option<Program>,
    source: String,
    message: Option<String>,
    reason: Option<String>,
    field_path: Option<String>,
    optional_old_self: bool,
    /// Whether it mentions `oldSelf`.
    pub transition: bool,
    /// The fields of self and oldSelf that it reads; `None` if it may read all.
    reads: Option<Vec<String>>,
    /// What these fields last were when it passed although none of them had changed. A transition
    /// rule may refuse that; asked of the same again, it says the same again.
    passed_unchanged: Mutex<Option<Vec<Option<Value>>>>,
}

impl Rule {
    pub fn new(compiled: CompilationResult) -> Rule {
        let rule = compiled.rule;
        let mut reads = fields_read(&rule.rule);
        if let Some(expression) = &rule.message_expression {
            reads = match (reads, fields_read(expression)) {
                (Some(mut a), Some(b)) => {
                    a.extend(b);
                    Some(a)
                }
                _ => None,
            };
        }
        Rule {
            transition: compiled.is_transition_rule,
            program: compiled.program,
            message_program: compiled.message_program,
            source: rule.rule,
            message: rule.message,
            reason: rule.reason,
            field_path: rule.field_path,
            optional_old_self: rule.optional_old_self == Some(true),
            reads,
            passed_unchanged: Mutex::new(None),
        }
    }

    /// Whether it is known to pass what was not changed.
    fn is_known_to_pass(&self, value: &Value, old: &Value) -> bool {
        let Some(fields) = &self.reads else {
            return false;
        };
        let passed = self.passed_unchanged.lock().ok();
        let known = passed.as_ref().and_then(|known| known.as_ref());
        known.is_some_and(|known| {
            let same = |(f, known): (&String, &Option<Value>)| {
                value.get(f) == known.as_ref() && old.get(f) == known.as_ref()
            };
            fields.iter().zip(known).all(same)
        })
    }

    /// It passed; if nothing that it reads was changed, that is worth knowing.
    fn has_passed(&self, value: &Value, old: &Value) {
        if let Some(fields) = &self.reads
            && !self.reads_a_change(value, old)
            && let Ok(mut passed) = self.passed_unchanged.lock()
        {
            *passed = Some(fields.iter().map(|f| value.get(f).cloned()).collect());
        }
    }

    /// Whether one of the fields that it reads is another than before.
    fn reads_a_change(&self, value: &Value, old: &Value) -> bool {
        let fields = self.reads.as_ref();
        fields.is_none_or(|all| all.iter().any(|f| old.get(f) != value.get(f)))
    }
}

/// The fields that an expression takes from `self` and `oldSelf`, or `None` if
/// it uses one of them as a whole.
fn fields_read(expression: &str) -> Option<Vec<String>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut fields = Vec::new();
    let mut rest = expression;
    let mut before = ' ';
    while let Some(start) = rest.find(is_word) {
        if let Some(c) = rest[..start].chars().next_back() {
            before = c;
        }
        let word_end = rest[start..]
            .find(|c| !is_word(c))
            .map_or(rest.len(), |n| start + n);
        let word = &rest[start..word_end];
        rest = &rest[word_end..];
        if before != '.' && matches!(word, "self" | "oldSelf") {
            let field = rest.strip_prefix('.')?.trim_start_matches('?');
            let end = field.find(|c| !is_word(c)).unwrap_or(field.len());
            if end == 0 || field[end..].trim_start().starts_with('(') {
                return None;
            }
            fields.push(field[..end].to_owned());
            rest = &field[end..];
        }
        before = ' ';
    }
    Some(fields)
}

/// The functions are the same for every rule of every cluster, so they are registered once.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    // What the library does not know: `type(self) == int`, for values that may be one or the other.
    context.add_function("type", |value: Cel| type_name(&value).to_owned());
    for name in ["int", "string"] {
        context.add_variable_from_value(name, name);
    }
    context
});

fn type_name(value: &Cel) -> &'static str {
    match value {
        Cel::Int(_) => "int",
        Cel::String(_) => "string",
        _ => "another",
    }
}

/// Runs every rule that applies. An old value that has kept the same rules is known to keep them:
/// a rule that reads only what did not change need not run again.
pub(super) fn evaluate(
    root: &Node,
    value: &Value,
    old: Option<&Value>,
    same_rules: bool,
    errors: &mut Vec<FieldError>,
) {
    walk(root, value, old, same_rules, "", errors);
}

fn walk(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    same_rules: bool,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let unchanged = old == Some(value);
    if !node.has_rules_below || unchanged && !node.has_transitions_below {
        return;
    }
    if value.is_null() {
        return;
    }
    for rule in &node.rules {
        let applies = match (rule.transition, old) {
            (true, None) => rule.optional_old_self,
            (true, Some(old)) => !rule.is_known_to_pass(value, old),
            (false, Some(old)) if same_rules => !unchanged && rule.reads_a_change(value, old),
            (false, _) => !unchanged,
        };
        if applies {
            run(rule, node, value, old, path, errors);
        }
    }
    match value {
        Value::Object(map) => {
            for (key, v) in map {
                let child = node.properties.get(key).or(node.additional.as_deref());
                if let Some(child) = child {
                    walk(
                        child,
                        v,
                        old.and_then(|o| o.get(key)),
                        same_rules,
                        &join(path, key),
                        errors,
                    );
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = &node.items else { return };
            for (i, item) in list.iter().enumerate() {
                walk(
                    items,
                    item,
                    correlated(node, item, old),
                    same_rules,
                    &format!("{path}[{i}]"),
                    errors,
                );
            }
        }
        _ => {}
    }
}

fn run(
    rule: &Rule,
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let convert = |v: &Value| match &rule.reads {
        Some(fields) => to_cel_with(node, v, fields),
        None => to_cel(Some(node), v),
    };
    let mut scope = FUNCTIONS.new_inner_scope();
    scope.add_variable_from_value("self", convert(value));
    if rule.transition {
        let before = old.map(convert);
        let before = match (rule.optional_old_self, before) {
            (true, Some(v)) => Cel::Opaque(Arc::new(OptionalValue::of(v))),
            (true, None) => Cel::Opaque(Arc::new(OptionalValue::none())),
            (false, v) => v.unwrap_or(Cel::Null),
        };
        scope.add_variable_from_value("oldSelf", before);
    }
    let message = match rule.program.execute(&scope) {
        Ok(Cel::Bool(true)) => {
            if let Some(old) = old.filter(|_| rule.transition) {
                rule.has_passed(value, old);
            }
            return;
        }
        Ok(Cel::Bool(false)) => message(rule, &scope),
        Ok(_) => format!("rule evaluation error: {} is not a bool", rule.source),
        Err(e) => format!(
            "rule evaluation error: {e} evaluating rule: {}",
            rule.source
        ),
    };
    errors.push(refusal(rule, value, path, message));
}

fn message(rule: &Rule, scope: &Context<'_>) -> String {
    let computed = rule
        .message_program
        .as_ref()
        .and_then(|p| match p.execute(scope) {
            Ok(Cel::String(s)) => Some(s.trim().to_owned()),
            _ => None,
        });
    computed
        .filter(|m| !m.is_empty() && !m.contains('\n'))
        .or_else(|| rule.message.clone())
        .unwrap_or_else(|| format!("failed rule: {}", rule.source.trim()))
}

fn refusal(rule: &Rule, value: &Value, path: &str, message: String) -> FieldError {
    let mut at = path.to_owned();
    if let Some(relative) = &rule.field_path {
        at.push_str(&relative.replace("['", "[").replace("']", "]"));
    }
    let at = at.trim_start_matches('.').to_owned();
    let at = if at.is_empty() {
        "<nil>".to_owned()
    } else {
        at
    };
    let kind = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
        Some("FieldValueRequired") => FieldErrorKind::Required,
        Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
        _ => FieldErrorKind::Invalid,
    };
    let composite = value.is_object() || value.is_array();
    let shown = (!composite && rule.field_path.is_none()).then(|| value.clone());
    FieldError::of(kind, at, shown, message)
}

#[cfg(test)]
mod tests {
    use super::fields_read;

    #[test]
    fn the_fields_a_rule_reads_are_known_where_it_names_them() {
        let of = |e| fields_read(e).map(|f| f.join(","));
        assert_eq!(of("self.a >= self.b.c"), Some("a,b".into()));
        assert_eq!(
            of("!has(oldSelf.x) || self.x == oldSelf.x"),
            Some("x,x,x".into())
        );
        assert_eq!(of("self == oldSelf"), None);
        assert_eq!(of("self.all(k, k != 'a')"), None);
        assert_eq!(of("self.l.all(k, k.self > 1)"), Some("l".into()));
        assert_eq!(of("self[0] == 1"), None);
    }
}
