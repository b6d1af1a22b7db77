//! One control plane for all tests of a run; each test has a namespace of its own.

use anyhow::{Context, Result};
use ensemble_testbed::{ControlPlane, Options, Version};
use std::time::Duration;
use tokio::sync::OnceCell;

static CLUSTER: OnceCell<ControlPlane> = OnceCell::const_new();

/// The shared cluster: started by the first test that asks. `ENSEMBLE_KUBERNETES=oldest` makes it
/// the oldest supported version.
pub async fn cluster() -> Result<&'static ControlPlane> {
    CLUSTER.get_or_try_init(start).await
}

/// Starts a cluster with the definitions in it.
pub async fn start() -> Result<ControlPlane> {
    let oldest = std::env::var("ENSEMBLE_KUBERNETES").is_ok_and(|v| v == "oldest");
    let version = if oldest {
        Version::Oldest
    } else {
        Version::Current
    };
    let options = Options {
        version,
        fake_nodes: 3,
        ..Options::default()
    };
    let plane = ControlPlane::start(options)
        .await
        .context("start the control plane")?;
    let client = plane.client().await?;
    install_crds(&client)
        .await
        .context("install the definitions")?;
    Ok(plane)
}

async fn install_crds(client: &kube::Client) -> Result<()> {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let api: kube::Api<CustomResourceDefinition> = kube::Api::all(client.clone());
    for crd in ensemble_api::crd::all() {
        let name = crd.metadata.name.clone().unwrap_or_default();
        api.create(&Default::default(), &crd)
            .await
            .with_context(|| name.clone())?;
        ensemble_testbed::eventually(
            "the definition is served",
            Duration::from_secs(20),
            async || {
                let crd = api.get(&name).await?;
                let conditions = crd.status.and_then(|s| s.conditions).unwrap_or_default();
                let served = conditions
                    .iter()
                    .any(|c| c.type_ == "Established" && c.status == "True");
                Ok(served.then_some(()))
            },
        )
        .await?;
        // Established, it may still be getting its storage ready.
        let (group, version) = (crd.spec.group.clone(), crd.spec.versions[0].name.clone());
        let gvk = kube::core::GroupVersionKind::gvk(&group, &version, &crd.spec.names.kind);
        let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
        let objects: kube::Api<kube::api::DynamicObject> =
            kube::Api::all_with(client.clone(), &resource);
        ensemble_testbed::eventually("it can be listed", Duration::from_secs(20), async || {
            Ok(objects.list(&Default::default()).await.ok().map(|_| ()))
        })
        .await?;
    }
    Ok(())
}
