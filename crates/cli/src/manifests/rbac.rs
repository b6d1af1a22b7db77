//! The controller's rights, and nothing more: no Secrets, no `pods/exec`, no spec of an Ensemble that
//! it could change.

use super::{NAME, Place, object};
use ensemble_controller::{KINDS, KindInfo, LOOK};
use serde_json::{Value, json};

/// The role of those who may waive a safety rule, beside the right to create requests.
pub const WAIVER: &str = "ensemble-waiver";

/// Accounts, roles and bindings.
pub fn all(place: &Place) -> Vec<Value> {
    let home = Some(place.home.as_str());
    let mut objects = vec![object("v1", "ServiceAccount", NAME, home)];
    match &place.watched {
        None => {
            let mut rules = member_rules();
            rules.extend(cluster_rules());
            objects.push(role("ClusterRole", NAME, None, rules));
            objects.push(binding(
                "ClusterRoleBinding",
                NAME,
                None,
                "ClusterRole",
                place,
            ));
            objects.extend(for_people());
        }
        Some(watched) => {
            objects.push(role("Role", NAME, Some(watched), member_rules()));
            objects.push(binding("RoleBinding", NAME, Some(watched), "Role", place));
            objects.push(role("Role", WAIVER, Some(watched), vec![waive_rule()]));
        }
    }
    let leases = format!("{NAME}-leases");
    objects.push(role("Role", &leases, home, vec![lease_rule()]));
    objects.push(binding("RoleBinding", &leases, home, "Role", place));
    objects
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// What it needs of a kind: to look at it, and what else its row in the table says.
fn kind_rules(info: &KindInfo) -> Vec<Value> {
    let on = |part: &str| match part {
        "" => info.plural.to_owned(),
        part => format!("{}/{part}", info.plural),
    };
    let whole = info.rights.iter().filter(|right| right.part.is_empty());
    let verbs: Vec<&str> = LOOK
        .iter()
        .chain(whole.flat_map(|right| right.verbs))
        .copied()
        .collect();
    let mut rules = vec![rule(info.group, &[info.plural], &verbs)];
    let parts = info.rights.iter().filter(|right| !right.part.is_empty());
    rules.extend(parts.map(|right| rule(info.group, &[&on(right.part)], right.verbs)));
    rules
}

/// What it needs in every namespace that it looks after.
fn member_rules() -> Vec<Value> {
    let kinds = KINDS.iter().filter(|info| info.is_namespaced());
    let mut rules: Vec<Value> = kinds.flat_map(kind_rules).collect();
    rules.push(rule("events.k8s.io", &["events"], &["create", "patch"]));
    rules
}

/// Whether a node is gone or tainted; only with cluster-wide rights.
fn cluster_rules() -> Vec<Value> {
    let kinds = KINDS.iter().filter(|info| !info.is_namespaced());
    kinds.flat_map(kind_rules).collect()
}

/// Who leads; in the controller's own namespace alone.
fn lease_rule() -> Value {
    rule(
        "coordination.k8s.io",
        &["leases"],
        &["get", "create", "update"],
    )
}

/// The admission policy asks for this verb; the API server itself knows no such call.
fn waive_rule() -> Value {
    rule("ensemble.dev", &["ensembles"], &["waive"])
}

/// So that whoever may view or edit a namespace may do so with ensembles too.
fn for_people() -> Vec<Value> {
    let kinds = ["ensembles", "ensemblerequests"];
    let parts = [
        "ensembles/status",
        "ensembles/scale",
        "ensemblerequests/status",
    ];
    let view = rule(
        "ensemble.dev",
        &[kinds.as_slice(), &parts].concat(),
        &["get", "list", "watch"],
    );
    let change = ["create", "delete", "deletecollection", "patch", "update"];
    let edit = rule(
        "ensemble.dev",
        &["ensembles", "ensembles/scale", "ensemblerequests"],
        &change,
    );
    let aggregate = |name: &str, into: &[&str], rule: Value| {
        let mut role = role("ClusterRole", name, None, vec![rule]);
        for one in into {
            let label = format!("rbac.authorization.k8s.io/aggregate-to-{one}");
            role["metadata"]["labels"][label] = "true".into();
        }
        role
    };
    vec![
        aggregate("ensemble-view", &["view", "edit", "admin"], view),
        aggregate("ensemble-edit", &["edit", "admin"], edit),
        // Part of no other role: whoever is to waive is given it by name.
        role("ClusterRole", WAIVER, None, vec![waive_rule()]),
    ]
}

fn role(kind: &str, name: &str, namespace: Option<&str>, rules: Vec<Value>) -> Value {
    let mut role = object("rbac.authorization.k8s.io/v1", kind, name, namespace);
    role["rules"] = rules.into();
    role
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, role: &str, place: &Place) -> Value {
    let mut binding = object("rbac.authorization.k8s.io/v1", kind, name, namespace);
    binding["roleRef"] =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name});
    binding["subjects"] =
        json!([{"kind": "ServiceAccount", "name": NAME, "namespace": place.home}]);
    binding
}
