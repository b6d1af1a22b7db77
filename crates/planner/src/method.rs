//! By which method a member gets a new template: the least disruptive one that suffices.

use crate::cast::Cast;
use crate::change::{self, Change, NotInPlace, Template};
use crate::memory::Images;
use crate::replaced::Replaced;
use crate::resize::{self, Standing};
use crate::roster::MemberId;
use crate::view::PodView;
use crate::wish::Act;
use ensemble_api::Rule;
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
    if let Some(put_back) = pod.put_back() {
        return recreate_because(put_back.to_string());
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
    let role_label = engine.and_then(|e| e.role_label()).map(|l| l.key);
    if let Some(key) = role_label.filter(|key| change.labels.contains_key(*key)) {
        return recreate_because(format!("label {key} is kept by the engine"));
    }
    let restarts = all_restarts(pod, &change);
    let resizes = !change.resources.is_empty() || pod.resize.is_some();
    let unseen = || unseen(cast, pod).filter(|_| resizes || !restarts.is_empty());
    let unknown = || unknown_image(cast, pod, target, &change);
    match held_back(cast, pod, &restarts)
        .or_else(unseen)
        .or_else(unknown)
    {
        Some(why) => recreate_because(why),
        None if change.is_empty() && pod.resize.is_none() => RECREATE,
        None => in_place_by(&restarts, resizes, target),
    }
}

/// The first minor version of Kubernetes whose kubelets know generations of pods.
const KNOWS_GENERATIONS: (u32, u32) = (1, 33);

/// Why a change in place could not be seen to be complete: the kubelet does not say which generation of a
/// pod it has looked at. What restarts nothing and resizes nothing need not be seen.
fn unseen(cast: &Cast<'_>, pod: &PodView) -> Option<String> {
    let node = cast.nodes.as_ref().and_then(|nodes| nodes.get(&pod.node));
    let version = node.and_then(|n| n.kubelet);
    let old = version.is_some_and(|v| v < KNOWS_GENERATIONS);
    let silent = pod.reported && pod.observed_generation == 0;
    if !old && !silent || crate::mutants::is_off(Rule::GenerationsTold) {
        return None;
    }
    let version = version.map(|(major, minor)| format!(" (version {major}.{minor})"));
    Some(format!(
        "the kubelet of {}{} does not report the generation it has seen",
        pod.node,
        version.unwrap_or_default()
    ))
}

/// Why nobody knows what to write: admission made another image of the one that this pod has, and the API
/// server was not able to say what it makes of the new one. A new pod is admitted anew.
fn unknown_image(cast: &Cast<'_>, pod: &PodView, target: &str, change: &Change) -> Option<String> {
    let admitted = cast.memory.images(target);
    let template = &cast.revisions.get(pod.revision())?.template;
    let asked = change::all_images(template);
    let mut new = change.images.keys().filter(|c| !admitted.contains_key(*c));
    new.find_map(|name| {
        let has = &pod.container(name)?.image;
        let asked = asked.get(name)?.as_str()?;
        (has != asked).then(|| {
            format!(
                "admission made {has} of {asked}, and what it makes of the new image is not known"
            )
        })
    })
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

/// Containers of this pod that restart for a change, or for what is left of the one before. One that has
/// the image already, from a mirror that admission put in or a change that was taken back, does not.
fn all_restarts(pod: &PodView, change: &Change) -> BTreeSet<String> {
    let has = |name: &str| pod.container(name).map(|c| c.image.as_str());
    let new = change.images.iter();
    let new = new.filter(|(name, image)| has(name) != image.as_str());
    let mut restarts: BTreeSet<String> = new.map(|(name, _)| name.clone()).collect();
    restarts.extend(change.restarts.iter().cloned());
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

/// What this pod is to get, with its images as they would be written.
fn change_to(cast: &Cast<'_>, pod: &PodView, target: &str) -> Result<Change, NotInPlace> {
    let template = |name: &str| cast.revisions.get(name).map(|r| &r.template);
    match (template(pod.revision()), template(target)) {
        (Some(old), Some(new)) => as_written(old, new, cast.memory.images(target)),
        _ => Err(NotInPlace::Template),
    }
}

/// What differs between two templates, with the images that the API server makes of the new one: a
/// mirror that it puts into new pods is put into running ones, too.
fn as_written(old: &Template, new: &Template, admitted: &Images) -> Result<Change, NotInPlace> {
    let mut change = change::between(old, new)?;
    for (name, image) in &mut change.images {
        if let Some(admitted) = admitted.get(name) {
            *image = admitted.as_str().into();
        }
    }
    Ok(change)
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
/// read; then the resources, which have a door of their own. Only what this change changes is written:
/// what admission or somebody else made of the rest stays.
pub fn in_place(
    pod: &Value,
    revision: &str,
    number: i64,
    old: &Template,
    new: &Template,
    admitted: &Images,
) -> Option<InPlace> {
    let mut pod = pod.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"].as_object_mut()?.remove("managedFields");
    let carries = &pod["metadata"]["labels"][labels::REVISION_HASH];
    if carries.as_str() == Some(revision) {
        return resize::applied(&pod).map(InPlace::Resize);
    }
    let mut change = as_written(old, new, admitted).ok()?;
    if crate::mutants::is_off(Rule::OnlyWhatChanged) {
        change.images = change::all_images(new);
    }
    let wanted = to_resize(&pod, new, &change);
    let replaced = Replaced::by(&pod, &change);
    for container in pod.pointer_mut("/spec/containers")?.as_array_mut()? {
        let name = container["name"].as_str().unwrap_or_default();
        if let Some(image) = change.images.get(name) {
            container["image"] = image.clone();
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
    replaced.annotate(annotations);
    if wanted.is_empty() {
        annotations.as_object_mut()?.remove(labels::RESIZES);
    } else {
        annotations[labels::RESIZES] = resize::annotation(&wanted).into();
    }
    Some(InPlace::Pod(pod))
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
        let Some(left) = left.get(name) else {
            continue;
        };
        let new = wanted.get(name).cloned().unwrap_or_default();
        let is_new = |part: &str, resource: &str| !new[part][resource].is_null();
        let is_left = |part: &str, resource: &str| !left[part][resource].is_null();
        let all = change::cpu_and_memory(container, |part, resource| {
            is_new(part, resource) || is_left(part, resource)
        });
        wanted.insert(name.to_owned(), all);
    }
    wanted
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
