//! What admission makes of pods beyond what every API server does: rules that rewrite images, and quotas.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Server;
use crate::config::{ImageRule, PodQuota};
use crate::resource::{Info, Resource};
use crate::status::Status;
use crate::value::{items, name, text, text_or_empty};

/// What the owners of a cluster have set up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub images: ImageRule,
    /// By namespace.
    pub quotas: BTreeMap<String, PodQuota>,
}

const LISTS: [&str; 2] = ["containers", "initContainers"];

fn each_container(pod: &mut Value, mut change: impl FnMut(&str, usize, &mut Value)) {
    for list in LISTS {
        let containers = pod.get_mut("spec").and_then(|s| s.get_mut(list));
        let containers = containers.and_then(Value::as_array_mut);
        for (at, container) in containers.into_iter().flatten().enumerate() {
            change(list, at, container);
        }
    }
}

fn mirror(pod: &mut Value, prefix: &str) {
    each_container(pod, |_, _, container| {
        let image = text_or_empty(container, "image").to_owned();
        if !image.is_empty() && !image.starts_with(prefix) {
            container["image"] = format!("{prefix}{image}").into();
        }
    });
}

/// What is made of a new pod.
pub(crate) fn rewrite_new(rules: &Rules, pod: &mut Value) {
    match &rules.images {
        ImageRule::Mirror { prefix } | ImageRule::MirrorNew { prefix } => mirror(pod, prefix),
        ImageRule::AsSent | ImageRule::Keep => {}
    }
}

/// What is made of a change of a pod.
pub(crate) fn rewrite_changed(rules: &Rules, new: &mut Value, old: &Value) {
    match &rules.images {
        ImageRule::Mirror { prefix } => mirror(new, prefix),
        ImageRule::Keep => each_container(new, |list, at, container| {
            let before = items(&old["spec"], list).get(at);
            if let Some(image) = before.and_then(|c| c.get("image")) {
                container["image"] = image.clone();
            }
        }),
        ImageRule::AsSent | ImageRule::MirrorNew { .. } => {}
    }
}

impl Server {
    /// Quotas are looked at last, once nothing else is wrong with a new pod. Those that have ended count
    /// no more; those that are ending do.
    pub(super) fn within_quota(
        &self,
        info: &Info,
        namespace: &str,
        new: &Value,
    ) -> Result<(), Status> {
        let quota = self.settings.admission.quotas.get(namespace);
        let Some(quota) = quota.filter(|_| info.kind == "Pod") else {
            return Ok(());
        };
        let ended = |p: &Value| matches!(text(p, "status.phase"), Some("Succeeded" | "Failed"));
        let pods = self.store.all(Resource::Pods).map(|(_, pod)| pod);
        let used = pods
            .filter(|p| text(p, "metadata.namespace") == Some(namespace) && !ended(p))
            .count();
        if used < quota.pods {
            return Ok(());
        }
        let (rule, most) = (&quota.name, quota.pods);
        let why = format!(
            "exceeded quota: {rule}, requested: pods=1, used: pods={used}, limited: pods={most}"
        );
        Err(Status::forbidden(info, name(new), &why))
    }
}
