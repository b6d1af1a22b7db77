//! Random calls, such as controllers and users make.

use serde_json::{Value, json};

use crate::ids::Ids;
use crate::request::{Propagation, Request, Subresource};
use crate::resource::Resource;

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
    Widget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    List,
    Create,
    Put,
    Patch,
    Status,
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
        let kind = match roll(12) {
            0 | 1 => Kind::Config,
            2..=4 => Kind::Pod,
            5 => Kind::Claim,
            6 | 7 => Kind::Budget,
            8 => Kind::Lease,
            _ => Kind::Widget,
        };
        let action = match roll(20) {
            0 => Action::Get,
            1 => Action::List,
            2..=5 => Action::Create,
            6..=8 => Action::Put,
            9..=12 => Action::Patch,
            13 | 14 => Action::Status,
            15 => Action::Scale,
            16 => Action::Evict,
            17 => Action::Bind,
            _ => Action::Delete,
        };
        // These are verbs of pods, whatever kind was drawn.
        let pods_only = matches!(action, Action::Evict | Action::Bind);
        let kind = if pods_only { Kind::Pod } else { kind };
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
            grace: [None, None, Some(0), Some(5), Some(60)][roll(5) as usize],
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
        [
            Kind::Config,
            Kind::Pod,
            Kind::Claim,
            Kind::Budget,
            Kind::Lease,
            Kind::Widget,
        ]
        .into_iter()
        .map(|k| self.resource(k))
        .collect()
    }

    fn resource(&self, kind: Kind) -> Resource {
        match kind {
            Kind::Config => Resource::ConfigMaps,
            Kind::Pod => Resource::Pods,
            Kind::Claim => Resource::PersistentVolumeClaims,
            Kind::Budget => Resource::PodDisruptionBudgets,
            Kind::Lease => Resource::Leases,
            Kind::Widget => self.widgets.unwrap_or(Resource::Custom(u16::MAX)),
        }
    }

    /// The request for one side; `recall` gives uid and version seen there.
    pub fn request(
        &self,
        call: &Call,
        recall: impl Fn(Resource, &str, Pick) -> Option<(String, String)>,
    ) -> Request {
        let resource = self.resource(call.kind);
        let (ns, name) = (self.namespace.as_str(), call.name);
        let version = recall(resource, name, call.version).map(|(_, version)| version);
        let uid = recall(resource, name, call.uid).map(|(uid, _)| uid);
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
        if call.strict && matches!(call.action, Action::Create | Action::Put | Action::Patch) {
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
        Kind::Widget => {
            json!({"apiVersion": "probe.example/v1", "kind": "Widget", "spec": widget_spec(v)})
        }
    };
    body["metadata"] = metadata;
    if bits(v, 20, 12) == 0 && call.kind != Kind::Config {
        body["spec"]["unheardOf"] = json!(1);
    }
    body
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

fn patch(call: &Call) -> Value {
    let v = call.variant;
    match bits(v, 24, 6) {
        0 => json!({"metadata": {"labels": {"l": bits(v, 1, 3).to_string()}}}),
        1 => json!({"metadata": {"finalizers": null}}),
        2 => json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        3 => json!({"metadata": {"labels": null, "annotations": {"a": bits(v, 1, 3).to_string()}}}),
        _ => {
            let mut body = whole(call);
            let spec = body.get_mut("spec").or(None).map(Value::take);
            match spec {
                Some(spec) => json!({"spec": spec}),
                None => json!({"data": {"k": bits(v, 6, 4).to_string()}}),
            }
        }
    }
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
