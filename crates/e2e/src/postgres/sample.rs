//! The sample of the repository, and a StatefulSet made of the same parts.

use super::{NAME, image, secured};
use anyhow::{Context, Result};
use serde_json::{Value, json};

const SAMPLE: &str = include_str!("../../../../samples/postgres.yaml");

/// The image that the sample names.
pub const PLACEHOLDER: &str = "example.com/postgres-patroni:15";

/// Who runs the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ensemble.
    Ensemble,
    /// Kubernetes' own StatefulSet, which knows no roles.
    StatefulSet,
}

/// How PostgreSQL is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Who runs the members.
    pub kind: Kind,
    /// Whether commits wait for a replica.
    pub synchronous: bool,
    /// The ordinal of the member that leads.
    pub leader: u32,
    /// Pods are always recreated; only with Ensemble.
    pub recreate: bool,
    /// A proxy that can lie stands before Patroni's API; only with Ensemble.
    pub proxy: bool,
    /// Patroni's API wants TLS and a password; only with Ensemble.
    pub secured: bool,
    /// Ensemble is told of no Patroni, only of the label that it sets; only with Ensemble.
    pub labels: bool,
    /// The container restarts when its memory changes; only with Ensemble.
    pub memory_restarts: bool,
    /// Two members may share a node: a fourth has a place on three nodes; only with Ensemble.
    pub crowded: bool,
}

impl Shape {
    /// The sample as it stands, with the lead there.
    pub fn ensemble(leader: u32) -> Shape {
        Shape {
            kind: Kind::Ensemble,
            synchronous: false,
            leader,
            recreate: false,
            proxy: false,
            secured: false,
            labels: false,
            memory_restarts: false,
            crowded: false,
        }
    }

    /// The same under a StatefulSet.
    pub fn stateful_set(leader: u32) -> Shape {
        Shape {
            kind: Kind::StatefulSet,
            ..Shape::ensemble(leader)
        }
    }

    /// Commits wait for a replica.
    pub fn synchronous(self, synchronous: bool) -> Shape {
        Shape {
            synchronous,
            ..self
        }
    }
}

/// The sample's objects as they stand, with the testbed's image.
pub fn stored() -> Result<Vec<Value>> {
    let text = SAMPLE.replace(PLACEHOLDER, &image("1"));
    serde_saphyr::from_multiple(&text).context("samples/postgres.yaml is malformed")
}

/// The objects for a shape.
pub fn objects(shape: &Shape) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    if shape.secured {
        objects.extend(secured::objects()?);
    }
    for mut object in stored()? {
        if shape.secured && object["kind"] == "ConfigMap" {
            secured::configure(&mut object);
        }
        if object["kind"] != "Ensemble" {
            objects.push(object);
        } else if shape.kind == Kind::StatefulSet {
            objects.extend(services());
            objects.push(stateful_set(&object));
        } else {
            objects.extend(shape.proxy.then(proxy_script));
            objects.push(ensemble(object, shape));
        }
    }
    Ok(objects)
}

fn ensemble(mut object: Value, shape: &Shape) -> Value {
    if shape.recreate {
        object["spec"]["rollout"] = json!({"method": "Recreate"});
    }
    if shape.labels {
        let labels = json!({"key": "role", "primaryValue": "master"});
        object["spec"]["engine"] = json!({"container": "postgres", "labels": labels});
        object["spec"]["rollout"] = json!({"primary": "Restart"});
    }
    if shape.secured {
        secured::secure(&mut object);
    }
    if shape.crowded
        && let Some(pod) = object["spec"]["template"]["spec"].as_object_mut()
    {
        pod.remove("affinity");
    }
    if shape.memory_restarts {
        let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        object["spec"]["template"]["spec"]["containers"][0]["resizePolicy"] = policy;
    }
    if shape.proxy {
        object["spec"]["engine"]["patroni"]["port"] = PROXY_PORT.into();
        let pod = &mut object["spec"]["template"]["spec"];
        let postgres = pod["containers"][0].clone();
        push(&mut pod["containers"], proxy(&postgres));
        push(
            &mut pod["volumes"],
            json!({"name": "proxy", "configMap": {"name": "proxy"}}),
        );
    }
    object
}

pub(super) fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

/// The port of the proxy that can lie.
pub const PROXY_PORT: u16 = 8018;

fn proxy_script() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "proxy"},
        "data": {"proxy.py": include_str!("../../manifests/lying-proxy.py")},
    })
}

fn proxy(postgres: &Value) -> Value {
    json!({
        "name": "lying-proxy",
        "image": image("1"),
        "command": ["python3", "/proxy/proxy.py"],
        "securityContext": postgres["securityContext"],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "volumeMounts": [
            {"name": "proxy", "mountPath": "/proxy"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    })
}

/// The StatefulSet that a careful person would have written instead.
fn stateful_set(ensemble: &Value) -> Value {
    let labels = json!({
        "ensemble.dev/ensemble": NAME, "ensemble.dev/group": "members",
    });
    let mut template = ensemble["spec"]["template"].clone();
    template["metadata"]["labels"] = labels.clone();
    template["metadata"]["labels"]["app"] = NAME.into();
    let container = &mut template["spec"]["containers"][0];
    // What Ensemble would have added.
    if let Some(environment) = container["env"].as_array_mut() {
        let name = json!({"fieldRef": {"fieldPath": "metadata.name"}});
        environment.insert(0, json!({"name": "ENSEMBLE_MEMBER", "valueFrom": name}));
        environment.insert(0, json!({"name": "ENSEMBLE_NAME", "value": NAME}));
    }
    let claims: Vec<Value> = ensemble["spec"]["claims"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| json!({"metadata": {"name": c["name"]}, "spec": c["spec"]}))
        .collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": NAME},
        "spec": {
            "serviceName": format!("{NAME}-members"),
            "replicas": 3,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": template,
            "volumeClaimTemplates": claims,
        },
    })
}

fn services() -> Vec<Value> {
    let service = |name: &str, spec: Value| {
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("{NAME}-{name}")}, "spec": spec,
        });
        service["spec"]["ports"] = json!([{"name": "postgres", "port": 5432}]);
        service["spec"]["selector"]["ensemble.dev/ensemble"] = NAME.into();
        service["spec"]["selector"]["ensemble.dev/group"] = "members".into();
        service
    };
    vec![
        service(
            "members",
            json!({"clusterIP": "None", "publishNotReadyAddresses": true}),
        ),
        service("primary", json!({"selector": {"role": "master"}})),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_to_compare_with_has_the_samples_pod_and_claims() -> Result<()> {
        let objects = objects(&Shape::stateful_set(0))?;
        let set = objects.last().context("no set")?;
        assert_eq!(set["kind"], "StatefulSet");
        let pod = &set["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["image"], image("1"));
        assert_eq!(pod["containers"][0]["env"][0]["name"], "ENSEMBLE_NAME");
        assert_eq!(
            set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"],
            "data"
        );
        assert!(objects.iter().all(|o| o["kind"] != "Ensemble"));
        Ok(())
    }

    #[test]
    fn the_sample_is_taken_as_it_stands_but_for_its_image() -> Result<()> {
        let objects = objects(&Shape::ensemble(0))?;
        assert_eq!(objects, stored()?);
        assert!(SAMPLE.contains(PLACEHOLDER));
        Ok(())
    }
}
