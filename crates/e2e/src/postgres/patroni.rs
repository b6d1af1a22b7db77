//! What Patroni says, asked from inside a member's container: what an administrator would do.

use super::secured::{PASSWORD, USER};
use super::{LIMIT, NAME, Postgres};
use anyhow::{Context, Result, bail, ensure};
use ensemble_testbed::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};
use std::time::Duration;

/// One of PostgreSQL's own programs; the one in the path is a script that wants a Debian setup.
const PSQL: &str =
    "/usr/lib/postgresql/15/bin/psql -h /tmp -U postgres -d postgres -v ON_ERROR_STOP=1 -Atc";

/// What Patroni answered.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body, as text.
    pub body: String,
}

/// Who leads, and since which change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The member that holds the lock; none for a moment while it changes hands.
    pub holder: Option<String>,
    /// How often it changed hands.
    pub transitions: u64,
}

impl Postgres<'_> {
    /// Runs a shell command in a member's PostgreSQL container.
    pub async fn shell(&self, member: &str, script: &str) -> Result<String> {
        let container = Some("postgres");
        self.namespace.shell_in(member, container, script).await
    }

    /// Asks the Patroni of one member.
    pub async fn ask(
        &self,
        member: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Answer> {
        let data = match body {
            Value::Null => String::new(),
            body => format!("-d '{body}'"),
        };
        let server = if self.shape.secured {
            format!("-k -u {USER}:{PASSWORD} https://localhost:8008")
        } else {
            "http://localhost:8008".to_owned()
        };
        let script =
            format!("curl -sS -m 60 -w '\\n%{{http_code}}' -X {method} {data} {server}{path}");
        let said = self.shell(member, &script).await?;
        let (body, status) = said.trim_end().rsplit_once('\n').context("no status")?;
        Ok(Answer {
            status: status.parse().context("not a status")?,
            body: body.to_owned(),
        })
    }

    /// The answer to a question without side effects.
    pub async fn get(&self, member: &str, path: &str) -> Result<Value> {
        let answer = self.ask(member, "GET", path, &Value::Null).await?;
        serde_json::from_str(&answer.body).with_context(|| format!("{path} said {answer:?}"))
    }

    /// Runs SQL in a member, as its superuser.
    pub async fn sql(&self, member: &str, statement: &str) -> Result<String> {
        let script = format!("{PSQL} \"{statement}\"");
        Ok(self.shell(member, &script).await?.trim().to_owned())
    }

    /// Who holds the lock, as Patroni wrote it down.
    pub async fn lock(&self) -> Result<Lock> {
        let maps: Api<ConfigMap> = self.namespace.api();
        Ok(lock_of(&maps.get(&format!("{NAME}-leader")).await?))
    }

    /// The member that leads.
    pub async fn leader(&self) -> Result<String> {
        self.lock().await?.holder.context("nobody holds the lock")
    }

    /// The timeline of the one that leads.
    pub async fn timeline(&self) -> Result<u64> {
        let said = self.get(&self.leader().await?, "/patroni").await?;
        said["timeline"].as_u64().context("no timeline")
    }

    /// How many changes of timeline the leader's history has.
    pub async fn history(&self) -> Result<usize> {
        let said = self.get(&self.leader().await?, "/history").await?;
        Ok(said.as_array().map_or(0, Vec::len))
    }

    /// The replicas that stream from the leader, by the leader's word.
    pub async fn streaming(&self) -> Result<Vec<String>> {
        let leader = self.leader().await?;
        let said = self.get(&leader, "/patroni").await?;
        // It holds the lock a moment before it is promoted.
        ensure!(
            said["role"] == "master" && said["state"] == "running",
            "{said}"
        );
        let attached = said["replication"].as_array().cloned().unwrap_or_default();
        let streaming = attached.iter().filter(|r| r["state"] == "streaming");
        Ok(streaming
            .filter_map(|r| r["application_name"].as_str().map(str::to_owned))
            .collect())
    }

    /// Waits until all are Ready and both replicas stream from the leader.
    pub async fn until_all_stream(&self, limit: Duration) -> Result<()> {
        eventually("all are ready and stream", limit, async || {
            if !self.all_ready().await? {
                return Ok(None);
            }
            Ok((self.streaming().await?.len() == 2).then_some(()))
        })
        .await
    }

    /// Brings the lead to a member and waits until everybody follows. Asked again until it is there: members
    /// may still be coming back from what another test did, and Patroni refuses or gives up meanwhile.
    pub async fn lead_at(&self, wanted: &str) -> Result<()> {
        eventually(&format!("{wanted} leads"), LIMIT, async || {
            let leader = self.leader().await?;
            if leader != wanted {
                let streaming = self.streaming().await?;
                ensure!(
                    streaming.iter().any(|s| s == wanted),
                    "{wanted} does not stream"
                );
                self.switch(&leader, wanted).await?;
            }
            Ok(Some(()))
        })
        .await?;
        self.until_all_stream(LIMIT).await
    }

    /// A switchover by Patroni's own hand.
    pub async fn switch(&self, from: &str, to: &str) -> Result<()> {
        let body = json!({"leader": from, "candidate": to});
        let answer = self.ask(to, "POST", "/switchover", &body).await?;
        ensure!(
            answer.status == 200,
            "switchover from {from} to {to}: {answer:?}"
        );
        ensure!(self.leader().await? == to, "{to} does not lead: {answer:?}");
        Ok(())
    }

    /// The replicas that commits wait for, as Patroni wrote it down.
    pub async fn sync_standbys(&self) -> Result<Vec<String>> {
        let maps: Api<ConfigMap> = self.namespace.api();
        let map = maps
            .get_opt(&format!("{NAME}-sync"))
            .await?
            .unwrap_or_default();
        let named = map.metadata.annotations.unwrap_or_default();
        let named = named.get("sync_standby").cloned().unwrap_or_default();
        Ok(named
            .split(',')
            .filter(|n| !n.is_empty())
            .map(str::to_owned)
            .collect())
    }

    /// Lets commits wait for a replica, and waits until one is named.
    pub async fn set_synchronous(&self) -> Result<()> {
        self.configure(&json!({"synchronous_mode": true})).await?;
        eventually("a synchronous replica is named", LIMIT, async || {
            // A change that changes nothing wakes Patroni, which looks only every ten seconds.
            self.configure(&json!({"synchronous_mode": true})).await?;
            Ok((!self.sync_standbys().await?.is_empty()).then_some(()))
        })
        .await
    }

    /// Changes Patroni's dynamic configuration.
    pub async fn configure(&self, change: &Value) -> Result<Value> {
        let leader = self.leader().await?;
        let answer = self.ask(&leader, "PATCH", "/config", change).await?;
        if answer.status != 200 {
            bail!("the configuration was refused: {answer:?}");
        }
        Ok(serde_json::from_str(&answer.body)?)
    }
}

/// Who holds the lock, by the object that Patroni keeps it in.
pub fn lock_of(map: &ConfigMap) -> Lock {
    let Some(annotations) = &map.metadata.annotations else {
        return Lock::default();
    };
    let transitions = annotations.get("transitions").and_then(|t| t.parse().ok());
    Lock {
        holder: annotations.get("leader").filter(|l| !l.is_empty()).cloned(),
        transitions: transitions.unwrap_or_default(),
    }
}
