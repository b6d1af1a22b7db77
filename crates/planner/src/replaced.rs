//! Containers that a change in place replaces: which run it was to end, and the image of that run.
//!
//! The pod carries both, so that a successor knows what is waited for. A new run ends the wait; so does
//! a spec that has the old image again, since then nothing restarts. If that is our own doing, a change that
//! was taken back before its run ended, only the kubelet is waited for.

use crate::change::Change;
use crate::view::{ContainerView, PodView};
use ensemble_api::{Rule, labels};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// By container: the id of the run that was to end, and the image of it if it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced(BTreeMap<String, (String, Option<String>)>);

/// An image that was written and did not stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// Of which container.
    pub container: String,
    /// The image that it has, as before.
    pub image: String,
}

impl fmt::Display for PutBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an admission rule changed the image of container {} back to {}",
            self.container, self.image
        )
    }
}

impl Replaced {
    /// What a pod carries; None if it was never changed in place.
    pub fn of(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let ids = annotations.get(labels::REPLACES)?;
        let images = annotations.get(labels::REPLACES_IMAGES);
        let images: BTreeMap<String, String> = images
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let pairs = ids.split(',').filter_map(|pair| pair.split_once('='));
        let all = pairs.map(|(name, id)| {
            let image = images.get(name).cloned();
            (name.to_owned(), (id.to_owned(), image))
        });
        Some(Self(all.collect()))
    }

    /// What a change replaces in a pod, and what is left of the change before. A container that has the
    /// image already is not replaced; those that restart for their resources are told by these.
    pub fn by(pod: &Value, change: &Change) -> Self {
        let view = PodView::read_containers(pod);
        let annotations = crate::view::strings(pod.pointer("/metadata/annotations"), |_| true);
        let before = Self::of(&annotations).unwrap_or_default();
        let mut all = Self::default();
        for container in view.iter().filter(|c| !c.init) {
            let (name, had) = (container.name.clone(), container.image.clone());
            let new = change.images.get(&name).and_then(Value::as_str);
            if let Some(new) = new.filter(|new| *new != had) {
                let runs = before.image_of(container).unwrap_or(had);
                all.0.insert(name, awaited(container, runs, new));
            }
        }
        for (name, (id, image)) in before.0 {
            let is_left = |c: &&ContainerView| c.name == name && c.id == id;
            if view.iter().any(|c| is_left(&c)) {
                all.0.entry(name).or_insert((id, image));
            }
        }
        all
    }

    /// The image of a run that was to end and has not.
    fn image_of(&self, container: &ContainerView) -> Option<String> {
        let (id, image) = self.0.get(&container.name)?;
        let known = *id == container.id && !crate::mutants::is_off(Rule::TakenBackRestartsNothing);
        image.clone().filter(|_| known)
    }

    /// Writes it on a pod.
    pub fn annotate(&self, annotations: &mut Value) {
        let ids = self.0.iter().map(|(name, (id, _))| format!("{name}={id}"));
        annotations[labels::REPLACES] = ids.collect::<Vec<_>>().join(",").into();
        let images: Map<String, Value> = self
            .0
            .iter()
            .filter_map(|(name, (_, image))| Some((name.clone(), image.clone()?.into())))
            .collect();
        let text = crate::revision::canonical(&Value::Object(images));
        annotations[labels::REPLACES_IMAGES] = text.into();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them is still the run that was to end.
    pub fn any_stays(&self, containers: &[ContainerView]) -> bool {
        self.0.iter().any(|(name, (id, image))| {
            let is = containers.iter().find(|c| c.name == *name);
            is.is_none_or(|c| c.id == *id && !is_put_back(c, image.as_deref()))
        })
    }

    /// One whose image did not stay as it was written.
    pub fn put_back(&self, containers: &[ContainerView]) -> Option<PutBack> {
        self.0.iter().find_map(|(name, (id, image))| {
            let mut same = containers.iter().filter(|c| c.name == *name && c.id == *id);
            let container = same.find(|c| is_put_back(c, image.as_deref()))?;
            Some(PutBack {
                container: name.clone(),
                image: container.image.clone(),
            })
        })
    }
}

/// The run that is to end for a new image, and its own. One that has that image already, since the change
/// before is taken back, need not: no run is named then.
fn awaited(container: &ContainerView, runs: String, new: &str) -> (String, Option<String>) {
    match runs == new {
        true => (String::new(), None),
        false => (container.id.clone(), Some(runs)),
    }
}

/// Whether a container that was to have another image has the old one.
fn is_put_back(container: &ContainerView, old: Option<&str>) -> bool {
    old == Some(container.image.as_str()) && !crate::mutants::is_off(Rule::PutBackNoticed)
}
