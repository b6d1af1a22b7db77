//! A namespace for each test, kept as evidence when the test fails.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::discovery::{self, Scope};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::{Cluster, artifacts, is_ready};
use crate::wait::eventually;

/// The namespace of one test.
pub struct TestNamespace {
    /// Its name.
    pub name: String,
    client: Client,
}

impl TestNamespace {
    /// Runs a test in a namespace of its own. If it fails, its events, objects and logs are saved
    /// below `e2e-artifacts`; the namespace is deleted in any case.
    pub async fn run(
        cluster: &Cluster,
        name: &str,
        test: impl AsyncFnOnce(&TestNamespace) -> Result<()>,
    ) -> Result<()> {
        let namespace = TestNamespace::create(cluster, name).await?;
        let outcome = namespace.watch(test).await;
        outcome.and(namespace.delete().await)
    }

    /// Makes a namespace whose name begins so.
    pub async fn create(cluster: &Cluster, test: &str) -> Result<TestNamespace> {
        let client = cluster.client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(json!({"metadata": {
            "generateName": format!("{test}-"),
            "labels": {"ensemble.dev/e2e-test": test},
        }}))?;
        let created = namespaces
            .create(&Default::default(), &object)
            .await
            .with_context(|| format!("failed to create a namespace for {test}"))?;
        let namespace = TestNamespace {
            name: created.name_any(),
            client,
        };
        namespace.wait_for_service_account().await?;
        Ok(namespace)
    }

    /// A namespace that another test has made.
    pub fn existing(cluster: &Cluster, name: String) -> TestNamespace {
        let client = cluster.client();
        TestNamespace { name, client }
    }

    /// Runs a test in this namespace. If it fails, or panics, the evidence is saved.
    pub async fn watch<T>(&self, test: impl AsyncFnOnce(&TestNamespace) -> Result<T>) -> Result<T> {
        let name = &self.name;
        let outcome = unless_panicked(AssertUnwindSafe(test(self)).catch_unwind().await);
        if let Err(error) = &outcome {
            eprintln!("{name} failed: {error:#}");
            artifacts::save(&self.client, name, &format!("{error:#}\n")).await;
        }
        outcome
    }

    /// Deletes it. It goes in the background; the next test does not wait for it.
    pub async fn delete(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let deleted = namespaces
            .delete(&self.name, &DeleteParams::default())
            .await;
        deleted.context("failed to delete the namespace")?;
        Ok(())
    }

    /// Pods are refused until the namespace has its default service account. That takes a moment,
    /// or much longer when the test before has just brought the API server back.
    async fn wait_for_service_account(&self) -> Result<()> {
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = self.api();
        eventually(
            "the default service account exists",
            Duration::from_secs(120),
            async || Ok(accounts.get_opt("default").await?),
        )
        .await?;
        Ok(())
    }

    /// A client of the API server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The objects of one kind in this namespace.
    pub fn api<Kind>(&self) -> Api<Kind>
    where
        Kind: Resource<Scope = NamespaceResourceScope>,
        Kind::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Applies an object given as JSON, whatever its kind.
    pub async fn apply(&self, object: Value) -> Result<DynamicObject> {
        let object: DynamicObject =
            serde_json::from_value(object).context("not a Kubernetes object")?;
        let types = object.types.clone().context("an object without kind")?;
        let (name, kind) = (object.name_any(), types.kind.clone());
        let gvk = kube::core::GroupVersionKind::try_from(&types).context("a malformed kind")?;
        let (resource, capabilities) = discovery::oneshot::pinned_kind(&self.client, &gvk)
            .await
            .with_context(|| format!("the cluster has no kind {kind}"))?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Namespaced => Api::namespaced_with(self.client(), &self.name, &resource),
            Scope::Cluster => Api::all_with(self.client(), &resource),
        };
        let parameters = PatchParams::apply("e2e").force();
        api.patch(&name, &parameters, &Patch::Apply(&object))
            .await
            .with_context(|| format!("failed to apply {kind} {name}"))
    }

    /// Waits until a pod is as wanted, and returns it.
    pub async fn pod_until(
        &self,
        pod: &str,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&Pod) -> bool,
    ) -> Result<Pod> {
        let pods: Api<Pod> = self.api();
        eventually(&format!("pod {pod} {what}"), limit, || async {
            Ok(pods.get_opt(pod).await?.filter(|pod| wanted(pod)))
        })
        .await
    }

    /// Waits until a pod is ready, and returns it.
    pub async fn ready_pod(&self, pod: &str, limit: Duration) -> Result<Pod> {
        self.pod_until(pod, "is ready", limit, is_ready).await
    }
}

/// A failed assertion is a failure like any other: the evidence is saved first.
fn unless_panicked<T>(outcome: Result<Result<T>, Box<dyn Any + Send>>) -> Result<T> {
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or(panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(anyhow!("the test panicked: {text}"))
    })
}
