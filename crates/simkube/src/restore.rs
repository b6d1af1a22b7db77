//! Taking over what stands elsewhere: a cluster in memory that begins where another one is.

use std::sync::Arc;

use serde_json::Value;

use crate::actors::kubelet::NodeSpec;
use crate::cluster::Cluster;
use crate::request::Verb;
use crate::resource::Resource;
use crate::status::Status;
use crate::store::key;
use crate::value::{Object, at, name, namespace, object, text, uid};

impl Cluster {
    /// Stores an object as it stands elsewhere, with its uid, generation, owner and status; only its
    /// resourceVersion is ours. Nothing is validated or defaulted: it was, where it comes from.
    ///
    /// A node that is restored is up, whatever its status says. A pod that is restored is started by
    /// its kubelet as if it was new, so that its status holds again after a few seconds.
    ///
    /// # Errors
    /// 400 if it has no name.
    pub fn restore(&mut self, resource: Resource, stored: &Value) -> Result<Object, Status> {
        self.info(resource)?;
        let full_name = name(stored);
        if full_name.is_empty() {
            return Err(Status::bad_request("an object to be restored needs a name"));
        }
        if resource == Resource::Nodes {
            let spec = node_spec(stored, full_name);
            self.add_node(spec)?;
        }
        let client: Arc<str> = Arc::from("restore");
        self.server.act_as(&client, Verb::Create, None);
        let mut value = stored.clone();
        if resource == Resource::Nodes {
            value = self.as_registered(full_name, value);
        }
        self.server.ids.taken(uid(stored));
        let place = key(namespace(stored), full_name);
        let kept = self.server.put(resource, place, value);
        self.route();
        Ok(kept)
    }

    /// A node keeps what its kubelet here says of itself; labels, taints and the like come along.
    fn as_registered(&self, node: &str, mut value: Value) -> Value {
        let known = self.server.store.get(Resource::Nodes, node);
        if let Some(status) = known.and_then(|n| n.get("status")) {
            let room = at(&value, "status.allocatable").cloned();
            value["status"] = status.clone();
            if let Some(room) = room {
                value["status"]["allocatable"] = room;
            }
        }
        value
    }
}

fn node_spec(node: &Value, called: &str) -> NodeSpec {
    let room = |what: &str, otherwise: &str| {
        let path = format!("status.allocatable.{what}");
        text(node, &path).unwrap_or(otherwise).to_owned()
    };
    let pods = room("pods", "110").parse().unwrap_or(110);
    let mut spec = NodeSpec::new(called).capacity(&room("cpu", "8"), &room("memory", "32Gi"), pods);
    for (label, value) in object(node, "metadata.labels").into_iter().flatten() {
        if let Some(value) = value.as_str() {
            spec = spec.label(label, value);
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_restored_keeps_its_identity_and_goes_on() {
        let mut cluster = Cluster::new(1);
        cluster.add_namespace("prod");
        let node =
            json!({"metadata": {"name": "n1", "uid": "node-uid", "labels": {"disk": "fast"}}});
        cluster.restore(Resource::Nodes, &node).unwrap();
        let pod = json!({
            "metadata": {"name": "db-0", "namespace": "prod", "uid": "pod-uid", "generation": 4},
            "spec": {"nodeName": "n1", "restartPolicy": "Always",
                     "containers": [{"name": "db", "image": "db:1"}]},
            "status": {"phase": "Running"},
        });
        cluster.restore(Resource::Pods, &pod).unwrap();
        cluster.advance_ms(10_000);
        let kept = cluster.get(Resource::Pods, "prod", "db-0").unwrap();
        assert_eq!(kept["metadata"]["uid"], "pod-uid");
        assert_eq!(kept["metadata"]["generation"], 4);
        assert_eq!(cluster.running_processes().len(), 1);
        let node = cluster.get(Resource::Nodes, "", "n1").unwrap();
        assert_eq!(node["metadata"]["labels"]["disk"], "fast");
    }

    #[test]
    fn an_object_without_a_name_is_refused() {
        let mut cluster = Cluster::new(1);
        assert!(cluster.restore(Resource::Pods, &json!({})).is_err());
    }
}
