//! What end-to-end tests stand on: a cluster, a namespace for each test, waiting, evidence.

mod artifacts;
mod exec;
mod namespace;
mod nodes;
mod pods;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use kube::Client;

use crate::client;
use crate::command;
use crate::full::{self, Testbed};
use crate::phase::say;

pub use exec::Output;
pub use namespace::TestNamespace;
pub use nodes::{drain, node_until, set_schedulable};
pub use pods::{container_status, has_condition, is_ready};

/// The cluster that tests run against.
pub struct Cluster {
    client: Client,
    kubeconfig: PathBuf,
    testbed: Option<Testbed>,
}

impl Cluster {
    /// An existing cluster if `KUBECONFIG` names one, else the full testbed, started if needed.
    ///
    /// Clients are bound to the runtime of their test, so every test connects for itself.
    pub async fn connect() -> Result<Cluster> {
        let testbed_kubeconfig = full::layout::dir()?.join("kubeconfig-0");
        match std::env::var_os("KUBECONFIG").map(PathBuf::from) {
            Some(kubeconfig) if kubeconfig != testbed_kubeconfig => {
                let client = client::from_kubeconfig(&kubeconfig).await?;
                Ok(Cluster {
                    client,
                    kubeconfig,
                    testbed: None,
                })
            }
            _ => {
                start_once()?;
                let testbed = Testbed::connect()?;
                let client = testbed.client().await?;
                Ok(Cluster {
                    client,
                    kubeconfig: testbed_kubeconfig,
                    testbed: Some(testbed),
                })
            }
        }
    }

    /// A client of the API server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// The testbed, whose nodes can be broken. On a cluster that is not ours there is none: a
    /// test that needs it says so and ends.
    pub fn testbed(&self) -> Option<&Testbed> {
        if self.testbed.is_none() {
            eprintln!(
                "SKIPPED: this test breaks nodes, and KUBECONFIG names a cluster that is not ours"
            );
        }
        self.testbed.as_ref()
    }
}

/// Starts the testbed if it is not up, once in this process.
fn start_once() -> Result<()> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    let outcome = STARTED.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    outcome.clone().map_err(|error| anyhow::anyhow!(error))
}

fn start() -> Result<()> {
    if full::layout::dir()?.join("plane.json").exists() {
        return Ok(());
    }
    say("no testbed is up: starting one; `testbed down` stops it");
    let mut up = match std::env::var_os("ENSEMBLE_TESTBED") {
        Some(program) => Command::new(program),
        None => {
            let mut cargo = Command::new("cargo");
            cargo.args(["run", "--quiet", "--package", "ensemble-testbed", "--"]);
            cargo
        }
    };
    command::run(up.arg("up")).context("failed to start the testbed")?;
    Ok(())
}
