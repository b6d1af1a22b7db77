//! What real kubelets say about pods: `make traces`. simkube's kubelet is held against it by
//! crates/simkube/tests/traces.rs.

use anyhow::{Context, Result, bail};
use clap::Parser;
use ensemble_e2e::traces;
use ensemble_testbed::harness::Cluster;
use simkube::trace::situations;
use std::fs;
use std::path::PathBuf;

/// Plays situations on the testbed's nodes and writes down what the API server shows of each pod.
#[derive(Parser)]
#[command(name = "record-traces")]
struct Cli {
    /// Where the traces are written, a file each
    #[arg(long, default_value = "crates/simkube/tests/traces")]
    into: PathBuf,
    /// Only these situations; default: all
    situations: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let mut all = situations();
    if !cli.situations.is_empty() {
        all.retain(|s| cli.situations.iter().any(|name| name == s.name));
    }
    let cluster = Cluster::connect().await?;
    let version = cluster.client().apiserver_version().await?.git_version;
    fs::create_dir_all(&cli.into).with_context(|| cli.into.display().to_string())?;
    let mut failed = 0;
    for (situation, recorded) in traces::record(&cluster, &all).await? {
        match recorded {
            Ok(trace) => {
                let path = cli.into.join(format!("{}.txt", situation.name));
                let states = trace.states().join("\n");
                let text = format!(
                    "# {}.\n# Recorded by `make traces` on Kubernetes {version}; not to be edited.\n\
                     {states}\n",
                    situation.says
                );
                fs::write(&path, text).with_context(|| path.display().to_string())?;
                println!("{}: {} states", situation.name, trace.states().len());
            }
            Err(error) => {
                failed += 1;
                println!("{}: {error:#}", situation.name);
            }
        }
    }
    if failed > 0 {
        bail!("{failed} situations could not be played");
    }
    Ok(())
}
