//! Clients of a cluster, and the few conditions that starting one waits for.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, NodeCondition, ServiceAccount};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::wait::eventually;

/// A client from a kubeconfig file.
pub async fn from_kubeconfig(path: &Path) -> Result<Client> {
    client(config(path).await?)
}

/// A client that asks once. By default a client asks again for minutes when the answer is 429, which
/// is what a refused eviction is told.
pub async fn that_asks_once(path: &Path) -> Result<Client> {
    let mut config = config(path).await?;
    config.default_retry = false;
    client(config)
}

fn client(config: Config) -> Result<Client> {
    Client::try_from(config).context("failed to make a Kubernetes client")
}

async fn config(path: &Path) -> Result<Config> {
    let file = Kubeconfig::read_from(path)
        .with_context(|| format!("failed to read {}", path.display()))?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("{} is no usable kubeconfig", path.display()))
}

/// Whether an API server says that it is ready.
pub async fn is_ready(client: &Client) -> bool {
    let Ok(request) = http_get("/readyz") else {
        return false;
    };
    let answer = tokio::time::timeout(Duration::from_secs(2), client.request_text(request)).await;
    matches!(answer, Ok(Ok(text)) if text == "ok")
}

/// Waits until pods can be created: without the default service account they are refused.
pub async fn default_service_account(client: &Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    eventually(
        "the default service account exists",
        Duration::from_secs(30),
        async || Ok(accounts.get_opt("default").await?),
    )
    .await?;
    Ok(())
}

/// Waits until so many nodes are ready.
pub async fn nodes_ready(client: &Client, count: usize) -> Result<()> {
    let what = format!("{count} nodes are ready");
    eventually(&what, Duration::from_secs(90), async || {
        nodes_ready_now(client, count).await.map(Some)
    })
    .await
}

/// Fails unless so many nodes are ready, and says of each other one what it says of itself.
pub async fn nodes_ready_now(client: &Client, count: usize) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    all_ready(&nodes.list(&ListParams::default()).await?.items, count)
}

fn all_ready(list: &[Node], count: usize) -> Result<()> {
    let ready = list.iter().filter(|node| node_is_ready(node)).count();
    let unready = list.iter().filter(|node| !node_is_ready(node));
    ensure!(
        ready >= count,
        "{ready} of {count} nodes are ready, {} have registered; {}",
        list.len(),
        unready.map(why_unready).collect::<Vec<_>>().join("; ")
    );
    Ok(())
}

fn why_unready(node: &Node) -> String {
    let name = node.metadata.name.as_deref().unwrap_or("a node");
    let said = ready_condition(node).map_or("it says nothing yet", |condition| {
        condition
            .message
            .as_deref()
            .unwrap_or("it does not say why")
    });
    format!("{name} is not: {said}")
}

/// Whether a node's Ready condition is true.
pub fn node_is_ready(node: &Node) -> bool {
    ready_condition(node).is_some_and(|condition| condition.status == "True")
}

fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    http::Request::get(path)
        .body(Vec::new())
        .context("a malformed request")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, conditions: serde_json::Value) -> Node {
        let node = json!({"metadata": {"name": name}, "status": {"conditions": conditions}});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn nodes_that_are_not_ready_are_named_with_what_they_say_of_themselves() {
        let well = json!([{"type": "Ready", "status": "True"}]);
        let unwell = json!([{"type": "Ready", "status": "False", "message": "no network yet"}]);
        let mut nodes = vec![
            node("a", well.clone()),
            node("b", unwell),
            node("c", json!([])),
        ];
        let text = all_ready(&nodes, 3).unwrap_err().to_string();
        for said in [
            "1 of 3",
            "b is not: no network yet",
            "c is not: it says nothing yet",
        ] {
            assert!(text.contains(said), "{text}");
        }
        nodes = ["a", "b", "c"]
            .map(|name| node(name, well.clone()))
            .to_vec();
        assert!(all_ready(&nodes, 3).is_ok());
        assert!(all_ready(&nodes[..2], 3).is_err(), "one has not registered");
    }
}
