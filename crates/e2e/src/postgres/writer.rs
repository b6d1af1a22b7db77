//! The client that writes all the time, as a pod.

use super::{LIMIT, NAME, Postgres, member};
use anyhow::{Context, Result, ensure};
use ensemble_testbed::eventually;
use ensemble_writer::tally::Tally;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

const WRITER: &str = "/usr/local/bin/writer";
const LOG: &str = "/log/writer.jsonl";
const POD: &str = "writer";

/// The ways: through the Service, and by naming all members.
fn ways() -> Vec<String> {
    let hosts: Vec<String> = (0..3)
        .map(|n| format!("{}.{NAME}-members", member(n)))
        .collect();
    let hosts = hosts.join(",");
    vec![
        "--via".to_owned(),
        format!("service=host={NAME}-primary user=postgres"),
        "--via".to_owned(),
        format!("hosts=host={hosts} user=postgres target_session_attrs=read-write"),
    ]
}

/// The time now, as the writer's log tells it.
pub fn now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

impl Postgres<'_> {
    /// Starts the writer, and waits until it writes by both ways.
    pub async fn start_writing(&self) -> Result<()> {
        let mut words = vec!["run".to_owned(), "--log".to_owned(), LOG.to_owned()];
        words.extend(ways());
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": POD},
            "spec": {
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "terminationGracePeriodSeconds": 5,
                // It is the measure: it stays, whatever becomes of its node.
                "tolerations": [{"operator": "Exists"}],
                "containers": [{
                    "name": "writer",
                    "image": "registry.testbed/writer:latest",
                    "args": words,
                    "env": [{"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {
                        "name": NAME, "key": "superuser",
                    }}}],
                    "resources": {"requests": {"cpu": "20m", "memory": "16Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": false,
                        "readOnlyRootFilesystem": true,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "log", "mountPath": "/log"}],
                }],
                "volumes": [{"name": "log", "emptyDir": {}}],
            },
        });
        self.namespace.apply(pod).await?;
        self.namespace.ready_pod(POD, LIMIT).await?;
        eventually("the writer writes by both ways", LIMIT, async || {
            let told = self.written(f64::MIN, f64::MAX).await?;
            Ok(told.iter().all(|t| t.acked > 50).then_some(()))
        })
        .await
    }

    /// Ends the writer, if there is one; what it wrote stays.
    pub async fn stop_writing(&self) -> Result<()> {
        let pods = self.namespace.api::<Pod>();
        if pods.get_opt(POD).await?.is_none() {
            return Ok(());
        }
        pods.delete(POD, &DeleteParams::default()).await?;
        eventually("the writer has ended", LIMIT, async || {
            Ok(pods.get_opt(POD).await?.is_none().then_some(()))
        })
        .await
    }

    /// What became of the writes, measured between two moments. The writer goes on.
    pub async fn written(&self, since: f64, until: f64) -> Result<Vec<Tally>> {
        let mut words = vec![WRITER.to_owned(), "check".to_owned(), "--log".to_owned()];
        words.push(LOG.to_owned());
        words.extend(ways());
        words.push(format!("--since={since}"));
        words.push(format!("--until={until}"));
        words.extend(["-o".to_owned(), "json".to_owned()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = self.namespace.exec(POD, &words).await?;
        // It also fails if writes were lost; then the report says so.
        serde_json::from_str(&said.stdout).with_context(|| format!("no report: {}", said.stderr))
    }

    /// Fails if an acknowledged write is not there, or if nothing was written at all.
    pub async fn nothing_lost(&self) -> Result<Vec<Tally>> {
        let told = self.written(f64::MIN, f64::MAX).await?;
        for tally in &told {
            ensure!(tally.acked > 0, "nothing was written: {tally}");
            ensure!(tally.lost.is_empty(), "writes were lost: {tally}");
        }
        Ok(told)
    }

    /// Fails if no write is acknowledged by each way within the next seconds.
    pub async fn still_writes(&self) -> Result<()> {
        let since = now()?;
        eventually("writes are acknowledged by both ways", LIMIT, async || {
            let told = self.written(since, f64::MAX).await?;
            Ok(told.iter().all(|t| t.acked > 10).then_some(()))
        })
        .await
    }
}
