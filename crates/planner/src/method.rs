//! By which method a member gets a new template: the least disruptive one that suffices.

use crate::cast::Cast;
use crate::view::PodView;
use ensemble_api::spec::RolloutMethod;
use ensemble_api::status::Method;
use serde_json::{Map, Value, json};

/// A container that was restarted more recently is held back by its kubelet; a new pod is not.
pub const BACK_OFF_MS: i64 = 10 * 60 * 1000;

/// A method, and what is surprising about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The method.
    pub method: Method,
    /// Why it is recreated although it could be changed in place.
    pub surprise: Option<String>,
}

const RECREATE: Choice = Choice {
    method: Method::Recreate,
    surprise: None,
};

/// Chooses for one member that is to get the revision of that name.
pub fn choose(cast: &Cast<'_>, ordinal: u32, target: &str) -> Choice {
    let Some(pod) = cast.our_pod(ordinal) else {
        return RECREATE;
    };
    if cast.ensemble.spec.rollout.method == RolloutMethod::Recreate {
        return RECREATE;
    }
    if cast.presence(ordinal).is_down() {
        return RECREATE;
    }
    if pod.meta.incarnation != Some(cast.ledger().incarnation(ordinal)) {
        return RECREATE;
    }
    let changed = images(cast, pod, target);
    let Some(changed) = changed.filter(|c| !c.is_empty()) else {
        return RECREATE;
    };
    if let Some(why) = held_back(cast, pod, &changed) {
        return Choice {
            surprise: Some(why),
            ..RECREATE
        };
    }
    Choice {
        method: Method::InPlace,
        surprise: None,
    }
}

/// Why a restarted container would not come up at once: its kubelet lets one that was restarted a
/// while ago wait. What this process has not seen for long enough may have been.
fn held_back(cast: &Cast<'_>, pod: &PodView, changed: &Map<String, Value>) -> Option<String> {
    let waited = changed.keys().filter_map(|name| pod.container(name));
    let restarted = waited.into_iter().find(|c| c.restarts > 0)?;
    let run = cast.memory.runs.get(&pod.meta.pin.uid);
    let quiet = run.is_some_and(|r| r.since.plus_ms(BACK_OFF_MS) <= cast.now);
    (!quiet).then(|| format!("container {} was restarted a while ago", restarted.name))
}

/// By container, the image that the target wants where it differs; None if more than images does.
fn images(cast: &Cast<'_>, pod: &PodView, target: &str) -> Option<Map<String, Value>> {
    let old = &cast.revisions.get(pod.revision())?.template;
    let new = &cast.revisions.get(target)?.template;
    changed_images(old, new)
}

/// By container, the new image where it differs, if nothing else differs between two templates.
pub fn changed_images(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let without_images = |template: &Map<String, Value>| {
        let mut template = template.clone();
        let containers = template
            .get_mut("spec")
            .and_then(|s| s.get_mut("containers"))
            .and_then(Value::as_array_mut);
        let mut images = Map::new();
        for container in containers.into_iter().flatten() {
            let name = container
                .get("name")
                .and_then(Value::as_str)
                .map(str::to_owned);
            let image = container.as_object_mut().and_then(|c| c.remove("image"));
            images.insert(name.unwrap_or_default(), image.unwrap_or(Value::Null));
        }
        (template, images)
    };
    let (old_rest, old_images) = without_images(old);
    let (new_rest, mut new_images) = without_images(new);
    if old_rest != new_rest {
        return None;
    }
    new_images.retain(|name, image| old_images.get(name) != Some(image) && !image.is_null());
    Some(new_images)
}

/// Whether a change in place restarts the engine's own container. Another one, an exporter's say,
/// moves no leader.
pub fn touches_engine(cast: &Cast<'_>, ordinal: u32, target: &str) -> bool {
    let engine = cast.ensemble.spec.engine_container();
    let changed = cast
        .our_pod(ordinal)
        .and_then(|pod| images(cast, pod, target));
    changed.is_none_or(|c| c.contains_key(&engine))
}

/// The pod as it is to be: the images, the revision, and which containers that replaces, in one
/// write at the version that was read.
pub fn in_place(
    pod: &Value,
    revision: &str,
    number: i64,
    template: &Map<String, Value>,
) -> Option<Value> {
    let mut pod = pod.clone();
    let wanted: Map<String, Value> = template
        .get("spec")?
        .get("containers")?
        .as_array()?
        .iter()
        .filter_map(|c| Some((c.get("name")?.as_str()?.to_owned(), c.get("image")?.clone())))
        .collect();
    let ids = container_ids(&pod);
    let mut replaces = Vec::new();
    for container in pod.pointer_mut("/spec/containers")?.as_array_mut()? {
        let name = container.get("name")?.as_str()?.to_owned();
        let Some(image) = wanted
            .get(&name)
            .filter(|i| container.get("image") != Some(i))
        else {
            continue;
        };
        container["image"] = image.clone();
        replaces.push(format!(
            "{name}={}",
            ids.get(&name).map_or("", String::as_str)
        ));
    }
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    let metadata = pod.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("managedFields");
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    labels[ensemble_api::labels::REVISION_HASH] = revision.into();
    labels[ensemble_api::labels::REVISION] = number.to_string().into();
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    annotations[ensemble_api::labels::REPLACES] = replaces.join(",").into();
    Some(pod)
}

fn container_ids(pod: &Value) -> std::collections::BTreeMap<String, String> {
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
