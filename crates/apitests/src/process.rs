//! A controller in a process of its own, so that it can be frozen and woken.

use crate::Stage;
use anyhow::{Context, Result};
use kube::Config;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use std::process::{Child, Command, Stdio};

const KUBECONFIG: &str = "ENSEMBLE_TEST_KUBECONFIG";
const NAMESPACE: &str = "ENSEMBLE_TEST_NAMESPACE";
const IDENTITY: &str = "ENSEMBLE_TEST_IDENTITY";

/// This test program again, as a controller. Dropping it ends it.
pub struct ControllerProcess(Child);

impl ControllerProcess {
    /// Starts the test of that name, which calls [`serve`] and nothing else.
    pub fn start(stage: &Stage, test: &str, identity: &str) -> Result<Self> {
        let program = std::env::current_exe().context("who am I")?;
        let child = Command::new(program)
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(KUBECONFIG, stage.kubeconfig())
            .env(NAMESPACE, &stage.namespace)
            .env(IDENTITY, identity)
            .stdout(Stdio::null())
            .spawn()
            .context("start a controller process")?;
        Ok(Self(child))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).context("signal the controller process")
    }

    /// It does nothing from now on, and does not know.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// It goes on where it was.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }
}

impl Drop for ControllerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Is the controller that [`ControllerProcess::start`] asked for; nothing if nobody did.
pub async fn serve() -> Result<()> {
    let Ok(kubeconfig) = std::env::var(KUBECONFIG) else {
        return Ok(());
    };
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    let client = ensemble_controller::client(config)?;
    let namespace = std::env::var(NAMESPACE)?;
    let options = crate::stage::options(&namespace, &std::env::var(IDENTITY)?);
    ensemble_controller::run(options, client, std::future::pending()).await?;
    Ok(())
}
