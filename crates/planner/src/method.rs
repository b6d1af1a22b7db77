//! By which method a member gets a new template: the least disruptive one that suffices.

use crate::cast::Cast;
use crate::change::{self, Change, NotInPlace, Template};
use crate::resize::{self, Standing};
use crate::roster::MemberId;
use crate::view::PodView;
use crate::wish::Act;
use ensemble_api::labels;
use ensemble_api::spec::RolloutMethod;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A container that was restarted more recently is held back by its kubelet; a new pod is not.
pub const BACK_OFF_MS: i64 = 10 * 60 * 1000;

/// A method, and what is surprising about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The act.
    pub act: Act,
    /// Why it is recreated although it could be changed in place.
    pub surprise: Option<String>,
}

const RECREATE: Choice = Choice {
    act: Act::Recreate,
    surprise: None,
};

fn recreate_because(why: String) -> Choice {
    Choice {
        surprise: Some(why),
        ..RECREATE
    }
}

/// Chooses for one member that is to get the revision of that name.
pub fn choose(cast: &Cast<'_>, who: MemberId, target: &str) -> Choice {
    let Some(pod) = cast.our_pod(who) else {
        return RECREATE;
    };
    if cast.ensemble.spec.rollout.method == RolloutMethod::Recreate {
        return RECREATE;
    }
    if cast.presence(who).is_down() {
        return RECREATE;
    }
    if pod.meta.incarnation != Some(cast.ledger().incarnation(who)) {
        return RECREATE;
    }
    if pod.revision() == target {
        return finish_resize(cast, pod, target);
    }
    let refused = cast.memory.pod(&pod.meta.pin.uid).refused.as_ref();
    if let Some(refused) = refused.filter(|r| r.revision == target) {
        return recreate_because(refused.message.clone());
    }
    let change = match change_to(cast, pod, target) {
        Ok(change) => change,
        Err(NotInPlace::Because(why)) => return recreate_because(why),
        Err(NotInPlace::Template) => return RECREATE,
    };
    let engine = cast.ensemble.spec.engine.as_ref();
    let role_label = engine.map(|e| e.role_label().key);
    if let Some(key) = role_label.filter(|key| change.labels.contains_key(*key)) {
        return recreate_because(format!("label {key} is kept by the engine"));
    }
    let restarts = all_restarts(pod, &change);
    match held_back(cast, pod, &restarts) {
        Some(why) => recreate_because(why),
        None if change.is_empty() && pod.resize.is_none() => RECREATE,
        None => {
            let resizes = !change.resources.is_empty() || pod.resize.is_some();
            in_place_by(&restarts, resizes, target)
        }
    }
}

/// A member that has its revision, and not all its resources.
fn finish_resize(cast: &Cast<'_>, pod: &PodView, target: &str) -> Choice {
    match resize::standing(cast, pod) {
        Standing::Impossible { why, .. } => recreate_because(why),
        Standing::Settled => RECREATE,
        _ => {
            let restarts = pod.resize.as_ref().map(|r| r.restarts.clone());
            in_place_by(&restarts.unwrap_or_default(), true, target)
        }
    }
}

fn in_place_by(restarts: &BTreeSet<String>, resizes: bool, target: &str) -> Choice {
    let to = target.to_owned();
    Choice {
        act: match (restarts.is_empty(), resizes) {
            (false, _) => Act::InPlace { to },
            (true, true) => Act::Resize { to },
            (true, false) => Act::Relabel { to },
        },
        surprise: None,
    }
}

/// Containers that restart for a change, or for what is left of the one before.
fn all_restarts(pod: &PodView, change: &Change) -> BTreeSet<String> {
    let mut restarts = change.restarts.clone();
    restarts.extend(pod.resize.iter().flat_map(|r| r.restarts.clone()));
    restarts
}

/// Why a restarted container would not come up at once: its kubelet lets one that was restarted a
/// while ago wait. What this process has not seen for long enough may have been.
fn held_back(cast: &Cast<'_>, pod: &PodView, restarts: &BTreeSet<String>) -> Option<String> {
    let waited = restarts.iter().filter_map(|name| pod.container(name));
    let restarted = waited.into_iter().find(|c| c.restarts > 0)?;
    let run = cast.memory.pod(&pod.meta.pin.uid).run.as_ref();
    let quiet = run.is_some_and(|r| r.since.plus_ms(BACK_OFF_MS) <= cast.now);
    (!quiet).then(|| format!("container {} was restarted a while ago", restarted.name))
}

fn change_to(cast: &Cast<'_>, pod: &PodView, target: &str) -> Result<Change, NotInPlace> {
    let template = |name: &str| cast.revisions.get(name).map(|r| &r.template);
    match (template(pod.revision()), template(target)) {
        (Some(old), Some(new)) => change::between(old, new),
        _ => Err(NotInPlace::Template),
    }
}

/// Whether a change in place restarts the engine's own container. Another one, an exporter's say,
/// moves no leader, and neither does what restarts nothing.
pub fn touches_engine(cast: &Cast<'_>, who: MemberId, target: &str) -> bool {
    let Some(pod) = cast.our_pod(who) else {
        return true;
    };
    let engine = cast.ensemble.spec.engine_container();
    let change = if pod.revision() == target {
        Ok(Change::default())
    } else {
        change_to(cast, pod, target)
    };
    change.map_or(true, |c| all_restarts(pod, &c).contains(&engine))
}

/// One write to a running pod.
#[derive(Clone, Debug, PartialEq)]
pub enum InPlace {
    /// The pod as it is to be: images, labels, annotations, revision.
    Pod(Value),
    /// The pod as it is to be, by the door for resources.
    Resize(Value),
}

/// What is written next so that a pod gets a revision: first the images, the metadata, the revision,
/// which containers that replaces and what is to be resized, in one write at the version that was
/// read; then the resources, which have a door of their own.
pub fn in_place(
    pod: &Value,
    revision: &str,
    number: i64,
    old: &Template,
    new: &Template,
) -> Option<InPlace> {
    let mut pod = pod.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"].as_object_mut()?.remove("managedFields");
    let carries = &pod["metadata"]["labels"][labels::REVISION_HASH];
    if carries.as_str() == Some(revision) {
        return resize::applied(&pod).map(InPlace::Resize);
    }
    let change = change::between(old, new).ok()?;
    let wanted = to_resize(&pod, new, &change);
    let replaces = replaces(&pod, new);
    for container in pod.pointer_mut("/spec/containers")?.as_array_mut()? {
        let name = container["name"].as_str().unwrap_or_default();
        if let Some(image) = wanted_image(new, name) {
            container["image"] = image;
        }
    }
    let ensemble = pod["metadata"]["labels"][labels::ENSEMBLE].clone();
    let metadata = pod["metadata"].as_object_mut()?;
    let labels_ = metadata.entry("labels").or_insert_with(|| json!({}));
    merge(labels_, &change.labels);
    // As a new pod would have them.
    for (key, value) in [
        (labels::APP_INSTANCE, ensemble),
        (labels::APP_MANAGED_BY, labels::MANAGER.into()),
    ] {
        let labels_ = labels_.as_object_mut()?;
        labels_.entry(key).or_insert(value);
    }
    labels_[labels::REVISION_HASH] = revision.into();
    labels_[labels::REVISION] = number.to_string().into();
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    merge(annotations, &change.annotations);
    annotations[labels::REPLACES] = replaces.join(",").into();
    if wanted.is_empty() {
        annotations.as_object_mut()?.remove(labels::RESIZES);
    } else {
        annotations[labels::RESIZES] = resize::annotation(&wanted).into();
    }
    Some(InPlace::Pod(pod))
}

fn wanted_image(template: &Template, name: &str) -> Option<Value> {
    let containers = template.get("spec")?.get("containers")?.as_array()?;
    let container = containers.iter().find(|c| c["name"] == name)?;
    container.get("image").cloned()
}

/// By container: what is to be resized for a change, and for what is left of the one before.
fn to_resize(pod: &Value, new: &Template, change: &Change) -> BTreeMap<String, Value> {
    let left = resize::outstanding(pod);
    let spec = new.get("spec").unwrap_or(&Value::Null);
    let lists = ["containers", "initContainers"].map(|l| spec[l].as_array());
    let containers = lists.into_iter().flatten().flatten();
    let mut wanted = change.resources.clone();
    for container in containers {
        let name = container["name"].as_str().unwrap_or_default();
        if left.contains(name) {
            wanted.insert(name.to_owned(), change::cpu_and_memory(container));
        }
    }
    wanted
}

/// `name=id` of the containers that new images replace. One that has the image already, from a change
/// that was taken back, is not replaced. Those that restart for their resources are told by these.
fn replaces(pod: &Value, new: &Template) -> Vec<String> {
    let ids = container_ids(pod);
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let replaced = containers.filter_map(|c| {
        let name = c["name"].as_str()?;
        let image = wanted_image(new, name)?;
        (c["image"] != image).then_some(name)
    });
    replaced
        .map(|name| format!("{name}={}", ids.get(name).map_or("", String::as_str)))
        .collect()
}

/// Labels or annotations as they are to be, but never what Ensemble itself keeps there.
fn merge(into: &mut Value, changes: &BTreeMap<String, Option<String>>) {
    let Some(map) = into.as_object_mut() else {
        return;
    };
    for (key, value) in changes.iter().filter(|(key, _)| !is_kept_by_us(key)) {
        match value {
            Some(value) => drop(map.insert(key.clone(), value.clone().into())),
            None => drop(map.remove(key)),
        }
    }
}

fn is_kept_by_us(key: &str) -> bool {
    let ours = [
        labels::REVISION_HASH,
        labels::STS_POD_NAME,
        labels::STS_POD_INDEX,
    ];
    key.starts_with("ensemble.dev/") || ours.contains(&key)
}

fn container_ids(pod: &Value) -> BTreeMap<String, String> {
    let statuses = pod.pointer("/status/containerStatuses");
    let statuses = statuses.and_then(Value::as_array).into_iter().flatten();
    statuses
        .filter_map(|s| {
            let name = s.get("name")?.as_str()?.to_owned();
            let id = s.get("containerID").and_then(Value::as_str);
            Some((name, id.unwrap_or_default().to_owned()))
        })
        .collect()
}
