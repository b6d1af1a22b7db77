//! Dynamic volumes: provisioning, deletion and expansion, in place of a storage driver.
//!
//! All nodes share the machine's file system, so a directory can follow its pod to any node, and
//! only the node affinity of a `local` volume binds it to one. What this cannot show: attaching,
//! detaching, snapshots, and running out of space.

mod class;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use kube_quantity::Quantity;
use serde_json::{Value, json};

use crate::background::Background;
use crate::client;
use crate::phase::say;
pub use class::{CLASSES, Class, PROVISIONER};

const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// What is behind a volume.
#[derive(Clone, Debug)]
pub enum Backing {
    /// Nothing: for simulated nodes, which mount nothing.
    Nothing,
    /// A directory for each volume below this one.
    Directories(PathBuf),
}

/// The provisioner at work; dropping it stops it.
pub struct Volumes {
    _work: Background,
}

impl Volumes {
    /// Installs the storage classes and serves their claims in the background.
    pub fn start(kubeconfig: &Path, backing: Backing) -> Result<Volumes> {
        let kubeconfig = kubeconfig.to_owned();
        let work = Background::start("volumes", async move || serve(&kubeconfig, backing).await)?;
        Ok(Volumes { _work: work })
    }
}

/// Installs the storage classes and serves their claims for ever.
pub async fn serve(kubeconfig: &Path, backing: Backing) -> Result<()> {
    let client = client::from_kubeconfig(kubeconfig).await?;
    class::install(&client).await?;
    let claims: Api<PersistentVolumeClaim> = Api::all(client.clone());
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let settings = watcher::Config::default;
    let mut claims = watcher(claims, settings())
        .default_backoff()
        .applied_objects()
        .boxed();
    let mut volumes = watcher(volumes, settings())
        .default_backoff()
        .applied_objects()
        .boxed();
    loop {
        tokio::select! {
            Some(claim) = claims.next() => if let Ok(claim) = claim {
                tokio::spawn(serve_claim(client.clone(), backing.clone(), claim));
            },
            Some(volume) = volumes.next() => if let Ok(volume) = volume {
                tokio::spawn(serve_volume(client.clone(), volume));
            },
            else => return Ok(()),
        }
    }
}

async fn serve_claim(client: Client, backing: Backing, claim: PersistentVolumeClaim) {
    let what = format!(
        "claim {}/{}",
        claim.namespace().unwrap_or_default(),
        claim.name_any()
    );
    retry(&what, || follow_claim(&client, &backing, &claim)).await;
}

async fn serve_volume(client: Client, volume: PersistentVolume) {
    let what = format!("volume {}", volume.name_any());
    retry(&what, || delete_if_released(&client, &volume)).await;
}

/// Tries a few times: requests fail while the API server is restarted on purpose.
async fn retry<Working: Future<Output = Result<()>>>(what: &str, work: impl Fn() -> Working) {
    for attempt in 1..=5 {
        match work().await {
            Ok(()) => return,
            Err(error) => say(&format!("{what}, attempt {attempt}: {error:#}")),
        }
        tokio::time::sleep(Duration::from_secs(attempt)).await;
    }
}

async fn follow_claim(
    client: &Client,
    backing: &Backing,
    claim: &PersistentVolumeClaim,
) -> Result<()> {
    let Some(class) = class_of(claim) else {
        return Ok(());
    };
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    match claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
    {
        Some("Bound") if class.expandable => expand(client, claim).await,
        Some("Bound") => Ok(()),
        _ => provision(client, backing, class, claim).await,
    }
}

fn class_of(claim: &PersistentVolumeClaim) -> Option<Class> {
    Class::named(claim.spec.as_ref()?.storage_class_name.as_deref()?)
}

async fn provision(
    client: &Client,
    backing: &Backing,
    class: Class,
    claim: &PersistentVolumeClaim,
) -> Result<()> {
    let node = claim.annotations().get(SELECTED_NODE);
    if class.node_bound && node.is_none() {
        return Ok(());
    }
    let uid = claim.uid().context("a claim without uid")?;
    let name = format!("pvc-{uid}");
    let path = match backing {
        Backing::Nothing => PathBuf::from("/nonexistent").join(&name),
        Backing::Directories(root) => make_directory(&root.join(&name))?,
    };
    let spec = claim.spec.as_ref().context("a claim without spec")?;
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": requested(claim)},
            "accessModes": spec.access_modes,
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": class.name,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": uid,
                "namespace": claim.namespace(), "name": claim.name_any()},
        },
    });
    match node.filter(|_| class.node_bound) {
        Some(node) => {
            volume["spec"]["local"] = json!({"path": path});
            volume["spec"]["nodeAffinity"] = only_on(node);
        }
        None => volume["spec"]["hostPath"] = json!({"path": path}),
    }
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volume: PersistentVolume = serde_json::from_value(volume)?;
    match volumes.create(&PostParams::default(), &volume).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error).context("failed to create the volume"),
    }
}

/// Open to every user: containers run as users of their own, and a hostPath volume is not given
/// to the pod's group.
fn make_directory(path: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)))
        .with_context(|| format!("failed to make {}", path.display()))?;
    Ok(path.to_owned())
}

fn only_on(node: &str) -> Value {
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
    ]}]}})
}

fn requested(claim: &PersistentVolumeClaim) -> String {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    requests
        .and_then(|all| all.get("storage"))
        .map_or_else(|| "1Gi".into(), |q| q.0.clone())
}

/// Grows the volume, then says so in the claim, in the order an external resizer does.
async fn expand(client: &Client, claim: &PersistentVolumeClaim) -> Result<()> {
    let wanted = requested(claim);
    let capacity = claim
        .status
        .as_ref()
        .and_then(|status| status.capacity.as_ref());
    let Some(has) = capacity.and_then(|all| all.get("storage")) else {
        return Ok(());
    };
    if Quantity::parse(&wanted) <= Quantity::parse(&has.0) {
        return Ok(());
    }
    let namespace = claim.namespace().unwrap_or_default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volume = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.clone());
    let volume = volume.context("a bound claim without volume")?;
    let (name, parameters) = (claim.name_any(), PatchParams::default());
    let now = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let began = json!({"status": {
        "allocatedResources": {"storage": wanted},
        "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
        "conditions": [{"type": "Resizing", "status": "True",
            "lastTransitionTime": now}],
    }});
    claims
        .patch_status(&name, &parameters, &Patch::Merge(began))
        .await?;
    let grown = json!({"spec": {"capacity": {"storage": wanted}}});
    volumes
        .patch(&volume, &parameters, &Patch::Merge(grown))
        .await?;
    let done = json!({"status": {"capacity": {"storage": wanted},
        "allocatedResourceStatuses": null, "conditions": null}});
    claims
        .patch_status(&name, &parameters, &Patch::Merge(done))
        .await?;
    Ok(())
}

async fn delete_if_released(client: &Client, volume: &PersistentVolume) -> Result<()> {
    let ours = volume
        .annotations()
        .get(PROVISIONED_BY)
        .is_some_and(|by| by == PROVISIONER);
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let Some(spec) = volume
        .spec
        .as_ref()
        .filter(|_| ours && phase == Some("Released"))
    else {
        return Ok(());
    };
    if spec.persistent_volume_reclaim_policy.as_deref() != Some("Delete") {
        return Ok(());
    }
    let path = spec.host_path.as_ref().map(|source| &source.path);
    if let Some(path) = path.or(spec.local.as_ref().map(|source| &source.path)) {
        crate::cache::remove_tree(Path::new(path))?;
    }
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    match volumes
        .delete(&volume.name_any(), &DeleteParams::default())
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        answer => answer.map(|_| ()).context("failed to delete the volume"),
    }
}
