//! One control plane for all tests of a run; each test has a namespace of its own.

use anyhow::{Context, Result};
use ensemble_testbed::{ControlPlane, Options, Version};
use std::time::Duration;
use tokio::sync::OnceCell;

static CLUSTER: OnceCell<ControlPlane> = OnceCell::const_new();

/// The shared cluster: started by the first test that asks. `ENSEMBLE_KUBERNETES=oldest` makes it
/// the oldest supported version.
pub async fn cluster() -> Result<&'static ControlPlane> {
    CLUSTER.get_or_try_init(|| start(1)).await
}

/// Starts an API server and its store, with nobody who acts by himself.
pub async fn bare() -> Result<ControlPlane> {
    let mut options = Options {
        version: version(),
        bare: true,
        ..Options::default()
    };
    // What an API server says if nobody told it otherwise.
    options.timers.evict_after_seconds = 300;
    ControlPlane::start(options)
        .await
        .context("start the API server")
}

fn version() -> Version {
    let oldest = std::env::var("ENSEMBLE_KUBERNETES").is_ok_and(|v| v == "oldest");
    if oldest {
        Version::Oldest
    } else {
        Version::Current
    }
}

/// Starts a cluster of that many API servers, with the definitions in it.
pub async fn start(api_servers: usize) -> Result<ControlPlane> {
    let options = Options {
        version: version(),
        fake_nodes: 3,
        api_servers,
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

/// Installs the definitions.
pub async fn install_crds(client: &kube::Client) -> Result<()> {
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
