//! etcd on the cluster: the sample as it stands, and a client that writes all the time.

pub mod writer;

use crate::ensemble::ensembles;
use anyhow::{Context, Result, ensure};
use ensemble_testbed::harness::{TestNamespace, is_ready};
use ensemble_testbed::versions;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const SAMPLE: &str = include_str!("../../../../samples/etcd.yaml");

/// The image that the sample names.
pub const PLACEHOLDER: &str = "example.com/etcd:3.5";

/// The sample's name.
pub const NAME: &str = "keys";

/// How long anything may take that is not expected to be quick.
pub const LIMIT: Duration = Duration::from_secs(240);

/// The older and the newer version.
pub const OLD: &str = versions::ETCD_OLDEST;
/// The newer one.
pub const NEW: &str = versions::ETCD;

/// The name of a member.
pub fn member(ordinal: u32) -> String {
    format!("{NAME}-{ordinal}")
}

/// The image of a version.
pub fn image(version: &str) -> String {
    format!("registry.testbed/etcd:{version}")
}

/// The sample's objects as they stand, with the testbed's image of the older version.
pub fn stored() -> Result<Vec<Value>> {
    let text = SAMPLE.replace(PLACEHOLDER, &image(OLD));
    serde_saphyr::from_multiple(&text).context("samples/etcd.yaml is malformed")
}

/// The addresses at which clients reach all members.
pub fn endpoints() -> String {
    let one = |n| format!("http://{}.{NAME}-members:2379", member(n));
    (0..3).map(one).collect::<Vec<_>>().join(",")
}

/// What one member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its version.
    pub version: String,
    /// Its term.
    pub term: u64,
    /// Whether it leads.
    pub leads: bool,
}

/// The sample, running in a namespace.
pub struct Etcd<'a> {
    /// Where.
    pub namespace: &'a TestNamespace,
}

impl<'a> Etcd<'a> {
    /// Brings it up; pods are always recreated if that is wanted.
    pub async fn up(namespace: &'a TestNamespace, recreate: bool) -> Result<Etcd<'a>> {
        for mut object in stored()? {
            if recreate && object["kind"] == "Ensemble" {
                object["spec"]["rollout"] = json!({"method": "Recreate"});
            }
            namespace.apply(object).await?;
        }
        crate::ensemble::ready(namespace, NAME, LIMIT).await?;
        Ok(Etcd { namespace })
    }

    /// Changes the version that all members are to run.
    pub async fn set_version(&self, version: &str) -> Result<()> {
        let api = ensembles(self.namespace.client(), &self.namespace.name);
        let object = api.get(NAME).await?;
        let mut list = object.data["spec"]["template"]["spec"]["containers"].clone();
        list[0]["image"] = image(version).into();
        let body = json!({"spec": {"template": {"spec": {"containers": list}}}});
        api.patch(NAME, &PatchParams::default(), &Patch::Merge(body))
            .await?;
        Ok(())
    }

    /// The pods of all members, by name.
    pub async fn members(&self) -> Result<BTreeMap<String, Pod>> {
        let params = ListParams::default().labels("app=keys");
        let pods = self.namespace.api::<Pod>().list(&params).await?;
        Ok(pods.items.into_iter().map(|p| (p.name_any(), p)).collect())
    }

    /// What all members say, asked from inside one of them.
    pub async fn told(&self) -> Result<BTreeMap<String, Told>> {
        let script = format!(
            "etcdctl --endpoints={} endpoint status -w json",
            endpoints()
        );
        let said = self.namespace.shell(&member(0), &script).await?;
        let all: Vec<Value> = serde_json::from_str(&said).with_context(|| said.clone())?;
        let told: BTreeMap<String, Told> = all.iter().filter_map(read).collect();
        ensure!(told.len() == 3, "not everybody answers: {said}");
        Ok(told)
    }

    /// Who leads, by its own word.
    pub async fn leader(&self) -> Result<String> {
        let told = self.told().await?;
        let mut leads = told.iter().filter(|(_, t)| t.leads).map(|(name, _)| name);
        leads.next().cloned().context("nobody leads")
    }

    /// The order in which members' containers were first replaced, until all run that version and are
    /// Ready.
    pub async fn turns_to(&self, version: &str) -> Result<Vec<String>> {
        let (before, began) = (self.marks().await?, Instant::now());
        let mut turns: Vec<String> = Vec::new();
        loop {
            let pods = self.members().await?;
            for (name, pod) in &pods {
                let new = mark(pod).is_some_and(|m| Some(&m) != before.get(name));
                if new && !turns.contains(name) {
                    turns.push(name.clone());
                }
            }
            let there = pods.len() == 3 && pods.values().all(|p| is_ready(p) && runs(p, version));
            if there && turns.len() == 3 {
                return Ok(turns);
            }
            ensure!(began.elapsed() < LIMIT * 2, "only {turns:?} had their turn");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What tells whether a member's container is the same as before.
    pub async fn marks(&self) -> Result<BTreeMap<String, String>> {
        let pods = self.members().await?;
        let marked = pods.iter().filter_map(|(n, p)| Some((n.clone(), mark(p)?)));
        Ok(marked.collect())
    }
}

fn mark(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.first()?.container_id.clone()
}

fn runs(pod: &Pod, version: &str) -> bool {
    let containers = pod.spec.as_ref().map(|s| &s.containers);
    let first = containers.and_then(|c| c.first()?.image.clone());
    first == Some(image(version))
}

fn read(status: &Value) -> Option<(String, Told)> {
    let host = status["Endpoint"].as_str()?.strip_prefix("http://")?;
    let said = &status["Status"];
    let told = Told {
        version: said["version"].as_str()?.to_owned(),
        term: said["raftTerm"].as_u64()?,
        leads: said["leader"].as_u64()? == said["header"]["member_id"].as_u64()?,
    };
    Some((host.split('.').next()?.to_owned(), told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_names_the_image_that_is_replaced_and_every_member_in_its_first_cluster()
    -> Result<()> {
        assert!(SAMPLE.contains(PLACEHOLDER));
        let objects = stored()?;
        let ensemble = objects.last().context("no Ensemble")?;
        let container = &ensemble["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], image(OLD));
        let words = container["command"].to_string();
        for ordinal in 0..3 {
            let name = member(ordinal);
            let peer = format!("{name}=http://{name}.{NAME}-members:2380");
            assert!(words.contains(&peer), "{peer}");
        }
        Ok(())
    }

    #[test]
    fn a_member_is_read_from_what_etcdctl_says() {
        let said = json!({"Endpoint": "http://keys-1.keys-members:2379", "Status": {
            "header": {"member_id": 12919973624204876822_u64}, "version": "3.6.8",
            "leader": 12919973624204876822_u64, "raftTerm": 4}});
        let told = Told {
            version: "3.6.8".into(),
            term: 4,
            leads: true,
        };
        assert_eq!(read(&said), Some(("keys-1".into(), told)));
    }
}
