//! A namespace with an Ensemble in it, and a controller that looks after that namespace.

use crate::cluster;
use anyhow::{Context, Result, anyhow};
use ensemble_api::{Ensemble, EnsembleStatus, Reason};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long anything may take. Machines are slow and busy; a test that passes ends much sooner.
pub const PATIENCE: Duration = Duration::from_secs(90);

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A controller that runs in this process.
pub struct Controller {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), ensemble_controller::ControllerError>>,
}

impl Controller {
    /// Stops as a process does that was told to: hands the lead over.
    pub async fn stop(mut self) -> Result<()> {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        (&mut self.task)
            .await
            .context("the controller panicked")??;
        Ok(())
    }

    /// Waits until it ends by itself, and says why.
    pub async fn ended(mut self) -> Result<()> {
        (&mut self.task)
            .await
            .context("the controller panicked")??;
        Ok(())
    }

    /// Ends at once, in the middle of whatever it does, and hands nothing over.
    pub fn kill(self) {
        self.task.abort();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How a controller of one namespace is run.
pub(crate) fn options(namespace: &str, identity: &str) -> ensemble_controller::Options {
    ensemble_controller::Options {
        namespace: Some(namespace.to_owned()),
        nodes: true,
        lease_namespace: Some(namespace.to_owned()),
        identity: Some(identity.to_owned()),
        ..Default::default()
    }
}

/// A namespace of one test.
pub struct Stage {
    /// An administrator's client.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
    config: Config,
    kubeconfig: std::path::PathBuf,
    own: Option<ensemble_testbed::ControlPlane>,
}

impl Stage {
    /// Makes a namespace named after the test.
    pub async fn new(test: &str) -> Result<Self> {
        Self::made(test, cluster().await?.kubeconfig(), None).await
    }

    /// The same in a cluster of its own, for tests that break the cluster.
    pub async fn own_cluster(test: &str) -> Result<Self> {
        Self::own_cluster_of(test, 1).await
    }

    /// The same, with several API servers; the first is the one that everybody talks to.
    pub async fn own_cluster_of(test: &str, api_servers: usize) -> Result<Self> {
        let own = crate::cluster::start(api_servers).await?;
        let kubeconfig = own.kubeconfig();
        Self::made(test, kubeconfig, Some(own)).await
    }

    /// The cluster of its own, to be broken.
    pub fn plane_mut(&mut self) -> Option<&mut ensemble_testbed::ControlPlane> {
        self.own.as_mut()
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// The cluster of its own.
    pub fn plane(&self) -> Option<&ensemble_testbed::ControlPlane> {
        self.own.as_ref()
    }

    async fn made(
        test: &str,
        kubeconfig: std::path::PathBuf,
        own: Option<ensemble_testbed::ControlPlane>,
    ) -> Result<Self> {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let read = kube::config::Kubeconfig::read_from(&kubeconfig)?;
        let config = Config::from_custom_kubeconfig(read, &Default::default()).await?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{}-{}-{number}", test.replace('_', "-"), std::process::id());
        let namespace: String = namespace
            .chars()
            .rev()
            .take(60)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        let namespace = namespace.trim_start_matches('-').to_owned();
        // kube's own client tries a refused eviction again for minutes.
        let client = ensemble_controller::client(config.clone())?;
        let stage = Self {
            client,
            namespace,
            config,
            kubeconfig,
            own,
        };
        let body: Namespace =
            serde_json::from_value(json!({"metadata": {"name": stage.namespace}}))?;
        Api::all(stage.client.clone())
            .create(&PostParams::default(), &body)
            .await?;
        let accounts: Api<ServiceAccount> = stage.api();
        stage
            .eventually("the default account exists", async || {
                Ok(accounts.get_opt("default").await?)
            })
            .await?;
        Ok(stage)
    }

    /// An API of this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The administrator's client, which acts as that user.
    pub fn acting_as(&self, user: &str) -> Result<Client> {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        Ok(Client::try_from(config)?)
    }

    /// Starts a controller for this namespace, with nodes in view.
    pub async fn controller(&self, identity: &str) -> Result<Controller> {
        let options = options(&self.namespace, identity);
        self.run(options)
    }

    /// Starts a controller with a Lease of its own, at that epoch: it believes to lead whoever else
    /// does.
    pub async fn controller_leading(&self, lease: &str, epoch: i32) -> Result<Controller> {
        let body: k8s_openapi::api::coordination::v1::Lease = serde_json::from_value(json!({
            "metadata": {"name": lease}, "spec": {"leaseTransitions": epoch}}))?;
        self.api().create(&PostParams::default(), &body).await?;
        let mut options = options(&self.namespace, lease);
        options.lease_name = lease.to_owned();
        self.run(options)
    }

    fn run(&self, options: ensemble_controller::Options) -> Result<Controller> {
        let client = ensemble_controller::client(self.config.clone())?;
        let (stop, stopped) = oneshot::channel();
        let run = ensemble_controller::run(options, client, async move {
            let _ = stopped.await;
        });
        Ok(Controller {
            stop: Some(stop),
            task: tokio::spawn(run),
        })
    }

    /// Waits for something, as long as anything may take.
    pub async fn eventually<T, Looking>(
        &self,
        what: &str,
        look: impl FnMut() -> Looking,
    ) -> Result<T>
    where
        Looking: Future<Output = Result<Option<T>>>,
    {
        self.eventually_within(PATIENCE, what, look).await
    }

    /// Waits for something as long as it may take.
    pub async fn eventually_within<T, Looking>(
        &self,
        limit: Duration,
        what: &str,
        look: impl FnMut() -> Looking,
    ) -> Result<T>
    where
        Looking: Future<Output = Result<Option<T>>>,
    {
        let found = ensemble_testbed::eventually(what, limit, look).await;
        match found {
            Ok(found) => Ok(found),
            Err(error) => Err(anyhow!("{error:#}\n{}", self.describe().await)),
        }
    }

    /// The Ensemble `orders` of three members with two claims.
    pub fn orders(&self) -> Value {
        json!({
            "apiVersion": "ensemble.dev/v1alpha1",
            "kind": "Ensemble",
            "metadata": {"name": "orders", "namespace": self.namespace},
            "spec": {
                "replicas": 3,
                "template": {
                    // Some characters that Kubernetes writes in another way than we do.
                    "metadata": {"labels": {"app": "orders"}, "annotations": {"note": "<a> && b"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{"name": "db", "image": "fake/db:1",
                                        "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
                    },
                },
                "claims": [
                    {"name": "data", "spec": {"resources": {"requests": {"storage": "1Gi"}}}},
                    {"name": "wal", "spec": {"resources": {"requests": {"storage": "1Gi"}}}},
                ],
            },
        })
    }

    /// Applies an Ensemble.
    pub async fn create(&self, ensemble: &Value) -> Result<Ensemble> {
        let body: Ensemble = serde_json::from_value(ensemble.clone())?;
        Ok(self.api().create(&PostParams::default(), &body).await?)
    }

    /// Merges into the Ensemble `orders`.
    pub async fn patch(&self, body: Value) -> Result<Ensemble> {
        let api: Api<Ensemble> = self.api();
        Ok(api
            .patch("orders", &PatchParams::default(), &Patch::Merge(body))
            .await?)
    }

    /// Changes the image.
    pub async fn image(&self, image: &str) -> Result<Ensemble> {
        let container = json!({"name": "db", "image": image,
                               "volumeMounts": [{"name": "data", "mountPath": "/data"}]});
        self.patch(json!({"spec": {"template": {"spec": {"containers": [container]}}}}))
            .await
    }

    /// The Ensemble `orders`.
    pub async fn get(&self) -> Result<Ensemble> {
        Ok(self.api::<Ensemble>().get("orders").await?)
    }

    /// Waits until an Ensemble of that name says so of itself, at its present generation.
    pub async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&EnsembleStatus) -> bool,
    ) -> Result<EnsembleStatus> {
        self.eventually(&format!("{name}: {what}"), async || {
            let ensemble = self.api::<Ensemble>().get(name).await?;
            let status = ensemble.status.unwrap_or_default();
            let seen = Some(status.observed_generation) == ensemble.metadata.generation;
            Ok((seen && holds(&status)).then_some(status))
        })
        .await
    }

    /// Its status.
    pub async fn status(&self) -> Result<EnsembleStatus> {
        Ok(self.get().await?.status.unwrap_or_default())
    }

    /// Waits until `orders` says that it is Ready at its present generation.
    pub async fn ready(&self) -> Result<EnsembleStatus> {
        self.ready_within(PATIENCE).await
    }

    /// The same, for what takes Kubernetes itself longer.
    pub async fn ready_within(&self, limit: Duration) -> Result<EnsembleStatus> {
        self.eventually_within(limit, "orders is Ready", async || {
            let ensemble = self.get().await?;
            let status = ensemble.status.unwrap_or_default();
            let seen = Some(status.observed_generation) == ensemble.metadata.generation;
            let ready = status
                .condition("Ready")
                .is_some_and(|c| c.status == "True");
            Ok((seen && ready).then_some(status))
        })
        .await
    }

    /// Waits until a step of `orders` waits for that reason.
    pub async fn blocked(&self, reason: Reason) -> Result<ensemble_api::Step> {
        self.eventually(&format!("orders waits for {reason}"), async || {
            let ensemble = self.get().await?;
            let status = ensemble.status.unwrap_or_default();
            let seen = Some(status.observed_generation) == ensemble.metadata.generation;
            let steps = status.plan.steps.into_iter();
            let mut found =
                steps.filter(|s| s.blocker.as_ref().is_some_and(|b| b.reason == reason));
            Ok(found.next().filter(|_| seen))
        })
        .await
    }

    /// The pods of `orders`' members by name, with uid.
    pub async fn members(&self) -> Result<Vec<Pod>> {
        let params = ListParams::default().labels("ensemble.dev/group=members");
        Ok(self.api::<Pod>().list(&params).await?.items)
    }

    /// Name and uid of each member's pod.
    pub async fn uids(&self) -> Result<Vec<(String, String)>> {
        let pods = self.members().await?;
        let pair = |p: Pod| {
            (
                p.metadata.name.unwrap_or_default(),
                p.metadata.uid.unwrap_or_default(),
            )
        };
        Ok(pods.into_iter().map(pair).collect())
    }

    /// Names of all claims.
    pub async fn claims(&self) -> Result<Vec<String>> {
        let claims = self
            .api::<PersistentVolumeClaim>()
            .list(&ListParams::default())
            .await?;
        Ok(claims
            .items
            .into_iter()
            .filter_map(|c| c.metadata.name)
            .collect())
    }

    /// Deletes an object, as a user does.
    pub async fn delete<K>(&self, name: &str) -> Result<()>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope> + Clone + std::fmt::Debug,
        K: serde::de::DeserializeOwned,
        K::DynamicType: Default,
    {
        self.api::<K>()
            .delete(name, &DeleteParams::background())
            .await?;
        Ok(())
    }

    async fn describe(&self) -> String {
        let status = self.status().await;
        let status = status
            .ok()
            .and_then(|s| serde_json::to_string_pretty(&s).ok());
        let pods = self.members().await.unwrap_or_default();
        let pods: Vec<String> = pods
            .iter()
            .map(|p| {
                let phase = p.status.as_ref().and_then(|s| s.phase.clone());
                format!(
                    "{:?} {:?} {phase:?}",
                    p.metadata.name, p.metadata.deletion_timestamp
                )
            })
            .collect();
        let claims = self.api::<PersistentVolumeClaim>();
        let claims = claims.list(&ListParams::default()).await;
        let phase = |c: PersistentVolumeClaim| (c.metadata.name, c.status.and_then(|s| s.phase));
        let claims: Vec<_> = claims.into_iter().flatten().map(phase).collect();
        let budgets = self.api::<PodDisruptionBudget>();
        let budgets = budgets.list(&ListParams::default()).await;
        let budgets: Vec<_> = budgets
            .into_iter()
            .flatten()
            .map(|b| (b.metadata.name, b.status))
            .collect();
        let status = status.unwrap_or_default();
        format!("status: {status}\npods: {pods:#?}\nclaims: {claims:?}\nbudgets: {budgets:#?}")
    }
}
