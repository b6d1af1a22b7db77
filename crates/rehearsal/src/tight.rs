//! Scripts in clusters whose owners have rules of their own: images from a mirror, a quota that fits just
//! the members, full nodes, old kubelets; and growth by many members.

use crate::roles;
use crate::scenario::{Line, Scenario, create, ensemble, image, patch, pod_ready, ready, replicas};
use crate::world::{NAMESPACE, World, container};
use serde_json::{Value, json};
use simkube::Resource;
use simkube::config::{ImageRule, PodQuota};
use std::collections::BTreeSet;

const fn script(name: &'static str, about: &'static str, lines: &'static [Line]) -> Scenario {
    Scenario {
        name,
        about,
        lines,
        without: &[],
    }
}

/// Scripts that end well whatever goes wrong.
pub const ALL: &[Scenario] = &[
    script(
        "mirror",
        "images come from a mirror: a label, then a new image",
        &[MIRROR, CREATE, SERVES, LABEL, SERVES, IMAGE_2, SERVES],
    ),
    script(
        "quota",
        "a quota of just three pods: a label, an argument, a new image",
        &[
            QUOTA, CREATE, READY, LABEL, READY, ARGUMENT, READY, IMAGE_2, READY,
        ],
    ),
    script(
        "old-kubelet",
        "kubelets that tell no generations: a label, then a new image",
        &[OLD_KUBELETS, CREATE, READY, LABEL, READY, IMAGE_2, READY],
    ),
];

/// Scripts whose outcome is counted: on calm days.
pub const ALONE: &[Scenario] = &[
    script(
        "roles-mirror-label",
        "new pods get their images from a mirror, then another label: no process starts anew",
        &[
            MIRROR,
            CREATE_LED,
            SERVES,
            LABEL,
            SERVES,
            Line::Until("no container was started again", |w| starts(w) == 3),
        ],
    ),
    script(
        "quota-label",
        "a quota of just three pods, then another label: no process starts anew",
        &[
            QUOTA,
            CREATE,
            READY,
            LABEL,
            READY,
            Line::Until("no container was started again", |w| starts(w) == 3),
        ],
    ),
    script(
        "put-back",
        "an admission rule changes images of running pods back: members are recreated",
        &[
            CREATE,
            READY,
            Line::Do("pods keep their images", |w| {
                w.cluster.rewrite_images(ImageRule::Keep)
            }),
            IMAGE_2,
            READY,
        ],
    ),
    script(
        "full-node",
        "a node without room for a helper: the image is pulled when its member restarts",
        &[FULL_NODES, CREATE, READY, IMAGE_2, READY],
    ),
    script(
        "growth",
        "from three members that play roles to eight: two copy their data at a time",
        &[
            CREATE_LED,
            roles::SETTLED,
            Line::Do("scale to 8", |w| replicas(w, 8)),
            roles::SETTLED,
            Line::Until("never more than two copied their data at a time", |w| {
                most_new_at_a_time(w) <= 2
            }),
        ],
    ),
];

const READY: Line = Line::Until("all serve at the newest revision", ready);
const SERVES: Line = Line::Until("all serve at the newest revision, from the mirror", serves);
const IMAGE_2: Line = Line::Do("image db:2", |w| image(w, "2"));
const CREATE: Line = Line::Do("create, in place, prePull: IfPossible", |w| {
    let rollout = json!({"method": "InPlaceIfPossible", "prePull": "IfPossible"});
    create(w, json!({"rollout": rollout}));
});
const CREATE_LED: Line = Line::Do("create, with roles", |w| roles::found(w, false, json!({})));
const LABEL: Line = Line::Do("another label", |w| {
    let labels = json!({"app": "orders", "tier": "gold"});
    patch(w, json!({"template": {"metadata": {"labels": labels}}}));
});
const ARGUMENT: Line = Line::Do("another argument", |w| {
    let mut changed = container("1");
    changed["args"] = json!(["--verbose"]);
    patch(w, json!({"template": {"spec": {"containers": [changed]}}}));
});
/// As a webhook that looks at new pods alone.
const MIRROR: Line = Line::Do("images of new pods come from a mirror", |w| {
    let prefix = "mirror.example/".to_owned();
    w.cluster.rewrite_images(ImageRule::MirrorNew { prefix });
});
const QUOTA: Line = Line::Do("a quota of three pods", |w| {
    let name = "small".to_owned();
    let quota = PodQuota { name, pods: 3 };
    w.cluster.limit_pods(NAMESPACE, Some(quota));
});
const OLD_KUBELETS: Line = Line::Do("kubelets of version 1.32", |w| {
    for node in ["node-a", "node-b", "node-c"] {
        w.cluster.set_kubelet(node, 1, 32);
    }
});
const FULL_NODES: Line = Line::Do("nodes with room for one pod each", |w| {
    for node in ["node-a", "node-b", "node-c"] {
        w.cluster.set_room(node, 1);
    }
});

/// As [`ready`], and images may come from a mirror.
fn serves(world: &World) -> bool {
    let Some(object) = ensemble(world) else {
        return false;
    };
    let status = &object["status"];
    let seen = object["metadata"]["generation"] == status["observedGeneration"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|c| c["type"] == "Ready");
    let template = &object["spec"]["template"];
    let image = template["spec"]["containers"][0]["image"].as_str();
    let image = format!("mirror.example/{}", image.unwrap_or_default());
    let right = |pod: &Value| {
        let label = &pod["metadata"]["labels"]["tier"];
        pod_ready(pod)
            && pod["spec"]["containers"][0]["image"] == image.as_str()
            && *label == template["metadata"]["labels"]["tier"]
    };
    let pods = world.cluster.objects(Resource::Pods, &world.namespace);
    let members: Vec<_> = pods.iter().filter(|p| is_member(p)).collect();
    seen && conditions.any(|c| c["status"] == "True")
        && members.len() == 3
        && members.iter().all(|pod| right(pod))
}

fn is_member(pod: &Value) -> bool {
    !pod["metadata"]["labels"]["ensemble.dev/group"].is_null()
}

/// How often a container of a member was started, by the words of the kubelets.
fn starts(world: &World) -> usize {
    let log = world.cluster.log().iter();
    let pods = log.filter(|e| e.resource == Resource::Pods && is_member(&e.object));
    let ids: BTreeSet<String> = pods
        .flat_map(|e| {
            let statuses = e.object["status"]["containerStatuses"].as_array();
            let ids = statuses.into_iter().flatten();
            ids.filter_map(|s| s["containerID"].as_str().map(str::to_owned))
                .collect::<Vec<_>>()
        })
        .collect();
    ids.len()
}

/// How many members at most had a pod at a time and had never been Ready, once there was somebody to copy
/// from.
fn most_new_at_a_time(world: &World) -> usize {
    let (mut new, mut known, mut most) = (BTreeSet::new(), BTreeSet::new(), 0);
    let log = world.cluster.log().iter();
    for entry in log.filter(|e| e.resource == Resource::Pods && is_member(&e.object)) {
        let name = entry.object["metadata"]["name"].to_string();
        if pod_ready(&entry.object) {
            new.remove(&name);
            known.insert(name);
        } else if !known.contains(&name) {
            new.insert(name);
        }
        if !known.is_empty() {
            most = most.max(new.len());
        }
    }
    most
}
