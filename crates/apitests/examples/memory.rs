//! What the whole controller weighs: `make bench-memory`.
//!
//! A real kube-apiserver, simulated nodes, and the binary that `ENSEMBLE_BIN` names as a process of
//! its own. Prints its resident memory before there is anything, when all members serve, and after a
//! start with everything already there. Arguments: how many ensembles, and members of each.
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result};
use ensemble_api::{Ensemble, EnsembleStatus};
use ensemble_apitests::Stage;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1800);

struct Controller(Child);

impl Controller {
    fn start(stage: &Stage) -> Result<Self> {
        let binary = std::env::var("ENSEMBLE_BIN").context("ENSEMBLE_BIN names the binary")?;
        let child = Command::new(&binary)
            .args(["controller", "--listen", "127.0.0.1:0"])
            .args(["--lease-namespace", &stage.namespace])
            .arg("--kubeconfig")
            .arg(stage.kubeconfig())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {binary}"))?;
        Ok(Self(child))
    }

    /// Resident memory now and at its highest, in MiB.
    fn memory(&self) -> Result<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let field = |name: &str| {
            let line = status.lines().find(|l| l.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        let kib = |name: &str| field(name).with_context(|| format!("no {name}"));
        Ok((kib("VmRSS:")? / 1024, kib("VmHWM:")? / 1024))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_ready(status: &EnsembleStatus) -> bool {
    let ready = status.condition("Ready");
    ready.is_some_and(|c| c.status == "True")
}

async fn all_ready(stage: &Stage, count: usize) -> Result<()> {
    let api: Api<Ensemble> = stage.api();
    let begun = Instant::now();
    loop {
        let all = api.list(&ListParams::default()).await?.items;
        let statuses = all.iter().filter_map(|e| e.status.as_ref());
        let ready = statuses.filter(|s| is_ready(s)).count();
        if ready == count {
            return Ok(());
        }
        anyhow::ensure!(
            begun.elapsed() < PATIENCE,
            "only {ready} of {count} are Ready"
        );
        eprintln!(
            "{ready} of {count} are Ready after {} s",
            begun.elapsed().as_secs()
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let number = |at: usize, default: usize| {
        let given = std::env::args().nth(at).and_then(|a| a.parse().ok());
        given.unwrap_or(default)
    };
    let (ensembles, members) = (number(1, 500), number(2, 10));
    let stage = Stage::own_cluster("memory").await?;
    let controller = Controller::start(&stage)?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    println!("nothing there: {} MiB", controller.memory()?.0);
    for index in 0..ensembles {
        let mut ensemble = stage.orders();
        ensemble["metadata"]["name"] = format!("orders-{index:03}").into();
        ensemble["spec"]["replicas"] = members.into();
        ensemble["spec"]["claims"] =
            json!([{"name": "data", "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]);
        let ensemble: Ensemble = serde_json::from_value(ensemble)?;
        stage
            .api()
            .create(&PostParams::default(), &ensemble)
            .await?;
    }
    all_ready(&stage, ensembles).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (now, most) = controller.memory()?;
    let what = format!(
        "{ensembles} ensembles, {} pods and claims",
        ensembles * members
    );
    println!("{what}, created: {now} MiB, at most {most} MiB");
    drop(controller);
    let controller = Controller::start(&stage)?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (now, most) = controller.memory()?;
    println!("{what}, found at start: {now} MiB, at most {most} MiB");
    Ok(())
}
