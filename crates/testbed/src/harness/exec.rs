//! Running commands in containers and reading their logs.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{AttachParams, LogParams};
use tokio::io::AsyncReadExt;

use super::TestNamespace;

/// What a command in a container printed, and whether it succeeded.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Whether it ended with exit code 0.
    pub success: bool,
}

impl TestNamespace {
    /// Runs a command in the only container of a pod.
    pub async fn exec(&self, pod: &str, command: &[&str]) -> Result<Output> {
        self.exec_in(pod, None, command).await
    }

    /// Runs a command in a container of a pod, which must be named if there are several.
    pub async fn exec_in(
        &self,
        pod: &str,
        container: Option<&str>,
        command: &[&str],
    ) -> Result<Output> {
        let pods: Api<Pod> = self.api();
        let mut parameters = AttachParams::default().stdout(true).stderr(true);
        parameters.container = container.map(str::to_owned);
        let mut process = pods
            .exec(pod, command.iter().copied(), &parameters)
            .await
            .with_context(|| format!("failed to run {command:?} in pod {pod}"))?;
        let status = process.take_status().context("no status of the command")?;
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let mut out = process.stdout().context("no standard output")?;
        let mut err = process.stderr().context("no standard error")?;
        let (read_out, read_err) = tokio::join!(
            out.read_to_string(&mut stdout),
            err.read_to_string(&mut stderr)
        );
        read_out
            .and(read_err)
            .context("failed to read the command's output")?;
        let success = status.await.and_then(|status| status.status).as_deref() == Some("Success");
        Ok(Output {
            stdout,
            stderr,
            success,
        })
    }

    /// Runs a shell command in the only container of a pod; it must succeed.
    pub async fn shell(&self, pod: &str, script: &str) -> Result<String> {
        self.shell_in(pod, None, script).await
    }

    /// Runs a shell command in a container of a pod; it must succeed.
    pub async fn shell_in(
        &self,
        pod: &str,
        container: Option<&str>,
        script: &str,
    ) -> Result<String> {
        let output = self.exec_in(pod, container, &["sh", "-c", script]).await?;
        anyhow::ensure!(
            output.success,
            "{script:?} failed in pod {pod}: {}",
            output.stderr
        );
        Ok(output.stdout)
    }

    /// The log of the only container of a pod.
    pub async fn logs(&self, pod: &str) -> Result<String> {
        let pods: Api<Pod> = self.api();
        pods.logs(pod, &LogParams::default())
            .await
            .with_context(|| format!("failed to read the log of pod {pod}"))
    }
}
