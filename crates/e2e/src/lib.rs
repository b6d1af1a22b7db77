//! What the end-to-end tests share: objects that they create.

pub mod ensemble;
pub mod etcd;
pub mod postgres;
pub mod stage;
pub mod traces;

use anyhow::{Context, Result};
use ensemble_testbed::harness::TestNamespace;
use serde_json::{Value, json};

/// A small image with a shell, under the tags 1 and 2.
pub const TOOLBOX: &str = "registry.testbed/toolbox";

/// A pod that serves its own name over HTTP on port 8080, on a given node if one is named.
pub fn web_pod(name: &str, node: Option<&str>) -> Value {
    let script = "mkdir -p /tmp/www && hostname > /tmp/www/index.html && echo serving \
        && exec httpd -f -p 8080 -h /tmp/www";
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{
                "name": "web",
                "image": format!("{TOOLBOX}:1"),
                "command": ["sh", "-c", script],
                "resources": {
                    "requests": {"cpu": "10m", "memory": "16Mi"},
                    "limits": {"cpu": "200m", "memory": "64Mi"},
                },
                "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
            }],
        },
    });
    if let Some(node) = node {
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    }
    pod
}

/// A pod that sleeps with a volume mounted at `/data`.
pub fn pod_with_volume(name: &str, claim: &str, node: Option<&str>) -> Value {
    let mut pod = web_pod(name, node);
    pod["metadata"]["labels"] = json!({});
    pod["spec"]["volumes"] = json!([{
        "name": "data", "persistentVolumeClaim": {"claimName": claim},
    }]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    pod
}

/// A claim of one gibibyte.
pub fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

/// Applies all objects of a YAML file to the namespace.
pub async fn apply_yaml(namespace: &TestNamespace, text: &str) -> Result<()> {
    for document in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document).context("malformed YAML")?;
        namespace.apply(object).await?;
    }
    Ok(())
}
