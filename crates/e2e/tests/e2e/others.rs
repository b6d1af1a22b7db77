//! What others do to our pods: an admission that rewrites images, a quota, somebody who edits a label.

use anyhow::{Context, Result, ensure};
use ensemble_e2e::ensemble::{ensembles, install, ready, web};
use ensemble_e2e::stage::{Need, enter};
use ensemble_e2e::{TOOLBOX, web_pod};
use ensemble_testbed::eventually;
use ensemble_testbed::harness::{Cluster, TestNamespace, container_status, is_ready};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const NAMES: [&str; 3] = ["web-0", "web-1", "web-2"];

async fn members(namespace: &TestNamespace) -> Result<Vec<Pod>> {
    let pods = namespace.api::<Pod>();
    let mut members = Vec::new();
    for name in NAMES {
        members.push(pods.get(name).await?);
    }
    Ok(members)
}

/// By member: its pod and the run of its container.
async fn marks(namespace: &TestNamespace) -> Result<BTreeMap<String, String>> {
    let mark = |pod: Pod| {
        let run = container_status(&pod).and_then(|c| c.container_id.clone());
        (pod.name_any(), format!("{:?} {run:?}", pod.uid()))
    };
    Ok(members(namespace).await?.into_iter().map(mark).collect())
}

/// Adds a label to the template, and waits until everybody has it.
async fn label_everybody(namespace: &TestNamespace, label: &str) -> Result<()> {
    let body = json!({"spec": {"template": {"metadata": {"labels": {label: "yes"}}}}});
    let api = ensembles(namespace.client(), &namespace.name);
    api.patch("web", &PatchParams::default(), &Patch::Merge(body))
        .await?;
    ready(namespace, "web", LIMIT).await?;
    let labelled = |pod: &Pod| pod.labels().contains_key(label);
    ensure!(
        members(namespace).await?.iter().all(labelled),
        "not everybody has the label {label}"
    );
    Ok(())
}

fn image_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.containers.first()?.image.clone()
}

/// The image of the members by its digest, by a kubelet's word.
async fn digest(namespace: &TestNamespace) -> Result<String> {
    namespace.apply(web_pod("scout", None)).await?;
    let scout = namespace.ready_pod("scout", LIMIT).await?;
    let digest = container_status(&scout).map(|c| c.image_id.clone());
    let pods = namespace.api::<Pod>();
    pods.delete("scout", &DeleteParams::default()).await?;
    eventually("the scout is gone", LIMIT, async || {
        Ok(pods.get_opt("scout").await?.is_none().then_some(()))
    })
    .await?;
    digest.context("no image id")
}

/// Lets the API server pin the image of every new pod of this namespace, as registry mirrors and those
/// who sign images do.
async fn pin_images(namespace: &TestNamespace, digest: &str) -> Result<()> {
    let name = &namespace.name;
    let patch = format!(
        "[JSONPatch{{op: \"replace\", path: \"/spec/containers/0/image\", value: \"{digest}\"}}]"
    );
    let constraints = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
        }],
    });
    let is_ours = format!("object.spec.containers[0].image == \"{TOOLBOX}:1\"");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": constraints,
            "matchConditions": [{"name": "ours", "expression": is_ours}],
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        },
    });
    namespace.apply(policy).await?;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name},
    });
    namespace.apply(binding).await?;
    let pods = namespace.api::<Pod>();
    let pod: Pod = serde_json::from_value(web_pod("asked", None))?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("images are pinned", LIMIT, async || {
        let pinned = pods.create(&dry, &pod).await?;
        Ok((image_of(&pinned).as_deref() == Some(digest)).then_some(()))
    })
    .await
}

/// Leaves no rule behind for those who come later.
async fn unpin_images(namespace: &TestNamespace) -> Result<()> {
    for kind in ["MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"] {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::all_with(namespace.client(), &resource);
        api.delete(&namespace.name, &DeleteParams::default())
            .await?;
    }
    Ok(())
}

/// Lets the namespace have three pods and no more.
async fn exactly_three(namespace: &TestNamespace) -> Result<()> {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "three"},
        "spec": {"hard": {"pods": "3"}},
    });
    namespace.apply(quota).await?;
    let quotas = namespace.api::<ResourceQuota>();
    eventually("the quota is used up", LIMIT, async || {
        let status = quotas.get("three").await?.status.unwrap_or_default();
        let used = status.used.unwrap_or_default();
        Ok(used.get("pods").filter(|n| n.0 == "3").map(|_| ()))
    })
    .await
}

/// A label for everybody, and another one with no room for a fourth pod.
async fn label_twice(namespace: &TestNamespace) -> Result<()> {
    namespace.apply(web("1")).await?;
    ready(namespace, "web", LIMIT).await?;
    let before = marks(namespace).await?;
    label_everybody(namespace, "first").await?;
    ensure!(marks(namespace).await? == before, "somebody was restarted");
    exactly_three(namespace).await?;
    label_everybody(namespace, "second").await?;
    ensure!(marks(namespace).await? == before, "somebody was restarted");
    Ok(())
}

#[tokio::test]
async fn a_label_restarts_nobody_where_images_are_rewritten_and_a_quota_fits_exactly() -> Result<()>
{
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    if cluster.testbed().is_none() {
        return Ok(());
    }
    install(&cluster).await?;
    TestNamespace::run(&cluster, "rewritten", async |namespace| {
        let digest = digest(namespace).await?;
        pin_images(namespace, &digest).await?;
        let outcome = label_twice(namespace).await;
        unpin_images(namespace).await?;
        outcome?;
        for pod in members(namespace).await? {
            let image = image_of(&pod);
            ensure!(image.as_ref() == Some(&digest), "{image:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_member_whose_label_somebody_edited_is_ours_again_and_goes_on() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "edited", async |namespace| {
        namespace.apply(web("1")).await?;
        ready(namespace, "web", LIMIT).await?;
        let before = marks(namespace).await?;
        let key = "ensemble.dev/ensemble";
        let body: Value = json!({"metadata": {"labels": {key: "elsewhere"}}});
        let pods = namespace.api::<Pod>();
        pods.patch("web-2", &PatchParams::default(), &Patch::Merge(body))
            .await?;
        namespace
            .pod_until("web-2", "has its label again", LIMIT, |pod| {
                pod.labels().get(key).is_some_and(|v| v == "web") && is_ready(pod)
            })
            .await?;
        ensure!(marks(namespace).await? == before, "somebody was touched");
        label_everybody(namespace, "later").await?;
        ensure!(marks(namespace).await? == before, "somebody was touched");
        Ok(())
    })
    .await
}
