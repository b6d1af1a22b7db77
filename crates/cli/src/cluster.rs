//! The cluster that is meant, and calls to it on behalf of the user.

use crate::args::Global;
use crate::failure::{Failure, kind_is_unknown};
use ensemble_api::Ensemble;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

/// Our name as a writer: managed fields show what was changed by hand.
pub const FIELD_MANAGER: &str = "ensemble-cli";

/// A cluster, and the namespace that is meant in it.
#[derive(Clone)]
pub struct Cluster {
    /// Calls it. Nothing is retried: a write whose answer was lost may have been done.
    pub client: Client,
    /// The namespace given, or that of the context.
    pub namespace: String,
}

impl Cluster {
    /// As the flags say.
    pub async fn connect(global: &Global) -> Result<Self, Failure> {
        let mut config = config(global).await?;
        config.default_retry = false;
        let namespace = global
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config)
            .map_err(|error| Failure::error(format!("cannot talk to {server}: {error}")))?;
        Ok(Self { client, namespace })
    }

    /// A command that can be pasted as it is, wherever the current context points.
    pub fn pasted(&self, command: &str) -> String {
        format!("{command} -n {}", self.namespace)
    }

    /// Ensembles as they came: fields that this version does not know are kept, and one that cannot
    /// be read does not hide the others.
    pub fn ensembles(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &ensemble_resource())
    }

    /// Those of all namespaces.
    pub fn all_ensembles(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ensemble_resource())
    }

    /// One ensemble.
    pub async fn ensemble(&self, name: &str) -> Result<DynamicObject, Failure> {
        self.ensembles()
            .get(name)
            .await
            .map_err(|error| self.not_found(name, error))
    }

    /// The revisions of an ensemble, oldest first.
    pub async fn revisions(&self, name: &str) -> Result<Vec<ControllerRevision>, Failure> {
        let api: Api<ControllerRevision> = Api::namespaced(self.client.clone(), &self.namespace);
        let selector = format!("{}={name}", ensemble_api::labels::ENSEMBLE);
        let found = api.list(&ListParams::default().labels(&selector)).await;
        let doing = format!(
            "cannot list the revisions of {name} in namespace {}",
            self.namespace
        );
        let mut revisions = found
            .map_err(|error| Failure::of_call(&doing, error))?
            .items;
        revisions.sort_by_key(|revision| revision.revision);
        Ok(revisions)
    }

    /// Says where was looked, and where else it may be.
    pub fn not_found(&self, name: &str, error: kube::Error) -> Failure {
        let namespace = &self.namespace;
        match error {
            kube::Error::Api(status) if status.code == 404 && !kind_is_unknown(&status) => {
                Failure::error(format!("no Ensemble '{name}' in namespace '{namespace}'"))
                    .hint("look in all namespaces: ensemble status -A; choose one with -n")
            }
            error => Failure::of_call(
                &format!("cannot read Ensemble '{name}' in namespace '{namespace}'"),
                error,
            ),
        }
    }
}

/// The kind, as the API server's paths name it.
pub fn ensemble_resource() -> ApiResource {
    ApiResource::erase::<Ensemble>(&())
}

async fn config(global: &Global) -> Result<Config, Failure> {
    let options = KubeConfigOptions {
        context: global.context.clone(),
        ..Default::default()
    };
    if let Some(path) = &global.kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|error| {
            Failure::error(format!(
                "cannot read the kubeconfig {}: {error}",
                path.display()
            ))
        })?;
        return Config::from_custom_kubeconfig(file, &options)
            .await
            .map_err(no_config);
    }
    if global.context.is_some() {
        return Config::from_kubeconfig(&options).await.map_err(no_config);
    }
    Config::infer().await.map_err(no_config)
}

fn no_config(error: impl std::error::Error) -> Failure {
    Failure::error(format!("no cluster to talk to: {error}"))
        .hint("name one with --kubeconfig or --context; kubectl config get-contexts lists them")
}
