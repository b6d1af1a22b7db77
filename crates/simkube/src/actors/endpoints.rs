//! Endpoint slices: which pods a service leads to. One slice per service.

use serde_json::{Map, Value, json};

use super::scheduler_filters::label;
use crate::cluster::Cluster;
use crate::request::Request;
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::store::Key;
use crate::value::{
    Object, at, condition_true, flag, items, name, namespace, object, terminating, text,
    text_or_empty, uid,
};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

impl Cluster {
    pub(crate) fn sync_endpoints(&mut self, service_key: &Key) {
        let Some(service) = self
            .server
            .store
            .get(Resource::Services, service_key)
            .cloned()
        else {
            return;
        };
        let selector = object(&service, "spec.selector").filter(|s| !s.is_empty());
        let Some(selector) = selector.map(LabelSelector::from_map) else {
            return;
        };
        if terminating(&service) {
            return;
        }
        let pods: Vec<Object> = self
            .server
            .store
            .within(Resource::Pods, namespace(&service))
            .filter(|(_, p)| selector.matches(p))
            .map(|(_, p)| p.clone())
            .collect();
        let endpoints: Vec<Value> = pods
            .iter()
            .filter_map(|p| self.endpoint(&service, p))
            .collect();
        let ports = ports(&service, pods.first());
        self.write_slice(&service, endpoints, ports);
    }

    fn endpoint(&self, service: &Value, pod: &Object) -> Option<Value> {
        let address = text(pod, "status.podIP")?;
        if matches!(text(pod, "status.phase"), Some("Succeeded" | "Failed")) {
            return None;
        }
        let serving = condition_true(pod, "Ready");
        let leaving = terminating(pod);
        let ready = serving && !leaving || flag(service, "spec.publishNotReadyAddresses");
        let mut endpoint = json!({
            "addresses": [address],
            "conditions": {"ready": ready, "serving": serving, "terminating": leaving},
            "targetRef": {
                "kind": "Pod", "namespace": namespace(pod), "name": name(pod), "uid": uid(pod),
            },
        });
        if let Some(node) = text(pod, "spec.nodeName") {
            endpoint["nodeName"] = node.into();
            let node = self.server.store.get(Resource::Nodes, node);
            if let Some(zone) = node.and_then(|n| label(n, "topology.kubernetes.io/zone")) {
                endpoint["zone"] = zone.into();
            }
        }
        let named = text(pod, "spec.subdomain") == Some(name(service));
        if let Some(hostname) = text(pod, "spec.hostname").filter(|_| named) {
            endpoint["hostname"] = hostname.into();
        }
        Some(endpoint)
    }

    fn own_slice(&self, service: &Object) -> Option<(Key, Object)> {
        let mut slices = self
            .server
            .store
            .within(Resource::EndpointSlices, namespace(service));
        let found = slices.find(|(_, s)| {
            label(s, SERVICE_NAME) == Some(name(service))
                && label(s, MANAGED_BY) == Some(MANAGER)
                && !terminating(s)
        });
        found.map(|(k, s)| (k.clone(), s.clone()))
    }

    fn write_slice(&mut self, service: &Object, endpoints: Vec<Value>, ports: Value) {
        let client = self.actors.endpoints.clone();
        let existing = self.own_slice(service);
        if let Some((key, slice)) = existing {
            let same = slice.get("endpoints").and_then(Value::as_array) == Some(&endpoints)
                && slice.get("ports") == Some(&ports);
            if !same {
                let resource = Resource::EndpointSlices;
                let _gone = self.server.modify(&client, resource, None, &key, |slice| {
                    slice["endpoints"] = endpoints.into();
                    slice["ports"] = ports;
                });
            }
            return;
        }
        let slice = json!({
            "metadata": {
                "generateName": format!("{}-", name(service)),
                "labels": slice_labels(service),
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": name(service),
                    "uid": uid(service), "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
        });
        let request = Request::create(Resource::EndpointSlices, namespace(service), slice);
        // A namespace on its way out refuses it, and needs no slice.
        let _refused = self.server.call(&request.client(client));
    }
}

fn slice_labels(service: &Value) -> Value {
    let mut labels: Map<String, Value> = object(service, "metadata.labels")
        .cloned()
        .unwrap_or_default();
    labels.insert(SERVICE_NAME.into(), name(service).into());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    if text(service, "spec.clusterIP") == Some("None") {
        labels.insert("service.kubernetes.io/headless".into(), "".into());
    }
    Value::Object(labels)
}

/// Ports with their numbers; a name is looked up in the pod.
fn ports(service: &Value, pod: Option<&Object>) -> Value {
    let resolve = |target: &Value| match target {
        Value::String(wanted) => pod.and_then(|p| {
            let containers = items(p, "spec.containers").iter();
            let mut ports = containers.flat_map(|c| items(c, "ports"));
            ports
                .find(|port| text(port, "name") == Some(wanted))?
                .get("containerPort")
                .cloned()
        }),
        number => Some(number.clone()),
    };
    items(service, "spec.ports")
        .iter()
        .filter_map(|port| {
            let number = resolve(at(port, "targetPort")?)?;
            Some(json!({
                "name": text_or_empty(port, "name"), "port": number,
                "protocol": text(port, "protocol").unwrap_or("TCP"),
            }))
        })
        .collect()
}
