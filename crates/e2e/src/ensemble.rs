//! Ensemble itself on the cluster: installed by its own command line, as a user would.

use anyhow::{Context, Result, bail, ensure};
use ensemble_testbed::eventually;
use ensemble_testbed::harness::{Cluster, TestNamespace};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use tokio::sync::OnceCell;

/// The controller's image in the testbed's registry; elsewhere `ENSEMBLE_IMAGE` names it.
const IMAGE: &str = "registry.testbed/ensemble:latest";

static INSTALLED: OnceCell<()> = OnceCell::const_new();

/// What a command of ours said.
#[derive(Debug)]
pub struct Said {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it said beside that.
    pub err: String,
}

/// Runs `ensemble` with these words.
pub fn ensemble(cluster: &Cluster, words: &[&str]) -> Result<Said> {
    let binary = std::env::var("ENSEMBLE_BIN").context("ENSEMBLE_BIN names the binary to test")?;
    let output = Command::new(&binary)
        .args(words)
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()
        .with_context(|| format!("cannot run {binary}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().context("the command was killed")?;
    Ok(Said {
        code,
        out: text(&output.stdout),
        err: text(&output.stderr),
    })
}

/// Installs the controller, once for all tests.
pub async fn install(cluster: &Cluster) -> Result<()> {
    INSTALLED
        .get_or_try_init(async || {
            let image = std::env::var("ENSEMBLE_IMAGE").unwrap_or_else(|_| IMAGE.to_owned());
            let words = [
                "install",
                "--image",
                &image,
                "--apply",
                "--wait",
                "--timeout",
                "3m",
            ];
            let said = ensemble(cluster, &words)?;
            ensure!(said.code == 0, "install failed: {said:?}");
            Ok(())
        })
        .await
        .copied()
}

/// The API of Ensembles in a namespace.
pub fn ensembles(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("ensemble.dev", "v1alpha1", "Ensemble");
    Api::namespaced_with(client, namespace, &ApiResource::from_gvk(&kind))
}

/// An Ensemble of three members that serve over HTTP, each on its own node and volume.
pub fn web(image_tag: &str) -> Value {
    let mut pod = crate::web_pod("unused", None)["spec"].clone();
    pod["containers"][0]["image"] = format!("{}:{image_tag}", crate::TOOLBOX).into();
    pod["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    pod["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "members"}},
    }]}});
    json!({
        "apiVersion": "ensemble.dev/v1alpha1",
        "kind": "Ensemble",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "template": {"metadata": {"labels": {"app": "members"}}, "spec": pod},
            "claims": [{"name": "data", "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "shared",
                "resources": {"requests": {"storage": "64Mi"}},
            }}],
        },
    })
}

/// Changes the image of `web`.
pub async fn set_image(namespace: &TestNamespace, image: &str) -> Result<()> {
    let mut container = web("1")["spec"]["template"]["spec"]["containers"][0].clone();
    container["image"] = image.into();
    let body = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let api = ensembles(namespace.client(), &namespace.name);
    api.patch("web", &PatchParams::default(), &Patch::Merge(body))
        .await?;
    Ok(())
}

/// Waits until an Ensemble's status is as wanted, at its present generation.
pub async fn status_until(
    namespace: &TestNamespace,
    name: &str,
    what: &str,
    limit: Duration,
    holds: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let api = ensembles(namespace.client(), &namespace.name);
    let seen = eventually(what, limit, async || {
        let object = api.get(name).await?;
        let generation = object.metadata.generation;
        let status = object.data.get("status").cloned().unwrap_or(Value::Null);
        let current = status["observedGeneration"].as_i64() == generation;
        Ok((current && holds(&status)).then_some(status))
    })
    .await;
    match seen {
        Ok(status) => Ok(status),
        Err(error) => {
            let last = api.get(name).await.map(|o| o.data.get("status").cloned());
            bail!("{error:#}; its status was {last:?}")
        }
    }
}

/// Waits until an Ensemble says that it is Ready.
pub async fn ready(namespace: &TestNamespace, name: &str, limit: Duration) -> Result<Value> {
    status_until(
        namespace,
        name,
        &format!("{name} is Ready"),
        limit,
        |status| condition(status, "Ready") == Some("True"),
    )
    .await
}

/// The status of a condition.
pub fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a str> {
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"] == type_)?["status"].as_str()
}

/// Whether a step waits for that reason.
pub fn waits_for(status: &Value, reason: &str) -> bool {
    let steps = status["plan"]["steps"].as_array();
    steps
        .into_iter()
        .flatten()
        .any(|s| s["blocker"]["reason"] == reason)
}
