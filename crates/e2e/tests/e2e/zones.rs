//! Members in zones, on real nodes: each testbed node is a zone of its own.

use anyhow::{Result, ensure};
use ensemble_e2e::ensemble::{ensemble, ensembles, install, ready, web};
use ensemble_e2e::stage::{Need, enter};
use ensemble_testbed::eventually;
use ensemble_testbed::harness::{Cluster, TestNamespace};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(150);
const KEY: &str = "topology.kubernetes.io/zone";

/// Members that the scheduler may put anywhere, but for the zones.
fn zoned(replicas: u32, zones: &[&str]) -> Value {
    let mut web = web("1");
    web["spec"]["template"]["spec"]["affinity"] = json!({});
    web["spec"]["replicas"] = replicas.into();
    web["spec"]["zones"] = json!({"names": zones});
    web
}

/// By member: the zone of the node that it is on, and the uid of its pod.
async fn placed(namespace: &TestNamespace) -> Result<BTreeMap<String, (String, String)>> {
    let nodes: Api<Node> = Api::all(namespace.client());
    let nodes = nodes.list(&ListParams::default()).await?;
    let zones: BTreeMap<String, String> = nodes
        .iter()
        .filter_map(|n| Some((n.name_any(), n.labels().get(KEY)?.clone())))
        .collect();
    let params = ListParams::default().labels("ensemble.dev/group=members");
    let pods = namespace.api::<Pod>().list(&params).await?;
    let place = |pod: &Pod| {
        let node = pod.spec.as_ref()?.node_name.as_ref()?;
        let place = (zones.get(node)?.clone(), pod.uid()?);
        Some((pod.name_any(), place))
    };
    Ok(pods.iter().filter_map(place).collect())
}

async fn zones(namespace: &TestNamespace) -> Result<Vec<String>> {
    let placed = placed(namespace).await?;
    Ok(placed.into_values().map(|(zone, _)| zone).collect())
}

#[tokio::test]
async fn members_are_spread_over_the_zones_named_and_stay_where_their_data_is() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "zones", async |namespace| {
        // Left to itself the scheduler would use all three nodes.
        namespace.apply(zoned(4, &["c", "b"])).await?;
        ready(namespace, "web", LIMIT).await?;
        ensure!(zones(namespace).await? == ["c", "b", "c", "b"]);

        let claims = namespace.api::<PersistentVolumeClaim>();
        let claim = claims.get("data-web-1").await?;
        let zone = claim.labels().get("ensemble.dev/zone");
        ensure!(zone.is_some_and(|z| z == "b"), "{:?}", claim.labels());
        let told = "echo $ENSEMBLE_ZONE $ENSEMBLE_ZONE_INDEX";
        let told = namespace.shell("web-1", told).await?;
        ensure!(told.trim() == "b 1", "{told:?}");

        namespace.shell("web-0", "echo kept > /data/note").await?;
        let before = placed(namespace).await?;
        let pods = namespace.api::<Pod>();
        pods.delete("web-0", &DeleteParams::default()).await?;
        eventually("web-0 has a successor", LIMIT, async || {
            let now = placed(namespace).await?;
            Ok(now
                .get("web-0")
                .filter(|p| before.get("web-0") != Some(p))
                .map(drop))
        })
        .await?;
        ready(namespace, "web", LIMIT).await?;
        ensure!(zones(namespace).await? == ["c", "b", "c", "b"]);
        let note = namespace.shell("web-0", "cat /data/note").await?;
        ensure!(note.trim() == "kept", "{note:?}");

        let said = ensemble(&cluster, &["status", "web", "-n", &namespace.name])?;
        println!("{}", said.out);
        ensure!(said.out.contains("ZONE"), "{said:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn zones_that_are_asked_for_later_restart_nobody_and_a_missing_one_is_named() -> Result<()> {
    let _turn = enter(Need::FewPods).await;
    let cluster = Cluster::connect().await?;
    install(&cluster).await?;
    TestNamespace::run(&cluster, "zones-later", async |namespace| {
        namespace.apply(web("1")).await?;
        ready(namespace, "web", LIMIT).await?;
        let before = placed(namespace).await?;
        let api = ensembles(namespace.client(), &namespace.name);
        let ask = async |spec: Value| {
            let body = Patch::Merge(json!({"spec": spec}));
            api.patch("web", &PatchParams::default(), &body).await
        };
        ask(json!({"zones": {"names": ["a", "b", "c"]}})).await?;
        let claims = namespace.api::<PersistentVolumeClaim>();
        eventually("claims remember their zones", LIMIT, async || {
            let all = claims.list(&ListParams::default()).await?;
            let known = all
                .iter()
                .all(|c| c.labels().contains_key("ensemble.dev/zone"));
            Ok(known.then_some(()))
        })
        .await?;
        ready(namespace, "web", LIMIT).await?;
        ensure!(placed(namespace).await? == before, "somebody was restarted");

        ask(json!({"replicas": 4, "zones": {"names": ["a", "b", "c", "moon"]}})).await?;
        let words = format!("no node is labelled {KEY}=moon; zones of the nodes: a, b, c");
        let said = eventually("why names the zone", LIMIT, async || {
            let said = ensemble(&cluster, &["why", "web", "-n", &namespace.name])?.out;
            let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
            Ok(flat.contains(&words).then_some(said))
        })
        .await?;
        println!("{said}");
        ask(json!({"replicas": 3})).await?;
        ready(namespace, "web", LIMIT).await?;
        let after = placed(namespace).await?;
        ensure!(after == before, "{after:?}");
        let gone = namespace.api::<Pod>().get_opt("web-3").await?.is_none();
        ensure!(gone, "web-3 is still there");
        Ok(())
    })
    .await
}
