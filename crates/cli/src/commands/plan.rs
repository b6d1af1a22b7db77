//! `plan`: what a change would do to an ensemble that runs.

use crate::args::{Global, Plan};
use crate::cluster::{Cluster, FIELD_MANAGER, ensemble_resource};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::view::changes;
use crate::view::forecast::Told;
use crate::view::paint::Paint;
use crate::{file, output};
use ensemble_rehearsal::forecast::{Forecast, Given, Stage, Status};
use jiff::Timestamp;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams, Request};
use kube::core::Resource as _;
use serde_json::Value;
use std::path::Path;

/// What would happen, with what it was made from.
pub struct Foretold {
    /// What differs from the spec as it is.
    pub changes: Vec<String>,
    /// The generation as it is; None for an Ensemble that does not exist yet.
    pub generation: Option<i64>,
    /// What was not known and is assumed.
    pub notes: Vec<String>,
    /// What would happen.
    pub forecast: Forecast,
}

/// Reads, asks, foretells, prints.
pub async fn run(cluster: &Cluster, global: &Global, args: &Plan) -> Result<Exit, Failure> {
    let foretold = foretell(cluster, args).await?;
    let changed = i64::from(!foretold.changes.is_empty());
    let told = Told {
        name: &args.name,
        namespace: &cluster.namespace,
        generation: foretold.generation.map(|now| (now, now + changed)),
        changes: &foretold.changes,
        notes: &foretold.notes,
        forecast: &foretold.forecast,
    };
    let next = match &args.file {
        Some(path) => format!(
            "kubectl apply -n {} -f {}",
            cluster.namespace,
            path.display()
        ),
        None => String::new(),
    };
    let text = || told.plan(&next, Paint::choose(global.color));
    output::print(&output::render(global.output, &told.value(), text)?)?;
    Ok(told.exit())
}

/// Reads, asks, foretells. Nothing is changed.
pub async fn foretell(cluster: &Cluster, args: &Plan) -> Result<Foretold, Failure> {
    let name = &args.name;
    let wanted = match &args.file {
        None => None,
        Some(path) => {
            let wanted = file::ensemble(path)?;
            file::is_about(path, &wanted, &cluster.namespace, name)?;
            Some(wanted)
        }
    };
    let live = cluster.ensembles().get_opt(name).await;
    let live = match live.map_err(|error| cluster.not_found(name, error))? {
        Some(live) => Some(super::plain(&live)?),
        // Says where was looked.
        None if wanted.is_none() => Some(super::plain(&cluster.ensemble(name).await?)?),
        None => None,
    };
    let mut notes = Vec::new();
    let wanted = match wanted {
        None => live.clone().unwrap_or_default(),
        Some(wanted) => {
            let path = args.file.as_deref().unwrap_or(Path::new("-"));
            asked(cluster, path, live.as_ref(), wanted, &mut notes).await?
        }
    };
    let given = read(cluster, name, live.clone(), &mut notes).await?;
    let mut forecast = play(&given, &wanted, args.file.is_some())?;
    if live.is_none() {
        // It is made of the uid, which nobody knows yet.
        forecast.plan.clear();
    }
    let changes = live
        .as_ref()
        .map(|l| changes::between(&l["spec"], &wanted["spec"]));
    let generation = |e: &Value| e["metadata"]["generation"].as_i64().unwrap_or(0);
    Ok(Foretold {
        changes: changes.unwrap_or_default(),
        generation: live.as_ref().map(generation),
        notes,
        forecast,
    })
}

fn play(given: &Given, wanted: &Value, change: bool) -> Result<Forecast, Failure> {
    let refused =
        |status: Status| Failure::error(format!("it would be refused: {}", status.message));
    let mut stage = Stage::like(given).map_err(refused)?;
    if change {
        stage.put(wanted).map_err(refused)?;
    }
    stage.play(&[]);
    Ok(stage.forecast())
}

/// The Ensemble as the API server would store it, or why it would not.
async fn asked(
    cluster: &Cluster,
    path: &Path,
    live: Option<&Value>,
    mut wanted: Value,
    notes: &mut Vec<String>,
) -> Result<Value, Failure> {
    wanted["metadata"]["namespace"] = cluster.namespace.clone().into();
    let body = match live {
        None => wanted.clone(),
        Some(live) => {
            let mut body = live.clone();
            body["spec"] = wanted["spec"].clone();
            body
        }
    };
    let file = path.display();
    match dry_run(cluster, live.is_some(), &body).await {
        Ok(stored) => Ok(stored),
        // Whoever may only read gets a forecast too.
        Err(kube::Error::Api(status)) if status.code == 403 => {
            notes.push(format!(
                "the API server accepts {file}; it was not asked: {}",
                status.message
            ));
            Ok(body)
        }
        Err(kube::Error::Api(status)) if status.code == 422 || status.code == 400 => {
            let failure = Failure::error(format!("{file} would be refused: {}", status.message));
            Err(failure.hint("nothing was changed; correct the field that is named"))
        }
        Err(error) => Err(Failure::of_call(&format!("cannot try {file}"), error)),
    }
}

async fn dry_run(cluster: &Cluster, exists: bool, body: &Value) -> kube::Result<Value> {
    let url = DynamicObject::url_path(&ensemble_resource(), Some(&cluster.namespace));
    let params = PostParams {
        dry_run: true,
        field_manager: Some(FIELD_MANAGER.into()),
    };
    let data = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let calls = Request::new(url);
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let built = match exists {
        true => calls.replace(name, &params, data),
        false => calls.create(&params, data),
    };
    let mut request = built.map_err(kube::Error::BuildRequest)?;
    // A field that is misspelt is refused rather than dropped.
    if let Ok(strict) = format!("{}&fieldValidation=Strict", request.uri()).parse() {
        *request.uri_mut() = strict;
    }
    cluster.client.request(request).await
}

async fn list(
    cluster: &Cluster,
    (group, version, kind, plural): (&str, &str, &str, &str),
    namespaced: bool,
) -> kube::Result<Vec<Value>> {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    let client = cluster.client.clone();
    let api: Api<DynamicObject> = match namespaced {
        true => Api::namespaced_with(client, &cluster.namespace, &resource),
        false => Api::all_with(client, &resource),
    };
    let found = api.list(&ListParams::default()).await?;
    let values = found.items.iter().map(|o| {
        let mut value = serde_json::to_value(o).map_err(kube::Error::SerdeError)?;
        value["apiVersion"] = resource.api_version.clone().into();
        value["kind"] = resource.kind.clone().into();
        Ok(value)
    });
    values.collect()
}

/// What the ensemble's world looks like. What may not be read cluster-wide is assumed.
async fn read(
    cluster: &Cluster,
    name: &str,
    ensemble: Option<Value>,
    notes: &mut Vec<String>,
) -> Result<Given, Failure> {
    let need = async |which: (&str, &str, &str, &str)| {
        let doing = format!(
            "cannot list {} in namespace '{}'",
            which.3, cluster.namespace
        );
        list(cluster, which, true)
            .await
            .map_err(|error| Failure::of_call(&doing, error))
    };
    let group = ensemble_api::GROUP;
    let requests = (
        group,
        ensemble_api::VERSION,
        "EnsembleRequest",
        "ensemblerequests",
    );
    let mut given = Given {
        now_ms: u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0),
        namespace: cluster.namespace.clone(),
        name: name.to_owned(),
        ensemble,
        requests: need(requests).await?,
        pods: need(("", "v1", "Pod", "pods")).await?,
        claims: need(("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")).await?,
        revisions: need(("apps", "v1", "ControllerRevision", "controllerrevisions")).await?,
        services: need(("", "v1", "Service", "services")).await?,
        budgets: need((
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
        ))
        .await?,
        ..Given::default()
    };
    let wide = [
        (("", "v1", "Node", "nodes"), &mut given.nodes),
        (
            ("", "v1", "PersistentVolume", "persistentvolumes"),
            &mut given.volumes,
        ),
        (
            ("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
            &mut given.classes,
        ),
    ];
    for (which, place) in wide {
        match list(cluster, which, false).await {
            Ok(found) => *place = found,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                notes.push(format!(
                    "{} suit every member; they may not be read",
                    which.3
                ));
            }
            Err(error) => {
                return Err(Failure::of_call(&format!("cannot list {}", which.3), error));
            }
        }
    }
    Ok(given)
}
