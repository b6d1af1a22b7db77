//! The objects that members are made of, as JSON. What the user wrote stays as it was written.

use crate::cast::Cast;
use crate::memory::Images;
use crate::mutants;
use crate::roster::{MemberId, Roster};
use crate::snapshot::Snapshot;
use crate::zones;
use ensemble_api::spec::Zones;
use ensemble_api::{Rule, labels, names};
use serde_json::{Map, Value, json};

/// The owner reference to the Ensemble.
pub fn owner(snap: &Snapshot) -> Value {
    json!({
        "apiVersion": format!("{}/{}", ensemble_api::GROUP, ensemble_api::VERSION),
        "kind": "Ensemble",
        "name": snap.name(),
        "uid": snap.ensemble.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The labels that say whose a member's object is.
fn identity(cast: &Cast<'_>, who: MemberId, incarnation: u32) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert(labels::ENSEMBLE.into(), cast.name().into());
    map.insert(labels::GROUP.into(), cast.roster().group_name(who).into());
    map.insert(labels::ORDINAL.into(), who.ordinal.to_string().into());
    map.insert(labels::INCARNATION.into(), incarnation.to_string().into());
    map
}

/// What selects the pods of all members.
pub fn selector(snap: &Snapshot) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert(labels::ENSEMBLE.into(), snap.name().into());
    map.insert(labels::GROUP.into(), names::DEFAULT_GROUP.into());
    map
}

fn recommended(snap: &Snapshot, into: &mut Map<String, Value>) {
    let ours = [
        (labels::APP_INSTANCE, snap.name()),
        (labels::APP_MANAGED_BY, labels::MANAGER),
    ];
    for (key, value) in ours {
        into.entry(key).or_insert_with(|| value.into());
    }
}

/// A member to be rendered: identity and revision.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Who.
    pub who: MemberId,
    /// Which life.
    pub incarnation: u32,
    /// The name of the revision.
    pub revision: &'a str,
    /// Its number.
    pub number: i64,
    /// The template of that revision.
    pub template: &'a Map<String, Value>,
}

/// The labels that a member's pod must have, whatever somebody does to them.
pub fn pod_labels(cast: &Cast<'_>, who: MemberId, incarnation: u32) -> Map<String, Value> {
    let name = cast.name_of(who);
    let mut map = identity(cast, who, incarnation);
    map.insert(labels::STS_POD_NAME.into(), name.into());
    map.insert(labels::STS_POD_INDEX.into(), who.ordinal.to_string().into());
    map
}

/// A member's pod.
pub fn pod(snap: &Cast<'_>, member: Member<'_>) -> Value {
    let name = snap.name_of(member.who);
    let metadata = |field: &str| {
        let found = member.template.get("metadata").and_then(|m| m.get(field));
        found
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let mut labels_ = metadata("labels");
    labels_.extend(pod_labels(snap, member.who, member.incarnation));
    if let Some(zone) = snap.placement().zone(member.who) {
        labels_.insert(labels::ZONE.into(), zone.into());
    }
    labels_.insert(labels::REVISION_HASH.into(), member.revision.into());
    labels_.insert(labels::REVISION.into(), member.number.to_string().into());
    recommended(snap, &mut labels_);
    let spec = member
        .template
        .get("spec")
        .and_then(Value::as_object)
        .cloned();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": snap.ensemble.namespace,
            "labels": labels_,
            "annotations": metadata("annotations"),
            "ownerReferences": [owner(snap)],
        },
        "spec": pod_spec(snap, member.who, spec.unwrap_or_default()),
    })
}

fn pod_spec(snap: &Cast<'_>, who: MemberId, mut spec: Map<String, Value>) -> Value {
    let name = snap.name_of(who);
    let told = environment(snap, &name, who);
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        containers
            .into_iter()
            .flatten()
            .for_each(|c| add_environment(c, &told));
    }
    if let Some((zones, zone)) = zone(snap, who) {
        zones::pin(&mut spec, zones, zone);
    }
    let claims = snap.ensemble.spec.claims.iter().map(|claim| {
        let claim_name = snap.roster().claim(&claim.name, who);
        json!({"name": claim.name, "persistentVolumeClaim": {"claimName": claim_name}})
    });
    let mut volumes: Vec<Value> = claims.collect();
    let more = spec.remove("volumes");
    volumes.extend(
        more.as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .cloned(),
    );
    if !volumes.is_empty() {
        spec.insert("volumes".into(), volumes.into());
    }
    spec.insert("hostname".into(), name.into());
    spec.insert(
        "subdomain".into(),
        snap.ensemble.spec.service(snap.name()).into(),
    );
    Value::Object(spec)
}

fn zone<'c>(cast: &'c Cast<'_>, who: MemberId) -> Option<(&'c Zones, &'c str)> {
    let zones = cast.ensemble.spec.zones.as_ref()?;
    Some((zones, cast.placement().zone(who)?))
}

/// What every container of a member is told.
fn environment(cast: &Cast<'_>, member: &str, who: MemberId) -> Vec<(&'static str, String)> {
    let mut told = vec![
        ("ENSEMBLE_NAME", cast.name().to_owned()),
        ("ENSEMBLE_MEMBER", member.to_owned()),
        ("ENSEMBLE_ORDINAL", who.ordinal.to_string()),
    ];
    if let Some((zones, zone)) = zone(cast, who) {
        told.extend(zones::environment(zones, zone));
    }
    told
}

/// What the user sets under the same name wins.
fn add_environment(container: &mut Value, told: &[(&str, String)]) {
    let Some(container) = container.as_object_mut() else {
        return;
    };
    let env = container.entry("env").or_insert_with(|| json!([]));
    let Some(env) = env.as_array_mut() else {
        return;
    };
    for (name, value) in told.iter().rev() {
        let present = env
            .iter()
            .any(|e| e.get("name").and_then(Value::as_str) == Some(*name));
        if !present {
            // First, so that the user's own variables may refer to them.
            env.insert(0, json!({"name": name, "value": value}));
        }
    }
}

/// A pod that no scheduler and no Service sees, to ask the API server about a revision.
pub fn trial_pod(snap: &Cast<'_>, member: Member<'_>) -> Value {
    let mut body = pod(snap, member);
    body["metadata"]["name"] = format!("{}-trial-{}", snap.name(), suffix(member.revision)).into();
    body
}

/// By container: the image that the API server made of the one in the template.
pub fn images(pod: &Value) -> Images {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let containers = containers.into_iter().flatten();
    let pair = |c: &Value| Some((c["name"].as_str()?.into(), c["image"].as_str()?.into()));
    containers.filter_map(pair).collect()
}

/// What distinguishes two pods that the API server made of two revisions: everything but names.
pub fn digest(mut pod: Value) -> String {
    let annotations = pod["metadata"]["annotations"].take();
    let mut labels_ = pod["metadata"]["labels"].take();
    if let Some(map) = labels_.as_object_mut() {
        map.remove(labels::REVISION);
        map.remove(labels::REVISION_HASH);
    }
    let mut spec = pod["spec"].take();
    forget_token_volume(&mut spec);
    let whole = json!({"annotations": annotations, "labels": labels_, "spec": spec});
    let text = crate::revision::canonical(&whole);
    format!("{:016x}", crate::revision::fnv64(text.as_bytes()))
}

/// The API server gives the token's volume a random name.
fn forget_token_volume(spec: &mut Value) {
    let is_token = |v: &Value| {
        v.get("name")
            .and_then(Value::as_str)
            .is_some_and(|n| n.starts_with("kube-api-access-"))
    };
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.retain(|v| !is_token(v));
    }
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container
                .get_mut("volumeMounts")
                .and_then(Value::as_array_mut);
            if let Some(mounts) = mounts {
                mounts.retain(|m| !is_token(m));
            }
        }
    }
}

/// A member's claim.
pub fn claim(
    snap: &Cast<'_>,
    claim: &str,
    spec: &Map<String, Value>,
    who: MemberId,
    life: u32,
) -> Value {
    let mut labels_ = identity(snap, who, life);
    labels_.insert(labels::CLAIM.into(), claim.into());
    if let Some(zone) = snap.placement().zone(who) {
        labels_.insert(labels::ZONE.into(), zone.into());
    }
    recommended(snap, &mut labels_);
    let when_deleted = format!("{:?}", snap.ensemble.spec.storage.when_deleted);
    let mut spec = spec.clone();
    spec.entry("accessModes")
        .or_insert_with(|| json!(["ReadWriteOnce"]));
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": snap.roster().claim(claim, who),
            "namespace": snap.ensemble.namespace,
            "labels": labels_,
            "annotations": {labels::WHEN_DELETED: when_deleted},
        },
        "spec": spec,
    })
}

fn owned_metadata(snap: &Snapshot, name: &str) -> Value {
    let mut labels_ = Map::new();
    labels_.insert(labels::ENSEMBLE.into(), snap.name().into());
    recommended(snap, &mut labels_);
    json!({
        "name": name,
        "namespace": snap.ensemble.namespace,
        "labels": labels_,
        "ownerReferences": [owner(snap)],
    })
}

/// The headless Service.
pub fn service(snap: &Snapshot) -> Value {
    let mut ports: Vec<Value> = Vec::new();
    let spec = snap.ensemble.spec.template.pod_spec();
    let containers = spec
        .get("containers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let declared = containers
        .filter_map(|c| c.get("ports")?.as_array())
        .flatten();
    for (n, port) in declared.enumerate() {
        let Some(number) = port.get("containerPort").and_then(Value::as_i64) else {
            continue;
        };
        let protocol = port
            .get("protocol")
            .and_then(Value::as_str)
            .unwrap_or("TCP");
        let seen = ports
            .iter()
            .any(|p| p["port"] == number && p["protocol"] == protocol);
        let name = port.get("name").and_then(Value::as_str);
        let name = name.map_or_else(|| format!("port-{n}"), str::to_owned);
        if !seen {
            ports.push(json!({"name": name, "port": number, "protocol": protocol}));
        }
    }
    let mut spec = json!({
        "clusterIP": "None",
        // Members have to find each other before they are Ready.
        "publishNotReadyAddresses": true,
        "selector": selector(snap),
    });
    if !ports.is_empty() {
        spec["ports"] = ports.into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(snap, &snap.ensemble.spec.service(snap.name())),
        "spec": spec,
    })
}

/// The ports that the engine's container declares, without the one that its role API is on.
fn engine_ports(snap: &Snapshot) -> Vec<Value> {
    let spec = snap.ensemble.spec.template.pod_spec();
    let engine = snap.ensemble.spec.engine_container();
    let agent = snap
        .ensemble
        .spec
        .engine
        .as_ref()
        .and_then(|e| e.agent_port());
    let containers = spec
        .get("containers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let declared = containers
        .filter(|c| c.get("name").and_then(Value::as_str) == Some(&engine))
        .filter_map(|c| c.get("ports")?.as_array())
        .flatten();
    let mut ports: Vec<Value> = Vec::new();
    for (n, port) in declared.enumerate() {
        let Some(number) = port.get("containerPort").and_then(Value::as_i64) else {
            continue;
        };
        if agent.is_some_and(|port| i64::from(port) == number) {
            continue;
        }
        let protocol = port
            .get("protocol")
            .and_then(Value::as_str)
            .unwrap_or("TCP");
        let name = port.get("name").and_then(Value::as_str);
        let name = name.map_or_else(|| format!("port-{n}"), str::to_owned);
        ports.push(
            json!({"name": name, "port": number, "protocol": protocol, "targetPort": number}),
        );
    }
    if let Some(port) = snap.abilities.port.filter(|_| ports.is_empty()) {
        let number = port.number;
        ports.push(
            json!({"name": port.name, "port": number, "protocol": "TCP", "targetPort": number}),
        );
    }
    ports
}

/// Something that is to stand around the members. It is looked at in every plan and seldom written:
/// only its spec is rendered before that.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// What it is to be.
    pub spec: Value,
    /// What it is made of, to be found on the object.
    pub stamp: Option<String>,
    api_version: &'static str,
    kind: &'static str,
}

impl Wanted {
    /// The whole object.
    pub fn body(&self, snap: &Snapshot) -> Value {
        let mut metadata = owned_metadata(snap, &self.name);
        if let Some(stamp) = &self.stamp {
            metadata["annotations"] = json!({labels::MADE_OF: stamp});
        }
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": metadata,
            "spec": self.spec,
        })
    }
}

impl Wanted {
    /// What brings an object of ours up to date: its spec, stamp and owner.
    pub fn refresh(&self, snap: &Snapshot) -> Value {
        let mut body = json!({
            "metadata": {"ownerReferences": [owner(snap)]},
            "spec": self.spec,
        });
        if let Some(stamp) = &self.stamp {
            body["metadata"]["annotations"] = json!({labels::MADE_OF: stamp});
        }
        body
    }

    /// The same Service, which also leads to pods that are not Ready.
    pub fn published(&self) -> Self {
        let mut wanted = self.clone();
        wanted.spec["publishNotReadyAddresses"] = true.into();
        wanted.stamp = Some(made_of(&wanted.spec));
        wanted
    }
}

/// All values of the role label that say that a member is the primary, the one of the spec first: agents
/// of several versions may be there at once.
pub fn primary_values(snap: &Snapshot) -> Vec<&str> {
    let engine = snap.ensemble.spec.engine.as_ref();
    let Some(label) = engine.and_then(|e| e.role_label()) else {
        return Vec::new();
    };
    let also = snap.abilities.also_primary.iter().copied();
    let also = also.filter(|value| *value != label.primary && *value != label.replica);
    std::iter::once(label.primary).chain(also).collect()
}

/// The Service that leads to members of one role; None if no port is known.
pub fn role_service(snap: &Snapshot, name: String, role: &str) -> Option<Wanted> {
    let ports = engine_ports(snap);
    let label = snap.ensemble.spec.engine.as_ref()?.role_label()?;
    let mut wanted = selector(snap);
    wanted.insert(label.key.into(), role.into());
    if ports.is_empty() {
        return None;
    }
    // Said either way: what a patch does not name stays as it is.
    let spec = json!({"ports": ports, "selector": wanted, "publishNotReadyAddresses": false});
    Some(Wanted {
        name,
        stamp: Some(made_of(&spec)),
        spec,
        api_version: "v1",
        kind: "Service",
    })
}

fn made_of(spec: &Value) -> String {
    let text = crate::revision::canonical(spec);
    format!("{:016x}", crate::revision::fnv64(text.as_bytes()))
}

/// The budgets that are to be, disjoint by construction: where a label tells roles one for the primary
/// and one for all others, else one for all. None that keeps nobody: the API server refuses under it to evict a
/// pod that is not Ready, so that neither a drain nor a corrected template would ever get through.
pub fn budgets(snap: &Snapshot) -> Vec<Wanted> {
    let budget = |name: String, spec: Value, stamp: Option<String>| Wanted {
        name,
        spec,
        stamp,
        api_version: "policy/v1",
        kind: "PodDisruptionBudget",
    };
    let engine = snap.ensemble.spec.engine.as_ref();
    let Some(label) = engine.and_then(|e| e.role_label()) else {
        let minimum = budget_minimum(snap);
        let spec = json!({
            "minAvailable": minimum,
            "selector": {"matchLabels": selector(snap)},
        });
        let one = (minimum > 0).then(|| budget(names::budget(snap.name()), spec, None));
        return one.into_iter().collect();
    };
    let replicas = Roster::of(&snap.ensemble).asked_in_all();
    if replicas < 2 {
        // A single member's drain is its user's decision.
        return Vec::new();
    }
    let primary = primary_values(snap);
    let one = |name: String, operator: &str, minimum: u32| {
        let spec = json!({
            "minAvailable": minimum,
            "selector": {
                "matchLabels": selector(snap),
                "matchExpressions": [
                    {"key": label.key, "operator": operator, "values": primary},
                ],
            },
        });
        let stamp = made_of(&spec["selector"]);
        budget(name, spec, Some(stamp))
    };
    let others = (replicas - 1).saturating_sub(snap.ensemble.spec.rollout.max_unavailable);
    let mut budgets = vec![one(names::primary(snap.name()), "In", 1)];
    if others > 0 {
        budgets.push(one(names::replicas(snap.name()), "NotIn", others));
    }
    budgets
}

/// How many members a budget must keep. Where members vote, evictions leave a majority, or all others
/// where one is one too many already.
pub fn budget_minimum(snap: &Snapshot) -> i64 {
    let wanted = Roster::of(&snap.ensemble).asked_in_all();
    let kept = wanted.saturating_sub(snap.ensemble.spec.rollout.max_unavailable);
    if !snap.abilities.votes || mutants::is_off(Rule::BudgetKeepsQuorum) {
        return i64::from(kept);
    }
    let quorum = (wanted / 2 + 1).min(wanted.saturating_sub(1));
    i64::from(kept.max(quorum))
}

/// A stored revision.
pub fn revision(snap: &Snapshot, name: &str, number: i64) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": owned_metadata(snap, name),
        "revision": number,
        "data": {"template": snap.ensemble.spec.template.0},
    })
}

fn suffix(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or(name)
}

/// The name of the helper that pulls a revision's images on a node.
pub fn prefetch_name(ensemble: &str, revision: &str, node: &str) -> String {
    let node = crate::revision::fnv64(node.as_bytes()) & 0xffff_ffff;
    format!("{ensemble}-prefetch-{}-{node:08x}", suffix(revision))
}

/// A helper that pulls a revision's images on a node. Its command exists in no image, so nothing of
/// the image is ever run: that the start fails for want of the command proves that it was pulled.
pub fn prefetch(snap: &Snapshot, revision: &str, node: &str, images: &[String]) -> Value {
    let spec = snap.ensemble.spec.template.pod_spec();
    let restricted = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let containers: Vec<Value> = images
        .iter()
        .enumerate()
        .map(|(n, image)| {
            json!({
                "name": format!("pull-{n}"),
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": [PREFETCH_COMMAND],
                "resources": {
                    "requests": {"cpu": "1m", "memory": "16Mi"},
                    "limits": {"cpu": "100m", "memory": "64Mi"},
                },
                "securityContext": restricted,
            })
        })
        .collect();
    let mut pod_spec = json!({
        "nodeName": node,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "containers": containers,
        "tolerations": [{"operator": "Exists"}],
    });
    for field in ["imagePullSecrets", "serviceAccountName"] {
        if let Some(value) = spec.get(field) {
            pod_spec[field] = value.clone();
        }
    }
    let mut metadata = owned_metadata(snap, &prefetch_name(snap.name(), revision, node));
    metadata["labels"][labels::PURPOSE] = labels::PREFETCH.into();
    metadata["labels"][labels::REVISION_HASH] = revision.into();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec})
}

/// A command that no image has.
pub const PREFETCH_COMMAND: &str = "/ensemble-pulls-this-image-and-runs-nothing-of-it";
