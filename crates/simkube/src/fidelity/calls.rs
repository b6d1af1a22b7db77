//! Random calls, such as controllers and users make.

use serde_json::{Value, json};

use crate::ids::Ids;
use crate::request::{Propagation, Request, Subresource};
use crate::resource::Resource;
use crate::value::{Object, text_or_empty, uid};

/// Which of the versions and uids seen so far is sent along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    Nothing,
    Latest,
    Older(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Config,
    Pod,
    Claim,
    Budget,
    Lease,
    Service,
    Revision,
    Widget,
}

const KINDS: [Kind; 8] = [
    Kind::Config,
    Kind::Pod,
    Kind::Claim,
    Kind::Budget,
    Kind::Lease,
    Kind::Service,
    Kind::Revision,
    Kind::Widget,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    List,
    Create,
    Put,
    /// PUT of an object as it was last seen, with a change.
    Edit,
    Patch,
    Status,
    /// PUT of the status of an object as it was last seen.
    EditStatus,
    Scale,
    Delete,
    Evict,
    Bind,
}

/// One call, without anything that differs between servers.
#[derive(Clone, Debug)]
pub(super) struct Call {
    kind: Kind,
    action: Action,
    name: &'static str,
    /// Decides the body.
    variant: u64,
    version: Pick,
    uid: Pick,
    grace: Option<i64>,
    propagation: Option<Propagation>,
    dry: bool,
    strict: bool,
}

/// Where calls go.
pub(super) struct Stage {
    pub namespace: String,
    pub widgets: Option<Resource>,
}

impl Call {
    pub fn random(ids: &mut Ids) -> Call {
        let mut roll = |n: u64| ids.random() % n;
        let kind = match roll(16) {
            0 => Kind::Config,
            1..=5 => Kind::Pod,
            6 | 7 => Kind::Claim,
            8 | 9 => Kind::Budget,
            10 => Kind::Lease,
            11 => Kind::Service,
            12 => Kind::Revision,
            _ => Kind::Widget,
        };
        let action = match roll(24) {
            0 => Action::Get,
            1 => Action::List,
            2..=5 => Action::Create,
            6 | 7 => Action::Put,
            8..=10 => Action::Edit,
            11..=14 => Action::Patch,
            15 | 16 => Action::Status,
            17 => Action::EditStatus,
            18 => Action::Scale,
            19 => Action::Evict,
            20 => Action::Bind,
            _ => Action::Delete,
        };
        // These are verbs of pods, whatever kind was drawn.
        let pods_only = matches!(action, Action::Evict | Action::Bind);
        let kind = if pods_only { Kind::Pod } else { kind };
        // Nobody writes the status of a service that does not exist, which would create it.
        let action = match (action, kind) {
            (Action::EditStatus, Kind::Service) => Action::Edit,
            other => other.0,
        };
        let mut pick = || match roll(6) {
            0..=2 => Pick::Nothing,
            3 | 4 => Pick::Latest,
            _ => Pick::Older(roll(4) as usize + 1),
        };
        let (version, uid) = (pick(), pick());
        Call {
            kind,
            action,
            name: ["a", "b", "c"][roll(3) as usize],
            variant: roll(1 << 32),
            version,
            uid,
            // None ends within a sequence: time passes on a real server alone.
            grace: [None, None, Some(0), Some(25), Some(60)][roll(5) as usize],
            propagation: [
                None,
                None,
                Some(Propagation::Background),
                Some(Propagation::Foreground),
                Some(Propagation::Orphan),
            ][roll(5) as usize],
            dry: roll(12) == 0,
            strict: roll(4) == 0,
        }
    }
}

impl Stage {
    pub fn resources(&self) -> Vec<Resource> {
        KINDS.into_iter().map(|k| self.resource(k)).collect()
    }

    fn resource(&self, kind: Kind) -> Resource {
        match kind {
            Kind::Config => Resource::ConfigMaps,
            Kind::Pod => Resource::Pods,
            Kind::Claim => Resource::PersistentVolumeClaims,
            Kind::Budget => Resource::PodDisruptionBudgets,
            Kind::Lease => Resource::Leases,
            Kind::Service => Resource::Services,
            Kind::Revision => Resource::ControllerRevisions,
            Kind::Widget => self.widgets.unwrap_or(Resource::Custom(u16::MAX)),
        }
    }

    /// The request for one side; `recall` gives objects as they were seen there.
    pub fn request(
        &self,
        call: &Call,
        recall: impl Fn(Resource, &str, Pick) -> Option<Object>,
    ) -> Request {
        let resource = self.resource(call.kind);
        let (ns, name) = (self.namespace.as_str(), call.name);
        let version = recall(resource, name, call.version);
        let version = version.map(|o| text_or_empty(&o, "metadata.resourceVersion").to_owned());
        let uid = recall(resource, name, call.uid).map(|o| uid(&o).to_owned());
        let edited = |change: Value| {
            let last = recall(resource, name, Pick::Latest);
            let mut body = last.map_or_else(|| whole(call), |o| (*o).clone());
            // Those of a dry run, sent back, would be a change of their own.
            crate::value::take(&mut body, "metadata.managedFields");
            crate::api::merge(&mut body, &change);
            body
        };
        let lock = |mut body: Value| {
            if let Some(version) = &version {
                body["metadata"]["resourceVersion"] = version.as_str().into();
            }
            if let Some(uid) = &uid {
                body["metadata"]["uid"] = uid.as_str().into();
            }
            body
        };
        let mut request = match call.action {
            Action::Get => Request::get(resource, ns, name),
            Action::List => Request::list(resource, ns).labels(selector(call.variant)),
            Action::Create => Request::create(resource, ns, whole(call)),
            Action::Put => Request::update(resource, ns, name, lock(whole(call))),
            Action::Edit => Request::update(resource, ns, name, edited(edit(call))),
            Action::EditStatus => {
                Request::update(resource, ns, name, edited(status(call))).status()
            }
            Action::Patch => Request::patch(resource, ns, name, lock(patch(call))),
            Action::Status => Request::patch(resource, ns, name, lock(status(call))).status(),
            Action::Scale => {
                let replicas = i64::try_from(call.variant % 130).unwrap_or(0) - 10;
                let body = lock(json!({"spec": {"replicas": replicas}}));
                Request::patch(resource, ns, name, body).part(Subresource::Scale)
            }
            Action::Delete => Request::delete(resource, ns, name),
            Action::Evict => Request::evict(ns, name),
            Action::Bind => Request::bind(ns, name, "some-node"),
        };
        if matches!(call.action, Action::Delete | Action::Evict) {
            request.params.uid = uid.clone();
            request.params.resource_version = version.clone();
            request.params.grace_period_seconds = call.grace;
        }
        if call.action == Action::Delete {
            request.params.propagation = call.propagation;
        }
        let reads = matches!(call.action, Action::Get | Action::List);
        request.params.dry_run = call.dry && !reads && call.action != Action::Bind;
        if call.strict
            && matches!(
                call.action,
                Action::Create | Action::Put | Action::Edit | Action::Patch
            )
        {
            request = request.strict();
        }
        request
    }
}

fn selector(variant: u64) -> &'static str {
    ["", "l=0", "l!=0", "l in (0,1)", "!l", "l"][(variant % 6) as usize]
}

/// A few bits of a variant.
fn bits(variant: u64, shift: u32, n: u64) -> u64 {
    (variant >> shift) % n
}

fn whole(call: &Call) -> Value {
    let v = call.variant;
    let mut metadata = json!({"name": call.name});
    if bits(v, 0, 2) == 0 {
        metadata["labels"] = json!({"l": bits(v, 1, 3).to_string()});
    }
    if bits(v, 3, 5) == 0 {
        metadata["finalizers"] = json!(["example.com/hold"]);
    }
    let number = bits(v, 6, 4);
    let mut body = match call.kind {
        Kind::Config => {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": number.to_string()}})
        }
        Kind::Lease => json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "spec": {"holderIdentity": format!("h{number}"), "leaseDurationSeconds": 15},
        }),
        Kind::Budget => json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "spec": {"minAvailable": number, "selector": {"matchLabels": {"l": bits(v, 9, 3).to_string()}}},
        }),
        Kind::Claim => json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": format!("{}Gi", number + 1)}},
            },
        }),
        Kind::Pod => json!({"apiVersion": "v1", "kind": "Pod", "spec": pod_spec(v)}),
        Kind::Service => json!({"apiVersion": "v1", "kind": "Service", "spec": service_spec(v)}),
        Kind::Revision => json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "revision": bits(v, 9, 2), "data": {"template": number},
        }),
        Kind::Widget => {
            json!({"apiVersion": "probe.example/v1", "kind": "Widget", "spec": widget_spec(v)})
        }
    };
    body["metadata"] = metadata;
    if bits(v, 20, 12) == 0 && body.get("spec").is_some() {
        body["spec"]["unheardOf"] = json!(1);
    }
    body
}

/// Such as members are found by. An address of its own would be another on each side.
fn service_spec(v: u64) -> Value {
    json!({
        "clusterIP": "None", "selector": {"l": bits(v, 9, 3).to_string()},
        "publishNotReadyAddresses": bits(v, 11, 2) == 0,
        "ports": [{"name": "main", "port": 8080 + bits(v, 6, 2)}],
    })
}

fn pod_spec(v: u64) -> Value {
    let mut spec = json!({"containers": [{
        "name": "main", "image": format!("example.com/web:{}", bits(v, 6, 3)),
        "resources": {"requests": {"cpu": "100m"}},
    }]});
    if bits(v, 10, 2) == 0 {
        spec["nodeName"] = json!("some-node");
    }
    if bits(v, 12, 8) == 0 {
        spec["terminationGracePeriodSeconds"] = json!(bits(v, 13, 3) * 10);
    }
    spec
}

fn widget_spec(v: u64) -> Value {
    let mut spec = json!({"size": i64::try_from(bits(v, 6, 110)).unwrap_or(0) - 5});
    match bits(v, 14, 8) {
        0 => spec["limit"] = json!(50),
        1 => spec["mode"] = json!(["Fast", "Safe", "Slow"][bits(v, 17, 3) as usize]),
        2 => spec["once"] = json!(["x", "y"][bits(v, 17, 2) as usize]),
        3 => {
            let second = ["p", "q"][bits(v, 17, 2) as usize];
            spec["tags"] = json!(["p", second]);
        }
        4 => {
            let fixed = bits(v, 17, 2);
            spec["parts"] = json!([{"name": "p", "fixed": fixed}, {"name": "q"}]);
        }
        5 => spec["name"] = json!(["forbidden", "fine", "X"][bits(v, 17, 3) as usize]),
        _ => {}
    }
    spec
}

/// What is changed of an object that was read. Lists are replaced, so of a pod only its image is.
fn edit(call: &Call) -> Value {
    match call.kind {
        Kind::Pod if bits(call.variant, 24, 6) > 3 => json!({"spec": {"containers": [{
            "name": "main", "image": format!("example.com/web:{}", bits(call.variant, 6, 3)),
            "resources": {"requests": {"cpu": "100m"}},
        }]}}),
        _ => patch(call),
    }
}

fn patch(call: &Call) -> Value {
    let v = call.variant;
    match bits(v, 24, 6) {
        0 => json!({"metadata": {"labels": {"l": bits(v, 1, 3).to_string()}}}),
        1 => json!({"metadata": {"finalizers": null}}),
        2 => json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        3 => json!({"metadata": {"labels": null, "annotations": {"a": bits(v, 1, 3).to_string()}}}),
        _ => {
            let mut body = whole(call);
            crate::value::as_map(&mut body).retain(|key, _| !is_header(key));
            body
        }
    }
}

fn is_header(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

fn status(call: &Call) -> Value {
    let v = call.variant;
    match call.kind {
        Kind::Pod => {
            let phase = ["Pending", "Running", "Failed", "Succeeded"][bits(v, 0, 4) as usize];
            let ready = ["True", "False"][bits(v, 2, 2) as usize];
            json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}})
        }
        Kind::Claim => json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}),
        Kind::Budget => json!({"status": {
            "observedGeneration": bits(v, 0, 3) + 1, "disruptionsAllowed": bits(v, 2, 3),
            "currentHealthy": bits(v, 4, 4), "desiredHealthy": bits(v, 6, 3), "expectedPods": 3,
        }}),
        _ => json!({"status": {"ready": bits(v, 0, 4)}}),
    }
}
