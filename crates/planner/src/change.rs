//! What differs between two templates, if a running pod can be given all of it.

use crate::quantity::{self, Quantity};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A template, as it is stored.
pub type Template = Map<String, Value>;

/// What a running pod is to get.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// By container: the new image.
    pub images: Map<String, Value>,
    /// By container: the CPU and memory that are new, and no other.
    pub resources: BTreeMap<String, Value>,
    /// By key: the new label; None takes it away.
    pub labels: BTreeMap<String, Option<String>>,
    /// By key: the new annotation; None takes it away.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Containers that restart for their resources, because their policy says so. Which restart for
    /// their image depends on the one that the pod has.
    pub restarts: BTreeSet<String>,
}

impl Change {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a running pod cannot be given a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotInPlace {
    /// Something else of the template changed, which only a new pod gets.
    Template,
    /// It looks as if it could, but this is in the way.
    Because(String),
}

/// What differs, or why a running pod cannot be given it.
pub fn between(old: &Template, new: &Template) -> Result<Change, NotInPlace> {
    if !same_rest(old, new) {
        return Err(NotInPlace::Template);
    }
    let mut change = Change {
        images: images(old, new),
        labels: metadata(old, new, "labels"),
        annotations: metadata(old, new, "annotations"),
        ..Change::default()
    };
    let because = |why: Result<(), String>| why.map_err(NotInPlace::Because);
    because(asked_to_restart(&change))?;
    because(read_at_start(new, &change))?;
    because(resources(old, new, &mut change))?;
    Ok(change)
}

/// The containers of a template in one of its lists.
fn containers<'a>(template: &'a Template, list: &str) -> impl Iterator<Item = &'a Value> {
    let found = template.get("spec").and_then(|s| s.get(list));
    found.and_then(Value::as_array).into_iter().flatten()
}

fn name(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

/// Whether two templates are the same but for what may be changed in place.
fn same_rest(old: &Template, new: &Template) -> bool {
    same_but(old, new, &["metadata", "spec"])
        && same_metadata(old.get("metadata"), new.get("metadata"))
        && match (old.get("spec"), new.get("spec")) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => same_spec(old, new),
            (old, new) => old == new,
        }
}

/// Whether two maps are the same but for these fields.
fn same_but(old: &Template, new: &Template, except: &[&str]) -> bool {
    let kept = |key: &&String| !except.contains(&key.as_str());
    old.keys().filter(kept).count() == new.keys().filter(kept).count()
        && old
            .iter()
            .filter(|(key, _)| kept(key))
            .all(|(key, value)| new.get(key) == Some(value))
}

/// None is as good as one with nothing but what may be changed.
fn same_metadata(old: Option<&Value>, new: Option<&Value>) -> bool {
    let none = Value::Object(Map::new());
    match (old.unwrap_or(&none), new.unwrap_or(&none)) {
        (Value::Object(old), Value::Object(new)) => same_but(old, new, &["labels", "annotations"]),
        (old, new) => old == new,
    }
}

fn same_spec(old: &Template, new: &Template) -> bool {
    let lists = [
        ("containers", &["image", "resources"][..]),
        ("initContainers", &["resources"][..]),
    ];
    same_but(old, new, &lists.map(|(list, _)| list))
        && lists
            .iter()
            .all(|(list, fields)| same_containers(old.get(*list), new.get(*list), fields))
}

fn same_containers(old: Option<&Value>, new: Option<&Value>, except: &[&str]) -> bool {
    let same = |(old, new): (&Value, &Value)| match (old, new) {
        (Value::Object(old), Value::Object(new)) => same_but(old, new, except),
        (old, new) => old == new,
    };
    match (old, new) {
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            old.len() == new.len() && old.iter().zip(new).all(same)
        }
        (old, new) => old == new,
    }
}

fn images(old: &Template, new: &Template) -> Map<String, Value> {
    let pairs = containers(old, "containers").zip(containers(new, "containers"));
    pairs
        .filter(|(old, new)| old["image"] != new["image"] && !new["image"].is_null())
        .map(|(_, new)| (name(new).to_owned(), new["image"].clone()))
        .collect()
}

/// The image of every container of a template.
pub fn all_images(template: &Template) -> Map<String, Value> {
    let all = containers(template, "containers").filter(|c| !c["image"].is_null());
    all.map(|c| (name(c).to_owned(), c["image"].clone()))
        .collect()
}

fn metadata(old: &Template, new: &Template, field: &str) -> BTreeMap<String, Option<String>> {
    let read = |template: &Template| -> BTreeMap<String, String> {
        let found = template.get("metadata").and_then(|m| m.get(field));
        let pairs = found.and_then(Value::as_object).into_iter().flatten();
        pairs
            .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
            .collect()
    };
    let (old, new) = (read(old), read(new));
    let gone = old.keys().filter(|k| !new.contains_key(*k));
    let gone: Vec<String> = gone.cloned().collect();
    let mut changed: BTreeMap<String, Option<String>> = new
        .into_iter()
        .filter(|(k, v)| old.get(k) != Some(v))
        .map(|(k, v)| (k, Some(v)))
        .collect();
    changed.extend(gone.into_iter().map(|k| (k, None)));
    changed
}

/// Some annotations are written for no other purpose than that pods start anew.
fn asked_to_restart(change: &Change) -> Result<(), String> {
    let asks =
        |key: &&String| *key == "kubectl.kubernetes.io/restartedAt" || key.starts_with("checksum/");
    match change.annotations.keys().find(asks) {
        Some(key) => Err(format!("annotation {key} asks for a new start")),
        None => Ok(()),
    }
}

/// An environment is made once, when its container starts.
fn read_at_start(template: &Template, change: &Change) -> Result<(), String> {
    let lists = ["initContainers", "containers"];
    for container in lists.iter().flat_map(|l| containers(template, l)) {
        let env = container["env"].as_array().into_iter().flatten();
        for variable in env {
            let path = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
            let path = path.unwrap_or_default();
            let reads = |field: &str, key: &String| path == format!("metadata.{field}['{key}']");
            let label = change.labels.keys().any(|k| reads("labels", k));
            if label || change.annotations.keys().any(|k| reads("annotations", k)) {
                let name = name(container);
                return Err(format!(
                    "container {name} reads {path} into its environment"
                ));
            }
        }
    }
    Ok(())
}

/// What a container asks for, by part and resource: a limit without a request is a request, too.
type Asked = BTreeMap<(&'static str, String), Value>;

fn asked(container: &Value) -> Asked {
    let mut all = Asked::new();
    for (source, part) in [
        ("requests", "requests"),
        ("limits", "limits"),
        ("limits", "requests"),
    ] {
        let amounts = container["resources"][source].as_object();
        for (resource, amount) in amounts.into_iter().flatten() {
            all.entry((part, resource.clone()))
                .or_insert_with(|| amount.clone());
        }
    }
    all
}

/// CPU and memory that a container asks for, as they stand in a pod: those of these parts and
/// resources. Others may be somebody else's by now, an autoscaler's say.
pub fn cpu_and_memory(container: &Value, of: impl Fn(&str, &str) -> bool) -> Value {
    let mut wanted = json!({});
    for ((part, resource), amount) in asked(container) {
        if is_resizable(&resource) && of(part, &resource) {
            wanted[part][&resource] = amount;
        }
    }
    wanted
}

fn is_resizable(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory")
}

/// Whether a change of that resource restarts the container.
pub fn restarts_for(container: &Value, resource: &str) -> bool {
    let policies = container["resizePolicy"].as_array().into_iter().flatten();
    policies
        .filter(|p| p["resourceName"] == resource)
        .any(|p| p["restartPolicy"] == "RestartContainer")
}

fn resources(old: &Template, new: &Template, change: &mut Change) -> Result<(), String> {
    for (list, init) in [("containers", false), ("initContainers", true)] {
        for (old, new) in containers(old, list).zip(containers(new, list)) {
            of_container(old, new, init, change)?;
        }
    }
    if change.resources.is_empty() {
        return Ok(());
    }
    let spec = new.get("spec").unwrap_or(&Value::Null);
    if spec["os"]["name"] == "windows" {
        return Err("a pod of Windows cannot be resized".into());
    }
    if !spec["resources"].is_null() {
        return Err("the pod as a whole asks for resources, too".into());
    }
    match (quality(old), quality(new)) {
        (old, new) if old == new => Ok(()),
        (old, new) => Err(format!(
            "its quality of service would change ({old} -> {new})"
        )),
    }
}

fn of_container(old: &Value, new: &Value, init: bool, change: &mut Change) -> Result<(), String> {
    let name = name(new);
    let besides = |c: &Value| {
        let mut resources = c["resources"].as_object().cloned().unwrap_or_default();
        resources.retain(|k, _| k != "requests" && k != "limits");
        resources
    };
    if besides(old) != besides(new) {
        return Err(format!("container {name} asks for other devices"));
    }
    let (before, after) = (asked(old), asked(new));
    let differs = |key: &&(&'static str, String)| {
        let amount = |all: &Asked| all.get(*key).map(|v| (quantity::read(v), v.clone()));
        match (amount(&before), amount(&after)) {
            (Some((Some(old), _)), Some((Some(new), _))) => old != new,
            (old, new) => old.map(|o| o.1) != new.map(|n| n.1),
        }
    };
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let mut changed = BTreeSet::new();
    for key in keys.into_iter().filter(differs) {
        allowed(name, new, key, &before, &after)?;
        changed.insert((key.0, key.1.as_str()));
    }
    if changed.is_empty() {
        return Ok(());
    }
    if init && new["restartPolicy"] != "Always" {
        return Err(format!(
            "init container {name} has run with what it asked for"
        ));
    }
    if changed.iter().any(|(_, r)| restarts_for(new, r)) {
        if change.images.contains_key(name) {
            return Err(format!("container {name} would restart twice"));
        }
        change.restarts.insert(name.to_owned());
    }
    let wanted = cpu_and_memory(new, |part, resource| changed.contains(&(part, resource)));
    change.resources.insert(name.to_owned(), wanted);
    Ok(())
}

/// Whether one amount may change while the container is there.
fn allowed(
    name: &str,
    container: &Value,
    (part, resource): &(&'static str, String),
    before: &Asked,
    after: &Asked,
) -> Result<(), String> {
    let key = (*part, resource.clone());
    let word = part.trim_end_matches('s');
    if !is_resizable(resource) {
        return Err(format!("the {word} of {resource} of {name} changes"));
    }
    let amount = |all: &Asked| all.get(&key).and_then(quantity::read);
    let (Some(new), old) = (amount(after), amount(before)) else {
        return Err(format!("container {name} loses its {word} of {resource}"));
    };
    let lowered = old.is_some_and(|old| new < old);
    if *part == "limits" && resource == "memory" && lowered && !restarts_for(container, resource) {
        return Err(format!(
            "container {name} runs with more memory than its new limit may allow"
        ));
    }
    Ok(())
}

/// The class of service that Kubernetes gives to a pod of that template; it never changes.
fn quality(template: &Template) -> &'static str {
    let lists = ["initContainers", "containers"];
    let mut any = false;
    let mut guaranteed = true;
    for container in lists.iter().flat_map(|l| containers(template, l)) {
        let asked = asked(container);
        let amount = |part: &'static str, resource: &str| {
            let amount = asked.get(&(part, resource.to_owned()));
            amount
                .and_then(quantity::read)
                .filter(|amount| !amount.is_zero())
        };
        for resource in ["cpu", "memory"] {
            let (request, limit) = (amount("requests", resource), amount("limits", resource));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// By resource: what all containers of a template ask for together.
pub fn requests(template: &Template, resource: &str) -> Quantity {
    let key = ("requests", resource.to_owned());
    containers(template, "containers")
        .filter_map(|c| asked(c).get(&key).and_then(quantity::read))
        .fold(Quantity::default(), Quantity::plus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(old: Value, new: Value) -> bool {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        same_rest(&map(old), &map(new))
    }

    #[test]
    fn only_what_may_be_changed_in_place_is_left_out() {
        let one = |container: Value| json!({"spec": {"containers": [container]}});
        let db = |image: &str| json!({"name": "db", "image": image});
        assert!(same(one(db("1")), one(db("2"))));
        assert!(!same(
            one(db("1")),
            one(json!({"name": "db", "args": ["x"]}))
        ));
        assert!(!same(one(db("1")), json!({"spec": {"containers": []}})));
        let init = |image: &str| json!({"spec": {"initContainers": [{"image": image}]}});
        assert!(!same(init("1"), init("2")));
        assert!(!same(
            one(db("1")),
            json!({"spec": {"containers": [db("1")], "hostPID": true}})
        ));
    }

    #[test]
    fn no_metadata_is_as_good_as_labels_alone() {
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        assert!(same(json!({}), labelled.clone()) && same(labelled, json!({})));
        assert!(!same(json!({}), json!({"metadata": {"name": "x"}})));
        assert!(!same(json!({}), json!({"metadata": null})));
    }
}
