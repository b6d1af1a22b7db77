//! Custom resources: pruning, defaults, schemas, rules, ratcheting, scale.

use serde_json::{Value, json};

use super::Probe;
use super::lab::Lab;
use crate::request::{Request, Subresource};
use crate::resource::Resource;

pub(super) const PROBES: &[Probe] = &[
    Probe::new(
        "A50",
        "fields are pruned, nulls dropped, defaults filled in",
        a50,
    ),
    Probe::new("A51", "a schema refuses what it does not describe", a51),
    Probe::new("A52", "items of maps and sets differ", a52),
    Probe::new("A53", "rules refuse in their own words", a53),
    Probe::new("A54", "transition rules compare with the value before", a54),
    Probe::new(
        "A55",
        "what was wrong before may stay until it is touched",
        a55,
    ),
    Probe::new("A56", "replicas can be read and set through scale", a56),
];

/// The definition that the probes use.
fn definition(spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.probe.example"},
        "spec": {
            "group": "probe.example", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "required": ["spec"],
                    "properties": {"spec": spec, "status": status_schema()},
                }},
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready",
                        "labelSelectorPath": ".status.selector",
                    },
                },
            }],
        },
    })
}

fn status_schema() -> Value {
    json!({"type": "object", "properties": {
        "ready": {"type": "integer"}, "selector": {"type": "string"},
    }})
}

fn spec_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 100, "default": 1},
            "mode": {"type": "string", "enum": ["Fast", "Safe"], "default": "Safe"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 10, "minLength": 2},
            "when": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "nullable": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "parts": {
                "type": "array", "maxItems": 3,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": {
                        "name": {"type": "string"}, "weight": {"type": "integer", "default": 5},
                        "fixed": {
                            "type": "integer",
                            "x-kubernetes-validations": [
                                {"rule": "self == oldSelf", "message": "fixed is immutable"},
                            ],
                        },
                    },
                },
            },
            "limit": {"type": "integer"},
            "once": {"type": "string"},
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.limit) || self.size <= self.limit", "message": "size must not exceed limit",
             "fieldPath": ".size"},
            {"rule": "!has(oldSelf.once) || (has(self.once) && self.once == oldSelf.once)",
             "message": "once cannot change", "reason": "FieldValueForbidden"},
            {"rule": "!has(self.name) || self.name != 'forbidden'",
             "messageExpression": "'the name ' + self.name + ' is taken'"},
        ],
    })
}

/// The definition with all its rules.
pub(crate) fn widget_definition() -> Value {
    definition(spec_schema())
}

/// Registers the definition as the probes expect it.
pub(super) fn widgets(lab: &mut Lab<'_>) -> Resource {
    register(lab, spec_schema())
}

fn register(lab: &mut Lab<'_>, spec: Value) -> Resource {
    // If it was refused, that is the failure; what follows then fails too.
    lab.register(&definition(spec))
        .unwrap_or(Resource::Custom(u16::MAX))
}

/// A widget that is accepted.
pub(super) fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "probe.example/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"size": 3},
    })
}

fn with(name: &str, spec: Value) -> Value {
    let mut widget = widget(name);
    widget["spec"] = spec;
    widget
}

fn a50(lab: &mut Lab<'_>) {
    let widgets = widgets(lab);
    lab.create(widgets, with("x", json!({
        "unknown": 1, "maybe": null, "name": null, "size": null, "free": {"any": {"thing": [1]}},
        "labels": {"a": "b"}, "parts": [{"name": "p", "odd": 1}], "tags": [], "port": "http",
    })))
    .ok(201)
    .lacks("/spec/unknown")
    .has("/spec/maybe", Value::Null)
    .lacks("/spec/name")
    .has("/spec/size", 1)
    .has("/spec/mode", "Safe")
    .has("/spec/free/any/thing/0", 1)
    .has("/spec/parts", json!([{"name": "p", "weight": 5}]))
    .has("/spec/tags", json!([]));
    lab.patch(widgets, "x", json!({"spec": {"size": 7, "mode": "Fast"}}))
        .ok(200);
    lab.patch(widgets, "x", json!({"spec": {"size": null}}))
        .ok(200)
        .has("/spec/size", 1);
    lab.create(widgets, json!({"metadata": {"name": "y"}, "spec": {}}))
        .refused(400, "BadRequest");
}

fn a51(lab: &mut Lab<'_>) {
    let widgets = widgets(lab);
    let wrong: [(Value, &str, &str, &str); 9] = [
        (
            json!({"size": -1}),
            "FieldValueInvalid",
            "spec.size",
            "spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0",
        ),
        (
            json!({"size": "3"}),
            "FieldValueTypeInvalid",
            "spec.size",
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            json!({"mode": "Slow"}),
            "FieldValueNotSupported",
            "spec.mode",
            "spec.mode: Unsupported value: \"Slow\": supported values: \"Fast\", \"Safe\"",
        ),
        (
            json!({"name": "A1"}),
            "FieldValueInvalid",
            "spec.name",
            "spec.name in body should match '^[a-z]+$'",
        ),
        (
            json!({"name": "abcdefghijklm"}),
            "FieldValueTooLong",
            "spec.name",
            "spec.name: Too long: may not be more than 10 bytes",
        ),
        (
            json!({"when": "yesterday"}),
            "FieldValueTypeInvalid",
            "spec.when",
            "spec.when in body must be of type date-time: \"yesterday\"",
        ),
        (
            json!({"parts": [{}]}),
            "FieldValueRequired",
            "spec.parts[0].name",
            "spec.parts[0].name: Required value",
        ),
        (
            json!({"parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]}),
            "FieldValueTooMany",
            "spec.parts",
            "spec.parts: Too many: 4: must have at most 3 items",
        ),
        (
            json!({"port": true}),
            "FieldValueTypeInvalid",
            "spec.port",
            "spec.port",
        ),
    ];
    for (spec, reason, field, says) in wrong {
        lab.create(widgets, with("x", spec))
            .refused(422, "Invalid")
            .says("Widget.probe.example \"x\" is invalid: ")
            .says(says)
            .cause(reason, field);
    }
    let mut bare = widget("x");
    bare.as_object_mut().map(|m| m.remove("spec"));
    lab.create(widgets, bare)
        .refused(422, "Invalid")
        .cause("FieldValueRequired", "spec");
}

fn a52(lab: &mut Lab<'_>) {
    let widgets = widgets(lab);
    lab.create(
        widgets,
        with("x", json!({"parts": [{"name": "a"}, {"name": "a"}]})),
    )
    .refused(422, "Invalid")
    .cause("FieldValueDuplicate", "spec.parts[1]");
    lab.create(widgets, with("x", json!({"tags": ["a", "b", "a"]})))
        .refused(422, "Invalid")
        .says("spec.tags[2]: Duplicate value: \"a\"")
        .cause("FieldValueDuplicate", "spec.tags[2]");
}

fn a53(lab: &mut Lab<'_>) {
    let widgets = widgets(lab);
    lab.create(widgets, with("x", json!({"size": 5, "limit": 4})))
        .refused(422, "Invalid")
        .says("spec.size: Invalid value: size must not exceed limit")
        .cause("FieldValueInvalid", "spec.size");
    lab.create(widgets, with("x", json!({"name": "forbidden"})))
        .refused(422, "Invalid")
        .says("the name forbidden is taken")
        .cause("FieldValueInvalid", "spec");
    lab.create(
        widgets,
        with("x", json!({"size": 5, "limit": 4, "mode": "Slow"})),
    )
    .refused(422, "Invalid")
    .says("some validation rules were not checked because the object was invalid");
    lab.create(widgets, with("x", json!({"size": 4, "limit": 4})))
        .ok(201);
}

fn a54(lab: &mut Lab<'_>) {
    let widgets = widgets(lab);
    lab.create(
        widgets,
        with(
            "x",
            json!({"parts": [{"name": "a", "fixed": 1}, {"name": "b", "fixed": 2}]}),
        ),
    )
    .ok(201);
    lab.patch(
        widgets,
        "x",
        json!({"spec": {"parts": [{"name": "b", "fixed": 2}, {"name": "a", "fixed": 1}]}}),
    )
    .ok(200);
    lab.patch(
        widgets,
        "x",
        json!({"spec": {"parts": [{"name": "b", "fixed": 1}]}}),
    )
    .refused(422, "Invalid")
    .says("spec.parts[0].fixed: Invalid value: 1: fixed is immutable")
    .cause("FieldValueInvalid", "spec.parts[0].fixed");
    lab.patch(widgets, "x", json!({"spec": {"once": "a"}}))
        .ok(200);
    for other in [json!("b"), Value::Null] {
        lab.patch(widgets, "x", json!({"spec": {"once": other}}))
            .refused(422, "Invalid")
            .says("once cannot change")
            .cause("FieldValueForbidden", "spec");
    }
}

fn a55(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let widgets = widgets(lab);
    lab.create(widgets, with("x", json!({"size": 50, "name": "abc"})))
        .ok(201);
    let mut stricter = spec_schema();
    stricter["properties"]["size"]["maximum"] = json!(10);
    register(lab, stricter);
    lab.patch(widgets, "x", json!({"metadata": {"labels": {"a": "b"}}}))
        .ok(200);
    lab.patch(widgets, "x", json!({"spec": {"name": "abcd"}}))
        .ok(200)
        .has("/spec/size", 50);
    lab.ask(Request::patch(widgets, &ns, "x", json!({"status": {"ready": 1}})).status())
        .ok(200);
    lab.patch(widgets, "x", json!({"spec": {"size": 40}}))
        .refused(422, "Invalid")
        .cause("FieldValueInvalid", "spec.size");
    lab.create(widgets, with("y", json!({"size": 50})))
        .refused(422, "Invalid");
    register(lab, spec_schema());
}

fn a56(lab: &mut Lab<'_>) {
    let ns = lab.namespace.clone();
    let widgets = widgets(lab);
    let scale = |request: Request| request.part(Subresource::Scale);
    let first = lab.create(widgets, widget("x")).ok(201);
    let seen = lab
        .ask(scale(Request::get(widgets, &ns, "x")))
        .ok(200)
        .has("/kind", "Scale")
        .has("/apiVersion", "autoscaling/v1")
        .has("/spec/replicas", 3)
        .has("/status/replicas", 0);
    lab.equal("uid of the scale", seen.uid(), first.uid());
    let patch = json!({"spec": {"replicas": 4}});
    lab.ask(scale(Request::patch(widgets, &ns, "x", patch)))
        .ok(200)
        .has("/spec/replicas", 4);
    lab.get(widgets, "x")
        .ok(200)
        .has("/spec/size", 4)
        .has("/metadata/generation", 2);
    let mut stale = seen.body();
    stale["spec"]["replicas"] = json!(5);
    lab.ask(scale(Request::update(widgets, &ns, "x", stale)))
        .refused(409, "Conflict");
    let patch = json!({"spec": {"replicas": 400}});
    lab.ask(scale(Request::patch(widgets, &ns, "x", patch)))
        .refused(422, "Invalid");
}
